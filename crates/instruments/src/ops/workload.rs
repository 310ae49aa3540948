//! [`Workload`]: operations that a profiler runs repeatedly, either correctly or with an injected fault.
//!
//! 1. Each [`Operation`] is a plan with a span of its own name.
//! 2. Without a fault, all plans are one command list ([`Workload::recording`]), replayed without allocations or
//!    transfers.
//! 3. With an [`InjectedFault`] an operation repeats a mistake of slow programs, and the profiler's rules must find it.

use crate::bench::ops::operations::values;
use dapple::runtime::CommandList;
use dapple_base::{Error, Result};
use dapple_tensor::layers::{Linear, Lora, LoraOptions, normal};
use dapple_tensor::{Context, DType, Device, Plan, PlanOptions, PlanWork, Tensor};
use std::str::FromStr;

/// Injected fault that the profiler must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InjectedFault {
    /// Each node is a kernel, each kernel a pass, each operation a submission.
    Unfused,
    /// Each operation's result is read and waited for.
    Readback,
    /// Each operation's inputs come from the host, and are waited for.
    Upload,
    /// Each operation is compiled again, into new buffers.
    NoPool,
    /// Products are computed by the plainest kernel.
    NaiveMatmul,
}

impl InjectedFault {
    /// All faults.
    pub const ALL: [Self; 5] = [
        Self::Unfused,
        Self::Readback,
        Self::Upload,
        Self::NoPool,
        Self::NaiveMatmul,
    ];

    /// Returns the name in options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unfused => "unfused",
            Self::Readback => "readback",
            Self::Upload => "upload",
            Self::NoPool => "no-pool",
            Self::NaiveMatmul => "naive-matmul",
        }
    }
}

impl FromStr for InjectedFault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|plant| plant.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name);
            format!("mistakes are {}", names.join(", "))
        })
    }
}

/// Kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Only the addition, of `x[1, d]`.
    Lora {
        d: usize,
        rank: usize,
    },
    /// Forward and backward pass, of `x[1, d]`.
    LoraStep {
        d: usize,
    },
    /// Base and addition, of `x[rows, 1024]`.
    LoraBase {
        rows: usize,
    },
    Softmax([usize; 2]),
    LayerNorm([usize; 2]),
    RmsNorm([usize; 2]),
    /// Product of square matrices.
    MatMul(usize),
}

/// `[4, 16, 1024]`, as rows.
const NORM: [usize; 2] = [64, 1024];
const LARGE: [usize; 2] = [4096, 4096];

/// Name, family (`only` may name both), and kind.
const OPERATIONS: [(&str, &str, Kind); 19] = [
    ("lora_512", "lora", Kind::Lora { d: 512, rank: 8 }),
    ("lora_1024", "lora", Kind::Lora { d: 1024, rank: 8 }),
    ("lora_2048", "lora", Kind::Lora { d: 2048, rank: 8 }),
    ("lora_1024_r4", "lora", Kind::Lora { d: 1024, rank: 4 }),
    ("lora_1024_r16", "lora", Kind::Lora { d: 1024, rank: 16 }),
    ("lora_1024_r32", "lora", Kind::Lora { d: 1024, rank: 32 }),
    ("lora_1024_r64", "lora", Kind::Lora { d: 1024, rank: 64 }),
    ("lora_step_1024", "lora", Kind::LoraStep { d: 1024 }),
    ("lora_base_64", "lora", Kind::LoraBase { rows: 64 }),
    ("lora_base_4096", "lora", Kind::LoraBase { rows: 4096 }),
    ("softmax_1024", "softmax", Kind::Softmax(NORM)),
    ("layer_norm_1024", "layer_norm", Kind::LayerNorm(NORM)),
    ("rms_norm_1024", "rms_norm", Kind::RmsNorm(NORM)),
    ("softmax_4096", "softmax", Kind::Softmax(LARGE)),
    ("layer_norm_4096", "layer_norm", Kind::LayerNorm(LARGE)),
    ("rms_norm_4096", "rms_norm", Kind::RmsNorm(LARGE)),
    ("matmul_256", "matmul", Kind::MatMul(256)),
    ("matmul_512", "matmul", Kind::MatMul(512)),
    ("matmul_1024", "matmul", Kind::MatMul(1024)),
];

impl Kind {
    /// Returns multiply-adds, or elements.
    fn size(self) -> usize {
        match self {
            Self::Lora { d, rank } => 2 * d * rank,
            Self::LoraStep { d } => 3 * d * d,
            Self::LoraBase { rows } => rows * 1024 * 1024,
            Self::Softmax([rows, n]) | Self::LayerNorm([rows, n]) | Self::RmsNorm([rows, n]) => {
                8 * rows * n
            }
            Self::MatMul(side) => side * side * side,
        }
    }

    /// Returns results, and the leaves that come from the host under an injected fault.
    fn make(self, context: &Context) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
        let rows = |[rows, n]: [usize; 2]| values(context, DType::F32, &[rows, n], 1);
        let lora = |d: usize, rank: usize| -> Result<Lora> {
            let options = LoraOptions {
                rank,
                alpha: 2.0 * rank as f32,
                ..LoraOptions::default()
            };
            let mut lora = Lora::new(context, d, d, &options)?;
            // Not 0, so that no work is saved by accident.
            lora.b = normal(context, DType::F32, &[rank, d], 0.1, 9);
            Ok(lora)
        };
        Ok(match self {
            Self::Lora { d, rank } => {
                let (lora, x) = (lora(d, rank)?, rows([1, d]));
                (vec![lora.delta(&x)], vec![x, lora.a, lora.b])
            }
            Self::LoraStep { d } => {
                let (base, lora) = (Linear::new(context, d, d, 1), lora(d, 8)?);
                let x = rows([1, d]);
                let y = lora.forward(&base, &x, None);
                let loss = y.mul(&y).mean();
                let mut outputs = loss.gradients(&lora.parameters());
                outputs.push(loss);
                (outputs, vec![x, base.weight, lora.a, lora.b])
            }
            Self::LoraBase { rows: count } => {
                let (base, lora) = (Linear::new(context, 1024, 1024, 1), lora(1024, 8)?);
                let x = rows([count, 1024]);
                (vec![lora.forward(&base, &x, None)], vec![x, base.weight])
            }
            Self::Softmax(shape) => {
                let x = rows(shape);
                (vec![x.softmax()], vec![x])
            }
            Self::LayerNorm(shape) => {
                let x = rows(shape);
                (vec![x.layer_norm(1e-5)], vec![x])
            }
            Self::RmsNorm(shape) => {
                let x = rows(shape);
                (vec![x.rms_norm(1e-5)], vec![x])
            }
            Self::MatMul(side) => {
                let (a, b) = (rows([side, side]), rows([side, side]));
                (vec![a.matmul(&b)], vec![a, b])
            }
        })
    }
}

/// An operation of the workload.
pub struct Operation {
    /// Name of the operation and of its span.
    pub name: &'static str,
    /// True if the operation includes the backward pass.
    pub is_backward: bool,
    plan: Plan,
    outputs: Vec<Tensor>,
    /// Leaves, and the values that come from the host.
    inputs: Vec<(Tensor, Vec<f32>)>,
    context: Context,
    plant: Option<InjectedFault>,
}

impl Operation {
    fn compiled(
        name: &'static str,
        outputs: &[Tensor],
        plant: Option<InjectedFault>,
    ) -> Result<Plan> {
        let outputs: Vec<&Tensor> = outputs.iter().collect();
        let options = PlanOptions {
            fuse: plant != Some(InjectedFault::Unfused),
            span: name,
            plain_products: plant == Some(InjectedFault::NaiveMatmul),
            ..PlanOptions::default()
        };
        Plan::compile_with(&outputs, &options)
    }

    /// Returns the work of a run.
    pub fn work(&self) -> PlanWork {
        self.plan.work()
    }

    /// Returns the plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Uploads the inputs from the host, and waits until they are on the device.
    ///
    /// # Errors
    /// A lost device.
    pub fn upload(&self) -> Result<()> {
        for (leaf, data) in &self.inputs {
            leaf.write(data)?;
        }
        if let Device::Gpu(gpu) = self.context.device() {
            gpu.submit(gpu.encoder());
            gpu.wait()?;
        }
        Ok(())
    }

    /// Reads the result, and waits for it.
    ///
    /// # Errors
    /// A lost device.
    pub fn read(&self) -> Result<()> {
        self.plan.read(0).map(drop)
    }

    /// Compiles the operation again, into buffers that the driver creates, without buffers of the pool.
    ///
    /// # Errors
    /// No memory.
    pub fn anew(&mut self) -> Result<()> {
        if let Device::Gpu(gpu) = self.context.device() {
            gpu.pool().trim();
        }
        self.plan = Self::compiled(self.name, &self.outputs, self.plant)?;
        Ok(())
    }
}

/// Operations on a device.
pub struct Workload {
    /// Operations in the order in which they run.
    pub operations: Vec<Operation>,
    /// Injected fault.
    pub plant: Option<InjectedFault>,
}

/// Returns families and operations that `only` may name.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for (name, family, _) in OPERATIONS {
        for name in [family, name] {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// Checks that all names exist.
///
/// # Errors
/// A name of no operation and no family.
pub fn check(only: &[String]) -> Result<()> {
    let is_unknown = |name: &&String| !names().contains(&name.as_str());
    let Some(unknown) = only.iter().find(is_unknown) else {
        return Ok(());
    };
    Err(
        Error::input(format!("there is no operation \"{unknown}\" to profile")).hint(format!(
            "operations and their families are {}",
            names().join(", ")
        )),
    )
}

impl Workload {
    /// Creates the operations that `only` names. If `only` is empty, creates all operations of at most `most`
    /// multiply-adds.
    ///
    /// # Errors
    /// See [`check`] for the errors; also no memory.
    pub fn new(
        context: &Context,
        only: &[String],
        most: usize,
        plant: Option<InjectedFault>,
    ) -> Result<Self> {
        check(only)?;
        let is_named = |name: &str| only.iter().any(|wanted| wanted == name);
        let wanted = OPERATIONS.iter().filter(|(name, family, kind)| {
            is_named(name) || ((only.is_empty() || is_named(family)) && kind.size() <= most)
        });
        let make = |(name, _, kind): &(&'static str, &str, Kind)| -> Result<Operation> {
            let (outputs, leaves) = kind.make(context)?;
            let plan = Operation::compiled(name, &outputs, plant)?;
            let inputs = match plant {
                Some(InjectedFault::Upload) => leaves
                    .into_iter()
                    .map(|leaf| leaf.read().map(|data| (leaf, data)))
                    .collect::<Result<_>>()?,
                _ => Vec::new(),
            };
            Ok(Operation {
                name,
                is_backward: matches!(kind, Kind::LoraStep { .. }),
                plan,
                outputs,
                inputs,
                context: context.clone(),
                plant,
            })
        };
        let operations = wanted.map(make).collect::<Result<Vec<_>>>()?;
        Ok(Self { operations, plant })
    }

    /// Returns the command list of all operations, each `runs` times consecutively: one span, and one pass, each. Empty
    /// on a CPU.
    ///
    /// # Errors
    /// None for compiled plans.
    pub fn recording(&self, runs: usize) -> Result<CommandList> {
        let mut all = CommandList::new();
        for operation in &self.operations {
            if let Some(repeated) = operation.plan.repeated(runs)? {
                all.append(repeated);
            }
        }
        Ok(all)
    }
}
