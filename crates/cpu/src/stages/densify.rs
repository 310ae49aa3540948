//! `densify`: clone, split, prune, reset: the adaptive density control of the 3DGS paper.
//!
//! 1. A Gaussian should grow if its screen-space gradient, averaged over the steps in which it was
//!    visible, exceeds the threshold. Small Gaussians are cloned, large ones split in two.
//! 2. If the Gaussian cap does not allow all, the largest gradients grow first (ties by index).
//! 3. Prune Gaussians that are too transparent, too large or non-finite; replace split Gaussians.
//! 4. Optionally clamp opacities and clear their moments. Reset the statistics after their use.
//!
//! Remaining Gaussians keep their order and moments; new Gaussians follow with moments of zero.

mod relocate;

use crate::antialias;
use crate::blocks::{Blocks, DensityStats, component};
use crate::model::Model;
use crate::simd::Row;
use dapple_engine::{DensifyPlan, DensifyReport, noise};

/// Factor by which a split Gaussian's children are smaller (3DGS paper).
const SPLIT_SHRINK: f32 = 1.6;

/// Growth of a Gaussian in a round.
#[derive(Clone, Copy, PartialEq)]
enum Growth {
    None,
    Clone,
    Split,
}

/// Executes one round.
pub fn run(plan: &DensifyPlan, model: &mut Model) -> DensifyReport {
    if let Some(relocation) = &plan.relocate {
        return relocate::run(plan, relocation, model);
    }
    let n = model.params.len;
    let (growth, refused) = decide(plan, model);
    let count = |kind: Growth| growth.iter().filter(|&&g| g == kind).count();
    let (clones, splits) = (count(Growth::Clone), count(Growth::Split));

    // Source of each Gaussian after the round; for children of a split, also the number of the
    // sample.
    let mut sources: Vec<(usize, Option<u32>, bool)> = Vec::with_capacity(n + clones + splits);
    let survivors = (0..n).filter(|&i| growth[i] != Growth::Split);
    sources.extend(survivors.map(|i| (i, None, false)));
    let cloned = (0..n).filter(|&i| growth[i] == Growth::Clone);
    sources.extend(cloned.map(|i| (i, None, true)));
    for sample in 0..2 {
        let split = (0..n).filter(|&i| growth[i] == Growth::Split);
        sources.extend(split.map(|i| (i, Some(sample), true)));
    }
    let before = sources.len();
    sources.retain(|&(i, sample, _)| keep(plan, &model.params, i, sample.is_some()));
    let pruned = before - sources.len();

    if !model.filter_3d.is_empty() {
        let old = antialias::values(&model.filter_3d, n);
        let kept: Vec<f32> = sources.iter().map(|&(from, ..)| old[from]).collect();
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
    for (to, &(from, sample, new)) in sources.iter().enumerate() {
        params.copy_from(to, &model.params, from);
        if let Some(sample) = sample {
            split_into(&mut params, to, plan, from, sample);
        }
        if !new {
            first.copy_from(to, &model.first, from);
            second.copy_from(to, &model.second, from);
        }
    }
    model.params = params;
    model.first = first;
    model.second = second;
    let kept = |values: &[f32]| match plan.grow_gradient {
        Some(_) => vec![0.0; sources.len()],
        None => sources.iter().map(|&(from, ..)| values[from]).collect(),
    };
    model.stats = DensityStats {
        gradient_sums: kept(&model.stats.gradient_sums),
        visible_counts: kept(&model.stats.visible_counts),
    };
    if let Some(limit) = plan.reset_opacity {
        reset_opacities(
            limit,
            &mut model.params,
            &mut model.first,
            &mut model.second,
        );
    }
    DensifyReport {
        step: plan.step,
        cloned: clones as u64,
        split: splits as u64,
        pruned: pruned as u64,
        refused: refused as u64,
        relocated: 0,
        added: 0,
        total: model.params.len as u64,
    }
}

/// Returns the largest of a Gaussian's three axes, world units.
fn largest_axis(params: &Blocks, i: usize) -> f32 {
    (0..3)
        .map(|k| params.get(i, component::SCALE + k))
        .fold(f32::NEG_INFINITY, f32::max)
        .exp()
}

/// Computes steps 1 and 2: the growth of each Gaussian, and the number refused for the cap.
fn decide(plan: &DensifyPlan, model: &Model) -> (Vec<Growth>, usize) {
    let n = model.params.len;
    let mut growth = vec![Growth::None; n];
    let Some(threshold) = plan.grow_gradient else {
        return (growth, 0);
    };
    let mean_gradient =
        |i: usize| model.stats.gradient_sums[i] / model.stats.visible_counts[i].max(1.0);
    let mut wanting: Vec<usize> = (0..n).filter(|&i| mean_gradient(i) > threshold).collect();
    let free = plan.free_capacity(n);
    let refused = wanting.len().saturating_sub(free);
    if refused > 0 {
        wanting.sort_by(|&a, &b| {
            mean_gradient(b)
                .total_cmp(&mean_gradient(a))
                .then(a.cmp(&b))
        });
        wanting.truncate(free);
    }
    for i in wanting {
        growth[i] = if largest_axis(&model.params, i) <= plan.split_scale {
            Growth::Clone
        } else {
            Growth::Split
        };
    }
    (growth, refused)
}

/// Returns true if all parameters of a Gaussian are finite.
pub fn is_finite(params: &Blocks, i: usize) -> bool {
    (0..params.components).all(|c| params.get(i, c).is_finite())
}

/// Computes step 3: returns true if a Gaussian remains after the round.
fn keep(plan: &DensifyPlan, params: &Blocks, source: usize, is_split: bool) -> bool {
    let finite = is_finite(params, source);
    let opacity = 1.0 / (1.0 + (-params.get(source, component::OPACITY)).exp());
    let shrink = if is_split { SPLIT_SHRINK } else { 1.0 };
    finite
        && plan.prune_opacity.is_none_or(|limit| opacity >= limit)
        && plan
            .prune_scale
            .is_none_or(|limit| largest_axis(params, source) / shrink <= limit)
}

/// Returns the rotation of a quaternion (w, x, y, z) of any length; the identity for zero.
pub fn rotation(quat: [f32; 4]) -> [[f32; 3]; 3] {
    let norm = quat.iter().map(|v| v * v).sum::<f32>().sqrt();
    let [w, x, y, z] = quat.map(|v| if norm > 0.0 { v / norm } else { 0.0 });
    [
        [
            1.0 - 2.0 * (y * y + z * z),
            2.0 * (x * y - w * z),
            2.0 * (x * z + w * y),
        ],
        [
            2.0 * (x * y + w * z),
            1.0 - 2.0 * (x * x + z * z),
            2.0 * (y * z - w * x),
        ],
        [
            2.0 * (x * z - w * y),
            2.0 * (y * z + w * x),
            1.0 - 2.0 * (x * x + y * y),
        ],
    ]
}

/// Turns a copied Gaussian into one of its parent's two children: a centre drawn from the parent,
/// smaller axes.
fn split_into(params: &mut Blocks, to: usize, plan: &DensifyPlan, parent: usize, sample: u32) {
    let draw = [0, 1, 2].map(|k| {
        let which = sample * 3 + k as u32;
        let normal = noise::normal(plan.seed, plan.step, parent as u32, which);
        normal * params.get(to, component::SCALE + k).exp()
    });
    let quat = [0, 1, 2, 3].map(|k| params.get(to, component::QUAT + k));
    let rotation = rotation(quat);
    for k in 0..3 {
        let offset: f32 = (0..3).map(|j| rotation[k][j] * draw[j]).sum();
        let mean = params.get(to, component::MEAN + k) + offset;
        params.set(to, component::MEAN + k, mean);
        let scale = params.get(to, component::SCALE + k) - SPLIT_SHRINK.ln();
        params.set(to, component::SCALE + k, scale);
    }
}

/// Computes step 4: opacities to at most `limit`, their moments to zero.
fn reset_opacities(limit: f32, params: &mut Blocks, first: &mut Blocks, second: &mut Blocks) {
    let logit = (limit / (1.0 - limit)).ln();
    for i in 0..params.len {
        let value = params.get(i, component::OPACITY).min(logit);
        params.set(i, component::OPACITY, value);
        first.set(i, component::OPACITY, 0.0);
        second.set(i, component::OPACITY, 0.0);
    }
}
