//! `morton`: Gaussians in the order of a Z curve through their centres. See `shaders/morton.wgsl`.

use super::gather::{Gather, ONE, Planes, SORT_KEYS, SORT_VALUES, entry, record_sort};
use crate::{Buffers, Context};
use dapple_runtime::primitives::RadixSort;
use dapple_runtime::{Groups, Kernel, Recording};
use dapple_scene::Result;

/// 30 bits of cells, and one for centres that are nowhere.
const CODE_BITS: u32 = 31;

/// The stage.
#[derive(Debug, Clone)]
pub struct Morton {
    open: Kernel,
    bounds: Kernel,
    codes: Kernel,
    sort: RadixSort,
    gather: Gather,
}

impl Morton {
    /// Compiles the kernels.
    ///
    /// # Errors
    /// See [`Kernel::new`].
    pub fn new(context: &Context) -> Result<Self> {
        Ok(Self {
            open: context.kernel("morton", "open")?,
            bounds: context.kernel("morton", "bounds")?,
            codes: context.kernel("morton", "codes")?,
            sort: context.radix_sort(CODE_BITS, true)?,
            gather: Gather::new(context)?,
        })
    }

    /// Appends the span `morton`: puts Gaussians, moments and statistics in order. `planes` as for
    /// [`super::densify::Densify::record`].
    ///
    /// # Errors
    /// A buffer is missing, or no memory for scratch.
    pub fn record(
        &self,
        context: &Context,
        buffers: &Buffers,
        recording: &mut Recording,
        planes: Planes<'_>,
    ) -> Result<()> {
        recording.span("morton");
        let over = [
            ("groups_read", buffers.get("groups")?),
            ("box", buffers.get("instance_gaussian")?),
            (SORT_KEYS.0, buffers.get(SORT_KEYS.1)?),
        ];
        let run = |recording: &mut Recording, kernel: &Kernel, groups: Groups| {
            let bound = buffers.bind_with(&context.gpu, kernel, &over)?;
            recording.dispatch(bound, groups);
            Ok::<_, dapple_scene::Error>(())
        };
        let all = buffers.groups(entry::NEW)?;
        run(recording, &self.open, ONE)?;
        run(recording, &self.bounds, all.clone())?;
        run(recording, &self.codes, all)?;
        record_sort(&self.sort, context, buffers, recording)?;
        let source = buffers.get(SORT_VALUES.1)?;
        self.gather
            .record(context, buffers, recording, planes, source)
    }
}
