//! CPU engine: runs the kernels of a program one after another, each on all threads of the rayon pool.
//!
//! 1. A kernel's elements are cut into blocks by counts that do not depend on the number of threads. A block runs
//!    through all instructions before the next: intermediate values stay in the nearest cache, as in a fused kernel.
//! 2. Loads gather a block of an access as `f32`; if the access is the buffer itself, nothing is moved.
//! 3. Products are `matrixmultiply`'s, cut by rows.

mod body;
mod chain;
mod inputs;
mod kernels;
mod windows;

pub(crate) use inputs::{Inputs, dtype_of};

use crate::context::{Context, Storage, Values};
use crate::graph::tensor::Op;
use crate::program::{Place, Program, Space};
use dapple_base::{Error, Result};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

/// A program on the CPU.
pub(crate) struct CpuPlan {
    buffers: Vec<Arc<RwLock<Values>>>,
}

impl CpuPlan {
    pub fn new(_: &Context, program: &Program) -> Result<Self> {
        // Each buffer has its own memory on the CPU: slots are for devices.
        let place = |plan: &crate::program::BufferPlan| match &plan.place {
            Place::Slot(_) => Ok(Arc::new(RwLock::new(Values::zeros(plan.dtype, plan.count)))),
            Place::Leaf(tensor) => match &tensor.0.op {
                Op::Leaf(Storage::Cpu(values)) => Ok(Arc::clone(values)),
                _ => Err(Error::internal("a leaf of a plan is not in memory")),
            },
        };
        let buffers = program
            .buffers
            .iter()
            .map(place)
            .collect::<Result<Vec<_>>>()?;
        Ok(Self { buffers })
    }

    pub fn storage(&self, buffer: usize) -> Storage {
        Storage::Cpu(Arc::clone(&self.buffers[buffer]))
    }

    pub fn run(&self, program: &Program) -> Result<()> {
        for kernel in &program.kernels {
            // Written values are no leaves of this program: no other code reads them during the run.
            let mut outputs: Vec<Values> = kernel
                .outputs
                .iter()
                .map(|output| std::mem::replace(&mut *self.write(*output), Values::F32(Vec::new())))
                .collect();
            {
                let reads = kernel.reads();
                let guards: Vec<(usize, RwLockReadGuard<'_, Values>)> = reads
                    .iter()
                    .map(|buffer| (*buffer, self.read(*buffer)))
                    .collect();
                let inputs = Inputs(&guards);
                match &kernel.space {
                    Space::Map { count } => kernels::map(kernel, &inputs, &mut outputs, *count),
                    Space::Rows { rows, n } => {
                        kernels::rows(kernel, &inputs, &mut outputs, *rows, *n)
                    }
                    Space::Columns { .. } => kernels::columns(kernel, &inputs, &mut outputs),
                    Space::MatMul(product) => {
                        kernels::matmul(kernel, &inputs, &mut outputs, product)
                    }
                    Space::Chain(links) => chain::chain(kernel, &inputs, &mut outputs, links),
                    Space::Scatter {
                        rows,
                        width,
                        numbers,
                    } => {
                        kernels::scatter(kernel, &inputs, &mut outputs, [*rows, *width, *numbers]);
                    }
                }
            }
            for (output, values) in kernel.outputs.iter().zip(outputs) {
                *self.write(*output) = values;
            }
        }
        for (from, to) in &program.copies {
            let from = self.read(*from).clone();
            *self.write(*to) = from;
        }
        Ok(())
    }

    fn read(&self, buffer: usize) -> RwLockReadGuard<'_, Values> {
        self.buffers[buffer]
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, buffer: usize) -> std::sync::RwLockWriteGuard<'_, Values> {
        self.buffers[buffer]
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
