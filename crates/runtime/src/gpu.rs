//! [`Gpu`]: an open device, and the few things everything does with it.
//!
//! Failures come out of band and are asked for by [`Gpu::check`]; see `link.rs`. What goes to the
//! device through [`Gpu`] is counted: [`Gpu::counters`].

use crate::adapter;
use crate::cache::{self, Cache};
use crate::link::Link;
use crate::needs::{DeviceClass, Granted, Needs, TIMESTAMPS};
use crate::parameters::Ring;
use crate::transfer::LARGE;
use crate::turns::{COMPILING, Turn};
use crate::{AdapterReport, Choice, Counters, Pool, Pooled};
use dapple_base::{Error, Result};
use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// How to open a device.
#[derive(Debug, Clone, Default)]
pub struct GpuOptions {
    /// Which one.
    pub choice: Choice,
    /// Let wgpu and the driver check everything, and compile everything anew: slow, for tests and
    /// bug reports.
    pub validate: bool,
    /// Act as if the device had no subgroups: tests of the fallbacks.
    pub without_subgroups: bool,
    /// Act as if the device had no timestamps: for drivers whose clocks are wrong.
    pub without_timestamps: bool,
    /// Features that the program asks for.
    pub needs: Needs,
    /// The limits that the device is held to.
    pub class: DeviceClass,
    /// What errors advise.
    pub hints: Hints,
}

/// What a program's users can do where a device is at its end. The runtime cannot know: it is for the
/// program to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hints {
    /// No memory is left, or a buffer is larger than the device takes.
    pub memory: Cow<'static, str>,
    /// The device does not open.
    pub open: Cow<'static, str>,
    /// The device was lost.
    pub lost: Cow<'static, str>,
}

impl Default for Hints {
    fn default() -> Self {
        Self {
            memory: "work on less at once, or end other programs that use the GPU".into(),
            open: "update the driver, or choose another device".into(),
            lost: "its driver stopped it: try again, or choose another device".into(),
        }
    }
}

/// What tests change about a device.
#[derive(Debug, Clone)]
pub struct Overrides {
    /// Act as if the device had no other features than these.
    pub features: wgpu::Features,
    /// Folder of the pipeline cache; `None` = no cache.
    pub cache: Option<PathBuf>,
}

impl Overrides {
    /// None: what [`Gpu::open`] uses.
    pub fn new(options: &GpuOptions) -> Self {
        Self {
            features: if options.without_timestamps {
                wgpu::Features::all().difference(TIMESTAMPS)
            } else {
                wgpu::Features::all()
            },
            cache: if options.validate {
                None
            } else {
                cache::folder()
            },
        }
    }
}

/// An open device. Clones share it.
#[derive(Debug, Clone)]
pub struct Gpu {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    link: Link,
    report: AdapterReport,
    pool: Pool,
    cache: Option<Cache>,
    validate: bool,
    /// Whether nobody else submits to the queue.
    alone: bool,
    granted: Granted,
    /// Made when a kernel first takes parameters.
    parameters: OnceLock<Arc<Ring>>,
    /// Dropped last: a device is closed while no other one compiles, opens or closes.
    closing: Option<Turn<'static>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.closing = Some(COMPILING.take_alone());
    }
}

/// A device as it was opened.
struct Opened {
    device: wgpu::Device,
    queue: wgpu::Queue,
    /// Whether nobody else submits to the queue.
    alone: bool,
    multiplies_halves: bool,
}

impl Gpu {
    /// Opens a device.
    ///
    /// # Errors
    /// No such device, one that lacks what is needed, a driver that refuses.
    pub fn open(options: &GpuOptions) -> Result<Self> {
        Self::open_with(options, &Overrides::new(options))
    }

    /// [`Self::open`] for tests of what a device may lack.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_with(options: &GpuOptions, overrides: &Overrides) -> Result<Self> {
        let _turn = COMPILING.take_alone();
        let mut adapters = adapter::listed(options.validate);
        if options.class == DeviceClass::WebGpuDefault {
            // All have its limits: what they lack for native kernels is not asked for.
            adapters
                .iter_mut()
                .for_each(|(_, report)| report.unusable = None);
        }
        let (adapter, report) = adapter::pick(adapters, &options.choice)?;
        let has = adapter.features() & overrides.features;
        // What native devices have beyond browsers, browsers do not.
        let optional = match options.class {
            DeviceClass::Native => has,
            DeviceClass::WebGpuDefault => wgpu::Features::empty(),
        };
        let features = options.class.features()
            | options.needs.features(optional, &report.name)?
            | (has & wgpu::Features::PIPELINE_CACHE);
        let experimental = wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX;
        let experimental_features = match features.contains(experimental) {
            // SAFETY: shaders which use them are checked less; who writes some answers for them where it compiles them, and
            // compares what they give (`Needs::cooperative_matrices`).
            true => unsafe { wgpu::ExperimentalFeatures::enabled() },
            false => wgpu::ExperimentalFeatures::disabled(),
        };
        let request = adapter.request_device(&wgpu::DeviceDescriptor {
            label: Some("dapple"),
            required_features: features,
            required_limits: options.class.limits(&adapter.limits()),
            experimental_features,
            memory_hints: wgpu::MemoryHints::Performance,
            ..wgpu::DeviceDescriptor::default()
        });
        let (device, queue) = pollster::block_on(request).map_err(|e| {
            Error::unsupported(format!("{} could not be opened: {e}", report.name))
                .hint(&*options.hints.open)
        })?;
        let opened = Opened {
            device,
            queue,
            alone: true,
            multiplies_halves: adapter::multiplies_halves(&adapter),
        };
        Ok(Self::over(opened, report, options, overrides))
    }

    /// On a device that another part of the program has opened, with a queue of it: both go on as before,
    /// and buffers of either are those of the other. From here on [`Self::check`] tells of errors that nobody
    /// caught and of a lost device, which the handlers of `device` did before.
    ///
    /// Of `options` the hints count, `validate`, and what the device is to do without. What it was opened
    /// without (timestamps, subgroups, 16-bit floats) is not used.
    ///
    /// # Errors
    /// A device without immediates, or with room for fewer bytes of them or fewer storage buffers than
    /// kernels use: [`Self::needs`] are the features and limits to ask for.
    pub fn from_wgpu(
        adapter: &wgpu::Adapter,
        device: wgpu::Device,
        queue: wgpu::Queue,
        options: &GpuOptions,
    ) -> Result<Self> {
        let report = AdapterReport::new(adapter);
        let features = options.class.features();
        let limits = options.class.limits(&adapter.limits());
        let has = device.limits();
        let lacks = if !device.features().contains(features) {
            Some(format!("{:?}", features.difference(device.features())))
        } else if has.max_immediate_size < limits.max_immediate_size {
            Some(format!("{} bytes of immediates", limits.max_immediate_size))
        } else if has.max_storage_buffers_per_shader_stage
            < limits.max_storage_buffers_per_shader_stage
        {
            let buffers = limits.max_storage_buffers_per_shader_stage;
            Some(format!("{buffers} storage buffers for a kernel"))
        } else {
            None
        };
        if let Some(lacks) = lacks {
            let what = format!("the device that was handed over has not {lacks}");
            let hint = "request it with the features and limits of Gpu::needs";
            return Err(Error::unsupported(what).at(report.name).hint(hint));
        }
        let overrides = Overrides::new(options);
        let _turn = COMPILING.take_alone();
        let opened = Opened {
            device,
            queue,
            alone: false,
            multiplies_halves: adapter::multiplies_halves(adapter),
        };
        Ok(Self::over(opened, report, options, &overrides))
    }

    /// The features and limits that a device has to be requested with for [`Self::from_wgpu`], from those
    /// that its adapter has.
    pub fn needs(adapter: &wgpu::Adapter) -> (wgpu::Features, wgpu::Limits) {
        let class = DeviceClass::Native;
        (class.features(), class.limits(&adapter.limits()))
    }

    fn over(
        opened: Opened,
        report: AdapterReport,
        options: &GpuOptions,
        overrides: &Overrides,
    ) -> Self {
        let Opened {
            device,
            queue,
            alone,
            multiplies_halves,
        } = opened;
        let mut features = device.features() & overrides.features;
        let mut report = report;
        let mut limits = device.limits();
        if options.class == DeviceClass::WebGpuDefault {
            // Also on a device of others that has more.
            features &= wgpu::Features::PIPELINE_CACHE;
            limits = wgpu::Limits::default();
            report.subgroup_sizes = None;
            report.timestamps = false;
            report.max_binding_bytes = limits.max_storage_buffer_binding_size;
            report.max_buffer_bytes = limits.max_buffer_size;
            report.workgroup_memory_bytes = limits.max_compute_workgroup_storage_size;
        }
        let link = Link::new(device, queue, &report.name, options.hints.clone());
        let subgroup_size = match report.subgroup_sizes {
            Some([least, most]) if least == most && !options.without_subgroups => Some(least),
            _ => None,
        };
        let cache = overrides
            .cache
            .as_deref()
            .and_then(|folder| Cache::open(&link, folder));
        let subgroup_size = subgroup_size.filter(|_| features.contains(wgpu::Features::SUBGROUP));
        Self {
            inner: Arc::new(Inner {
                granted: Granted::new(features, &limits, subgroup_size, multiplies_halves),
                parameters: OnceLock::new(),
                closing: None,
                pool: Pool::over(link.clone()),
                link,
                report,
                cache,
                validate: options.validate,
                alone,
            }),
        }
    }

    /// The device's report.
    pub fn report(&self) -> &AdapterReport {
        &self.inner.report
    }

    /// Name and backend, for people.
    pub fn device_name(&self) -> String {
        format!("{} ({})", self.inner.report.name, self.inner.report.backend)
    }

    /// The wgpu device.
    pub fn device(&self) -> &wgpu::Device {
        &self.inner.link.device
    }

    /// The wgpu queue. What is submitted to it directly is not counted: see [`Self::submit`]. Ask for it each time:
    /// what was to be submitted soon is submitted first.
    pub fn queue(&self) -> &wgpu::Queue {
        self.inner.link.queue()
    }

    /// The device's own pool, which reads take their staging buffers from.
    pub fn pool(&self) -> &Pool {
        &self.inner.pool
    }

    /// What was asked of the device since it was opened.
    pub fn counters(&self) -> Counters {
        Counters {
            buffers_created: self.inner.pool.stats().allocations,
            ..self.inner.link.tally.counters()
        }
    }

    /// Invocations in a subgroup, where the device has subgroups of one size.
    pub fn subgroup_size(&self) -> Option<u32> {
        self.inner.granted.subgroup_size
    }

    /// The features and limits that this device was opened with.
    pub fn granted(&self) -> Granted {
        self.inner.granted
    }

    /// The ring that parameters of replays travel through.
    pub(crate) fn parameters(&self) -> Arc<Ring> {
        let make = || {
            let link = &self.inner.link;
            let has_immediates = self.inner.granted.immediate_bytes == 0;
            Arc::new(Ring::new(
                &link.device,
                &link.queue,
                &link.tally,
                has_immediates,
            ))
        };
        Arc::clone(self.inner.parameters.get_or_init(make))
    }

    /// What tells this device from the process's others.
    pub(crate) fn number(&self) -> usize {
        Arc::as_ptr(&self.inner).addr()
    }

    pub(crate) fn link(&self) -> &Link {
        &self.inner.link
    }

    /// Whether small recordings may be submitted together: see [`Recording::submit_soon`](crate::Recording).
    pub(crate) fn shares_submissions(&self) -> bool {
        self.inner.alone
    }

    /// Whether shaders keep their bounds checks.
    pub(crate) fn validates(&self) -> bool {
        self.inner.validate
    }

    pub(crate) fn pipeline_cache(&self) -> Option<&wgpu::PipelineCache> {
        self.inner.cache.as_ref().map(Cache::pipelines)
    }

    /// Writes the compiled kernels to the pipeline cache, for the next start. Dropping the last
    /// handle of a device does so too; a process that is killed has to have called this. Returns
    /// whether something was written: not where the backend has no such cache, where nothing new
    /// was compiled, where the folder cannot be written. `DAPPLE_CACHE_DIR` names the folder; set to
    /// nothing, it turns the cache off.
    pub fn save_cache(&self) -> bool {
        let _turn = COMPILING.take(self.number());
        self.inner.cache.as_ref().is_some_and(Cache::save)
    }

    /// Whether the device is lost: every call that needs it returns an error from then on.
    pub fn is_lost(&self) -> bool {
        self.inner.link.is_lost()
    }

    /// The first thing that went wrong since the last call, if any; a lost device each time.
    ///
    /// # Errors
    /// What the driver or wgpu reported: out of memory, a lost device, a mistake of ours.
    pub fn check(&self) -> Result<()> {
        self.inner.link.check()
    }

    /// Runs the callbacks of what has finished, without waiting. `wgpu::Device::poll` does so too,
    /// but panics when the device is lost.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn poll(&self) -> Result<()> {
        self.inner.link.poll();
        self.check()
    }

    /// Waits until everything submitted is done.
    ///
    /// # Errors
    /// What failed meanwhile.
    pub fn wait(&self) -> Result<()> {
        self.inner.link.wait()
    }

    /// An empty list of commands.
    pub fn encoder(&self) -> wgpu::CommandEncoder {
        self.inner.link.encoder()
    }

    /// Submits commands; what goes wrong is told by [`Self::check`]. The index is for
    /// [`Self::wait_for`].
    pub fn submit(&self, encoder: wgpu::CommandEncoder) -> wgpu::SubmissionIndex {
        self.inner.link.submit(encoder)
    }

    /// Waits until a submission, and with it all before it, is done. What came after goes on.
    ///
    /// # Errors
    /// What failed meanwhile.
    pub fn wait_for(&self, submission: wgpu::SubmissionIndex) -> Result<()> {
        self.inner.link.wait_for(submission)
    }

    /// The size of a buffer that is made for so many bytes: a binding is never empty, and copies are of
    /// whole words.
    pub fn size_of_buffer(&self, bytes: u64) -> u64 {
        crate::link::whole_size(bytes)
    }

    /// A storage buffer of the pool that can be copied from and to, of exactly so many bytes, zeroed.
    ///
    /// # Errors
    /// Larger than the device's limit, or no memory left.
    pub fn buffer(&self, label: &str, bytes: u64) -> Result<Arc<Pooled>> {
        let usage = wgpu::BufferUsages::STORAGE
            | wgpu::BufferUsages::COPY_SRC
            | wgpu::BufferUsages::COPY_DST;
        self.buffer_with(label, bytes, usage)
    }

    /// A buffer of the pool with the given uses, of exactly so many bytes, zeroed: see [`Pool::take_exact`].
    ///
    /// # Errors
    /// As [`Self::buffer`].
    pub fn buffer_with(
        &self,
        label: &str,
        bytes: u64,
        usage: wgpu::BufferUsages,
    ) -> Result<Arc<Pooled>> {
        self.inner
            .pool
            .take_exact(label, bytes, usage)
            .map(Arc::new)
    }

    /// A buffer that holds `data`.
    ///
    /// # Errors
    /// As [`Self::buffer`].
    pub fn upload<T: bytemuck::Pod>(&self, label: &str, data: &[T]) -> Result<Arc<Pooled>> {
        let bytes: &[u8] = bytemuck::cast_slice(data);
        let buffer = self.buffer(label, bytes.len() as u64)?;
        self.write(&buffer, 0, data);
        Ok(buffer)
    }

    /// A uniform buffer of four words that stay as they are.
    ///
    /// # Errors
    /// As [`Self::buffer`].
    pub fn uniform(&self, label: &str, words: [u32; 4]) -> Result<Arc<Pooled>> {
        self.uniform_of(label, &[words])
    }

    /// A uniform buffer of rows of four words that stay as they are.
    ///
    /// # Errors
    /// As [`Self::buffer`].
    pub fn uniform_of(&self, label: &str, rows: &[[u32; 4]]) -> Result<Arc<Pooled>> {
        let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        let buffer = self.buffer_with(label, size_of_val(rows) as u64, usage)?;
        self.write(&buffer, 0, rows);
        Ok(buffer)
    }

    /// Copies `data` into a buffer, `offset` bytes in; takes effect before later submissions.
    pub fn write<T: bytemuck::Pod>(&self, buffer: &wgpu::Buffer, offset: u64, data: &[T]) {
        let bytes: &[u8] = bytemuck::cast_slice(data);
        let is_large = bytes.len() as u64 >= LARGE && bytes.len().is_multiple_of(4);
        // Without memory for pieces, wgpu reports the failure of its own staging buffer.
        if is_large && self.write_large(buffer, offset, bytes).is_ok() {
            return;
        }
        if !bytes.is_empty() {
            self.inner.link.tally.wrote(bytes.len() as u64);
            self.inner.link.queue().write_buffer(buffer, offset, bytes);
        }
    }
}
