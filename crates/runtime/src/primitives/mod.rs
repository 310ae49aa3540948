//! Primitives of many kernels: prefix sums ([`Scan`]) and sorting ([`RadixSort`]), with counts in GPU buffers.
//!
//! Workgroups of both exchange data at dispatch boundaries only. Their results depend neither on the order in which
//! workgroups run nor on which of them run at once.

mod radix;
mod scan;

pub use radix::{RadixSort, SortOn};
pub use scan::{Scan, ScanOn};

use crate::{Defines, Gpu, ShaderSet};

/// WGSL of the primitives, also for shaders of other crates: scans within a workgroup and along a buffer, and the
/// number of a workgroup within its dispatch.
pub const PIECES: [(&str, &str); 6] = [
    (
        "shared/flat_groups",
        include_str!("../../shaders/flat_groups.wgsl"),
    ),
    (
        "shared/workgroup_scan",
        include_str!("../../shaders/workgroup_scan.wgsl"),
    ),
    (
        "shared/long_scan",
        include_str!("../../shaders/long_scan.wgsl"),
    ),
    (
        "shared/block_scan",
        include_str!("../../shaders/block_scan.wgsl"),
    ),
    ("scan", include_str!("../../shaders/scan.wgsl")),
    ("radix", include_str!("../../shaders/radix.wgsl")),
];

/// Returns the shaders with wgpu's runtime checks: the number of items is in a buffer, and no code checks it against
/// the other buffers.
fn shaders() -> ShaderSet {
    ShaderSet::new(&PIECES)
}

/// Items in a block of [`Scan`]: `SCAN_BLOCK` of the shaders.
pub const SCAN_BLOCK: u32 = 1024;

/// Location of a count on the GPU.
#[derive(Debug, Clone, Copy)]
pub struct Count<'a> {
    /// Buffer with the count.
    pub buffer: &'a wgpu::Buffer,
    /// Index of the `u32` in the buffer.
    pub word: u32,
}

/// Use of subgroups: see [`defines`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lanes {
    /// Lanes of a subgroup, or of its replacement.
    size: u32,
    /// True if subgroup operations may be used.
    native: bool,
}

impl Lanes {
    /// Use without subgroup operations.
    const PORTABLE: Self = Self {
        size: 32,
        native: false,
    };

    fn define(self, defines: Defines) -> Defines {
        defines
            .flag("SUBGROUPS", self.native)
            .flag("WIDE_SUBGROUPS", self.size > 32)
            .u32("SUBGROUP_SIZE", self.size)
            .u32("SCAN_BLOCK", SCAN_BLOCK)
            .u32("RADIX_BLOCK", self.radix_block())
            .u32("RADIX_THREADS", self.radix_threads())
    }

    fn for_gpu(gpu: &Gpu) -> Self {
        match gpu.subgroup_size() {
            Some(size @ (8 | 16 | 32 | 64)) => Self { size, native: true },
            _ => Self::PORTABLE,
        }
    }

    /// Returns the invocations of a workgroup of the radix sort: eight subgroups, each with its own histogram in shared
    /// memory (8 KiB at 8-bit digits). Without subgroups a second such table holds the masks of lanes by digit. Four
    /// subgroups then fit both tables into the 16 KiB that WebGPU guarantees.
    const fn radix_threads(self) -> u32 {
        let wanted = if self.native { 8 } else { 4 } * self.size;
        if wanted < 256 { wanted } else { 256 }
    }

    /// Returns the pairs in a block of the radix sort. More pairs give longer runs of one digit, which are written
    /// together; fewer pairs give more workgroups and less shared memory.
    const fn radix_block(self) -> u32 {
        let few = self.native && self.radix_threads() < 256;
        let each = if few { 16 } else { 8 };
        self.radix_threads() * each
    }
}

/// Returns the pairs in a block of [`RadixSort`] on this device: `RADIX_BLOCK` of the shaders.
pub fn radix_block(gpu: &Gpu) -> u32 {
    Lanes::for_gpu(gpu).radix_block()
}

/// Adds the constants of this device for shaders: the flag `SUBGROUPS` if subgroup operations may be used,
/// `SUBGROUP_SIZE` (32 without them), and the blocks of scan and sort. The shader that fills the buffer `groups`
/// divides by the blocks.
pub fn defines(gpu: &Gpu, defines: Defines) -> Defines {
    Lanes::for_gpu(gpu).define(defines)
}

/// [`defines`] for unknown devices: no subgroup operations.
pub fn portable_defines(defines: Defines) -> Defines {
    Lanes::PORTABLE.define(defines)
}

/// [`radix_block`] under [`portable_defines`].
pub fn portable_radix_block() -> u32 {
    Lanes::PORTABLE.radix_block()
}

/// Returns the bits of the digits of each pass of [`RadixSort`], lowest first, for keys of `bits` bits.
pub fn radix_digits(bits: u32) -> Vec<u32> {
    radix::widths(bits)
}
