//! Chooses steps, resolution and the Gaussian cap for a time: a pure function of the cost model.
//!
//! 1. For each resolution (full, half, a quarter, an eighth) and each Gaussian cap (a Gaussian for each 100 pixels,
//!    half as many, ...) the model computes how many steps fit. The cap is at least the number of sparse points, and
//!    photos have enough pixels to resolve the points, unless too few steps would fit.
//! 2. [`lost_db`] estimates the loss of each choice, dB, against a run without a time limit. The choice with the
//!    smallest loss is taken; of equal ones that with more pixels, then more Gaussians.
//!
//! A resolution or a cap that the user sets is not changed.

use super::CostModel;
use crate::strategy::MCMC_STEPS;

/// Request for a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanRequest {
    /// Time to train, s.
    pub seconds: f64,
    /// Mean pixels of a photo, as configured.
    pub pixels: f64,
    /// Pixels of all training photos, as configured.
    pub train_pixels: f64,
    /// Gaussians at the start.
    pub first_gaussians: usize,
    /// Gaussian cap of a run without a time limit.
    pub full_gaussians: usize,
    /// True if the number of Gaussians is fixed: set by the user, or constant.
    pub gaussians_are_settled: bool,
    /// True if the resolution is fixed.
    pub size_is_settled: bool,
}

/// Plan of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// Steps.
    pub steps: u32,
    /// Divides width and height of the photos as configured.
    pub downscale: u32,
    /// Gaussian cap.
    pub max_gaussians: usize,
    /// Expected mean time of a step, s.
    pub seconds_per_step: f64,
}

impl Plan {
    /// Returns true if the run is too short for the strategy `mcmc`.
    pub fn is_short(&self) -> bool {
        self.steps < MCMC_STEPS
    }
}

const DIVISORS: [u32; 4] = [1, 2, 4, 8];

/// Fewest pixels of a reduced photo, and fewest Gaussians.
const LEAST_PIXELS: f64 = 64.0 * 64.0;
const LEAST_GAUSSIANS: usize = 1000;

/// Pixels of all photos together for each Gaussian at the start. With fewer pixels, more Gaussians are worse
/// (`docs/experiments/2026-11-21-time-budget.md`).
const PIXELS_PER_POINT: f64 = 50.0;

/// With fewer steps than this, fewer Gaussians are better.
const FEWEST_STEPS: u32 = 100;

/// Most steps of a plan: more bring no gain.
const MOST_STEPS: f64 = 1e6;

/// Steps between two rounds of densification of a short run, which ends at half of the steps.
const STEPS_PER_ROUND: f64 = 100.0;

/// Factor by which a round of densification can raise the number of Gaussians of a short run, with
/// [`SHORT_GROW_GRADIENT`]. `bird` gave 1.6.
const GROWTH_PER_ROUND: f64 = 1.6;

/// Factor of the gradient from which Gaussians grow in a short run: with the usual one, a capture with few sparse
/// points does not reach the planned number.
pub const SHORT_GROW_GRADIENT: f64 = 0.1;

/// Weight of the last number of Gaussians in the mean over the steps of a run; the rest is the weight of the first
/// number. The number grows about linearly until half of the run, or to five sixths.
const GROWN_SHARE: f64 = 0.7;

/// Returns the best plan for the time.
pub fn plan(model: &CostModel, wish: &PlanRequest) -> Plan {
    let whole = Bounds {
        least_gaussians: wish.first_gaussians.max(LEAST_GAUSSIANS),
        least_pixels: PIXELS_PER_POINT * wish.first_gaussians as f64,
    };
    let any = Bounds {
        least_gaussians: LEAST_GAUSSIANS,
        least_pixels: 0.0,
    };
    let plan = best(model, wish, &whole).filter(|plan| plan.steps >= FEWEST_STEPS);
    plan.or_else(|| best(model, wish, &any))
        .unwrap_or_else(|| Plan {
            steps: 1,
            downscale: 1,
            max_gaussians: wish.full_gaussians,
            seconds_per_step: model.seconds(wish.pixels, wish.full_gaussians as f64),
        })
}

/// Lower bounds of the choices.
struct Bounds {
    /// Gaussians.
    least_gaussians: usize,
    /// Pixels of all photos together, if they are reduced.
    least_pixels: f64,
}

fn best(model: &CostModel, wish: &PlanRequest, bounds: &Bounds) -> Option<Plan> {
    let mut best: Option<(f64, Plan)> = None;
    for downscale in DIVISORS {
        let area = f64::from(downscale * downscale);
        let pixels = wish.pixels / area;
        let are_too_few = pixels < LEAST_PIXELS || wish.train_pixels / area < bounds.least_pixels;
        if downscale > 1 && (wish.size_is_settled || are_too_few) {
            continue;
        }
        for max_gaussians in budgets(wish, bounds.least_gaussians) {
            let timed = |max_gaussians: usize| {
                let first = wish.first_gaussians.min(max_gaussians) as f64;
                let mean = (1.0 - GROWN_SHARE) * first + GROWN_SHARE * max_gaussians as f64;
                let seconds = model.seconds(pixels, mean);
                (seconds, (wish.seconds / seconds).clamp(1.0, MOST_STEPS))
            };
            // Fewer Gaussians leave time for more steps, so that the number is reached.
            let max_gaussians = reachable(wish, timed(max_gaussians).1).min(max_gaussians);
            let (seconds_per_step, steps) = timed(max_gaussians);
            let share = max_gaussians as f64 / wish.full_gaussians.max(1) as f64;
            let lost = lost_db(steps, downscale, share);
            if best.is_none_or(|(least, _)| lost < least) {
                let plan = Plan {
                    steps: steps as u32,
                    downscale,
                    max_gaussians,
                    seconds_per_step,
                };
                best = Some((lost, plan));
            }
        }
    }
    best.map(|(_, plan)| plan)
}

/// Returns the number of Gaussians that density control reaches in this number of steps.
fn reachable(wish: &PlanRequest, steps: f64) -> usize {
    if wish.gaussians_are_settled || steps >= f64::from(MCMC_STEPS) {
        return usize::MAX;
    }
    let rounds = ((0.5 * steps - 1.0) / STEPS_PER_ROUND).max(0.0).floor();
    (wish.first_gaussians as f64 * GROWTH_PER_ROUND.powf(rounds)) as usize
}

/// Returns the caps to choose from, the largest first.
fn budgets(wish: &PlanRequest, least: usize) -> Vec<usize> {
    let full = wish.full_gaussians.max(1);
    if wish.gaussians_are_settled {
        return vec![full];
    }
    let halves = std::iter::successors(Some(full), |n| Some(n / 2));
    let mut budgets: Vec<usize> = halves.take_while(|&n| n >= least).take(8).collect();
    if budgets.is_empty() {
        budgets.push(full);
    }
    budgets
}

/// Returns the expected loss against a run without a time limit, dB of PSNR at the full size. The constants are
/// estimates that fit the runs of `docs/experiments/2026-11-21-time-budget.md`. A wrong constant costs quality, and
/// does not change the time.
///
/// - Steps: from 500 to 2000 brings some 4.5 dB, to 7000 another 2, to 30 000 one more: `9 sqrt(500 / s)`.
/// - Resolution: splats of half-size photos lose about 1 dB at the full size, of quarter-size 3.
/// - Gaussians: half as many lose 0.8 dB.
pub fn lost_db(steps: f64, downscale: u32, gaussian_share: f64) -> f64 {
    let by_steps = 9.0 * (500.0 / steps.max(1.0)).sqrt();
    let by_size = f64::from(downscale).log2().powf(1.6);
    let by_gaussians = 0.8 * (1.0 / gaussian_share.clamp(1e-9, 1.0)).log2();
    by_steps + by_size + by_gaussians
}
