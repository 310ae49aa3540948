//! What many kernels build on: prefix sums ([`Scan`]) and sorting ([`RadixSort`]), of counts that the GPU knows.
//!
//! Both meet other workgroups at dispatch boundaries alone, so that their results depend neither on
//! the order in which workgroups run nor on which of them run at once.

mod radix;
mod scan;

pub use radix::{RadixSort, SortOn};
pub use scan::{Scan, ScanOn};

use crate::{Defines, Gpu, ShaderSet};

/// Their WGSL, for shaders of others too: scans within a workgroup and along a buffer, and the number of a
/// workgroup among all of its dispatch.
pub const PIECES: [(&str, &str); 5] = [
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
    ("scan", include_str!("../../shaders/scan.wgsl")),
    ("radix", include_str!("../../shaders/radix.wgsl")),
];

/// With wgpu's runtime checks: how many items there are says a buffer, and nothing holds it to the others.
fn shaders() -> ShaderSet {
    ShaderSet::new(&PIECES)
}

/// Items in a block of [`Scan`]: `SCAN_BLOCK` of the shaders.
pub const SCAN_BLOCK: u32 = 1024;

/// Where the GPU keeps a count.
#[derive(Debug, Clone, Copy)]
pub struct Count<'a> {
    /// The buffer.
    pub buffer: &'a wgpu::Buffer,
    /// Which of its `u32`.
    pub word: u32,
}

/// How subgroups are used: see [`defines`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lanes {
    /// Lanes of a subgroup, or of what stands in for one.
    size: u32,
    /// Whether subgroup operations may be used.
    native: bool,
}

impl Lanes {
    /// What needs no subgroups.
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

    fn of(gpu: &Gpu) -> Self {
        match gpu.subgroup_size() {
            Some(size @ (8 | 16 | 32 | 64)) => Self { size, native: true },
            _ => Self::PORTABLE,
        }
    }

    /// Invocations of a workgroup of the radix sort: eight subgroups, each with a histogram of its
    /// own in shared memory (8 KiB at 8-bit digits). Without subgroups a thread's turn is told by a second such
    /// table, and four have to do for both to fit the 16 KiB that WebGPU promises.
    const fn radix_threads(self) -> u32 {
        let wanted = if self.native { 8 } else { 4 } * self.size;
        if wanted < 256 { wanted } else { 256 }
    }

    /// Pairs in a block of the radix sort. More make for longer runs of one digit, which are
    /// written together; fewer for more workgroups and less shared memory.
    const fn radix_block(self) -> u32 {
        let few = self.native && self.radix_threads() < 256;
        let each = if few { 16 } else { 8 };
        self.radix_threads() * each
    }
}

/// Pairs in a block of [`RadixSort`] on this device: `RADIX_BLOCK` of the shaders.
pub fn radix_block(gpu: &Gpu) -> u32 {
    Lanes::of(gpu).radix_block()
}

/// Adds what shaders need to know of this device: the flag `SUBGROUPS` if subgroup operations may be
/// used, `SUBGROUP_SIZE` (32 without them), and the blocks of scan and sort, by which whoever fills
/// the buffer `groups` divides.
pub fn defines(gpu: &Gpu, defines: Defines) -> Defines {
    Lanes::of(gpu).define(defines)
}

/// [`defines`] for devices that are not known: no subgroup operations.
pub fn portable_defines(defines: Defines) -> Defines {
    Lanes::PORTABLE.define(defines)
}

/// [`radix_block`] under [`portable_defines`].
pub fn portable_radix_block() -> u32 {
    Lanes::PORTABLE.radix_block()
}

/// Bits of the digits that [`RadixSort`] takes in turn, lowest first, for keys of so many bits.
pub fn radix_digits(bits: u32) -> Vec<u32> {
    radix::widths(bits)
}
