//! [`Context`]: a device that tensors are on, and their values there.

use crate::gpu::cooperative;
use crate::graph::layout::Layout;
use crate::graph::problem::Problem;
use crate::graph::tensor::{DType, Op, Tensor};
use dapple_base::{Error, Result};
use dapple_runtime::{ByteSlice, Gpu, Kernel, wgpu};
use half::f16;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use rayon::prelude::*;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// What a caller's buffer must be a multiple of to be loaded four elements at a time.
pub(crate) const PADDING: usize = 16;

/// A device that tensors are made on. Clones share it.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    device: Device,
    /// Compiled kernels by their WGSL.
    /// Whether its cooperative matrices were found to be right.
    cooperates: OnceLock<bool>,
    kernels: Mutex<HashMap<String, Kernel>>,
}

/// Where tensors are computed.
#[derive(Debug, Clone)]
pub enum Device {
    /// The processor: all threads of the rayon pool that runs it.
    Cpu,
    /// A GPU.
    Gpu(Gpu),
}

/// Values of a leaf.
#[derive(Clone)]
pub(crate) enum Storage {
    Cpu(Arc<RwLock<Values>>),
    Gpu(GpuValues),
}

/// Values in a buffer of a GPU.
#[derive(Clone)]
pub(crate) struct GpuValues {
    pub slice: ByteSlice,
    pub raw: wgpu::Buffer,
}

/// Values in memory.
#[derive(Debug, Clone)]
pub(crate) enum Values {
    F32(Vec<f32>),
    F16(Vec<f16>),
    U32(Vec<u32>),
}

impl Values {
    pub fn zeros(dtype: DType, count: usize) -> Self {
        match dtype {
            DType::F32 => Self::F32(vec![0.0; count]),
            DType::F16 => Self::F16(vec![f16::ZERO; count]),
            DType::U32 => Self::U32(vec![0; count]),
        }
    }

    /// Rounded to the nearest.
    pub fn of(dtype: DType, data: &[f32]) -> Self {
        match dtype {
            DType::F32 => Self::F32(data.to_vec()),
            DType::F16 => Self::F16(halves(data)),
            DType::U32 => Self::U32(data.iter().map(|value| *value as u32).collect()),
        }
    }

    /// [`Self::widened`] of some of them.
    pub fn widened_part(&self, from: usize, count: usize) -> Vec<f32> {
        match self {
            Self::F32(values) => values[from..from + count].to_vec(),
            Self::F16(values) => values[from..from + count].to_f32_vec(),
            Self::U32(values) => {
                let part = values[from..from + count].iter();
                part.map(|value| *value as f32).collect()
            }
        }
    }

    pub fn widened(&self) -> Vec<f32> {
        match self {
            Self::F32(values) => values.clone(),
            Self::F16(values) => {
                let mut widened = vec![0.0; values.len()];
                let parts = widened.par_chunks_mut(PART).zip(values.par_chunks(PART));
                parts.for_each(|(widened, values)| values.convert_to_f32_slice(widened));
                widened
            }
            Self::U32(values) => values.iter().map(|value| *value as f32).collect(),
        }
    }
}

/// Elements that a thread converts at a time.
const PART: usize = 1 << 16;

fn halves(data: &[f32]) -> Vec<f16> {
    let mut rounded = vec![f16::ZERO; data.len()];
    let parts = rounded.par_chunks_mut(PART).zip(data.par_chunks(PART));
    parts.for_each(|(rounded, data)| rounded.convert_from_f32_slice(data));
    rounded
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl PartialEq for Context {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Context {
    /// On the processor.
    pub fn cpu() -> Self {
        Self::new(Device::Cpu)
    }

    /// On a GPU that is open.
    pub fn gpu(gpu: &Gpu) -> Self {
        Self::new(Device::Gpu(gpu.clone()))
    }

    fn new(device: Device) -> Self {
        Self(Arc::new(Inner {
            device,
            kernels: Mutex::default(),
            cooperates: OnceLock::new(),
        }))
    }

    /// Whether products of 16-bit matrices are computed by cooperative matrices: the device has units of the kind that is
    /// known here, and they gave what is known when they were first asked for.
    ///
    /// # Errors
    /// A lost device.
    pub fn cooperates(&self) -> Result<bool> {
        if let Some(known) = self.0.cooperates.get() {
            return Ok(*known);
        }
        let found = self.may_cooperate() && cooperative::check(self)?;
        Ok(*self.0.cooperates.get_or_init(|| found))
    }

    /// Whether the device has them; what they give has not been looked at.
    pub(crate) fn may_cooperate(&self) -> bool {
        let Device::Gpu(gpu) = self.device() else {
            return false;
        };
        let granted = gpu.granted();
        granted.cooperative_matrices
            && granted.subgroup_size == Some(cooperative::LANES)
            && granted.workgroup_bytes as usize >= cooperative::MEMORY
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// The device's name, for people.
    pub fn name(&self) -> String {
        match self.device() {
            Device::Cpu => "the processor".to_owned(),
            Device::Gpu(gpu) => gpu.device_name(),
        }
    }

    /// The kernel of this WGSL's `main`.
    pub(crate) fn kernel(&self, gpu: &Gpu, label: &str, wgsl: &str) -> Result<Kernel> {
        let lock = || {
            self.0
                .kernels
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if let Some(kernel) = lock().get(wgsl) {
            return Ok(kernel.clone());
        }
        // SAFETY: generated kernels compute indices from counts that they were made for, and their buffers were checked
        // to hold as many (`gpu/mod.rs`); where numbers come from data (`Gather`) they are bounded. Loops have fixed ends.
        let kernel = unsafe { Kernel::from_wgsl_unchecked(gpu, label, wgsl, "main") }?;
        lock().insert(wgsl.to_owned(), kernel.clone());
        Ok(kernel)
    }

    /// Values of a shape, row-major.
    pub fn tensor(&self, shape: &[usize], data: &[f32]) -> Tensor {
        self.tensor_of(DType::F32, shape, data)
    }

    /// [`Self::tensor`] stored as `dtype`, rounded to the nearest.
    pub fn tensor_of(&self, dtype: DType, shape: &[usize], data: &[f32]) -> Tensor {
        let count: usize = shape.iter().product();
        if count != data.len() {
            let what = format!(
                "{} values cannot be a tensor of {shape:?}, which has {count}",
                data.len()
            );
            return self.refused(Problem::new(
                what,
                "give as many values as the shape's sizes multiply to",
            ));
        }
        self.leaf(dtype, shape, Some(Values::of(dtype, data)))
    }

    /// Zeros.
    pub fn zeros(&self, dtype: DType, shape: &[usize]) -> Tensor {
        self.leaf(dtype, shape, None)
    }

    /// Numbers for [`Tensor::embedding`].
    pub fn indices(&self, shape: &[usize], data: &[u32]) -> Tensor {
        if shape.iter().product::<usize>() != data.len() {
            let what = format!("{} numbers cannot be a tensor of {shape:?}", data.len());
            return self.refused(Problem::new(
                what,
                "give as many as the shape's sizes multiply to",
            ));
        }
        self.leaf(DType::U32, shape, Some(Values::U32(data.to_vec())))
    }

    /// One number, which kernels have written into them: it costs no memory. To change it from run to run, make a
    /// [`Self::tensor`] of no axes.
    pub fn constant(&self, value: f32) -> Tensor {
        let layout = Layout::contiguous(&[]);
        Tensor::make(self, Op::Constant(value), Vec::new(), layout, DType::F32)
    }

    /// The same number in every place of a shape; costs no memory.
    pub fn full(&self, shape: &[usize], value: f32) -> Tensor {
        self.constant(value).expand(shape)
    }

    /// Values in a buffer of the caller's (a [`Buffer`](dapple_runtime::Buffer), a [`Slice`](dapple_runtime::Slice)), which are read
    /// when a plan runs: nothing is copied. Buffers whose bytes are no multiple of 16 are loaded element by element. `raw` is the
    /// buffer that `slice` is of.
    ///
    /// A [`Plan`](crate::Plan) may also write it: see [`PlanOptions::updates`](crate::PlanOptions).
    pub fn external(
        &self,
        dtype: DType,
        shape: &[usize],
        raw: &wgpu::Buffer,
        slice: impl Into<ByteSlice>,
    ) -> Tensor {
        let slice = slice.into();
        let Device::Gpu(gpu) = self.device() else {
            let hint = "make the context with Context::gpu, on the device that the buffer is of";
            return self.refused(Problem::new(
                "a buffer of a GPU cannot be a tensor on the processor",
                hint,
            ));
        };
        let bytes = (shape.iter().product::<usize>() * dtype.bytes()) as u64;
        if slice.len() < bytes || raw.size() < slice.offset() + slice.len() {
            let what = format!(
                "a buffer of {} bytes cannot be a tensor {}{shape:?}, which has {bytes}",
                slice.len().min(raw.size()),
                dtype.name()
            );
            return self.refused(Problem::new(
                what,
                "give a larger slice, or a smaller shape",
            ));
        }
        if dtype == DType::F16
            && !bytes.is_multiple_of(8)
            && slice.len() < bytes.next_multiple_of(PADDING as u64)
        {
            let what = format!(
                "a buffer of {} bytes cannot be a tensor f16{shape:?}",
                slice.len()
            );
            return self.refused(Problem::new(
                what,
                "16-bit values are moved in fours: give a slice whose bytes are a multiple of 16",
            ));
        }
        let most = gpu.granted().binding_bytes;
        if bytes > most {
            let what = format!(
                "a tensor {}{shape:?} has {bytes} bytes, and {} binds {most}",
                dtype.name(),
                gpu.device_name()
            );
            return self.refused(Problem::new(what, "cut it into parts along its first axis"));
        }
        let values = GpuValues {
            slice,
            raw: raw.clone(),
        };
        Tensor::make(
            self,
            Op::Leaf(Storage::Gpu(values)),
            Vec::new(),
            Layout::contiguous(shape),
            dtype,
        )
    }

    fn refused(&self, problem: Arc<Problem>) -> Tensor {
        let made = (Layout::contiguous(&[]), DType::F32);
        Tensor::node(self, Op::Refused, Vec::new(), made, (None, Some(problem)))
    }

    fn leaf(&self, dtype: DType, shape: &[usize], values: Option<Values>) -> Tensor {
        let count: usize = shape.iter().product();
        match self.storage(dtype, count, values) {
            Ok(storage) => self.over(storage, dtype, shape),
            Err(error) => {
                let hint = error
                    .hint_text()
                    .unwrap_or("work on less at once")
                    .to_owned();
                self.refused(Problem::new(error.what(), hint))
            }
        }
    }

    pub(crate) fn over(&self, storage: Storage, dtype: DType, shape: &[usize]) -> Tensor {
        Tensor::make(
            self,
            Op::Leaf(storage),
            Vec::new(),
            Layout::contiguous(shape),
            dtype,
        )
    }

    /// Memory for `count` elements: these, else zeros.
    pub(crate) fn storage(
        &self,
        dtype: DType,
        count: usize,
        values: Option<Values>,
    ) -> Result<Storage> {
        match self.device() {
            Device::Cpu => {
                let values = values.unwrap_or_else(|| Values::zeros(dtype, count));
                Ok(Storage::Cpu(Arc::new(RwLock::new(values))))
            }
            Device::Gpu(gpu) => {
                let made = GpuValues::new(gpu, "tensor", (count * dtype.bytes()) as u64)?;
                match &values {
                    Some(values) => made.write(gpu, values),
                    None => {
                        let mut encoder = gpu.encoder();
                        encoder.clear_buffer(&made.raw, 0, None);
                        gpu.submit(encoder);
                    }
                }
                Ok(Storage::Gpu(made))
            }
        }
    }
}

impl GpuValues {
    /// A buffer of the pool for so many bytes, which may hold anything.
    pub fn new(gpu: &Gpu, label: &str, bytes: u64) -> Result<Self> {
        let padded = bytes.next_multiple_of(PADDING as u64).max(PADDING as u64);
        let most = gpu.granted().binding_bytes;
        if padded > most {
            let what = format!(
                "a tensor of {bytes} bytes is larger than the {most} that {} binds",
                gpu.device_name()
            );
            return Err(Error::unsupported(what).hint("cut it into parts along its first axis"));
        }
        let usage = wgpu::BufferUsages::STORAGE
            | wgpu::BufferUsages::COPY_SRC
            | wgpu::BufferUsages::COPY_DST;
        let pooled = Arc::new(gpu.pool().take(label, padded, usage)?);
        let raw = wgpu::Buffer::clone(&pooled);
        let slice = ByteSlice::from(&pooled).part(0, padded)?;
        Ok(Self { slice, raw })
    }

    pub fn write(&self, gpu: &Gpu, values: &Values) {
        let at = self.slice.offset();
        match values {
            Values::F32(values) => gpu.write(&self.raw, at, values),
            Values::U32(values) => gpu.write(&self.raw, at, values),
            Values::F16(values) => {
                // Whole words, as the queue wants them.
                let bits: &[u16] = values.reinterpret_cast();
                if bits.len().is_multiple_of(2) {
                    gpu.write(&self.raw, at, bits);
                } else {
                    gpu.write(&self.raw, at, &[bits, &[0]].concat());
                }
            }
        }
    }

    pub fn read(&self, gpu: &Gpu, dtype: DType, count: usize) -> Result<Values> {
        let at = self.slice.offset();
        Ok(match dtype {
            DType::F32 => Values::F32(gpu.read_at(&self.raw, at, count)?),
            DType::U32 => Values::U32(gpu.read_at(&self.raw, at, count)?),
            DType::F16 => {
                let words: Vec<u32> = gpu.read_at(&self.raw, at, count.div_ceil(2))?;
                let bits: &[u16] = bytemuck::cast_slice(&words);
                let halves: &[f16] = bits[..count].reinterpret_cast();
                Values::F16(halves.to_vec())
            }
        })
    }
}

impl Storage {
    /// Copied out, after all that was submitted.
    pub fn read(&self, context: &Context, dtype: DType, count: usize) -> Result<Values> {
        match (self, context.device()) {
            (Self::Cpu(values), _) => Ok(values
                .read()
                .unwrap_or_else(PoisonError::into_inner)
                .clone()),
            (Self::Gpu(values), Device::Gpu(gpu)) => values.read(gpu, dtype, count),
            (Self::Gpu(_), Device::Cpu) => Err(Error::internal("values of a GPU on the processor")),
        }
    }
}

impl Tensor {
    /// The values of a leaf, widened; waits for them. What is computed is [`Self::read`].
    ///
    /// # Errors
    /// It is no leaf; a lost device.
    pub fn values(&self) -> Result<Vec<f32>> {
        self.check()?;
        let Op::Leaf(storage) = &self.0.op else {
            let what = format!("{} is computed: it has no values yet", self.describe());
            return Err(Error::input(what).hint("read() computes it"));
        };
        let values = storage.read(self.context(), self.dtype(), self.count())?;
        Ok(values.widened())
    }

    /// Replaces the values of a leaf: plans see them from their next run on.
    ///
    /// # Errors
    /// It is no leaf, or has another number of elements.
    pub fn write(&self, data: &[f32]) -> Result<()> {
        self.check()?;
        let Op::Leaf(storage) = &self.0.op else {
            let what = format!("{} is computed: it cannot be written", self.describe());
            return Err(Error::input(what).hint("write the tensors that it is computed from"));
        };
        if data.len() != self.count() {
            let what = format!(
                "{} values cannot be written to {}",
                data.len(),
                self.describe()
            );
            return Err(Error::input(what).hint("give as many values as it has elements"));
        }
        let values = Values::of(self.dtype(), data);
        match (storage, self.context().device()) {
            (Storage::Cpu(old), _) => *old.write().unwrap_or_else(PoisonError::into_inner) = values,
            (Storage::Gpu(old), Device::Gpu(gpu)) => old.write(gpu, &values),
            (Storage::Gpu(_), Device::Cpu) => {
                return Err(Error::internal("values of a GPU on the processor"));
            }
        }
        Ok(())
    }
}
