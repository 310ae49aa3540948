//! `project`: Gaussians to ellipses, colours and counts of tiles. See `shaders/project.wgsl`.

use super::begin::Begin;
use crate::optics::Optics;
use crate::{Buffers, Context, layout::groups};
use dapple_runtime::{Kernel, Recording};
use dapple_scene::Result;

/// Depths of visible Gaussians by place, from `project` to `order`, and the buffer they lie in: the sort by depth has not
/// begun with it.
pub(super) const DEPTH_BITS: &str = "depth_bits";
/// See [`DEPTH_BITS`].
pub(super) const DEPTH_BITS_IN: &str = "depth_keys_alt";

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
    pub fn new(context: &Context, optics: Optics) -> Result<Self> {
        Ok(Self {
            begin: Begin::new(context)?,
            project: context.optical_kernel("project", "project", optics)?,
        })
    }

    /// Appends the span `project`: fills `splats2d`, `tiles_touched`, `visible_rank` and
    /// `group_visible`.
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
        let over = [(DEPTH_BITS, buffers.get(DEPTH_BITS_IN)?)];
        let project = buffers.bind_with(&context.gpu, &self.project, &over)?;
        recording.dispatch(project, buffers.groups(groups::GAUSSIANS)?);
        Ok(())
    }
}
