//! What each stage of a training step takes on synthetic splats, and how far it is from the machine's limit.
//!
//! 1. Upload synthetic splats, render them, take the render, slightly changed, for the photo.
//! 2. Step with learning rates too small to move anything, so that every step does the same.
//! 3. Hold the operations and bytes that the engine counts
//!    ([`Instrumented::cost`](crate::Instrumented::cost)) against the median times.

use super::measure::{HostPerStep, Job, changed, measure, standing_still, view_of};
use super::rows::{LimitRow, StageRow, rows};
use super::times::Times;
use crate::Open;
use dapple::contract::RenderSettings;
use dapple::{Result, Splats, synth};
use serde::Serialize;

/// Steps before those that are timed: buffers grow, caches and clocks warm up.
const WARM_UP: u32 = 3;

/// One number of Gaussians at one size.
#[derive(Debug, Serialize)]
pub struct Run {
    /// Gaussians.
    pub gaussians: u64,
    /// Of the photo, pixels.
    pub width: u32,
    /// Of the photo, pixels.
    pub height: u32,
    /// Steps that were timed.
    pub steps: u32,
    /// Gaussians that are seen.
    pub visible: u64,
    /// (Gaussian, tile) pairs.
    pub instances: u64,
    /// Rows of 16 pixels that `blend` visited.
    pub row_visits: u64,
    /// A whole step.
    pub step: Times,
    /// Steps a second.
    pub it_per_s: f64,
    /// Steps that each time of a step is a mean over.
    pub steps_per_time: u32,
    /// Of an engine with a queue.
    pub host_per_step: Option<HostPerStep>,
    /// In the order they ran.
    pub stages: Vec<StageRow>,
}

/// The splats of a number of Gaussians.
pub fn splats(count: u32) -> Splats {
    synth::splats(count as usize, 0)
}

/// Steps 1 to 3 with photos of `size`, `[width, height]`.
///
/// # Errors
/// Those of the engine.
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
        looks: None,
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
