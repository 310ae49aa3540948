//! Regularisers: terms of the loss over Gaussians. `update` adds their derivatives to those from the image,
//! for visible and invisible Gaussians. Reference: `dapple_reference::regularisers`, whose files have the
//! same names.
//!
//! A new term is a file, a field of [`Regularisers`] and a line in [`Regularisers::add`].

mod flatness;
mod opacity;
mod scale;

use crate::blocks::MAX_COMPONENTS;
use crate::simd::{Row, V};
use dapple_engine::{LossTerm, LossWeights};
use pulp::Simd;

/// Terms of one step: their weights divided by the count of numbers in their means.
#[derive(Debug, Clone, Copy)]
pub struct Regularisers {
    opacity: f32,
    scale: f32,
    flatness: f32,
}

impl Regularisers {
    /// Prepares the terms of a step; `None` if no term has a weight.
    pub fn new(weights: &LossWeights, gaussians: usize) -> Option<Self> {
        let count = gaussians.max(1) as f32;
        let each = |term: LossTerm, numbers: f32| weights[term] / (numbers * count);
        weights.regularise().then(|| Self {
            opacity: each(LossTerm::Opacity, opacity::NUMBERS),
            scale: each(LossTerm::Scale, scale::NUMBERS),
            flatness: each(LossTerm::Flatness, flatness::NUMBERS),
        })
    }

    /// Adds the terms' derivatives to those of part `part` of a block.
    #[inline(always)]
    pub fn add<S: Simd>(
        &self,
        s: S,
        block: &[Row],
        part: usize,
        gradients: &mut [V<S>; MAX_COMPONENTS],
    ) {
        opacity::add(s, self.opacity, block, part, gradients);
        scale::add(s, self.scale, block, part, gradients);
        if self.flatness != 0.0 {
            flatness::add(s, self.flatness, block, part, gradients);
        }
    }
}
