//! `report`: the last dispatch of a step, and of a round of density control: writes what the host
//! will read of it, see [`crate::layout::Report`], into the ring `reports`.

use crate::context::{Buffers, Context};
use dapple_runtime::{Groups, Kernel, Recording};
use dapple_scene::Result;

/// The kernels of `report`.
#[derive(Debug, Clone)]
pub struct Report {
    step: Kernel,
    densify: Kernel,
}

impl Report {
    /// Compiles the kernels.
    ///
    /// # Errors
    /// The driver refuses one.
    pub fn new(context: &Context) -> Result<Self> {
        Ok(Self {
            step: context.kernel("report", "step_report")?,
            densify: context.kernel("report", "densify_report")?,
        })
    }

    /// Sums `loss_partials` and reports the step.
    ///
    /// # Errors
    /// A buffer is missing.
    pub fn record_step(
        &self,
        context: &Context,
        buffers: &Buffers,
        recording: &mut Recording,
    ) -> Result<()> {
        record(&self.step, context, buffers, recording)
    }

    /// Reports a round of density control.
    ///
    /// # Errors
    /// A buffer is missing.
    pub fn record_densify(
        &self,
        context: &Context,
        buffers: &Buffers,
        recording: &mut Recording,
    ) -> Result<()> {
        record(&self.densify, context, buffers, recording)
    }
}

fn record(
    kernel: &Kernel,
    context: &Context,
    buffers: &Buffers,
    recording: &mut Recording,
) -> Result<()> {
    recording.span("report");
    recording.dispatch(
        buffers.bind(&context.gpu, kernel)?,
        Groups::Direct([1, 1, 1]),
    );
    Ok(())
}
