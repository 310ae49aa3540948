//! Time of a training step on a capture, with a fixed number of Gaussians.
//!
//! 1. [`duplicate`] adds copies of the capture's points.
//! 2. Train as in a run, with rounds of density control never due ([`without_density_control`]).
//! 3. Time each step except the first few. On an engine with a queue, time sequences of steps.

use super::measure::{HostPerStep, SEQUENCES};
use super::random::Random;
use super::times::Times;
use crate::instruments_of;
use crate::machine;
use dapple::train::config::DensifyPatch;
use dapple::train::init;
use dapple::{BoxedEngine, Dataset, Point, Result, TrainConfig, Trainer};
use serde::Serialize;
use std::time::Instant;

/// Steps before the timed ones.
const WARM_UP: u32 = 5;

/// Result of the measurement.
#[derive(Debug, Serialize)]
pub struct Run {
    /// Number of training photos.
    pub photos: usize,
    /// Width of the largest photo, pixels.
    pub width: u32,
    /// Height of the largest photo, pixels.
    pub height: u32,
    /// Gaussians.
    pub gaussians: u64,
    /// SH degree at the last timed step.
    pub sh_degree: u8,
    /// Steps of a sequence, or number of all steps.
    pub steps: u32,
    /// Times of a whole step.
    pub step: Times,
    /// Median time of a step, s.
    pub seconds_per_step: f64,
    /// Steps per second.
    pub it_per_s: f64,
    /// Steps that each time is a mean over: 1 if steps were timed one by one.
    pub steps_per_time: u32,
    /// Counts per step, for an engine with a queue.
    pub host_per_step: Option<HostPerStep>,
    /// Peak memory of the process, bytes.
    pub peak_memory_bytes: Option<u64>,
}

/// Returns settings with which rounds of density control are never due, but their statistics are gathered as in a real
/// run.
pub fn without_density_control() -> DensifyPatch {
    DensifyPatch {
        every: Some(u32::MAX),
        reset_every: Some(0),
        ..DensifyPatch::default()
    }
}

/// Runs steps 2 and 3 on an engine without splats, with full-size photos.
///
/// # Errors
/// Training fails.
pub fn run(
    dataset: Dataset,
    mut config: TrainConfig,
    mut engine: BoxedEngine,
    steps: u32,
) -> Result<Run> {
    config.data.coarse_until = 0.0;
    let cameras = dataset.views.iter().map(|view| view.camera);
    let sizes = cameras.map(|camera| (camera.width, camera.height));
    let (width, height) = sizes
        .max_by_key(|&(w, h)| u64::from(w) * u64::from(h))
        .unwrap_or((0, 0));
    let has_queue = instruments_of(engine.as_mut())?.has_queue();
    let mut trainer = Trainer::new(&dataset, config, engine)?;
    drop(dataset);
    let (step, host) = if has_queue {
        in_sequences(&mut trainer, steps)?
    } else {
        (one_by_one(&mut trainer, steps)?, None)
    };
    Ok(Run {
        photos: trainer.train_view_count(),
        width,
        height,
        gaussians: trainer.gaussians(),
        sh_degree: trainer.schedule().sh_degree(trainer.steps_done()),
        steps,
        step,
        seconds_per_step: step.median_ms * 1e-3,
        it_per_s: step.per_second(),
        steps_per_time: if has_queue { steps } else { 1 },
        host_per_step: host,
        peak_memory_bytes: machine::peak_memory_bytes(),
    })
}

/// Times steps of an engine that is done when `step` returns.
fn one_by_one(trainer: &mut Trainer, steps: u32) -> Result<Times> {
    let mut durations_ns = Vec::new();
    for step in 1..=WARM_UP + steps {
        let start = Instant::now();
        trainer.step()?;
        if step > WARM_UP {
            durations_ns.push(start.elapsed().as_nanos() as u64);
        }
    }
    Ok(Times::from_ns(&durations_ns))
}

/// Times steps of an engine with a queue: wall time of sequences divided by their steps. The device is idle before and
/// after each sequence. Also counts the host's calls to the device during the sequences.
fn in_sequences(trainer: &mut Trainer, steps: u32) -> Result<(Times, Option<HostPerStep>)> {
    // Trains on every photo once, so that all are on the device.
    let photos = u32::try_from(trainer.train_view_count()).unwrap_or(u32::MAX);
    for _ in 0..WARM_UP.max(photos) {
        trainer.step()?;
    }
    let mut durations_ns = Vec::new();
    let mut host = None;
    for _ in 0..SEQUENCES {
        trainer.wait()?;
        instruments_of(trainer.engine_mut().as_mut())?.wait()?;
        let before = instruments_of(trainer.engine_mut().as_mut())?.counters();
        let start = Instant::now();
        for _ in 0..steps {
            trainer.step()?;
        }
        let asked = instruments_of(trainer.engine_mut().as_mut())?.counters() - before;
        instruments_of(trainer.engine_mut().as_mut())?.wait()?;
        durations_ns.push(start.elapsed().as_nanos() as u64 / u64::from(steps));
        host = Some(HostPerStep::new(asked, steps));
    }
    trainer.wait()?;
    Ok((Times::from_ns(&durations_ns), host))
}

/// Makes `copies` of each finite point of a capture: the point itself, and others at random positions near it. Each is
/// moved by at most half the distance to the point's neighbours along each axis.
///
/// # Errors
/// The points cannot be turned into Gaussians.
pub fn duplicate(dataset: &mut Dataset, copies: u32, config: &TrainConfig) -> Result<()> {
    dataset
        .points
        .retain(|p| p.position.iter().all(|v| v.is_finite()));
    if copies == 1 || dataset.points.is_empty() {
        return Ok(());
    }
    let views: Vec<usize> = (0..dataset.views.len()).collect();
    let extent = dataset.extent(&views);
    // The first scale of a Gaussian is the distance to its neighbours.
    let distances = init::from_points(&dataset.points, extent, 0, config.seed)?.scales;
    let mut random = Random::new(config.seed);
    let mut copy = |point: &Point, half: f32| Point {
        position: point.position.map(|v| v + half * random.signed()),
        ..*point
    };
    let mut points = Vec::with_capacity(dataset.points.len() * copies as usize);
    for (point, scale) in dataset.points.iter().zip(&distances) {
        points.push(*point);
        points.extend((1..copies).map(|_| copy(point, 0.5 * scale[0].exp())));
    }
    dataset.points = points;
    Ok(())
}
