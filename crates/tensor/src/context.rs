//! [`Context`]: a device and the values of tensors on it.

use crate::graph::layout::Layout;
use crate::graph::problem::Problem;
use crate::graph::tensor::{DType, Op, Tensor};
use dapple_base::{Error, Result};
use dapple_runtime::{ByteSlice, Gpu, Kernel, MappedPart, wgpu, zeroed_host_memory};
use half::f16;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use rayon::prelude::*;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// Bytes that the size of a caller's buffer must be a multiple of, to be loaded four elements at a time.
pub(crate) const PADDING: usize = 16;

/// Device that tensors are created on. Clones share it.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    device: Device,
    /// True if the output of its cooperative matrices matched known numbers.
    cooperates: OnceLock<bool>,
    /// Compiled kernels by their WGSL.
    kernels: Mutex<HashMap<String, Kernel>>,
}

/// Device that computes tensors.
#[derive(Debug, Clone)]
pub enum Device {
    /// CPU: all threads of the rayon pool that runs it.
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

    /// Rounds values to the nearest.
    pub fn from_f32(dtype: DType, data: &[f32]) -> Self {
        match dtype {
            DType::F32 => Self::F32(data.to_vec()),
            DType::F16 => Self::F16(halves(data)),
            DType::U32 => Self::U32(data.iter().map(|value| *value as u32).collect()),
        }
    }

    /// [`Self::widened`] of a part of the values.
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
/// Number of 16-bit values from which on they are uploaded in pieces.
const MANY: usize = 1 << 23;

/// Values of a new leaf.
#[derive(Clone, Copy)]
enum Given<'a> {
    Zeros,
    /// Values to store as the leaf's type.
    F32(&'a [f32]),
    U32(&'a [u32]),
}

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
    /// Creates a context on the CPU.
    pub fn cpu() -> Self {
        Self::new(Device::Cpu)
    }

    /// Creates a context on an open GPU.
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

    /// Result of the comparison of the device's units with known numbers, once it is known.
    pub(crate) fn cooperation(&self) -> &OnceLock<bool> {
        &self.0.cooperates
    }

    /// Returns the device.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// Returns the device's name, for people.
    pub fn name(&self) -> String {
        match self.device() {
            Device::Cpu => "the CPU".to_owned(),
            Device::Gpu(gpu) => gpu.device_name(),
        }
    }

    /// Returns the kernel of this WGSL's `main`.
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
        // to hold as many (`gpu/mod.rs`); where numbers come from data (`Gather`) they are bounded. Loops have fixed
        // ends.
        let kernel = unsafe { Kernel::from_wgsl_unchecked(gpu, label, wgsl, "main") }?;
        lock().insert(wgsl.to_owned(), kernel.clone());
        Ok(kernel)
    }

    /// Creates a leaf of a shape from values, row-major.
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
        self.leaf(dtype, shape, Given::F32(data))
    }

    /// Creates a leaf of zeros.
    pub fn zeros(&self, dtype: DType, shape: &[usize]) -> Tensor {
        self.leaf(dtype, shape, Given::Zeros)
    }

    /// Creates a leaf of indices for [`Tensor::embedding`].
    pub fn indices(&self, shape: &[usize], data: &[u32]) -> Tensor {
        if shape.iter().product::<usize>() != data.len() {
            let what = format!("{} numbers cannot be a tensor of {shape:?}", data.len());
            return self.refused(Problem::new(
                what,
                "give as many as the shape's sizes multiply to",
            ));
        }
        self.leaf(DType::U32, shape, Given::U32(data))
    }

    /// Creates a constant of one number, which is written into the kernels: it costs no memory. To change the number
    /// from run to run, create a [`Self::tensor`] without axes.
    pub fn constant(&self, value: f32) -> Tensor {
        let layout = Layout::contiguous(&[]);
        Tensor::make(self, Op::Constant(value), Vec::new(), layout, DType::F32)
    }

    /// Creates a tensor of a shape with the same number everywhere; it costs no memory.
    pub fn full(&self, shape: &[usize], value: f32) -> Tensor {
        self.constant(value).expand(shape)
    }

    /// Creates a leaf on a buffer of the caller (a [`Buffer`](dapple_runtime::Buffer), a
    /// [`Slice`](dapple_runtime::Slice)), which is read when a plan runs: nothing is copied. Buffers whose bytes are no
    /// multiple of 16 are loaded element by element. `raw` is the buffer that contains `slice`.
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
                "a buffer of a GPU cannot be a tensor on the CPU",
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

    pub(crate) fn refused(&self, problem: Arc<Problem>) -> Tensor {
        let made = (Layout::contiguous(&[]), DType::F32);
        Tensor::node(self, Op::Refused, Vec::new(), made, (None, Some(problem)))
    }

    fn leaf(&self, dtype: DType, shape: &[usize], given: Given<'_>) -> Tensor {
        let count: usize = shape.iter().product();
        match self.storage(dtype, count, given) {
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

    /// Allocates memory for `count` elements and fills it with `given`.
    fn storage(&self, dtype: DType, count: usize, given: Given<'_>) -> Result<Storage> {
        let Device::Gpu(gpu) = self.device() else {
            let values = match given {
                Given::Zeros => Values::zeros(dtype, count),
                Given::F32(data) => Values::from_f32(dtype, data),
                Given::U32(data) => Values::U32(data.to_vec()),
            };
            return Ok(Storage::Cpu(Arc::new(RwLock::new(values))));
        };
        let made = GpuValues::new(gpu, "tensor", (count * dtype.bytes()) as u64)?;
        match given {
            Given::F32(data) => made.write(gpu, dtype, data)?,
            Given::U32(data) => gpu.write(&made.raw, made.slice.offset(), data),
            Given::Zeros => {
                let mut encoder = gpu.encoder();
                encoder.clear_buffer(&made.raw, 0, None);
                gpu.submit(encoder);
            }
        }
        Ok(Storage::Gpu(made))
    }
}

impl GpuValues {
    /// Takes a buffer of the pool for `bytes` bytes, with undefined content.
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

    /// Stores values, rounded to the nearest. 16-bit values are converted piece by piece, while the device copies the
    /// piece before.
    fn write(&self, gpu: &Gpu, dtype: DType, data: &[f32]) -> Result<()> {
        let at = self.slice.offset();
        match dtype {
            DType::F32 => gpu.write(&self.raw, at, data),
            DType::U32 => {
                let whole: Vec<u32> = data.iter().map(|value| *value as u32).collect();
                gpu.write(&self.raw, at, &whole);
            }
            DType::F16 if data.len() < MANY => {
                // Whole words, as the queue requires them.
                let mut rounded = halves(data);
                rounded.resize(data.len().next_multiple_of(2), f16::ZERO);
                let bits: &[u16] = rounded.reinterpret_cast();
                gpu.write(&self.raw, at, bits);
            }
            DType::F16 => {
                let bytes = 2 * data.len().next_multiple_of(2) as u64;
                gpu.write_in_pieces(&self.raw, at, bytes, |from, piece| {
                    let data = &data[from / 2..data.len().min((from + piece.len()) / 2)];
                    MappedPart::split(piece, 2 * PART)
                        .into_par_iter()
                        .zip(data.par_chunks(PART))
                        .for_each(|(to, data)| round_into(to, data));
                })?;
            }
        }
        Ok(())
    }

    /// Reads all values, widened; 16-bit values piece by piece, while the device copies the next piece.
    fn read(&self, gpu: &Gpu, dtype: DType, count: usize) -> Result<Vec<f32>> {
        let at = self.slice.offset();
        match dtype {
            DType::F32 => gpu.read_at(&self.raw, at, count),
            DType::U32 => {
                let whole: Vec<u32> = gpu.read_at(&self.raw, at, count)?;
                Ok(whole.iter().map(|value| *value as f32).collect())
            }
            DType::F16 => {
                let mut values: Vec<f32> = zeroed_host_memory(count);
                let bytes = 2 * count.next_multiple_of(2) as u64;
                gpu.read_in_pieces(&self.raw, at, bytes, |from, piece| {
                    let end = count.min((from + piece.len()) / 2);
                    values[from / 2..end]
                        .par_chunks_mut(PART)
                        .zip(piece.par_chunks(2 * PART))
                        .for_each(|(to, piece)| widen_into(to, piece));
                })?;
                Ok(values)
            }
        }
    }
}

/// Elements that are converted at a time, in the nearest cache.
const CONVERTED: usize = 2048;

/// Rounds values into mapped memory, which is written once, from its first byte to its last. Whole words: an unused
/// half of a word becomes 0.
fn round_into(mut to: MappedPart<'_>, data: &[f32]) {
    let mut rounded = [f16::ZERO; CONVERTED];
    for (number, data) in data.chunks(CONVERTED).enumerate() {
        rounded[..data.len()].convert_from_f32_slice(data);
        let count = data.len().next_multiple_of(2);
        rounded[data.len()..count].fill(f16::ZERO);
        let bits: &[u16] = rounded[..count].reinterpret_cast();
        to.write(number * 2 * CONVERTED, bits);
    }
}

/// Widens 16-bit values of mapped memory, which may begin at any byte.
fn widen_into(to: &mut [f32], from: &[u8]) {
    let mut bits = [0_u16; CONVERTED];
    for (to, from) in to.chunks_mut(CONVERTED).zip(from.chunks(2 * CONVERTED)) {
        let bits = &mut bits[..to.len()];
        bytemuck::cast_slice_mut(bits).copy_from_slice(&from[..2 * to.len()]);
        let halves: &[f16] = bits.reinterpret_cast();
        halves.convert_to_f32_slice(to);
    }
}

impl Storage {
    /// Reads values and widens them, after all work submitted before.
    pub fn read_f32(&self, context: &Context, dtype: DType, count: usize) -> Result<Vec<f32>> {
        match (self, context.device()) {
            (Self::Cpu(values), _) => Ok(values
                .read()
                .unwrap_or_else(PoisonError::into_inner)
                .widened()),
            (Self::Gpu(values), Device::Gpu(gpu)) => values.read(gpu, dtype, count),
            (Self::Gpu(_), Device::Cpu) => Err(Error::internal("values of a GPU on the CPU")),
        }
    }
}

impl Tensor {
    /// Replaces the values of a leaf: plans read the new values from their next run on.
    ///
    /// # Errors
    /// A tensor that is no leaf, or has another number of elements.
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
        match (storage, self.context().device()) {
            (Storage::Cpu(old), _) => {
                let values = Values::from_f32(self.dtype(), data);
                *old.write().unwrap_or_else(PoisonError::into_inner) = values;
                Ok(())
            }
            (Storage::Gpu(old), Device::Gpu(gpu)) => old.write(gpu, self.dtype(), data),
            (Storage::Gpu(_), Device::Cpu) => Err(Error::internal("values of a GPU on the CPU")),
        }
    }
}
