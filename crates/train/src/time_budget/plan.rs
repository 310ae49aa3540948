//! Chooses steps, resolution and the most Gaussians for a time: a pure function of the cost model.
//!
//! 1. For each resolution (whole, half, a quarter, an eighth) and each budget of Gaussians (a Gaussian for
//!    each 100 pixels, half as many, ...) the model says how many steps fit. There are no fewer Gaussians
//!    than sparse points, and no photos so small that they cannot tell those apart, unless so few steps
//!    fit that nothing could be learnt.
//! 2. Each choice is expected to lose some dB against a run without haste: [`lost_db`]. The one that
//!    loses least is taken; of equals that with more pixels, then more Gaussians.
//!
//! What was asked for is not chosen: a resolution or a number of Gaussians that is named stays.

use super::CostModel;

/// What to plan for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wish {
    /// Time to train.
    pub seconds: f64,
    /// Pixels of a photo, mean, as configured.
    pub pixels: f64,
    /// Pixels of all photos that are trained on, as configured.
    pub train_pixels: f64,
    /// Gaussians at the start.
    pub first_gaussians: usize,
    /// As many as a run without haste would use.
    pub full_gaussians: usize,
    /// The number of Gaussians is settled: named, or it never changes.
    pub gaussians_are_settled: bool,
    /// The resolution is settled.
    pub size_is_settled: bool,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// Steps.
    pub steps: u32,
    /// Divides width and height of the photos as configured.
    pub downscale: u32,
    /// Never hold more Gaussians.
    pub max_gaussians: usize,
    /// What a step is expected to take, the mean over the run.
    pub seconds_per_step: f64,
}

const DIVISORS: [u32; 4] = [1, 2, 4, 8];

/// Photos are not reduced below this many pixels, nor Gaussians below this number.
const LEAST_PIXELS: f64 = 64.0 * 64.0;
const LEAST_GAUSSIANS: usize = 1000;

/// Pixels of all photos together for each Gaussian at the start: with fewer, more Gaussians are worse
/// (BENCHMARKS.md).
const PIXELS_PER_POINT: f64 = 50.0;

/// With fewer steps than this, fewer Gaussians are the lesser evil.
const FEWEST_STEPS: u32 = 100;

/// More steps bring nothing.
const MOST_STEPS: f64 = 1e6;

/// Share of a run's steps that its last number of Gaussians counts for in the mean; the rest counts as
/// the first: it grows about linearly until half of the run, or to five sixths.
const GROWN_SHARE: f64 = 0.7;

/// The best way to spend the time.
pub fn plan(model: &CostModel, wish: &Wish) -> Plan {
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

/// What is not gone below.
struct Bounds {
    /// Gaussians.
    least_gaussians: usize,
    /// Pixels of all photos together, where they are reduced.
    least_pixels: f64,
}

fn best(model: &CostModel, wish: &Wish, bounds: &Bounds) -> Option<Plan> {
    let mut best: Option<(f64, Plan)> = None;
    for downscale in DIVISORS {
        let area = f64::from(downscale * downscale);
        let pixels = wish.pixels / area;
        let are_too_few = pixels < LEAST_PIXELS || wish.train_pixels / area < bounds.least_pixels;
        if downscale > 1 && (wish.size_is_settled || are_too_few) {
            continue;
        }
        for max_gaussians in budgets(wish, bounds.least_gaussians) {
            let first = wish.first_gaussians.min(max_gaussians) as f64;
            let mean = (1.0 - GROWN_SHARE) * first + GROWN_SHARE * max_gaussians as f64;
            let seconds_per_step = model.seconds(pixels, mean);
            let steps = (wish.seconds / seconds_per_step).clamp(1.0, MOST_STEPS);
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

/// Numbers of Gaussians to choose from, the largest first.
fn budgets(wish: &Wish, least: usize) -> Vec<usize> {
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

/// What a run is expected to lose against one without haste, dB of PSNR at the full size. Rules of thumb
/// that fit the runs of BENCHMARKS.md: a wrong one costs quality, never time.
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
