//! Options of readers and writers of splat files.

use super::{Axes, NearestBy};
use crate::Similarity;
use glam::DVec3;

/// Treatment of Gaussians with NaN or infinite numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum NonFinite {
    /// The file, or the splats to write, are refused; the error names the place of the first.
    #[default]
    Refuse,
    /// Reads or writes them unchanged, for an edit that removes them
    /// ([`removes_non_finite`](crate::edit::removes_non_finite)).
    Keep,
}

/// Options of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOptions {
    /// Axes of an SPZ file that declares none. Default: right, up, back, by the format's description. Some tools have
    /// written the axes of the PLY file instead (right, down, forward); with the default, such scenes are upside down.
    pub undeclared_axes: Axes,
    /// Treatment of non-finite numbers in .ply, .splat, .ksplat and .glb, which can hold them. Default: the file is
    /// refused.
    pub non_finite: NonFinite,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            undeclared_axes: Axes::Rub,
            non_finite: NonFinite::Refuse,
        }
    }
}

impl ReadOptions {
    /// Returns true if Gaussians with non-finite numbers are read.
    pub(crate) fn keeps_non_finite(&self) -> bool {
        self.non_finite == NonFinite::Keep
    }
}

/// Hint that names the removal of such Gaussians.
pub(crate) const NON_FINITE_HINT: &str = "the training that wrote it diverged, or the file is damaged; \
     `dapple edit in.ply out.ply --keep finite` removes such Gaussians";

/// Versions of SPZ that can be written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum SpzVersion {
    /// Packed by gzip: supported by all readers.
    #[default]
    V3,
    /// Packed by Zstandard, attribute by attribute: faster to read, and not yet supported by all viewers.
    V4,
}

impl SpzVersion {
    /// Returns the number in files.
    pub(super) fn number(self) -> u32 {
        match self {
            Self::V3 => 3,
            Self::V4 => 4,
        }
    }
}

/// Options of writing.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteOptions {
    /// Version of SPZ files.
    pub spz_version: SpzVersion,
    /// Axes of SPZ files; version 4 declares them. Default: right, up, back.
    pub axes: Axes,
    /// Bits of the SPZ coefficients of degree 1, and of the others, 1 to 8, equal for all Gaussians; the format's first
    /// writer uses 5 and 4. Default: more bits for Gaussians with larger screen coverage, with about that average.
    pub spz_sh_bits: Option<[u8; 2]>,
    /// True if the splats were trained with anti-aliasing: recorded if the format has a field for it.
    pub antialiased: bool,
    /// Local origin of the positions. Formats with [`super::Format::holds_origin`] record it.
    pub origin: DVec3,
    /// Motion of the splats since training. Formats with [`super::Format::holds_motion`] record it.
    pub moved: Similarity,
    /// For .ply: positions are written as doubles, in the frame of the origin.
    pub world: bool,
    /// Rounds of k-means for SOG's palette of harmonics.
    pub sog_iterations: u32,
    /// Entries of that palette, limited to 1 to 65 536. More entries lose less and take more bytes. Default: one per
    /// ten Gaussians, at least 1 024.
    pub sog_palette: Option<usize>,
    /// Implementation of the nearest-entry search for a large palette. Default: the CPU. Files are byte-identical for
    /// all implementations.
    pub nearest: NearestBy,
    /// Levels of detail of streamed SOG, at least 1. Level 0 is all Gaussians; each further level has a quarter of the
    /// Gaussians of the one before, merged by decimation. Levels of a few dozen Gaussians are omitted.
    pub lod_levels: u32,
    /// Treatment of non-finite numbers, for all formats. Default: such splats are not written.
    pub non_finite: NonFinite,
    /// True if an existing file is an error. Default: it is replaced.
    pub refuses_existing: bool,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            spz_version: SpzVersion::default(),
            axes: Axes::Rub,
            spz_sh_bits: None,
            antialiased: false,
            origin: DVec3::ZERO,
            moved: Similarity::IDENTITY,
            world: false,
            sog_iterations: 10,
            sog_palette: None,
            nearest: NearestBy::default(),
            lod_levels: 4,
            non_finite: NonFinite::Refuse,
            refuses_existing: false,
        }
    }
}
