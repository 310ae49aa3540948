//! Density control for engines whose Gaussians are on the host: which Gaussians a round keeps, copies and moves.
//! [`DensifyPlan`] describes rounds. Reference: `dapple_reference::densify` and `dapple_reference::relocate`.
//!
//! Rounds of adaptive density control (3DGS paper):
//! 1. A Gaussian should grow if its screen-space gradient, averaged over the steps in which it was visible, exceeds the
//!    threshold. Small Gaussians are cloned, large ones split in two.
//! 2. If the Gaussian cap does not allow all, the largest gradients grow first (ties by index).
//! 3. Gaussians that are too transparent, too large or non-finite are removed; split Gaussians are replaced.
//!
//! Remaining Gaussians keep their order and moments; new Gaussians follow with moments of zero.
//!
//! Rounds of relocation (Kheradmand et al. 2024, arXiv:2404.09591):
//! 1. Weights and their prefix sums in integers: [`crate::relocation`]. Dead Gaussians have weight zero.
//! 2. Each dead Gaussian, and each that is to be added, draws a live Gaussian by bisection.
//! 3. A Gaussian drawn N - 1 times and its copies get the opacity and scale of N copies at one place, and moments of
//!    zero. The others do not change.
//!
//! All Gaussians keep their index; new Gaussians follow.
//!
//! With a region of interest ([`crate::focus`]), gradients and weights of Gaussians outside count less.
//!
//! Gaussians of the sky ([`crate::OptimizerState::sky`]) and frozen ones are not changed, drawn or removed, and remain the
//! last.

use crate::{DensifyPlan, DensifyReport, Relocation, noise, relocation};
use dapple_scene::unit_rotation;
use rayon::prelude::*;

/// Least Gaussians of a task.
const CHUNK: usize = 1 << 12;

/// Factor by which a split Gaussian's children are smaller (3DGS paper).
const SPLIT_SHRINK: f32 = 1.6;

/// Numbers of the Gaussians that a round reads.
pub trait Censused {
    /// Returns the number of Gaussians.
    fn count(&self) -> usize;
    /// Returns the number of Gaussians before those of the sky and the frozen ones.
    fn active(&self) -> usize {
        self.count()
    }
    /// Returns the logit of a Gaussian's opacity.
    fn logit(&self, gaussian: usize) -> f32;
    /// Returns the logarithms of a Gaussian's scales.
    fn log_scales(&self, gaussian: usize) -> [f32; 3];
    /// Returns true if all parameters of a Gaussian are finite.
    fn is_finite(&self, gaussian: usize) -> bool;
    /// Returns the centre of a Gaussian, which rounds with a focus read.
    fn mean(&self, gaussian: usize) -> [f32; 3];
    /// Returns the mean screen-space gradient of a Gaussian over the steps in which it was visible.
    fn mean_gradient(&self, gaussian: usize) -> f32;
}

/// Origin of a Gaussian after a round of adaptive density control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// Index before the round.
    pub from: usize,
    /// For children of a split: the number of the sample.
    pub sample: Option<u32>,
    /// True for clones and children, whose moments are zero.
    pub is_new: bool,
}

/// Growth of a Gaussian in a round.
#[derive(Clone, Copy, PartialEq)]
enum Growth {
    None,
    Clone,
    Split,
}

/// Returns the Gaussians after a round without relocation, in order, and its report.
pub fn sources(plan: &DensifyPlan, gaussians: &impl Censused) -> (Vec<Source>, DensifyReport) {
    let (n, active) = (gaussians.count(), gaussians.active());
    let (growth, refused) = growth(plan, gaussians);
    let those = |kind: Growth| {
        (0..active)
            .filter(|&i| growth[i] == kind)
            .collect::<Vec<usize>>()
    };
    let (clones, splits) = (those(Growth::Clone), those(Growth::Split));
    let of = |from, sample, is_new| Source {
        from,
        sample,
        is_new,
    };
    let mut all = Vec::with_capacity(n + clones.len() + splits.len());
    all.extend(
        (0..active)
            .filter(|&i| growth[i] != Growth::Split)
            .map(|i| of(i, None, false)),
    );
    all.extend(clones.iter().map(|&i| of(i, None, true)));
    for sample in 0..2 {
        all.extend(splits.iter().map(|&i| of(i, Some(sample), true)));
    }
    let before = all.len();
    all.retain(|source| stays(plan, gaussians, source));
    let pruned = before - all.len();
    all.extend((active..n).map(|i| of(i, None, false)));
    let report = DensifyReport {
        step: plan.step,
        cloned: clones.len() as u64,
        split: splits.len() as u64,
        pruned: pruned as u64,
        refused: refused as u64,
        relocated: 0,
        added: 0,
        total: all.len() as u64,
    };
    (all, report)
}

/// Computes steps 1 and 2: the growth of each Gaussian, and the number refused for the cap.
fn growth(plan: &DensifyPlan, gaussians: &impl Censused) -> (Vec<Growth>, usize) {
    let n = gaussians.count();
    let mut growth = vec![Growth::None; n];
    let Some(threshold) = plan.grow_gradient else {
        return (growth, 0);
    };
    let factor = |i: usize| {
        let focus = plan.focus.as_ref();
        focus.map_or(1.0, |focus| focus.gradient_factor(gaussians.mean(i)))
    };
    let gradient = |i: usize| gaussians.mean_gradient(i) * factor(i);
    let active = 0..gaussians.active();
    let mut wanting: Vec<usize> = active.filter(|&i| gradient(i) > threshold).collect();
    let free = plan.free_capacity(n);
    let refused = wanting.len().saturating_sub(free);
    if refused > 0 {
        wanting.sort_by(|&a, &b| gradient(b).total_cmp(&gradient(a)).then(a.cmp(&b)));
        wanting.truncate(free);
    }
    for i in wanting {
        growth[i] = if largest_axis(gaussians, i) <= plan.split_scale {
            Growth::Clone
        } else {
            Growth::Split
        };
    }
    (growth, refused)
}

/// Returns the largest of a Gaussian's three axes, world units.
fn largest_axis(gaussians: &impl Censused, i: usize) -> f32 {
    let scales = gaussians.log_scales(i).into_iter();
    scales.fold(f32::NEG_INFINITY, f32::max).exp()
}

/// Computes step 3: returns true if a Gaussian remains after the round.
fn stays(plan: &DensifyPlan, gaussians: &impl Censused, source: &Source) -> bool {
    let opacity = 1.0 / (1.0 + (-gaussians.logit(source.from)).exp());
    let shrink = if source.sample.is_some() {
        SPLIT_SHRINK
    } else {
        1.0
    };
    gaussians.is_finite(source.from)
        && plan.prune_opacity.is_none_or(|limit| opacity >= limit)
        && plan
            .prune_scale
            .is_none_or(|limit| largest_axis(gaussians, source.from) / shrink <= limit)
}

/// Returns the rotation of a quaternion (w, x, y, z) of any length; the identity for zero.
pub fn rotation(quat: [f32; 4]) -> [[f32; 3]; 3] {
    let norm = quat.iter().map(|v| v * v).sum::<f32>().sqrt();
    unit_rotation(quat.map(|v| if norm > 0.0 { v / norm } else { 0.0 }))
}

/// Returns the offset of a child's centre from that of its parent, drawn from the parent. `log_scales` and `quat` are
/// those of the parent, which has the index `parent` in the model.
pub fn child_offset(
    plan: &DensifyPlan,
    parent: usize,
    sample: u32,
    log_scales: [f32; 3],
    quat: [f32; 4],
) -> [f32; 3] {
    let draw = [0, 1, 2].map(|k| {
        let which = sample * 3 + k as u32;
        let normal = noise::normal(plan.seed, plan.step, parent as u32, which);
        normal * log_scales[k].exp()
    });
    let rotation = rotation(quat);
    [0, 1, 2].map(|k| (0..3).map(|j| rotation[k][j] * draw[j]).sum())
}

/// Returns the logarithm of a child's scale.
pub fn child_log_scale(log_scale: f32) -> f32 {
    log_scale - SPLIT_SHRINK.ln()
}

/// Returns the logit of an opacity after the reset to at most `limit`.
pub fn reset_logit(limit: f32, logit: f32) -> f32 {
    logit.min((limit / (1.0 - limit)).ln())
}

/// Draws of a round of relocation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Draws {
    /// Target and source of each copy.
    pub copies: Vec<(usize, usize)>,
    /// Number of draws of each Gaussian.
    pub drawn: Vec<u32>,
    /// Number of copies that replace dead Gaussians.
    pub relocated: usize,
    /// Number of new Gaussians.
    pub added: usize,
}

impl Draws {
    /// Returns the report of the round, for `total` Gaussians after it.
    pub fn report(&self, plan: &DensifyPlan, total: usize) -> DensifyReport {
        DensifyReport {
            step: plan.step,
            relocated: self.relocated as u64,
            added: self.added as u64,
            total: total as u64,
            ..DensifyReport::default()
        }
    }
}

/// Returns the weight of each active Gaussian in the draws of a relocation, of a model of `total` Gaussians; zero for dead
/// ones.
pub fn weights(
    plan: &DensifyPlan,
    relocation: &Relocation,
    gaussians: &(impl Censused + Sync),
    total: usize,
) -> Vec<u32> {
    let table = relocation::sigmoid_table();
    let shift = relocation::weight_shift(u32::try_from(total).unwrap_or(u32::MAX));
    let limit = relocation.dead_logit();
    let weight = |i: usize| {
        let logit = gaussians.logit(i);
        if !gaussians.is_finite(i) || logit <= limit {
            return 0;
        }
        let weight = relocation::weight(&table, logit, shift);
        match &plan.focus {
            None => weight,
            Some(focus) => focus.weight(weight, gaussians.mean(i)),
        }
    };
    let active = (0..gaussians.active()).into_par_iter();
    active.with_min_len(CHUNK).map(weight).collect()
}

/// Computes steps 1 and 2 of a relocation from the [`weights`] of a model of `total` Gaussians. Places count after it: new
/// Gaussians follow those that are active, and the sky and the frozen ones have moved behind them.
pub fn draws(plan: &DensifyPlan, relocation: &Relocation, weights: &[u32], total: usize) -> Draws {
    let active = weights.len();
    let dead = weights
        .iter()
        .enumerate()
        .filter(|(_, weight)| **weight == 0);
    let mut places: Vec<usize> = dead.map(|(i, _)| i).collect();
    // Inclusive prefix sum of the weights at each Gaussian.
    let mut sum = 0;
    let sums: Vec<u32> = weights
        .iter()
        .map(|weight| {
            sum += weight;
            sum
        })
        .collect();
    let mut draws = Draws {
        drawn: vec![0; active],
        ..Draws::default()
    };
    if sum == 0 {
        return draws;
    }
    draws.relocated = places.len();
    draws.added = relocation.added(total, plan.max_gaussians);
    places.extend(active..active + draws.added);
    let drawn = places.par_iter().with_min_len(CHUNK).enumerate();
    let drawn = drawn.map(|(draw, &place)| {
        let target = relocation::target(plan.seed, plan.step, draw as u32, sum);
        (place, sums.partition_point(|&sum| sum <= target))
    });
    draws.copies = drawn.collect();
    for &(_, from) in &draws.copies {
        draws.drawn[from] += 1;
    }
    draws
}

/// Returns the logit of each of `copies` Gaussians that replace one, and the change of the logarithms of its scales.
pub fn shared(relocation: &Relocation, logit: f32, copies: u32) -> (f32, f32) {
    let (copy, log_ratio) = relocation::copy_of(logit, copies);
    (copy.max(relocation.dead_logit()), log_ratio)
}
