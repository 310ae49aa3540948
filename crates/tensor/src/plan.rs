//! [`Plan`]: a compiled graph that runs repeatedly.

use crate::context::{Context, Device, Storage};
use crate::cpu::CpuPlan;
use crate::gpu::{self, GpuPlan};
use crate::graph::tensor::{DType, Op, Tensor};
use crate::program::{self, Limits, Program};
use dapple_base::{Error, Result};
use dapple_runtime::CommandList;
use serde::Serialize;
use std::fmt::Write;

/// Options of a plan.
#[derive(Debug, Clone, Copy)]
pub struct PlanOptions<'a> {
    /// True if operations may share kernels. Elementwise results are bit-identical in both modes.
    pub fuse: bool,
    /// Leaves that get a new value in each run, after all reads of the old one: an optimizer's step. A leaf that a
    /// kernel reads only element by element is written in place, otherwise it is copied at the end.
    pub updates: &'a [(Tensor, Tensor)],
    /// Name of its dispatches in a profiler: the span of [`Plan::recording`].
    pub span: &'static str,
    /// True if products are computed by the plainest kernel, each element by itself from memory: slow, and the
    /// reference for other kernels.
    pub plain_products: bool,
    /// True if products of 16-bit matrices may be computed by cooperative matrices, if the device has them and passed
    /// the check of their output. If false, the other kernels compute them.
    pub cooperative: bool,
}

impl Default for PlanOptions<'_> {
    fn default() -> Self {
        Self {
            fuse: true,
            updates: &[],
            span: "tensor",
            plain_products: false,
            cooperative: true,
        }
    }
}

/// Work of one run of a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct PlanWork {
    /// Number of kernels: dispatches on a GPU.
    pub kernels: usize,
    /// Number of copies at the end.
    pub copies: usize,
    /// Number of buffers that the plan owns.
    pub buffers: usize,
    /// Bytes of the buffers.
    pub buffer_bytes: usize,
    /// Minimum bytes read and written: inputs and outputs of each kernel, once.
    pub bytes: f64,
    /// Arithmetic operations by formula; a multiply-add counts as two.
    pub flops: f64,
}

/// One kernel of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KernelWork {
    /// Name: operations and shape.
    pub name: String,
    /// Minimum bytes read and written.
    pub bytes: f64,
    /// Arithmetic operations by formula.
    pub flops: f64,
}

/// Kernels with their memory: compiled once, run repeatedly. A run allocates nothing and waits for nothing; equal
/// inputs give equal bytes.
pub struct Plan {
    context: Context,
    program: Program,
    shapes: Vec<(Vec<usize>, DType)>,
    engine: Engine,
}

enum Engine {
    Cpu(CpuPlan),
    Gpu(Box<GpuPlan>),
}

impl Plan {
    /// Compiles a plan that computes `outputs`.
    ///
    /// # Errors
    /// The first mistake in the construction of the graph; tensors of several contexts; no memory; kernels that the
    /// driver refuses.
    pub fn compile(outputs: &[&Tensor]) -> Result<Self> {
        Self::compile_with(outputs, &PlanOptions::default())
    }

    /// [`Self::compile`] with options.
    ///
    /// # Errors
    /// See [`Self::compile`] for the errors; also updates of tensors that are no leaves, or of another shape or type.
    pub fn compile_with(outputs: &[&Tensor], options: &PlanOptions<'_>) -> Result<Self> {
        let first = outputs
            .first()
            .copied()
            .or(options.updates.first().map(|pair| &pair.0));
        let Some(first) = first else {
            return Err(Error::input("a plan of nothing").hint("name an output"));
        };
        first.check()?;
        let context = first.context().clone();
        let cooperative = options.cooperative && !options.plain_products;
        let many = (cooperative && context.may_cooperate()).then_some(gpu::cooperative::MANY);
        let limits = Self::limits(options, &context, many);
        let program = program::compile(outputs, options.updates, limits)?;
        // The output of the units is checked before a plan first uses them.
        let relies = program.kernels.iter().any(gpu::is_cooperative);
        let program = match relies && !context.cooperates()? {
            true => {
                let limits = Self::limits(options, &context, None);
                program::compile(outputs, options.updates, limits)?
            }
            false => program,
        };
        Self::over(outputs, options, context, program)
    }

    /// [`Self::compile_with`], by cooperative matrices without a check of their output, by large tiles from `many` on.
    pub(crate) fn compile_cooperative(
        outputs: &[&Tensor],
        options: &PlanOptions<'_>,
        many: usize,
    ) -> Result<Self> {
        let context = outputs[0].context().clone();
        let limits = Self::limits(options, &context, Some(many));
        let program = program::compile(outputs, options.updates, limits)?;
        Self::over(outputs, options, context, program)
    }

    fn limits(options: &PlanOptions<'_>, context: &Context, cooperative: Option<usize>) -> Limits {
        Limits {
            fuse: options.fuse,
            bindings: match context.device() {
                Device::Cpu => 32,
                Device::Gpu(gpu) => gpu.granted().storage_buffers as usize,
            },
            in_place: matches!(context.device(), Device::Gpu(_)),
            plain_products: options.plain_products,
            workgroup_bytes: match context.device() {
                Device::Cpu => program::EVERYWHERE,
                Device::Gpu(gpu) => gpu.granted().workgroup_bytes as usize,
            },
            cooperative,
        }
    }

    fn over(
        outputs: &[&Tensor],
        options: &PlanOptions<'_>,
        context: Context,
        program: Program,
    ) -> Result<Self> {
        let engine = match context.device() {
            Device::Cpu => Engine::Cpu(CpuPlan::new(&context, &program)?),
            Device::Gpu(gpu) => Engine::Gpu(Box::new(GpuPlan::new(
                gpu,
                &context,
                &program,
                options.span,
            )?)),
        };
        let shapes = outputs
            .iter()
            .map(|tensor| (tensor.shape().to_vec(), tensor.dtype()));
        Ok(Self {
            shapes: shapes.collect(),
            context,
            program,
            engine,
        })
    }

    /// Runs the plan once. On a GPU the call does not wait. Small plans are batched with the runs before and after, and
    /// submitted at the latest when data is read, written or waited for (see [`CommandList::submit_batched`]).
    ///
    /// # Errors
    /// A lost device.
    pub fn run(&self) -> Result<()> {
        match (&self.engine, self.context.device()) {
            (Engine::Gpu(plan), Device::Gpu(gpu)) => {
                match plan.is_small {
                    true => plan.recording.submit_batched(gpu),
                    false => plan.recording.submit(gpu, &[]),
                }
                Ok(())
            }
            (Engine::Cpu(plan), _) => plan.run(&self.program),
            (Engine::Gpu(_), Device::Cpu) => Err(Error::internal("a plan of a GPU on the CPU")),
        }
    }

    /// Returns the dispatches on a GPU: one pass, if nothing is copied at the end. Append them to another command list
    /// to run the plan within it; the list keeps the plan's buffers.
    pub fn recording(&self) -> Option<&CommandList> {
        match &self.engine {
            Engine::Gpu(plan) => Some(&plan.recording),
            Engine::Cpu(_) => None,
        }
    }

    /// Returns `runs` consecutive runs on a GPU, in one pass if nothing is copied.
    ///
    /// # Errors
    /// None for compiled plans.
    pub fn repeated(&self, runs: usize) -> Result<Option<CommandList>> {
        match &self.engine {
            Engine::Gpu(plan) => plan.repeated(runs).map(Some),
            Engine::Cpu(_) => Ok(None),
        }
    }

    /// Returns the kernels of a run, in order, with their names, bytes and operations.
    pub fn kernels(&self) -> Vec<KernelWork> {
        let kernels = self.program.kernels.iter();
        let work = |kernel: &program::KernelPlan| KernelWork {
            name: format!("{} over {}", kernel.label, over(&kernel.space)),
            bytes: kernel.bytes(&self.program.buffers),
            flops: kernel.flops(),
        };
        kernels.map(work).collect()
    }

    /// Returns `runs` runs of only one of [`Self::kernels`] on a GPU, on the current content of its inputs.
    ///
    /// # Errors
    /// None for compiled plans.
    pub fn kernel_repeated(&self, kernel: usize, runs: usize) -> Result<Option<CommandList>> {
        match &self.engine {
            Engine::Gpu(plan) => plan.kernel_repeated(kernel, runs).map(Some),
            Engine::Cpu(_) => Ok(None),
        }
    }

    /// Returns the values of an output after the last run; waits for it.
    ///
    /// # Errors
    /// No such output, a lost device.
    pub fn read(&self, output: usize) -> Result<Vec<f32>> {
        let (storage, dtype, count) = self.storage(output)?;
        storage.read_f32(&self.context, dtype, count)
    }

    /// Returns an output as a leaf for other plans, on the memory of this plan: its values are those of the last run.
    ///
    /// # Errors
    /// No such output.
    pub fn output(&self, output: usize) -> Result<Tensor> {
        let (storage, dtype, _) = self.storage(output)?;
        Ok(self.context.over(storage, dtype, &self.shapes[output].0))
    }

    fn storage(&self, output: usize) -> Result<(Storage, DType, usize)> {
        let Some(&buffer) = self.program.outputs.get(output) else {
            let what = format!(
                "output {output} of a plan that has {}",
                self.program.outputs.len()
            );
            return Err(Error::input(what).hint("outputs are counted from 0, as they were named"));
        };
        let plan = &self.program.buffers[buffer];
        let storage = match &self.engine {
            Engine::Cpu(engine) => engine.storage(buffer),
            Engine::Gpu(engine) => engine.storage(buffer),
        };
        Ok((storage, plan.dtype, plan.count))
    }

    /// Returns the work of a run.
    pub fn work(&self) -> PlanWork {
        let program = &self.program;
        PlanWork {
            kernels: match &self.engine {
                Engine::Gpu(plan) => plan.recording.len(),
                Engine::Cpu(_) => program.kernels.len(),
            },
            copies: program.copies.len(),
            buffers: program.slots.len(),
            buffer_bytes: program.slots.iter().sum(),
            bytes: program
                .kernels
                .iter()
                .map(|k| k.bytes(&program.buffers))
                .sum(),
            flops: program.kernels.iter().map(program::KernelPlan::flops).sum(),
        }
    }

    /// Describes the kernels in order: names, ranges, bytes and operations, and on a GPU the WGSL.
    pub fn explain(&self) -> String {
        let mut text = String::new();
        let work = self.work();
        let _ = writeln!(
            text,
            "{} kernels, {} copies; {} buffers of {} bytes; {:.0} bytes moved, {:.0} operations",
            work.kernels, work.copies, work.buffers, work.buffer_bytes, work.bytes, work.flops
        );
        for (number, kernel) in self.program.kernels.iter().enumerate() {
            let bytes = kernel.bytes(&self.program.buffers);
            let _ = writeln!(
                text,
                "\n{number}: {} over {}; {bytes:.0} bytes, {:.0} operations",
                kernel.label,
                over(&kernel.space),
                kernel.flops()
            );
            if let Engine::Gpu(plan) = &self.engine
                && let Some(wgsl) = &plan.sources[number]
            {
                text.push_str(wgsl);
            }
        }
        for (from, to) in &self.program.copies {
            let _ = writeln!(text, "\ncopy buffer {from} to {to}");
        }
        text
    }

    /// Returns the WGSL of each kernel, on a GPU.
    pub fn sources(&self) -> Vec<&str> {
        match &self.engine {
            Engine::Gpu(plan) => plan.sources.iter().flatten().map(String::as_str).collect(),
            Engine::Cpu(_) => Vec::new(),
        }
    }
}

fn over(space: &program::Space) -> String {
    use program::Space as S;
    match space {
        S::Map { count } => format!("{count} elements"),
        S::Rows { rows, n } => format!("{rows} rows of {n}"),
        S::Columns {
            outer, n, inner, ..
        } => format!("{outer} times {inner} columns of {n}"),
        S::MatMul(p) => format!(
            "{} products [{}, {}] by [{}, {}]{}",
            p.batch,
            p.m,
            p.k,
            p.k,
            p.n,
            if gpu::cooperative::is_cooperative(p) {
                ", by cooperative matrices"
            } else {
                ""
            }
        ),
        S::Chain(chain) => {
            let first = chain.links.first().map(|link| link.k);
            let widths = first.into_iter().chain(chain.links.iter().map(|l| l.n));
            let widths: Vec<String> = widths.map(|width| width.to_string()).collect();
            let (count, widths) = (chain.links.len(), widths.join("-"));
            format!(
                "{} rows through a chain of {count} products {widths}",
                chain.m
            )
        }
        S::Scatter {
            rows,
            width,
            numbers,
        } => format!("{numbers} rows of {width} into {rows}"),
    }
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan")
            .field("outputs", &self.shapes)
            .field("work", &self.work())
            .finish()
    }
}

impl Tensor {
    /// Returns the values, row-major: the stored values of a leaf, or the values of an operation, computed now. Waits
    /// for them. Use a [`Plan`] for an operation that is read repeatedly.
    ///
    /// # Errors
    /// See [`Plan::compile`] and [`Plan::read`] for the errors.
    pub fn read(&self) -> Result<Vec<f32>> {
        self.check()?;
        if let Op::Leaf(storage) = &self.0.op {
            let count = self.count();
            return storage.read_f32(self.context(), self.dtype(), count);
        }
        let plan = Plan::compile(&[self])?;
        plan.run()?;
        plan.read(0)
    }

    /// Returns the only element.
    ///
    /// # Errors
    /// See [`Self::read`] for the errors; also a tensor of several elements.
    pub fn item(&self) -> Result<f32> {
        let values = self.read()?;
        match values.as_slice() {
            [value] => Ok(*value),
            _ => Err(
                Error::input(format!("the only element of {}", self.describe()))
                    .hint("take its sum() or mean()"),
            ),
        }
    }
}
