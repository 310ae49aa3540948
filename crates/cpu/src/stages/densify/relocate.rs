//! `densify` by relocation: dead Gaussians become copies of live Gaussians, and new copies are
//! added (Kheradmand et al. 2024, arXiv:2404.09591). Reference: `dapple_reference::relocate`.
//! Decisions: [`dapple_engine::density`].

use super::Census;
use crate::antialias;
use crate::blocks::component;
use crate::model::Model;
use dapple_engine::{DensifyPlan, DensifyReport, Relocation, density};

/// Executes one round.
pub fn run(plan: &DensifyPlan, relocation: &Relocation, model: &mut Model) -> DensifyReport {
    let count = model.params.len;
    let weights = density::weights(plan, relocation, &Census(model), count);
    let draws = density::draws(plan, relocation, &weights, count);
    model.insert(draws.added);
    let total = model.params.len;
    if !model.filter_3d.is_empty() {
        let mut values = antialias::values(&model.filter_3d, total);
        for &(to, from) in &draws.copies {
            values[to] = values[from];
        }
        model.filter_3d = antialias::rows(&values);
    }
    let stats = &mut model.stats;
    for values in [&mut stats.gradient_sums, &mut stats.visible_counts] {
        for &(to, from) in &draws.copies {
            values[to] = values[from];
        }
    }
    for &(to, from) in &draws.copies {
        model.params.copy_within(to, from);
    }
    let copied = draws
        .copies
        .iter()
        .map(|&(to, from)| (to, draws.drawn[from]));
    let drawn = draws.drawn.iter().copied().enumerate();
    for (i, times) in drawn.filter(|&(_, times)| times > 0).chain(copied) {
        share(relocation, model, i, times + 1);
    }
    draws.report(plan, total)
}

/// Gives a Gaussian the opacity and scales of `copies` at its place, and moments of zero.
pub fn share(relocation: &Relocation, model: &mut Model, i: usize, copies: u32) {
    let logit = model.params.get(i, component::OPACITY);
    let (copy, log_ratio) = density::shared(relocation, logit, copies);
    model.params.set(i, component::OPACITY, copy);
    for k in component::SCALE..component::SCALE + 3 {
        let scale = model.params.get(i, k) + log_ratio;
        model.params.set(i, k, scale);
    }
    model.first.clear(i);
    model.second.clear(i);
}
