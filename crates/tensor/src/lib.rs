//! Tensors for programs that compute on any GPU, or without one: lazy graphs, fused kernels, static memory, gradients.
//! Sums have a fixed order: equal inputs give equal bytes.
//!
//! ```
//! use dapple_tensor::{Context, Plan};
//! # fn main() -> dapple_base::Result<()> {
//! let context = Context::cpu(); // or Context::gpu(&gpu)
//! let x = context.tensor(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
//! let w = context.tensor(&[3, 2], &[0.5, -0.5, 1.0, 0.0, 0.0, 1.0]);
//! let bias = context.tensor(&[2], &[0.1, 0.2]);
//! // No operation runs, and mistakes are stored, until the result is read or compiled.
//! let y = x.matmul(&w).add(&bias).relu();
//! let loss = y.mul(&y).mean();
//! let gradients = loss.gradients(&[&w, &bias]);
//! let plan = Plan::compile(&[&loss, &gradients[0], &gradients[1]])?;
//! plan.run()?;
//! assert_eq!(plan.read(1)?.len(), 6);
//! let wrong = x.matmul(&x).gelu();
//! assert!(wrong.read().unwrap_err().to_string().contains("matmul of"));
//! # Ok(()) }
//! ```
//!
//! - [`Context`]: the CPU or a GPU; creates leaves, also over buffers of the caller ([`Context::external`]).
//! - [`Tensor`]: a node; its operations create others. [`Tensor::gradients`] goes from graph to graph.
//! - [`Plan`]: kernels with a static memory plan, run repeatedly, by themselves or within a command list of the caller.
//! - [`CustomOp`]: an operation with its own backward pass.
//! - [`layers`], [`optimizer`]: linear layers, LoRA, embeddings, small networks; Adam and AdamW.
//! - [`weights`]: safetensors files.

mod context;
mod cpu;
mod gpu;
mod graph;
pub mod layers;
pub mod optimizer;
mod plan;
mod program;
pub mod weights;

// Compiles the guide's examples.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/TENSORS.md")]
struct Guide;

pub use context::{Context, Device};
pub use dapple_base::{Error, Result};
pub use graph::operations::Operand;
pub use graph::tensor::{CustomOp, DType, Tensor};
pub use graph::windows::Windows;
pub use plan::{KernelWork, Plan, PlanOptions, PlanWork};
