//! [`Model`]: the Gaussians in training, and all numbers that move with them.

use crate::antialias;
use crate::blocks::{Blocks, DensityStats};
use crate::simd::Row;
use dapple_engine::{OptimizerState, Part};
use dapple_scene::Splats;

/// Gaussians in training.
#[derive(Debug)]
pub struct Model {
    /// Parameters; features of the appearance MLP are components after them.
    pub params: Blocks,
    /// Adam's first moments.
    pub first: Blocks,
    /// Adam's second moments.
    pub second: Blocks,
    /// Sums of screen-space gradients.
    pub stats: DensityStats,
    /// Sums of gradients over the steps of a batch, like the rows of [`Self::params`]; empty outside of batches of
    /// several steps.
    pub batch_sums: Vec<Row>,
    /// 3D filters by block; empty until the first anti-aliased step or render.
    pub filter_3d: Vec<Row>,
    /// SH degree of the parameters.
    pub sh_degree: u8,
    /// Frozen Gaussians: the last. See [`OptimizerState::frozen`].
    pub frozen: usize,
    /// Gaussians of the sky, before the frozen ones. See [`OptimizerState::sky`].
    pub sky: usize,
    /// Which Gaussians of a model these are, if the engine holds a part of it.
    pub part: Option<Part>,
}

impl Model {
    /// Creates a model without Gaussians.
    pub fn empty() -> Self {
        Self {
            params: Blocks::zeros(0, 0),
            first: Blocks::zeros(0, 0),
            second: Blocks::zeros(0, 0),
            stats: DensityStats::default(),
            batch_sums: Vec::new(),
            filter_3d: Vec::new(),
            sh_degree: 0,
            frozen: 0,
            sky: 0,
            part: None,
        }
    }

    /// Converts splats and the state of a run; without a state, moments and statistics are zero.
    pub fn new(splats: &Splats, state: Option<&OptimizerState>) -> Self {
        let n = splats.len();
        let zeros = || Blocks::zeros(n, splats.sh_degree);
        let moments = |of: fn(&OptimizerState) -> &Splats| {
            state.map_or_else(zeros, |state| Blocks::from_splats(of(state)))
        };
        let sums = |of: fn(&OptimizerState) -> &Vec<f32>| {
            state.map_or_else(|| vec![0.0; n], |state| of(state).clone())
        };
        Self {
            params: Blocks::from_splats(splats),
            first: moments(|state| &state.first_moments),
            second: moments(|state| &state.second_moments),
            stats: DensityStats {
                gradient_sums: sums(|state| &state.gradient_sums),
                visible_counts: sums(|state| &state.visible_counts),
            },
            batch_sums: Vec::new(),
            filter_3d: state.map_or(Vec::new(), |state| antialias::rows(&state.filter_3d)),
            sh_degree: splats.sh_degree,
            frozen: state.map_or(0, |state| state.frozen),
            sky: state.map_or(0, |state| state.sky),
            part: None,
        }
    }

    /// Returns the number of Gaussians before the frozen ones.
    pub fn trained(&self) -> usize {
        self.params.len - self.frozen
    }

    /// Returns the number of Gaussians before those of the sky: density control acts on them.
    pub fn active(&self) -> usize {
        self.trained() - self.sky
    }

    /// Inserts zeros for `added` Gaussians before those of the sky.
    pub fn insert(&mut self, added: usize) {
        let (active, before) = (self.active(), self.params.len);
        let moved = (active..before).rev();
        for blocks in [&mut self.params, &mut self.first, &mut self.second] {
            blocks.extend_to(before + added);
            for from in moved.clone() {
                blocks.copy_within(from + added, from);
            }
            for new in active..before.min(active + added) {
                blocks.clear(new);
            }
        }
        let stats = &mut self.stats;
        let zeros = || std::iter::repeat_n(0.0, added);
        for values in [&mut stats.gradient_sums, &mut stats.visible_counts] {
            values.splice(active..active, zeros());
        }
        if !self.filter_3d.is_empty() {
            let mut values = antialias::values(&self.filter_3d, before);
            values.splice(active..active, zeros());
            self.filter_3d = antialias::rows(&values);
        }
    }

    /// Returns which Gaussians of their model these are.
    pub fn part(&self) -> Part {
        self.part.unwrap_or(Part::whole(self.params.len))
    }

    /// Creates zero 3D filters if `antialias` is true and they were never set. Precedes [`Self::filters`].
    pub fn fit_filters(&mut self, antialias: bool) {
        if antialias && self.filter_3d.is_empty() {
            self.filter_3d = vec![Row::ZERO; self.params.count()];
        }
    }

    /// Returns the 3D filters, if `antialias` is true.
    pub fn filters(&self, antialias: bool) -> Option<&[Row]> {
        antialias.then_some(self.filter_3d.as_slice())
    }
}
