//! Time of each stage of a training step on synthetic splats, compared with the machine's limit.
//!
//! 1. Upload synthetic splats, render them, and use the render with small changes as the photo.
//! 2. Run steps with learning rates too small to change a parameter, so that every step is the same.
//! 3. Compare the operations and bytes that the engine counts ([`Instrumented::cost`](crate::Instrumented::cost)) with
//!    the median times.

use super::measure::{HostPerStep, Job, changed, measure, standing_still, view_of};
use super::rows::{LimitRow, StageRow, rows};
use super::times::Times;
use crate::Open;
use dapple::contract::RenderSettings;
use dapple::{Result, Splats, synth};
use serde::Serialize;

/// Steps before the timed ones: buffers grow, caches and clocks warm up.
const WARM_UP: u32 = 3;

/// Result for one number of Gaussians at one size.
#[derive(Debug, Serialize)]
pub struct Run {
    /// Gaussians.
    pub gaussians: u64,
    /// Width of the photo, pixels.
    pub width: u32,
    /// Height of the photo, pixels.
    pub height: u32,
    /// Number of timed steps.
    pub steps: u32,
    /// Visible Gaussians.
    pub visible: u64,
    /// Instances: (Gaussian, tile) pairs.
    pub instances: u64,
    /// Rows of 16 pixels that `blend` visited.
    pub row_visits: u64,
    /// Times of a whole step.
    pub step: Times,
    /// Steps per second.
    pub it_per_s: f64,
    /// Steps that each time of a step is a mean over.
    pub steps_per_time: u32,
    /// Counts per step, for an engine with a queue.
    pub host_per_step: Option<HostPerStep>,
    /// Stages in the order they ran.
    pub stages: Vec<StageRow>,
}

/// Returns synthetic splats with this number of Gaussians.
pub fn splats(count: u32) -> Splats {
    synth::splats(count as usize, 0)
}

/// Runs steps 1 to 3 with photos of `size`, `[width, height]`.
///
/// # Errors
/// The engine fails.
pub fn run(
    open: &Open<'_>,
    splats: &Splats,
    size: [u32; 2],
    steps: u32,
    limits: LimitRow,
) -> Result<Run> {
    let settings = RenderSettings::default();
    let camera = synth::bench_camera(size[0], size[1]);
    let mut engine = open(false)?.into_engine();
    engine.upload(splats, None)?;
    let rendered = engine.render(&camera, &settings)?;
    drop(engine);
    let measured = measure(&Job {
        open,
        splats,
        views: &[view_of(camera, changed(rendered.photo()))],
        learning_rates: standing_still(),
        warm_up: WARM_UP,
        steps,
        near: settings.near,
        appearance_mlp: None,
    })?;
    let work = measured.work;
    Ok(Run {
        gaussians: work.gaussians,
        width: size[0],
        height: size[1],
        steps,
        visible: work.visible,
        instances: work.instances,
        row_visits: work.row_visits,
        step: measured.step,
        it_per_s: measured.step.per_second(),
        steps_per_time: measured.steps_per_time,
        stages: rows(&measured, limits),
        host_per_step: measured.host,
    })
}
