//! [`GpuEngine`]: the stages behind the engine contract.
//!
//! 1. A command (a step, a densification round) is encoded and submitted at once; nothing is read back for it. Its
//!    report comes through the ring buffer; see [`crate::ring`].
//! 2. Counts are on the GPU. If a buffer is too small, the GPU sets `state.halted`, and from then on no command changes
//!    anything. When the host receives that report, it grows the buffer and submits every command since again, in
//!    order. Nothing is lost or done twice, and the result is the same as with a large buffer from the start.
//! 3. Calls that return data (`download`, `render`, `gradients`) wait.
//!
//! This file has the options and the engine's fields. `contract` has the entry points, `commands` steps and rounds,
//! `pictures` renders, `frames` several views at once, `render_times` times them, `on_device` renders that stay on the device, `rows`
//! parameters in rows. `scores` compares renders with photos, `shown`
//! makes 8-bit renders, `views` handles cameras and photos, `state` splats and checkpoints, `tiles` renders of chosen
//! tiles.

mod commands;
mod contract;
mod frames;
mod gradients;
mod instruments;
mod on_device;
mod pictures;
mod render_times;
pub(crate) mod rows;
mod scores;
pub(crate) mod sharded;
mod shown;
mod state;
mod tiles;
mod views;

use crate::features::{FeatureContext, Features};
use crate::passes::{Bits, BufferSizes, Capacity};
use crate::photos::Photos;
use crate::plans::Plan;
use crate::recordings::{Key, Recordings, Scope};
use crate::ring::RingBuffer;
use crate::timing::{StepTiming, Times};
use crate::views::Views;
use crate::{Buffers, Context, Precision, catalogue, layout};
use dapple_engine::{DensifyPlan, OpenBatch, Report, StepSettings, TileMask, ViewId};
use dapple_runtime::{CommandList, Counters, Detail, Gpu, GpuClock, GpuOptions, Hints};
use dapple_scene::{Error, Result};
use on_device::KeptRenders;
use std::collections::VecDeque;
use std::sync::Arc;

/// Options of a [`GpuEngine`].
#[derive(Debug, Clone)]
pub struct GpuEngineOptions {
    /// Choice of the device, and its options.
    pub gpu: GpuOptions,
    /// Storage formats of parameters and optimizer state.
    pub precision: Precision,
    /// Bytes of photos to keep on the GPU, at most a quarter of its memory; beyond this, photos are streamed.
    pub photo_budget_bytes: u64,
    /// Keep each dispatch short; `None` = if the device is known to kill long dispatches.
    pub bounds_dispatches: Option<bool>,
    /// The per-tile limit where settings have 0; `None` = none, or [`layout::WATCHDOG_CAP`] where dispatches are kept
    /// short.
    pub default_cap: Option<u32>,
    /// Time each stage with the GPU's clock. Costs a few microseconds a stage.
    pub time_stages: bool,
    /// First capacities for Gaussians, visible Gaussians and instances, for tests of growth; 0 = default.
    #[doc(hidden)]
    pub first_capacity: Capacity,
    /// Act as if the device's largest binding had this size, for tests.
    #[doc(hidden)]
    pub max_binding_bytes: u64,
}

impl Default for GpuEngineOptions {
    fn default() -> Self {
        Self {
            gpu: GpuOptions {
                hints: hints(),
                ..GpuOptions::default()
            },
            precision: Precision::default(),
            // wgpu does not report how much memory a device has; this fits all that train at all.
            photo_budget_bytes: 4 << 30,
            bounds_dispatches: None,
            default_cap: None,
            time_stages: false,
            first_capacity: Capacity::default(),
            max_binding_bytes: u64::MAX,
        }
    }
}

/// Returns the advice that errors give when a device has no more memory.
fn hints() -> Hints {
    Hints {
        memory: "lower --max-gaussians or the resolution, or use --device cpu".into(),
        open: "update the driver, or use --device cpu".into(),
        lost: "its driver stopped it: try again, lower the resolution, or use --device cpu".into(),
    }
}

/// A command that was enqueued and has not reported.
#[derive(Debug, Clone)]
enum Command {
    Step(ViewId, Box<StepSettings>),
    /// With the steps of the batch before it.
    Densify(Box<DensifyPlan>, u32),
}

/// The GPU engine.
pub struct GpuEngine {
    pub(crate) context: Context,
    pub(crate) buffers: Buffers,
    pub(crate) options: GpuEngineOptions,
    /// The per-tile limit where settings have 0.
    pub(crate) default_cap: u32,
    pub(crate) capacity: Capacity,
    pub(crate) sh_degree: u8,
    pub(crate) features: Features,
    pub(crate) views: Views,
    pub(crate) photos: Photos,
    /// All bits that steps and gradients have requested so far, in addition to the default.
    pub(crate) asked: Bits,
    /// Bits of the last command, and the generation since which all its buffers exist.
    pub(crate) fitted: Option<(Bits, u64)>,
    /// True if the GPU does not have all cameras yet.
    pub(crate) views_changed: bool,
    /// Renders that a backward pass can use.
    kept: KeptRenders,
    /// Tiles of renders and derivatives; `None` = all.
    tiles: Option<TileMask>,
    /// True if there was no memory for renders of several views.
    frames_refused: bool,
    recordings: Recordings,
    pub(crate) ring: RingBuffer,
    batch: OpenBatch,
    /// Frozen Gaussians: [`dapple_engine::OptimizerState::frozen`].
    frozen: usize,
    /// Gaussians of the sky: [`dapple_engine::OptimizerState::sky`].
    sky: usize,
    /// Gaussians of the model that other engines hold.
    others: u32,
    /// Buffers for them.
    sharded: sharded::Progress,
    pending: VecDeque<(u64, Command)>,
    pub(crate) finished: Vec<Report>,
    times: Times,
}

impl GpuEngine {
    /// Creates an engine without splats.
    ///
    /// # Errors
    /// No such device, or a device that lacks a required feature.
    pub fn new(options: GpuEngineOptions) -> Result<Self> {
        let gpu = Gpu::open(&options.gpu)?;
        Self::on(&Context::new(gpu), options)
    }

    /// Creates an engine without splats on an open device. Kernels that `context` has compiled, for other engines too,
    /// are not compiled again. `options.gpu` is not used.
    ///
    /// # Errors
    /// A device that lacks a required feature.
    pub fn on(context: &Context, options: GpuEngineOptions) -> Result<Self> {
        let mut context = context.clone();
        options.precision.check(context.gpu.report())?;
        check_bindings(&context.gpu)?;
        context.defines = options.precision.define(context.defines);
        if let Some(bounds) = options.bounds_dispatches {
            context.bounds_dispatches = bounds;
        }
        let needed = if context.bounds_dispatches {
            layout::WATCHDOG_CAP
        } else {
            0
        };
        let default_cap = options.default_cap.unwrap_or(needed);
        // Half of the memory is for Gaussians, and images need some too.
        let memory = context.gpu.report().memory_bytes.unwrap_or(u64::MAX);
        let photo_budget = options.photo_budget_bytes.min(memory / 4);
        catalogue::compile_first(&context)?;
        let mut buffers = Buffers::default();
        buffers.fit(&context, &BufferSizes::default(), Bits::NONE, None)?;
        let mut times = Times::default();
        if options.time_stages {
            times.set(&context.gpu, Some(Detail::Spans), layout::RING as usize)?;
        }
        Ok(Self {
            views: Views::default(),
            photos: Photos::new(photo_budget),
            asked: Bits::NONE,
            fitted: None,
            context,
            buffers,
            options,
            default_cap,
            capacity: Capacity::default(),
            sh_degree: 0,
            features: Features::default(),
            views_changed: true,
            kept: KeptRenders::default(),
            tiles: None,
            frames_refused: false,
            recordings: Recordings::default(),
            ring: RingBuffer::new(),
            batch: OpenBatch::default(),
            others: 0,
            frozen: 0,
            sky: 0,
            sharded: sharded::Progress::default(),
            pending: VecDeque::new(),
            finished: Vec::new(),
            times,
        })
    }

    /// Returns the device.
    pub fn gpu(&self) -> &Gpu {
        &self.context.gpu
    }

    /// Times steps from now on, by stage or by dispatch, or stops timing. Returns false if the device has no
    /// timestamps. [`Self::take_timings`] returns the times.
    ///
    /// # Errors
    /// A lost device, no memory.
    pub fn set_timing(&mut self, detail: Option<Detail>) -> Result<bool> {
        self.settle()?;
        self.times.keep();
        self.times
            .set(&self.context.gpu, detail, layout::RING as usize)
    }

    /// Returns the times of commands that finished since the last call, in order; see [`Self::set_timing`].
    pub fn take_timings(&mut self) -> Vec<StepTiming> {
        self.times.take_kept()
    }

    /// Returns the clock of the timings, if anything is or was timed.
    pub fn clock(&mut self) -> Option<&mut GpuClock> {
        self.times.clock()
    }

    /// Returns each stage's number of dispatches in a step on a view. Empty before the first step on the view, and when
    /// its photo has left the GPU.
    pub fn dispatches(&self, view: ViewId) -> Vec<(&'static str, usize)> {
        let slot = self.photos.slot_of(view.0);
        let recorded = slot.and_then(|slot| self.recordings.of_step(slot, &self.buffers));
        let mut sums: Vec<(&'static str, usize)> = Vec::new();
        for (name, count) in recorded.iter().flat_map(|step| step.span_sizes()) {
            // `appearance` has two spans: forward and backward.
            match sums.iter_mut().find(|(other, _)| *other == name) {
                Some((_, sum)) => *sum += count,
                None => sums.push((name, count)),
            }
        }
        sums
    }

    /// Returns counters of the host's calls of the device.
    pub fn counters(&self) -> Counters {
        self.context.gpu.counters()
    }

    /// Returns the bytes of the engine's buffers, photos included.
    pub fn memory_bytes(&self) -> u64 {
        self.buffers.bytes() + self.photos.resident_bytes() + self.features.resident_bytes()
    }

    /// Returns the number of photos copied to the GPU so far.
    pub fn photo_uploads(&self) -> u64 {
        self.photos.uploads
    }

    /// Returns the capacities of the buffers.
    pub fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// Returns the inputs of the buffer sizes.
    pub(crate) fn sizes(&self) -> BufferSizes {
        BufferSizes {
            capacity: self.capacity,
            precision: self.options.precision,
            sh_degree: self.sh_degree,
            asked: self.asked,
        }
    }

    /// Returns the features, and what they may change.
    pub(crate) fn features(&mut self) -> (&mut Features, FeatureContext<'_>) {
        let most_bytes = self.most_bytes();
        let context = FeatureContext {
            context: &mut self.context,
            buffers: &mut self.buffers,
            views: &mut self.views,
            views_changed: &mut self.views_changed,
            capacity: self.capacity.gaussians as usize,
            most_bytes,
        };
        (&mut self.features, context)
    }

    /// Returns a command list over the present buffers, on the photo in `slot` if the plan reads a photo.
    pub(crate) fn recording(
        &mut self,
        plan: Plan,
        bits: Bits,
        slot: usize,
    ) -> Result<Arc<CommandList>> {
        let sizes = self.sizes();
        let scope = Scope {
            context: &self.context,
            buffers: &self.buffers,
            sizes: &sizes,
        };
        self.recordings.get(scope, Key::new(plan, bits, slot))
    }

    /// Drops command lists that hold buffers which have been replaced.
    pub(crate) fn drop_stale(&mut self) {
        self.recordings.drop_stale(&self.buffers);
    }

    fn ready(&self) -> Result<()> {
        if self.capacity.gaussians == 0 {
            return Err(Error::internal("the engine has no splats yet: upload some"));
        }
        Ok(())
    }
}

/// # Errors
/// The device's kernels can bind fewer buffers than WebGPU guarantees in browsers.
fn check_bindings(gpu: &Gpu) -> Result<()> {
    let (has, least) = (gpu.granted().storage_buffers, layout::LEAST_STORAGE_BUFFERS);
    if has >= least {
        return Ok(());
    }
    let what = format!(
        "{} lets a kernel bind {has} storage buffers, and the GPU engine needs {least}",
        gpu.device_name()
    );
    Err(Error::unsupported(what).hint("use --device cpu, or another device"))
}

impl Drop for GpuEngine {
    fn drop(&mut self) {
        // Commands in flight use buffers that are about to be freed; a lost device cannot be waited for.
        let _ = self.context.gpu.wait();
    }
}
