//! `begin`: clears a step's counts and sizes its first dispatches. See `shaders/begin.wgsl`.

use crate::{Buffers, Context};
use dapple_runtime::{Groups, Kernel, Recording};
use dapple_scene::Result;

/// The kernel.
#[derive(Debug, Clone)]
pub struct Begin {
    begin: Kernel,
}

impl Begin {
    /// Compiles it.
    ///
    /// # Errors
    /// See [`Kernel::new`].
    pub fn new(context: &Context) -> Result<Self> {
        Ok(Self {
            begin: context.kernel("begin", "begin")?,
        })
    }

    /// Appends it to the span that is open.
    ///
    /// # Errors
    /// A buffer is missing.
    pub fn record(
        &self,
        context: &Context,
        buffers: &Buffers,
        recording: &mut Recording,
    ) -> Result<()> {
        let begin = buffers.bind(&context.gpu, &self.begin)?;
        recording.dispatch(begin, Groups::Direct([1, 1, 1]));
        Ok(())
    }
}
