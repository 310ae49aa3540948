//! `densify`: clone, split, prune, reset: the adaptive density control of the 3DGS paper. Decisions:
//! [`dapple_engine::density`].
//!
//! After the decisions, opacities are clamped and their moments cleared, if the round resets them. Statistics are reset
//! after their use.

mod relocate;

pub use relocate::share;

use crate::antialias;
use crate::blocks::{Blocks, DensityStats, component};
use crate::model::Model;
use crate::simd::Row;
use dapple_engine::density::{self, Censused};
use dapple_engine::{DensifyPlan, DensifyReport};

/// Numbers of a model that a round reads.
pub struct Census<'a>(pub &'a Model);

impl Censused for Census<'_> {
    fn count(&self) -> usize {
        self.0.params.len
    }

    fn active(&self) -> usize {
        self.0.active()
    }

    fn logit(&self, gaussian: usize) -> f32 {
        self.0.params.get(gaussian, component::OPACITY)
    }

    fn log_scales(&self, gaussian: usize) -> [f32; 3] {
        [0, 1, 2].map(|k| self.0.params.get(gaussian, component::SCALE + k))
    }

    fn is_finite(&self, gaussian: usize) -> bool {
        let params = &self.0.params;
        (0..params.components).all(|c| params.get(gaussian, c).is_finite())
    }

    fn mean(&self, gaussian: usize) -> [f32; 3] {
        [0, 1, 2].map(|k| self.0.params.get(gaussian, component::MEAN + k))
    }

    fn mean_gradient(&self, gaussian: usize) -> f32 {
        let stats = &self.0.stats;
        stats.gradient_sums[gaussian] / stats.visible_counts[gaussian].max(1.0)
    }
}

/// Executes one round.
pub fn run(plan: &DensifyPlan, model: &mut Model) -> DensifyReport {
    if let Some(relocation) = &plan.relocate {
        return relocate::run(plan, relocation, model);
    }
    let (sources, report) = density::sources(plan, &Census(model));
    if !model.filter_3d.is_empty() {
        let old = antialias::values(&model.filter_3d, model.params.len);
        let kept: Vec<f32> = sources.iter().map(|source| old[source.from]).collect();
        model.filter_3d = antialias::rows(&kept);
    }
    let (components, features) = (model.params.components, model.params.features);
    let fresh = || Blocks {
        rows: vec![Row::ZERO; sources.len().div_ceil(16) * components],
        components,
        features,
        len: sources.len(),
    };
    let (mut params, mut first, mut second) = (fresh(), fresh(), fresh());
    for (to, source) in sources.iter().enumerate() {
        let from = source.from;
        params.copy_from(to, &model.params, from);
        if let Some(sample) = source.sample {
            split_into(&mut params, to, plan, from, sample);
        }
        if !source.is_new {
            first.copy_from(to, &model.first, from);
            second.copy_from(to, &model.second, from);
        }
    }
    model.params = params;
    model.first = first;
    model.second = second;
    let kept = |values: &[f32]| match plan.grow_gradient {
        Some(_) => vec![0.0; sources.len()],
        None => sources.iter().map(|source| values[source.from]).collect(),
    };
    model.stats = DensityStats {
        gradient_sums: kept(&model.stats.gradient_sums),
        visible_counts: kept(&model.stats.visible_counts),
    };
    if let Some(limit) = plan.reset_opacity {
        reset_opacities(limit, model);
    }
    report
}

/// Turns a copied Gaussian into one of its parent's two children: a centre drawn from the parent,
/// smaller axes.
fn split_into(params: &mut Blocks, to: usize, plan: &DensifyPlan, parent: usize, sample: u32) {
    let scales = [0, 1, 2].map(|k| params.get(to, component::SCALE + k));
    let quat = [0, 1, 2, 3].map(|k| params.get(to, component::QUAT + k));
    let offset = density::child_offset(plan, parent, sample, scales, quat);
    for k in 0..3 {
        let mean = params.get(to, component::MEAN + k) + offset[k];
        params.set(to, component::MEAN + k, mean);
        let scale = density::child_log_scale(scales[k]);
        params.set(to, component::SCALE + k, scale);
    }
}

/// Resets opacities to at most `limit`, their moments to zero.
fn reset_opacities(limit: f32, model: &mut Model) {
    for i in 0..model.active() {
        let logit = density::reset_logit(limit, model.params.get(i, component::OPACITY));
        model.params.set(i, component::OPACITY, logit);
        model.first.set(i, component::OPACITY, 0.0);
        model.second.set(i, component::OPACITY, 0.0);
    }
}
