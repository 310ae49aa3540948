//! Relocation (Kheradmand et al. 2024, "3D Gaussian Splatting as Markov Chain Monte Carlo",
//! arXiv:2404.09591, section 3.3 and eq. 9).
//!
//! A round of [`relocate`]:
//! 1. Gaussians that are non-finite or at most `dead_opacity` opaque are dead.
//! 2. Each dead Gaussian, and each that is to be added, draws a live Gaussian, with a probability
//!    proportional to its opacity. The paper draws the added ones from the result of relocation. With
//!    one draw for both, a Gaussian's N is right for all its copies at once.
//!    With a region of interest, weights are multiplied by the shares of `dapple_engine::focus`.
//! 3. A Gaussian drawn N - 1 times becomes N copies of opacity and scale by [`relocated`].

use super::Gaussian;
use dapple_engine::focus::WHOLE;
use dapple_engine::relocation;
use dapple_engine::{DensifyPlan, Relocation};
use dapple_scene::Splats;
use glam::DVec3;

/// Returns the opacity of each of `copies` that replace a Gaussian of this opacity, and the factor of
/// its scales, by eq. 9 itself. Its terms cancel, so `copies` must not be more than about 40.
pub fn relocated(opacity: f64, copies: u32) -> (f64, f64) {
    let new = 1.0 - (1.0 - opacity).powf(1.0 / f64::from(copies));
    let mut sum = 0.0;
    for i in 1..=copies {
        let mut binomial = 1.0;
        for k in 0..i {
            let sign = if k % 2 == 0 { 1.0 } else { -1.0 };
            sum += binomial * sign * new.powi(k as i32 + 1) / f64::from(k + 1).sqrt();
            // From (i - 1 over k) to (i - 1 over k + 1).
            binomial *= f64::from(i - 1 - k) / f64::from(k + 1);
        }
    }
    (new, opacity / sum)
}

/// Result of a relocation round.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RelocatedSplats {
    /// Index of the Gaussian that each Gaussian after the round is a copy of.
    pub source: Vec<usize>,
    /// Number of copies of that Gaussian after the round; 1 = unchanged, with its moments.
    pub copies: Vec<u32>,
    /// Number of dead Gaussians that were moved.
    pub relocated: usize,
    /// Number of new Gaussians.
    pub added: usize,
}

/// Executes one round; see the module.
pub fn relocate(splats: &Splats, round: &DensifyPlan, plan: &Relocation) -> RelocatedSplats {
    let (seed, step, max_gaussians) = (round.seed, round.step, round.max_gaussians);
    let n = splats.len();
    let table = relocation::sigmoid_table();
    let shift = relocation::weight_shift(n as u32);
    let gaussians = Gaussian::all(splats);
    let limit = plan.dead_logit();
    let is_dead = |i: usize| {
        let finite = gaussians[i].mean.is_finite()
            && gaussians[i].sh.iter().all(|c| c.is_finite())
            && splats.scales[i].iter().all(|v| v.is_finite())
            && splats.quats[i].iter().all(|v| v.is_finite())
            && splats.opacities[i].is_finite();
        !finite || splats.opacities[i] <= limit
    };
    let weights: Vec<u32> = (0..n)
        .map(|i| match is_dead(i) {
            true => 0,
            false => {
                let weight = relocation::weight(&table, splats.opacities[i], shift);
                (weight * share(round, splats.means[i]) / WHOLE).max(1)
            }
        })
        .collect();
    let total: u32 = weights.iter().sum();
    let mut out = RelocatedSplats {
        source: (0..n).collect(),
        copies: vec![1; n],
        ..RelocatedSplats::default()
    };
    if total == 0 {
        return out;
    }
    let mut places: Vec<usize> = (0..n).filter(|&i| weights[i] == 0).collect();
    out.relocated = places.len();
    out.added = plan.added(n, max_gaussians);
    places.extend(n..n + out.added);
    out.source.resize(n + out.added, 0);
    let mut drawn = vec![0; n];
    for (draw, &place) in places.iter().enumerate() {
        let mut left = relocation::target(seed, step, draw as u32, total);
        let source = (0..n)
            .find(|&i| {
                let holds = left < weights[i];
                left = left.saturating_sub(weights[i]);
                holds
            })
            .unwrap_or(0);
        out.source[place] = source;
        drawn[source] += 1;
    }
    out.copies = out.source.iter().map(|&i| 1 + drawn[i]).collect();
    out
}

/// Returns how much a Gaussian counts, 0 to 256.
fn share(round: &DensifyPlan, mean: [f32; 3]) -> u32 {
    let Some(focus) = &round.focus else {
        return WHOLE;
    };
    let place = |point: [f32; 3]| {
        let point = point.map(f64::from);
        DVec3::from(focus.rows.map(|row| {
            let row = row.map(f64::from);
            row[0] * point[0] + row[1] * point[1] + row[2] * point[2] + row[3]
        }))
    };
    let contains = |place: DVec3| match focus.is_box {
        true => place.abs().max_element() <= 1.0,
        false => place.length() <= 1.0,
    };
    // Some point of the ray is in the region: the nearest to its centre, or one of the interval between two sides.
    let meets = |start: DVec3, ray: DVec3| match focus.is_box {
        true => {
            let sides = [(-1.0 - start) / ray, (1.0 - start) / ray];
            let first = sides[0].min(sides[1]).max_element().max(0.0);
            first <= sides[0].max(sides[1]).min_element()
        }
        false => contains(start + ray * (-start.dot(ray) / ray.length_squared()).max(0.0)),
    };
    let here = place(mean);
    if contains(here) {
        return WHOLE;
    }
    let position = |v: [f32; 3]| DVec3::from(v.map(f64::from));
    let (mut seen, mut meeting) = (0, 0);
    for view in &focus.views {
        let ray = position(mean) - position(view.centre);
        let cosine = ray.normalize().dot(position(view.axis));
        if cosine >= f64::from(view.least_cosine) {
            let start = place(view.centre);
            seen += 1;
            meeting += u32::from(meets(start, here - start));
        }
    }
    focus.outside + (WHOLE - focus.outside) * meeting / seen.max(1)
}
