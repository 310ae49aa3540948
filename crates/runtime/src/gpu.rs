//! [`Gpu`]: an open device, and the operations common to all its users.
//!
//! Failures are reported out of band and returned by [`Gpu::check`]; see `link.rs`. Calls to the device through [`Gpu`]
//! are counted: [`Gpu::counters`].

use crate::adapter;
use crate::cache::{self, Cache};
use crate::compile_lock::{COMPILING, Turn};
use crate::device_requirements::{DeviceClass, DeviceRequirements, EnabledFeatures, TIMESTAMPS};
use crate::hints::Hints;
use crate::link::Link;
use crate::parameters::RingBuffer;
use crate::{AdapterReport, Choice, Counters, Pool, Pooled};
use dapple_base::{Error, Result};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// Options to open a device.
#[derive(Debug, Clone, Default)]
pub struct GpuOptions {
    /// Adapter to open.
    pub choice: Choice,
    /// If true, wgpu and the driver check everything, and all kernels are compiled again: slow, for tests and bug
    /// reports.
    pub validate: bool,
    /// If true, the device is used as if it had no subgroups: for tests of the fallbacks.
    pub without_subgroups: bool,
    /// If true, the device is used as if it had no timestamps: for drivers whose clocks are wrong.
    pub without_timestamps: bool,
    /// Features that the program requests.
    pub needs: DeviceRequirements,
    /// Limits that the device is restricted to.
    pub class: DeviceClass,
    /// Most bytes of buffers; `None` = what the device has.
    pub memory_limit: Option<u64>,
    /// Advice for error messages.
    pub hints: Hints,
}

/// Device properties that tests change.
#[derive(Debug, Clone)]
pub struct Overrides {
    /// The only features that the device is treated as having.
    pub features: wgpu::Features,
    /// Folder of the pipeline cache; `None` = no cache.
    pub cache: Option<PathBuf>,
}

impl Overrides {
    /// Returns overrides that change nothing: those of [`Gpu::open`].
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
    /// True if no other code submits to the queue.
    alone: bool,
    granted: EnabledFeatures,
    /// Created when a kernel first takes parameters.
    parameters: OnceLock<Arc<RingBuffer>>,
    /// Dropped last: a device is closed while no other device compiles, opens or closes.
    closing: Option<Turn<'static>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.closing = Some(COMPILING.take_alone());
    }
}

/// A newly opened device.
struct Opened {
    device: wgpu::Device,
    queue: wgpu::Queue,
    /// True if no other code submits to the queue.
    alone: bool,
    multiplies_halves: bool,
}

impl Gpu {
    /// Returns true if both are the same open device.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Opens a device.
    ///
    /// # Errors
    /// No such device, one that lacks what is needed, a driver that refuses.
    pub fn open(options: &GpuOptions) -> Result<Self> {
        Self::open_with(options, &Overrides::new(options))
    }

    /// [`Self::open`] for tests of missing features.
    ///
    /// # Errors
    /// See [`Self::open`] for the errors.
    pub fn open_with(options: &GpuOptions, overrides: &Overrides) -> Result<Self> {
        let _turn = COMPILING.take_alone();
        let mut adapters = adapter::listed(options.validate);
        if options.class == DeviceClass::WebGpuDefault {
            // All adapters have its limits: limits that adapters lack for native kernels are not requested.
            adapters
                .iter_mut()
                .for_each(|(_, report)| report.unusable = None);
        }
        let (adapter, report) = adapter::pick(adapters, &options.choice)?;
        let has = adapter.features() & overrides.features;
        // Browsers do not have the features that native devices have in addition.
        let optional = match options.class {
            DeviceClass::Native => has,
            DeviceClass::WebGpuDefault => wgpu::Features::empty(),
        };
        let features = options.class.features()
            | options.needs.features(optional, &report.name)?
            | (has & wgpu::Features::PIPELINE_CACHE);
        let experimental = wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX;
        let experimental_features = match features.contains(experimental) {
            // SAFETY: shaders that use these features are checked less. Their author vouches for them where they are
            // compiled, and compares their output (`DeviceRequirements::cooperative_matrices`).
            true => unsafe { wgpu::ExperimentalFeatures::enabled() },
            false => wgpu::ExperimentalFeatures::disabled(),
        };
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("dapple"),
            required_features: features,
            required_limits: options.class.limits(&adapter.limits()),
            experimental_features,
            memory_hints: wgpu::MemoryHints::Performance,
            ..wgpu::DeviceDescriptor::default()
        };
        let (device, queue) = request(&adapter, &descriptor).map_err(|e| {
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

    /// Uses a device that another part of the program has opened, with one of its queues. Both parts continue as
    /// before, and buffers of either are valid in the other. After this call [`Self::check`] reports uncaught errors
    /// and a lost device, which the handlers of `device` reported before.
    ///
    /// Of `options`, the hints, `validate` and the switches of features apply. Features that the device was opened
    /// without (timestamps, subgroups, 16-bit floats) are not used.
    ///
    /// # Errors
    /// A device without immediates, or with fewer bytes of immediates or fewer storage buffers than kernels use:
    /// [`Self::needs`] returns the features and limits to request.
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

    /// Returns the features and limits that a device must be requested with for [`Self::from_wgpu`], from the features
    /// and limits of its adapter.
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
            // Also on a device of another owner that has more features.
            features &= wgpu::Features::PIPELINE_CACHE;
            limits = wgpu::Limits::default();
            report.subgroup_sizes = None;
            report.timestamps = false;
            report.max_binding_bytes = limits.max_storage_buffer_binding_size;
            report.max_buffer_bytes = limits.max_buffer_size;
            report.workgroup_memory_bytes = limits.max_compute_workgroup_storage_size;
        }
        if let Some(limit) = options.memory_limit {
            let all = report.memory_bytes.unwrap_or(u64::MAX);
            report.memory_bytes = Some(all.min(limit));
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
                granted: EnabledFeatures::new(features, &limits, subgroup_size, multiplies_halves),
                parameters: OnceLock::new(),
                closing: None,
                pool: Pool::over(link.clone(), options.memory_limit),
                link,
                report,
                cache,
                validate: options.validate,
                alone,
            }),
        }
    }

    /// Returns the report of the device.
    pub fn report(&self) -> &AdapterReport {
        &self.inner.report
    }

    /// Returns name and backend, for people.
    pub fn device_name(&self) -> String {
        format!("{} ({})", self.inner.report.name, self.inner.report.backend)
    }

    /// Returns the wgpu device.
    pub fn device(&self) -> &wgpu::Device {
        &self.inner.link.device
    }

    /// Returns the wgpu queue. Direct submissions to it are not counted: see [`Self::submit`]. Call this function
    /// before each use: it first submits the pending batched submissions.
    pub fn queue(&self) -> &wgpu::Queue {
        self.inner.link.queue()
    }

    /// Returns the device's own pool, which reads take their staging buffers from.
    pub fn pool(&self) -> &Pool {
        &self.inner.pool
    }

    /// Returns the counts of calls to the device since it was opened.
    pub fn counters(&self) -> Counters {
        Counters {
            buffers_created: self.inner.pool.stats().allocations,
            ..self.inner.link.tally.counters()
        }
    }

    /// Returns the invocations in a subgroup, if all subgroups of the device have one size.
    pub fn subgroup_size(&self) -> Option<u32> {
        self.inner.granted.subgroup_size
    }

    /// Returns the features and limits that this device was opened with.
    pub fn granted(&self) -> EnabledFeatures {
        self.inner.granted
    }

    /// Returns the ring buffer for the parameters of replays.
    pub(crate) fn parameters(&self) -> Arc<RingBuffer> {
        let make = || {
            let link = &self.inner.link;
            let has_immediates = self.inner.granted.immediate_bytes == 0;
            Arc::new(RingBuffer::new(
                &link.device,
                &link.queue,
                &link.tally,
                has_immediates,
            ))
        };
        Arc::clone(self.inner.parameters.get_or_init(make))
    }

    /// Returns a number that identifies this device within the process.
    pub(crate) fn number(&self) -> usize {
        Arc::as_ptr(&self.inner).addr()
    }

    pub(crate) fn link(&self) -> &Link {
        &self.inner.link
    }

    /// Returns true if small command lists may be submitted together: see
    /// [`CommandList::submit_batched`](crate::CommandList).
    pub(crate) fn shares_submissions(&self) -> bool {
        self.inner.alone
    }

    /// Returns true if shaders keep their bounds checks.
    pub(crate) fn validates(&self) -> bool {
        self.inner.validate
    }

    pub(crate) fn pipeline_cache(&self) -> Option<&wgpu::PipelineCache> {
        self.inner.cache.as_ref().map(Cache::pipelines)
    }

    /// Writes the compiled kernels to the pipeline cache, for the next start. Dropping the last handle of a device does
    /// the same; a process that is killed must have called this function. Returns true if data was written, and false
    /// if the backend has no such cache, no new kernel was compiled, or the folder cannot be written.
    /// `DAPPLE_CACHE_DIR` names the folder; an empty value turns the cache off.
    pub fn save_cache(&self) -> bool {
        let _turn = COMPILING.take(self.number());
        self.inner.cache.as_ref().is_some_and(Cache::save)
    }

    /// Returns true if the device is lost: from then on every call that needs the device returns an error.
    pub fn is_lost(&self) -> bool {
        self.inner.link.is_lost()
    }

    /// Returns the first failure since the last call, if any; a lost device in each call.
    ///
    /// # Errors
    /// Failures that the driver or wgpu reported: out of memory, a lost device, a bug in Dapple.
    pub fn check(&self) -> Result<()> {
        self.inner.link.check()
    }

    /// Runs the callbacks of finished work, without waiting. `wgpu::Device::poll` does the same, but panics when the
    /// device is lost.
    ///
    /// # Errors
    /// See [`Self::check`] for the errors.
    pub fn poll(&self) -> Result<()> {
        self.inner.link.poll();
        self.check()
    }

    /// Waits until everything submitted is done.
    ///
    /// # Errors
    /// Failures during the wait.
    pub fn wait(&self) -> Result<()> {
        self.inner.link.wait()
    }

    /// Returns an empty command encoder.
    pub fn encoder(&self) -> wgpu::CommandEncoder {
        self.inner.link.encoder()
    }

    /// Submits commands; [`Self::check`] reports failures. The index is for [`Self::wait_for`].
    pub fn submit(&self, encoder: wgpu::CommandEncoder) -> wgpu::SubmissionIndex {
        self.inner.link.submit(encoder)
    }

    /// Waits until a submission and all earlier ones are done. Later submissions continue.
    ///
    /// # Errors
    /// Failures during the wait.
    pub fn wait_for(&self, submission: wgpu::SubmissionIndex) -> Result<()> {
        self.inner.link.wait_for(submission)
    }

    /// Submits the pending commands of [`CommandList::submit_batched`](crate::CommandList::submit_batched). Reads, waits
    /// and all other submissions also submit them.
    pub fn flush(&self) {
        self.inner.link.flush();
    }

    /// Returns the size of a buffer for `bytes` bytes: a binding is never empty, and copies are of whole words.
    pub fn size_of_buffer(&self, bytes: u64) -> u64 {
        crate::link::whole_size(bytes)
    }

    /// Returns a storage buffer of the pool that can be copied from and to, of exactly `bytes` bytes, zeroed.
    ///
    /// # Errors
    /// Larger than the device's limit, or no memory left.
    pub fn buffer(&self, label: &str, bytes: u64) -> Result<Arc<Pooled>> {
        let usage = wgpu::BufferUsages::STORAGE
            | wgpu::BufferUsages::COPY_SRC
            | wgpu::BufferUsages::COPY_DST;
        self.buffer_with(label, bytes, usage)
    }

    /// Returns a buffer of the pool with the given uses, of exactly `bytes` bytes, zeroed: see [`Pool::take_exact`].
    ///
    /// # Errors
    /// See [`Self::buffer`] for the errors.
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

    /// Returns a buffer that holds `data`.
    ///
    /// # Errors
    /// See [`Self::buffer`] for the errors.
    pub fn upload<T: bytemuck::Pod>(&self, label: &str, data: &[T]) -> Result<Arc<Pooled>> {
        let bytes: &[u8] = bytemuck::cast_slice(data);
        let buffer = self.buffer(label, bytes.len() as u64)?;
        self.write(&buffer, 0, data);
        Ok(buffer)
    }

    /// Returns a uniform buffer of four constant words.
    ///
    /// # Errors
    /// See [`Self::buffer`] for the errors.
    pub fn uniform(&self, label: &str, words: [u32; 4]) -> Result<Arc<Pooled>> {
        self.uniform_of(label, &[words])
    }

    /// Returns a uniform buffer of constant rows of four words.
    ///
    /// # Errors
    /// See [`Self::buffer`] for the errors.
    pub fn uniform_of(&self, label: &str, rows: &[[u32; 4]]) -> Result<Arc<Pooled>> {
        let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        let buffer = self.buffer_with(label, size_of_val(rows) as u64, usage)?;
        self.write(&buffer, 0, rows);
        Ok(buffer)
    }
}

/// Opens a device of an adapter.
fn request(
    adapter: &wgpu::Adapter,
    descriptor: &wgpu::DeviceDescriptor<'_>,
) -> Result<(wgpu::Device, wgpu::Queue), wgpu::RequestDeviceError> {
    #[cfg(target_os = "linux")]
    if let Some(opened) = crate::external_semaphore::open(adapter, descriptor) {
        return opened;
    }
    pollster::block_on(adapter.request_device(descriptor))
}

impl Pool {
    /// Creates an empty pool.
    pub fn new(gpu: &Gpu) -> Self {
        Self::over(gpu.link().clone(), None)
    }
}
