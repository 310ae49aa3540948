//! Regularisers: terms of the loss over Gaussians. `update` adds their derivatives to those from the image,
//! for visible and invisible Gaussians, or for those that a photo has moved. Reference:
//! `dapple_reference::regularisers`, whose files have the same names.
//!
//! A new term is a file, a field of [`Regularisers`] and a line in [`Regularisers::add`].

mod flatness;
mod opacity;
mod scale;

use crate::blocks::{MAX_COMPONENTS, component};
use crate::simd::{Row, Splat, V};
use dapple_engine::{LossTerm, StepSettings};
use pulp::Simd;

/// Components that regularisers act on: scales, quaternions, opacities.
const GEOMETRY: usize = component::SH - component::SCALE;

/// Terms of one step: their weights divided by the count of numbers in their means.
#[derive(Debug, Clone, Copy)]
pub struct Regularisers {
    opacity: f32,
    scale: f32,
    flatness: f32,
    /// [`dapple_engine::features::regularise::Step::moved_only`].
    moved_only: bool,
}

impl Regularisers {
    /// Prepares the terms of a step; `None` if no term has a weight.
    pub fn new(settings: &StepSettings, gaussians: usize) -> Option<Self> {
        let weights = &settings.losses;
        let count = gaussians.max(1) as f32;
        let each = |term: LossTerm, numbers: f32| weights[term] / (numbers * count);
        weights.regularise().then(|| Self {
            opacity: each(LossTerm::Opacity, opacity::NUMBERS),
            scale: each(LossTerm::Scale, scale::NUMBERS),
            flatness: each(LossTerm::Flatness, flatness::NUMBERS),
            moved_only: settings.features.regularise.moved_only,
        })
    }

    /// Adds the terms' derivatives to those of part `part` of a block. `first`: the block's first moments.
    #[inline(always)]
    pub fn add<S: Simd>(
        &self,
        s: S,
        (block, first): (&[Row], &[Row]),
        part: usize,
        gradients: &mut [V<S>; MAX_COMPONENTS],
    ) {
        if !self.moved_only {
            return self.add_all(s, block, part, gradients);
        }
        let moment = V::load(s, &first[component::OPACITY], part);
        let moved = gradients[component::OPACITY].abs() + moment.abs();
        let is_moved = s.k(0.0).lt(moved);
        let before: [V<S>; GEOMETRY] = std::array::from_fn(|k| gradients[component::SCALE + k]);
        self.add_all(s, block, part, gradients);
        for (k, before) in before.into_iter().enumerate() {
            let gradient = &mut gradients[component::SCALE + k];
            *gradient = is_moved.select(*gradient, before);
        }
    }

    #[inline(always)]
    fn add_all<S: Simd>(
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
