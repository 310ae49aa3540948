//! `densify` by relocation: dead Gaussians become copies of live Gaussians, and new copies are
//! added (Kheradmand et al. 2024, arXiv:2404.09591). Reference: `dapple_reference::relocate`.
//!
//! 1. Weights and their prefix sums in integers: `engine::relocation`. Dead Gaussians have weight
//!    zero.
//! 2. Each dead Gaussian, and each that is to be added, draws a live Gaussian by bisection.
//! 3. A Gaussian drawn N - 1 times and its copies get the opacity and scale of N copies at one
//!    place, and moments of zero. The others do not change.
//!
//! All Gaussians keep their index; new Gaussians follow.

use super::is_finite;
use crate::antialias;
use crate::blocks::{Blocks, component};
use crate::model::Model;
use dapple_engine::{DensifyPlan, DensifyReport, Relocation, relocation};

/// Draws of a round.
struct Draws {
    /// Target and source of each copy.
    copies: Vec<(usize, usize)>,
    /// Number of draws of each Gaussian.
    drawn: Vec<u32>,
    /// Number of copies that replace dead Gaussians.
    relocated: usize,
    added: usize,
}

/// Executes one round.
pub fn run(plan: &DensifyPlan, relocation: &Relocation, model: &mut Model) -> DensifyReport {
    let draws = draw(plan, relocation, &model.params);
    let total = model.params.len + draws.added;
    if !model.filter_3d.is_empty() {
        let mut values = antialias::values(&model.filter_3d, model.params.len);
        values.resize(total, 0.0);
        for &(to, from) in &draws.copies {
            values[to] = values[from];
        }
        model.filter_3d = antialias::rows(&values);
    }
    for blocks in [&mut model.params, &mut model.first, &mut model.second] {
        blocks.extend_to(total);
    }
    let stats = &mut model.stats;
    for values in [&mut stats.gradient_sums, &mut stats.visible_counts] {
        values.resize(total, 0.0);
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
        let logit = model.params.get(i, component::OPACITY);
        let (copy, log_ratio) = relocation::copy_of(logit, times + 1);
        let copy = copy.max(relocation.dead_logit());
        model.params.set(i, component::OPACITY, copy);
        for k in component::SCALE..component::SCALE + 3 {
            let scale = model.params.get(i, k) + log_ratio;
            model.params.set(i, k, scale);
        }
        model.first.clear(i);
        model.second.clear(i);
    }
    DensifyReport {
        step: plan.step,
        relocated: draws.relocated as u64,
        added: draws.added as u64,
        total: total as u64,
        ..DensifyReport::default()
    }
}

/// Computes steps 1 and 2.
fn draw(plan: &DensifyPlan, relocation: &Relocation, params: &Blocks) -> Draws {
    let n = params.len;
    let table = relocation::sigmoid_table();
    let shift = relocation::weight_shift(u32::try_from(n).unwrap_or(u32::MAX));
    let limit = relocation.dead_logit();
    let mut places = Vec::new();
    // Inclusive prefix sum of the weights at each Gaussian.
    let mut sums = Vec::with_capacity(n);
    let mut total = 0;
    for i in 0..n {
        let logit = params.get(i, component::OPACITY);
        if !is_finite(params, i) || logit <= limit {
            places.push(i);
        } else {
            total += relocation::weight(&table, logit, shift);
        }
        sums.push(total);
    }
    let mut draws = Draws {
        copies: Vec::new(),
        drawn: vec![0; n],
        relocated: 0,
        added: 0,
    };
    if total == 0 {
        return draws;
    }
    draws.relocated = places.len();
    draws.added = relocation.added(n, plan.max_gaussians);
    places.extend(n..n + draws.added);
    draws.copies.reserve(places.len());
    for (draw, place) in places.into_iter().enumerate() {
        let target = relocation::target(plan.seed, plan.step, draw as u32, total);
        let from = sums.partition_point(|&sum| sum <= target);
        draws.copies.push((place, from));
        draws.drawn[from] += 1;
    }
    draws
}
