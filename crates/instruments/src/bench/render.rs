//! Renders of a fixed number of Gaussians without training, on the scene of [`step`](super::step): frames of the folder's
//! cameras in turn, and the parts of a frame.

use super::garden::Garden;
use super::step::{CameraCounts, NEAR};
use super::times::Times;
use crate::Open;
use dapple::contract::RenderSettings;
use dapple::{Result, Splats};
use serde::Serialize;

/// Result for one number of Gaussians at one size.
#[derive(Debug, Serialize)]
pub struct Run {
    /// Copies of the points along x and y.
    pub tiles: u32,
    /// Gaussians.
    pub gaussians: u64,
    /// Width of the frames, pixels.
    pub width: u32,
    /// Height of the frames, pixels.
    pub height: u32,
    /// Frames that each time is a mean over: 1 if frames were timed one by one.
    pub frames_per_time: u32,
    /// Times of a frame.
    pub frame: Times,
    /// Frames per second.
    pub frames_per_s: f64,
    /// Frames of views that are rendered at once; `None` if the engine renders them one by one.
    pub at_once: Option<AtOnce>,
    /// Counts of the frames.
    pub cameras: Vec<CameraCounts>,
    /// Parts of a frame by the device's clock, in the order they ran; empty without such a clock.
    pub parts: Vec<Part>,
}

/// Frames of several views that are rendered at once.
#[derive(Debug, Serialize)]
pub struct AtOnce {
    /// Views.
    pub views: u32,
    /// Times of a frame.
    pub frame: Times,
    /// Frames per second.
    pub frames_per_s: f64,
    /// Their parts, for all views: see [`Run::parts`].
    pub parts: Vec<Part>,
}

/// A part of a frame.
#[derive(Debug, Serialize)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// Its times.
    pub times: Times,
}

/// Times frames of `size`, `[width, height]`, of `tiles` x `tiles` copies of the garden: `truth` ([`Garden::splats`]).
///
/// # Errors
/// The engine fails.
pub fn run(
    open: &Open<'_>,
    garden: &Garden,
    (tiles, truth): (u32, &Splats),
    size: [u32; 2],
    frames: u32,
) -> Result<Run> {
    let mut engine = open(false)?.into_instrument();
    engine.upload(truth, None)?;
    let settings = RenderSettings {
        near: NEAR,
        ..RenderSettings::default()
    };
    let times = engine.time_renders(&garden.cameras(size), &settings, frames)?;
    let frame = Times::from_ns(&times.frames_ns);
    let at_once = (!times.at_once_ns.is_empty()).then(|| {
        let frame = Times::from_ns(&times.at_once_ns);
        AtOnce {
            views: times.views_at_once,
            frame,
            frames_per_s: frame.per_second(),
            parts: parts(times.at_once_parts),
        }
    });
    Ok(Run {
        tiles,
        gaussians: truth.len() as u64,
        width: size[0],
        height: size[1],
        frames_per_time: times.frames_per_time,
        frame,
        frames_per_s: frame.per_second(),
        at_once,
        cameras: times.counts.into_iter().map(CameraCounts::from).collect(),
        parts: parts(times.parts),
    })
}

fn parts(times: Vec<(String, Vec<u64>)>) -> Vec<Part> {
    let parts = times.into_iter().map(|(name, ns)| Part {
        name,
        times: Times::from_ns(&ns),
    });
    parts.collect()
}
