//! Measurements of engines: the interface for profilers and benchmarks, for every device.
//!
//! 1. Timings: of a step's stages or kernels, with start times on the host's clock
//!    ([`Instrumented::set_detail`], [`Instrumented::timings`]).
//! 2. Counters: operations of the host on the device ([`Instrumented::counters`]) and memory use
//!    ([`Instrumented::memory`]).
//! 3. Costs: the fewest operations and bytes of a stage, by formula from the counts of a view
//!    ([`Instrumented::cost`]). Operations are equal in all engines ([`operations`]). Bytes depend on an
//!    engine's data layout, so each engine counts its own.
//! 4. Ceilings: the measured limits of the device ([`Instrumented::measure_ceilings`]).
//! 5. Renders without training: time of a frame ([`Instrumented::time_renders`]).
//!
//! Measurements do not change a bit of the training result. Callers receive names and numbers, not buffers.

mod operations;
mod ranks;

pub use operations::operations;
pub use ranks::RankTimes;

use crate::{Engine, RenderSettings, Stage, StepCounts, ViewId};
pub use dapple_profile::Counters;
use dapple_profile::ceilings::{DeviceKey, Limits, Measured};
use dapple_scene::{Camera, Progress, Result};
use std::time::Instant;

/// Counts of one training step; the cost of a step depends only on them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Gaussians in the engine.
    pub gaussians: u64,
    /// Gaussians that touch at least one tile.
    pub visible: u64,
    /// Instances: pairs of a Gaussian and a tile.
    pub instances: u64,
    /// Rows of 16 pixels that `blend` visits, over all instances; `blend_backward` visits as many.
    pub row_visits: u64,
    /// Pixels of the image.
    pub pixels: u64,
    /// Tiles of the image.
    pub tiles: u64,
    /// Degree of spherical harmonics evaluated, 0 to 3.
    pub sh_degree: u8,
    /// True if the loss has an SSIM part.
    pub ssim: bool,
}

/// Cost of one stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Floating-point operations; 0 where a stage only moves integers.
    pub flops: u64,
    /// Bytes read and written.
    pub bytes: u64,
}

/// Granularity of timings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// One time per stage.
    Stages,
    /// One time per kernel dispatch; this disturbs a device most.
    Kernels,
}

/// Timings of a step or a densification round on the device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StepTimings {
    /// Number of the step in the settings or the plan.
    pub step: u32,
    /// True for a densification round.
    pub is_densify: bool,
    /// Times of the stages or the dispatches, in the order of execution.
    pub spans: Vec<SpanTime>,
    /// Time of the whole step between two separate timestamps, ns, if the device has them: a check of
    /// `spans`.
    pub whole_ns: Option<u64>,
}

/// Time of a stage or a dispatch on the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanTime {
    /// Name of the stage.
    pub stage: &'static str,
    /// Kernel of the dispatch, if dispatches are timed.
    pub kernel: Option<String>,
    /// Start, ns after [`DeviceClock::origin`] on the host's clock.
    pub start_ns: i64,
    /// Duration, ns.
    pub duration_ns: u64,
}

/// Relation of a device's clock to the host's clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceClock {
    /// Origin of start times.
    pub origin: Instant,
    /// Maximum error of start times, ns.
    pub uncertainty_ns: f64,
}

/// Stage of a step as the engine executes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageRun {
    /// Name of the stage; engines have further names for work outside the stages of [`Stage`].
    pub name: &'static str,
    /// Number of dispatches in the stage, if the engine dispatches.
    pub dispatches: Option<usize>,
}

/// Times of renders ([`Instrumented::time_renders`]).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RenderTimes {
    /// Times of a frame, ns: each the mean of [`Self::frames_per_time`] frames.
    pub frames_ns: Vec<u64>,
    /// Frames that each time is a mean over.
    pub frames_per_time: u32,
    /// Views that the engine renders at once; 1 if it renders them one by one.
    pub views_at_once: u32,
    /// Times of a frame, as [`Self::frames_ns`], of views that are rendered at once; empty if they are not.
    pub at_once_ns: Vec<u64>,
    /// Times as [`Self::parts`] of views that are rendered at once, for all of them.
    pub at_once_parts: Vec<(String, Vec<u64>)>,
    /// Times of the parts of a frame on the device's own clock, ns, measured in frames of their own; empty if the device
    /// has no such clock.
    pub parts: Vec<(String, Vec<u64>)>,
    /// Counts of the render of each camera.
    pub counts: Vec<StepCounts>,
}

/// Fact about a device or its memory, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// Name of the fact.
    pub name: &'static str,
    /// Value of the fact.
    pub value: Amount,
}

/// Value of a [`Fact`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Amount {
    /// Text.
    Text(String),
    /// Count.
    Count(u64),
    /// Memory, shown in a unit that suits its size.
    Bytes(u64),
    /// Memory of a small object, shown in bytes.
    FewBytes(u64),
}

impl Fact {
    /// Creates a fact with a text.
    pub fn text(name: &'static str, value: impl Into<String>) -> Self {
        let value = Amount::Text(value.into());
        Self { name, value }
    }

    /// Creates a fact with a count.
    pub fn count(name: &'static str, count: u64) -> Self {
        let value = Amount::Count(count);
        Self { name, value }
    }

    /// Creates a fact about memory.
    pub fn bytes(name: &'static str, bytes: u64) -> Self {
        let value = Amount::Bytes(bytes);
        Self { name, value }
    }

    /// Creates a fact about the memory of a small object.
    pub fn few_bytes(name: &'static str, bytes: u64) -> Self {
        let value = Amount::FewBytes(bytes);
        Self { name, value }
    }
}

/// Engine that reports timings, counters and costs.
pub trait Instrumented: Engine {
    /// Returns true if `step` returns before the step is done. The host then cannot time steps by calls of
    /// `step`; [`Self::wait`] returns when the step is done.
    fn has_queue(&self) -> bool;

    /// Waits until the device is idle. Reports of finished work may still be in flight; call
    /// [`Engine::finish`] first if they matter.
    ///
    /// # Errors
    /// A lost device.
    fn wait(&self) -> Result<()>;

    /// Returns the number of parallel workers, if known: the threads of a CPU engine.
    fn workers(&self) -> Option<usize>;

    /// Returns facts about the device.
    fn device(&self) -> Vec<Fact>;

    /// Returns facts about the engine's memory use for such work.
    fn memory(&self, work: &Work) -> Vec<Fact>;

    /// Starts or stops timing steps on the device's own clock, and relates that clock to the host's clock
    /// again. Returns false if the device has no such clock. Timings that were not taken before the call are
    /// dropped.
    ///
    /// # Errors
    /// A lost device, or no memory.
    fn set_detail(&mut self, detail: Option<Detail>) -> Result<bool> {
        let _ = detail;
        Ok(false)
    }

    /// Returns the timings of the steps that have finished since the last call, in order; see
    /// [`Self::set_detail`].
    fn timings(&mut self) -> Vec<StepTimings> {
        Vec::new()
    }

    /// Returns the clock of the start times in [`Self::timings`], if steps are or were timed.
    fn device_clock(&mut self) -> Option<DeviceClock> {
        None
    }

    /// Renders the cameras in turn, `frames` frames at a time, and times them. The pixels stay on the device. A device
    /// with a queue gets the next frame before the last one is done.
    ///
    /// # Errors
    /// Those of [`Engine::render`].
    fn time_renders(
        &mut self,
        cameras: &[Camera],
        settings: &RenderSettings,
        frames: u32,
    ) -> Result<RenderTimes> {
        let mut times = RenderTimes {
            frames_per_time: 1,
            views_at_once: 1,
            ..RenderTimes::default()
        };
        for camera in cameras {
            times.counts.push(self.render(camera, settings)?.counts);
        }
        for camera in cameras.iter().cycle().take(frames as usize) {
            let start = Instant::now();
            self.render(camera, settings)?;
            times.frames_ns.push(start.elapsed().as_nanos() as u64);
        }
        Ok(times)
    }

    /// Returns the operations of the host on the device so far; all zero if the engine computes on the host.
    fn counters(&self) -> Counters {
        Counters::default()
    }

    /// Returns the times of the ranks since the last call, by rank; empty for an engine without ranks. The first call
    /// begins to measure the waits of ranks for each other, until [`Self::set_detail`] with `None`.
    fn rank_times(&mut self) -> Vec<RankTimes> {
        Vec::new()
    }

    /// Returns the counts of the last step as the engine found them, with [`Work::row_visits`]. `None` if
    /// counting would cost time.
    fn counted(&self) -> Option<Work> {
        None
    }

    /// Returns the stages of a step on a view, in order. Empty before the first step on the view, and if the
    /// view's photo is no longer on the device.
    fn stages(&self, view: ViewId) -> Vec<StageRun>;

    /// Returns the fewest operations and bytes of a stage; `None` for a stage without a formula.
    fn cost(&self, stage: Stage, work: &Work) -> Option<Cost>;

    /// Returns the device's key in the cache of ceilings. `processor` is the name of the host's CPU; other
    /// devices ignore it.
    fn ceilings_key(&self, processor: &str) -> DeviceKey;

    /// Measures all limits of the device, which takes about ten seconds.
    ///
    /// # Errors
    /// No memory for the measurement, a lost device, or a stop by `progress`.
    fn measure_ceilings(&self, processor: &str, progress: &dyn Progress) -> Result<Measured>;

    /// Measures the two limits that stages are compared with, which takes about a second.
    ///
    /// # Errors
    /// No memory for the measurement, or a lost device.
    fn measure_limits(&self) -> Result<Limits>;
}

/// Returns true if costs of the stage are counted. `Appearance`, which few runs execute, and `Densify`, which
/// is not part of a step, are not counted.
pub fn is_counted(stage: Stage) -> bool {
    !matches!(stage, Stage::Appearance | Stage::Densify)
}
