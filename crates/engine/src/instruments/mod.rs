//! Engines as instruments: what a profiler or a benchmark may ask of one, whatever it runs on.
//!
//! 1. Timings: a step's stages, or its kernels, with places on the host's clock
//!    ([`Instrumented::set_detail`], [`Instrumented::timings`]).
//! 2. Counters: what the host did to the device ([`Instrumented::counters`]), what is in memory
//!    ([`Instrumented::memory`]).
//! 3. Costs: the fewest operations and bytes that a stage can do, by formula from the counts of a view
//!    ([`Instrumented::cost`]). Operations are the same in every engine ([`operations`]); bytes depend on how
//!    an engine lays its data out, so each counts its own.
//! 4. Ceilings: what the device was measured to do at most ([`Instrumented::measure_ceilings`]).
//!
//! Nothing in here changes a bit of what is trained. Callers see names and numbers, never buffers.

mod operations;

pub use operations::operations;

use crate::{Engine, Stage, ViewId};
pub use dapple_profile::Counters;
use dapple_profile::ceilings::{DeviceKey, Limits, Measured};
use dapple_scene::{Progress, Result};
use std::time::Instant;

/// Counts of one training step; with them alone its cost changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Gaussians in the engine.
    pub gaussians: u64,
    /// Gaussians that touch at least one tile.
    pub visible: u64,
    /// (Gaussian, tile) pairs.
    pub instances: u64,
    /// Rows of 16 pixels that `blend` visited, over all instances; `blend_backward` visits the same.
    pub row_visits: u64,
    /// Pixels of the image.
    pub pixels: u64,
    /// Tiles of the image.
    pub tiles: u64,
    /// Degree of spherical harmonics evaluated, 0 to 3.
    pub sh_degree: u8,
    /// Whether the loss has an SSIM part.
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

/// What is timed of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Each stage.
    Stages,
    /// Each dispatch of a kernel by itself, which disturbs a device most.
    Kernels,
}

/// What a step, or a round of density control, took on the device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StepTimings {
    /// As given in the settings or the plan.
    pub step: u32,
    /// Whether it was a round of density control.
    pub is_densify: bool,
    /// Its stages, or its dispatches, in the order they ran.
    pub spans: Vec<SpanTime>,
    /// All of it between timestamps of its own, ns, where the device has such: a check of the spans.
    pub whole_ns: Option<u64>,
}

/// A stage, or a dispatch, on the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanTime {
    /// The stage's name.
    pub stage: &'static str,
    /// The dispatch's kernel, where those were timed.
    pub kernel: Option<String>,
    /// When it began, ns after [`DeviceClock::origin`] on the host's clock.
    pub start_ns: i64,
    /// How long it took, ns.
    pub duration_ns: u64,
}

/// How a device's clock is placed on the host's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceClock {
    /// What places in time are counted from.
    pub origin: Instant,
    /// Places are off by no more than this, ns.
    pub uncertainty_ns: f64,
}

/// A stage of a step as the engine runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageRun {
    /// The stage's name; what the engine does beside the stages of [`Stage`] has names of its own.
    pub name: &'static str,
    /// Dispatches in it, where the engine dispatches.
    pub dispatches: Option<usize>,
}

/// Something about a device or its memory, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// What it is.
    pub name: &'static str,
    /// How much, or which.
    pub value: Amount,
}

/// What a [`Fact`] says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Amount {
    /// Words.
    Text(String),
    /// A number of things.
    Count(u64),
    /// Memory, to be shown in a unit that reads well.
    Bytes(u64),
    /// Memory of one small thing, to be shown in bytes.
    FewBytes(u64),
}

impl Fact {
    /// In words.
    pub fn text(name: &'static str, value: impl Into<String>) -> Self {
        let value = Amount::Text(value.into());
        Self { name, value }
    }

    /// A number of things.
    pub fn count(name: &'static str, count: u64) -> Self {
        let value = Amount::Count(count);
        Self { name, value }
    }

    /// Memory.
    pub fn bytes(name: &'static str, bytes: u64) -> Self {
        let value = Amount::Bytes(bytes);
        Self { name, value }
    }

    /// Memory of one small thing.
    pub fn few_bytes(name: &'static str, bytes: u64) -> Self {
        let value = Amount::FewBytes(bytes);
        Self { name, value }
    }
}

/// An engine that says where its time goes.
pub trait Instrumented: Engine {
    /// Whether `step` returns before the step is done: then times of the host say nothing of it, and
    /// [`Self::wait`] says when it is.
    fn has_queue(&self) -> bool;

    /// Waits until the device has nothing left to do. Reports of what was done may still be on their way:
    /// [`Engine::finish`] first, where they matter.
    ///
    /// # Errors
    /// A lost device.
    fn wait(&self) -> Result<()>;

    /// How many things the engine works on at once, where that is known: threads of a processor.
    fn workers(&self) -> Option<usize>;

    /// What the device is, for people.
    fn device(&self) -> Vec<Fact>;

    /// What the engine has in memory for such work, for people.
    fn memory(&self, work: &Work) -> Vec<Fact>;

    /// Times steps on the device's own clock from now on, or no longer, and places that clock on the host's
    /// anew. False if the device has no such clock. What was timed before and not taken is dropped.
    ///
    /// # Errors
    /// A lost device, no memory.
    fn set_detail(&mut self, detail: Option<Detail>) -> Result<bool> {
        let _ = detail;
        Ok(false)
    }

    /// What finished steps took, in order, since the last call; see [`Self::set_detail`].
    fn timings(&mut self) -> Vec<StepTimings> {
        Vec::new()
    }

    /// The clock that [`Self::timings`] are placed by, if anything is or was timed.
    fn device_clock(&mut self) -> Option<DeviceClock> {
        None
    }

    /// What the host did to the device so far; nothing where they are one.
    fn counters(&self) -> Counters {
        Counters::default()
    }

    /// The counts of the last step as the engine found them itself, [`Work::row_visits`] among them; `None`
    /// where that would cost time.
    fn counted(&self) -> Option<Work> {
        None
    }

    /// What a step on a view runs, in order; empty before a first step on it, and where the view's photo has
    /// left the device.
    fn stages(&self, view: ViewId) -> Vec<StageRun>;

    /// The fewest operations and bytes of a stage; `None` for one that is not counted.
    fn cost(&self, stage: Stage, work: &Work) -> Option<Cost>;

    /// How the cache of ceilings knows the device. `processor` is the name of the host's, of which other
    /// devices take no notice.
    fn ceilings_key(&self, processor: &str) -> DeviceKey;

    /// Measures everything that the device can do at most; takes some ten seconds.
    ///
    /// # Errors
    /// No memory for what is measured, a lost device; `progress` asks to stop.
    fn measure_ceilings(&self, processor: &str, progress: &dyn Progress) -> Result<Measured>;

    /// Measures the two ceilings that stages are held against; takes about a second.
    ///
    /// # Errors
    /// No memory for what is measured, a lost device.
    fn measure_limits(&self) -> Result<Limits>;
}

/// Whether costs are counted: not of `Appearance`, which few runs ask for, nor of `Densify`, which is not
/// part of a step.
pub fn is_counted(stage: Stage) -> bool {
    !matches!(stage, Stage::Appearance | Stage::Densify)
}
