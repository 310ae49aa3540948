//! Steps of several views on several ranks, on the Gaussians of [`step`](super::step): how much faster a step of B views
//! becomes with further devices.
//!
//! 1. Measure an engine without ranks: the base of the efficiency.
//! 2. Measure each number of ranks: wall time of whole batches, times and bytes of each rank.
//!
//! Efficiency is the views per second over those of the base times the number of ranks.

use super::garden::{self, Garden};
use super::step::{LEARNING_RATES, NEAR, SEED, photos};
use dapple::contract::{Batch, LossTerm, LossWeights, PARAM_GROUPS, StepSettings, ViewId};
use dapple::{Device, Engine, EngineExt, EngineOptions, RankTimes, RenderSettings, Result, Splats};
use serde::Serialize;
use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;
use std::time::Instant;

/// Batches before the timed ones.
const WARM_UP: u32 = 3;

/// Inputs of a measurement.
#[derive(Debug, Clone)]
pub struct Job<'a> {
    /// Device, as for [`dapple::open_ranks`].
    pub device: &'a Device,
    /// Options of the engines.
    pub options: EngineOptions,
    /// Size of the photos, pixels.
    pub size: [u32; 2],
    /// Views of a step.
    pub views: u32,
    /// Batches to time.
    pub batches: u32,
}

/// Result for one number of ranks.
#[derive(Debug, Serialize)]
pub struct Run {
    /// Ranks; 0 = an engine without ranks.
    pub ranks: usize,
    /// Description of the engines.
    pub device: String,
    /// Gaussians.
    pub gaussians: usize,
    /// Mean time of a batch, milliseconds.
    pub batch_ms: f64,
    /// Views per second.
    pub views_per_s: f64,
    /// Views per second over those of the base times the number of ranks; `None` without a base.
    pub efficiency: Option<f64>,
    /// Busy time of the slowest rank over the mean; `None` without ranks.
    pub balance: Option<f64>,
    /// Times of each rank per view.
    pub each: Vec<RankRow>,
    /// Checksum of the Gaussians at the end: equal for runs with equal results.
    pub checksum: String,
}

/// Times of a rank per view, milliseconds, and the bytes that it sent per view.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct RankRow {
    /// See [`RankTimes`], as for what follows.
    pub project_ms: f64,
    /// Rendering and comparing.
    pub compare_ms: f64,
    /// Moving its Gaussians.
    pub update_ms: f64,
    /// Exchanges.
    pub exchange_ms: f64,
    /// Part of the exchanges in which it waited for slower ranks.
    pub wait_ms: f64,
    /// Megabytes sent.
    pub sent_mb: f64,
}

impl From<RankTimes> for RankRow {
    fn from(times: RankTimes) -> Self {
        let views = times.views.max(1) as f64;
        let ms = |ns: u64| ns as f64 * 1e-6 / views;
        Self {
            project_ms: ms(times.project_ns),
            compare_ms: ms(times.compare_ns),
            update_ms: ms(times.update_ns),
            exchange_ms: ms(times.exchange_ns),
            wait_ms: ms(times.wait_ns),
            sent_mb: times.sent_bytes as f64 * 1e-6 / views,
        }
    }
}

/// Measures the base and each of `ranks`. A model that one engine cannot hold has no base.
///
/// # Errors
/// The ranks fail.
pub fn run(
    job: &Job<'_>,
    garden: &Garden,
    truth: &Splats,
    ranks: &[usize],
    mut done: impl FnMut(&Run) -> Result<()>,
) -> Result<Vec<Run>> {
    let start = garden::start(truth.clone(), SEED);
    let mut runs = Vec::new();
    let mut of_one = None;
    let mut engine = dapple::open(job.device, &job.options)?.engine.into_engine();
    let views = match photos(engine.as_mut(), garden, truth, job.size) {
        Ok((views, _)) => {
            engine.upload(&start, None)?;
            engine.add_views(views.clone())?;
            warm_up(job, engine.as_mut(), views.len())?;
            let seconds = batches(job, engine.as_mut(), views.len())?;
            let base = finished(job, engine.as_mut(), seconds, Shared::default())?;
            drop(engine);
            done(&base)?;
            of_one = Some(base.views_per_s);
            runs.push(base);
            views
        }
        Err(_) => {
            drop(engine);
            let most = ranks.iter().copied().max().unwrap_or(1);
            let (mut engine, _) = dapple::open_ranks(job.device, &job.options, most)?;
            photos(engine.as_engine(), garden, truth, job.size)?.0
        }
    };
    for &ranks in ranks {
        if ranks == 1 && of_one.is_none() {
            // As the engine without ranks.
            continue;
        }
        let (mut engine, _) = dapple::open_ranks(job.device, &job.options, ranks)?;
        engine.as_engine().upload(&start, None)?;
        engine.as_engine().add_views(views.clone())?;
        warm_up(job, engine.as_engine(), views.len())?;
        // The first steps allocate and compile.
        engine.take_times();
        let seconds = batches(job, engine.as_engine(), views.len())?;
        let shared = Shared {
            ranks,
            times: engine.take_times(),
            of_one,
        };
        let run = finished(job, engine.as_engine(), seconds, shared)?;
        done(&run)?;
        runs.push(run);
    }
    Ok(runs)
}

/// Numbers of a run on ranks that the base does not have.
#[derive(Default)]
struct Shared {
    ranks: usize,
    times: Vec<RankTimes>,
    /// Views per second of the base, if there is one.
    of_one: Option<f64>,
}

/// Takes steps before those that are timed.
fn warm_up(job: &Job<'_>, engine: &mut dyn Engine, views: usize) -> Result<()> {
    take(job, engine, views, 0..WARM_UP)
}

/// Takes the timed steps. Returns the mean time of a batch, seconds.
fn batches(job: &Job<'_>, engine: &mut dyn Engine, views: usize) -> Result<f64> {
    let started = Instant::now();
    take(job, engine, views, WARM_UP..WARM_UP + job.batches)?;
    Ok(started.elapsed().as_secs_f64() / f64::from(job.batches.max(1)))
}

/// Takes batches of these numbers.
fn take(job: &Job<'_>, engine: &mut dyn Engine, views: usize, numbers: Range<u32>) -> Result<()> {
    for step in numbers.start * job.views + 1..=numbers.end * job.views {
        let view = ViewId((step as usize - 1) % views.max(1));
        engine.step(view, &settings(job, step))?;
    }
    engine.finish()?;
    engine.poll().map(drop)
}

fn settings(job: &Job<'_>, step: u32) -> StepSettings {
    let render = RenderSettings {
        near: NEAR,
        ..RenderSettings::default()
    };
    StepSettings {
        learning_rates: LEARNING_RATES,
        losses: LossWeights::default().with(LossTerm::Ssim, 0.2),
        accumulate_density: true,
        batch: Batch {
            index: (step - 1) % job.views,
            size: job.views,
        },
        ..StepSettings::new(step, render)
    }
}

/// Returns the results of a run.
fn finished(job: &Job<'_>, engine: &mut dyn Engine, seconds: f64, shared: Shared) -> Result<Run> {
    let splats = engine.splats()?;
    let mut hasher = DefaultHasher::new();
    for group in PARAM_GROUPS {
        for value in group.values(&splats) {
            hasher.write_u32(value.to_bits());
        }
    }
    let views_per_s = f64::from(job.views) / seconds;
    Ok(Run {
        ranks: shared.ranks,
        device: engine.description(),
        gaussians: splats.len(),
        batch_ms: seconds * 1e3,
        views_per_s,
        efficiency: match shared.ranks {
            0 => Some(1.0),
            ranks => shared.of_one.map(|one| views_per_s / (one * ranks as f64)),
        },
        balance: (!shared.times.is_empty()).then(|| RankTimes::balance(&shared.times)),
        each: shared.times.into_iter().map(RankRow::from).collect(),
        checksum: format!("{:016x}", hasher.finish()),
    })
}
