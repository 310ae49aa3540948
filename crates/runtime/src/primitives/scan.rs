//! [`Scan`]: exclusive prefix sums. See `shaders/scan.wgsl`.

use super::{Count, SCAN_BLOCK, defines, shaders};
use crate::{CommandList, Defines, Gpu, Groups, Kernel, ShaderSet};
use dapple_base::{Error, Result};

/// Exclusive prefix sum of `u32`, modulo 2^32, in three dispatches.
#[derive(Debug, Clone)]
pub struct Scan {
    direct: [Kernel; 2],
    gathered: [Kernel; 2],
    sums: Kernel,
}

/// Buffers of a scan.
#[derive(Debug)]
pub struct ScanOn<'a> {
    /// Items, `[count]`.
    pub input: &'a wgpu::Buffer,
    /// If given, item `i` is `input[index[i]]`.
    pub index: Option<&'a wgpu::Buffer>,
    /// Sums: item `i` is the sum of items before `i`, and `[count]` is the sum of all. At least `count + 1` long, and
    /// another buffer than `input`.
    pub output: &'a wgpu::Buffer,
    /// Number of items; the caller guarantees that the buffers hold this number.
    pub count: Count<'a>,
    /// Scratch of [`Scan::scratch_words`] `u32`.
    pub scratch: &'a wgpu::Buffer,
    /// Workgroups, at least one per [`SCAN_BLOCK`] items; more have no effect.
    pub groups: Groups,
}

impl Scan {
    /// Compiles the kernels.
    ///
    /// # Errors
    /// See [`Kernel::new`].
    pub fn new(gpu: &Gpu) -> Result<Self> {
        Self::with((gpu, &shaders()), &defines(gpu, Defines::new()))
    }

    /// [`Self::new`] from a set that contains [`super::PIECES`], possibly without checks, in a permutation of
    /// [`super::defines`].
    ///
    /// # Errors
    /// See [`Self::new`] for the errors.
    pub fn with((gpu, shaders): (&Gpu, &ShaderSet), lanes: &Defines) -> Result<Self> {
        let kernel = |entry: &str, gather: bool| {
            let defines = lanes.clone().flag("GATHER", gather);
            Kernel::new(gpu, shaders, "scan", entry, &defines)
        };
        Ok(Self {
            direct: [kernel("reduce", false)?, kernel("downsweep", false)?],
            gathered: [kernel("reduce", true)?, kernel("downsweep", true)?],
            sums: kernel("sums", false)?,
        })
    }

    /// Returns the `u32`s of scratch for up to `items` items.
    pub fn scratch_words(items: u64) -> u64 {
        items.div_ceil(u64::from(SCAN_BLOCK))
    }

    /// Appends the dispatches.
    ///
    /// # Errors
    /// Input and output in one buffer, or device failures.
    pub fn record(&self, gpu: &Gpu, recording: &mut CommandList, on: ScanOn<'_>) -> Result<()> {
        if on.input == on.output {
            return Err(Error::internal("a scan cannot write over its input"));
        }
        let word = gpu.uniform("scan_where", [on.count.word, 0, 0, 0])?;
        let [reduce, downsweep] = match on.index {
            Some(_) => &self.gathered,
            None => &self.direct,
        };
        let mut buffers = vec![
            ("scan_count", on.count.buffer),
            ("scan_where", &word),
            ("scan_input", on.input),
            ("scan_output", on.output),
            ("scan_sums", on.scratch),
        ];
        buffers.extend(on.index.map(|index| ("scan_index", index)));
        let bind = |kernel: &Kernel| kernel.bind(gpu, &buffers);
        recording.dispatch(bind(reduce)?, on.groups.clone());
        recording.dispatch(bind(&self.sums)?, Groups::Direct([1, 1, 1]));
        recording.dispatch(bind(downsweep)?, on.groups);
        Ok(())
    }
}
