//! GPU engine: generates WGSL for each kernel of a program, takes its buffers from the pool, and records one command
//! list.
//!
//! `source`, `loads` and `fours` write loads, instructions and stores, which all kernels share. `rows`, `columns`,
//! `matmul`, `tall` and `chain` write the code around them. Every shape and stride is a constant of the WGSL: kernels
//! take no parameters.

mod chain;
mod columns;
pub(crate) mod cooperative;
#[cfg(test)]
mod emulated;
mod fours;
mod images;
mod loads;
mod matmul;
mod rows;
mod slim;
mod sorted;
mod source;
mod tall;
mod tiled;
mod tiles;
pub(crate) mod units;
mod windows;

use crate::context::{Context, GpuValues, PADDING, Storage};
use crate::graph::tensor::Op;
use crate::program::{BufferPlan, KernelPlan, Place, Program, Space};
use dapple_base::{Error, Result};
use dapple_runtime::{Bound, ByteSlice, CommandList, Gpu, Groups};
use source::{Source, Written};

/// A program on a GPU.
pub(crate) struct GpuPlan {
    pub recording: CommandList,
    steps: Vec<Step>,
    /// Index of the program's kernel that each step belongs to; copies at the end belong to none.
    kernels: Vec<usize>,
    span: &'static str,
    /// WGSL of each kernel; `None` for kernels without work.
    pub sources: Vec<Option<String>>,
    buffers: Vec<GpuValues>,
    /// True if the device runs the plan in less time than a submission takes the host.
    pub is_small: bool,
}

/// Limits of bytes and operations of a small plan: some microseconds of a fast device.
const SMALL: (f64, f64) = (1e6, 3e7);

/// A command of a run.
enum Step {
    Dispatch(Bound, Groups),
    Copy(ByteSlice, ByteSlice),
    /// Command list of a sort of indices.
    Recorded(CommandList),
}

/// Records steps `runs` times, in one span.
fn record(steps: &[&Step], span: &'static str, runs: usize) -> Result<CommandList> {
    let mut recording = CommandList::new();
    recording.span(span);
    for step in (0..runs).flat_map(|_| steps) {
        match step {
            Step::Dispatch(bound, groups) => recording.dispatch(bound.clone(), groups.clone()),
            Step::Copy(from, to) => recording.copy(from.clone(), to.clone())?,
            Step::Recorded(other) => recording.append(other.clone()),
        }
    }
    Ok(recording)
}

/// Returns the memory of a program's buffers: slots of its own, and tensors that exist.
fn buffers_of(gpu: &Gpu, program: &Program) -> Result<Vec<GpuValues>> {
    let slots = program.slots.iter();
    let slots = slots.map(|bytes| GpuValues::new(gpu, "plan", *bytes as u64));
    let slots = slots.collect::<Result<Vec<_>>>()?;
    let place = |buffer: &BufferPlan| match &buffer.place {
        Place::Slot(slot) => Ok(slots[*slot].clone()),
        Place::Leaf(tensor) => match &tensor.0.op {
            Op::Leaf(Storage::Gpu(values)) => Ok(values.clone()),
            _ => Err(Error::internal("a leaf of a plan is not on its GPU")),
        },
    };
    program.buffers.iter().map(place).collect()
}

impl GpuPlan {
    pub fn new(
        gpu: &Gpu,
        context: &Context,
        program: &Program,
        span: &'static str,
    ) -> Result<Self> {
        let buffers = buffers_of(gpu, program)?;
        let padded: Vec<bool> = program
            .buffers
            .iter()
            .zip(&buffers)
            .map(|(plan, values)| {
                values.slice.len()
                    >= (plan.count * plan.dtype.bytes()).next_multiple_of(PADDING) as u64
            })
            .collect();
        let mut steps = Vec::new();
        let mut numbers = Vec::new();
        let mut sources = Vec::new();
        let kernels = || program.kernels.iter();
        for (number, kernel) in kernels().enumerate() {
            let Some(written) = write(kernel, &program.buffers, &padded)? else {
                sources.push(None);
                continue;
            };
            let compiled = context.kernel(gpu, &kernel.label, &written.wgsl)?;
            let slices = written.bindings.iter().map(|(name, buffer)| {
                let slice = buffers[*buffer].slice.clone();
                (name.as_str(), slice)
            });
            let mut slices: Vec<(&str, ByteSlice)> = slices.collect();
            if let (Some(access), Space::Scatter { rows, .. }) =
                (sorted::numbers(kernel), &kernel.space)
            {
                let numbers = (access, &buffers[access.buffer].slice);
                let sort = sorted::sort(gpu, context, numbers, *rows, span)?;
                steps.push(Step::Recorded(sort.recording));
                slices.push((sorted::KEYS, sort.keys));
                slices.push((sorted::PLACES, sort.places));
            }
            let bound = compiled.bind_slices(gpu, &slices)?;
            steps.push(Step::Dispatch(bound, Groups::flat(written.groups as u32)));
            numbers.resize(steps.len(), number);
            sources.push(Some(written.wgsl));
        }
        for (from, to) in &program.copies {
            let bytes = (program.buffers[*to].count * program.buffers[*to].dtype.bytes())
                .next_multiple_of(4) as u64;
            if bytes > 0 {
                let of = |buffer: usize| buffers[buffer].slice.part(0, bytes);
                steps.push(Step::Copy(of(*from)?, of(*to)?));
            }
        }
        let bytes: f64 = kernels().map(|kernel| kernel.bytes(&program.buffers)).sum();
        let flops: f64 = kernels().map(KernelPlan::flops).sum();
        Ok(Self {
            recording: record(&steps.iter().collect::<Vec<_>>(), span, 1)?,
            is_small: bytes <= SMALL.0 && flops <= SMALL.1,
            kernels: numbers,
            steps,
            span,
            sources,
            buffers,
        })
    }

    /// Records runs of only one kernel, consecutively. `kernels` maps each step to its index in [`Program::kernels`].
    pub fn kernel_repeated(&self, kernel: usize, runs: usize) -> Result<CommandList> {
        let own = |(of, _): &(&usize, &Step)| **of == kernel;
        let steps = self.kernels.iter().zip(&self.steps).filter(own);
        let steps: Vec<&Step> = steps.map(|(_, step)| step).collect();
        record(&steps, self.span, runs)
    }

    /// Records consecutive runs in one span.
    pub fn repeated(&self, runs: usize) -> Result<CommandList> {
        record(&self.steps.iter().collect::<Vec<_>>(), self.span, runs)
    }

    pub fn storage(&self, buffer: usize) -> Storage {
        Storage::Gpu(self.buffers[buffer].clone())
    }
}

/// Returns true if a kernel is a product by cooperative matrices.
pub(crate) fn is_cooperative(kernel: &KernelPlan) -> bool {
    match &kernel.space {
        Space::MatMul(product) => cooperative::is_cooperative(product),
        _ => false,
    }
}

/// Returns a kernel's WGSL; `None` if the kernel is empty. `padded` is true for each buffer that may be loaded in fours
/// to its end.
pub(crate) fn write(
    kernel: &KernelPlan,
    buffers: &[BufferPlan],
    padded: &[bool],
) -> Result<Option<Written>> {
    if kernel
        .outputs
        .iter()
        .all(|output| buffers[*output].count == 0)
    {
        return Ok(None);
    }
    let mut source = Source::new(kernel, buffers, padded);
    let groups = match &kernel.space {
        Space::Map { count } => source.map(*count),
        Space::Rows { rows, n } => rows::write(&mut source, *rows, *n),
        Space::Columns { .. } => columns::write(&mut source),
        Space::MatMul(product) => matmul::write(&mut source, product),
        Space::Chain(links) => chain::write(&mut source, links),
        Space::Scatter {
            rows,
            width,
            numbers,
        } => match sorted::numbers(kernel) {
            Some(_) => source.scatter_sorted(*rows, *width, *numbers),
            None => source.scatter(*rows, *width, *numbers),
        },
    };
    if groups > u32::MAX as usize {
        return Err(
            Error::unsupported(format!("{groups} workgroups of {}", kernel.label))
                .hint("cut tensors into parts"),
        );
    }
    Ok(Some(source.finish(groups)))
}
