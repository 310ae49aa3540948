//! `project`: Gaussians to ellipses, colours and counts of tiles. See `shaders/project.wgsl`.

use super::begin::Begin;
use crate::{Buffers, Context, layout::groups};
use dapple_runtime::{Kernel, Recording};
use dapple_scene::Result;

/// The stage, with `begin` before it.
#[derive(Debug, Clone)]
pub struct Project {
    begin: Begin,
    project: Kernel,
}

impl Project {
    /// Compiles its kernels.
    ///
    /// # Errors
    /// See [`Kernel::new`].
    pub fn new(context: &Context) -> Result<Self> {
        Ok(Self {
            begin: Begin::new(context)?,
            project: context.kernel("project", "project")?,
        })
    }

    /// Appends the span `project`: fills `splats2d`, `tiles_touched`, `group_visible`.
    ///
    /// # Errors
    /// A buffer is missing.
    pub fn record(
        &self,
        context: &Context,
        buffers: &Buffers,
        recording: &mut Recording,
    ) -> Result<()> {
        recording.span("project");
        self.begin.record(context, buffers, recording)?;
        let project = buffers.bind(&context.gpu, &self.project)?;
        recording.dispatch(project, buffers.groups(groups::GAUSSIANS)?);
        Ok(())
    }
}
