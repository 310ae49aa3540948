//! What files of splats leave open, for who reads and who writes them.

use super::{Axes, NearestBy};
use crate::edit::Similarity;
use glam::DVec3;

/// What becomes of Gaussians with numbers that are NaN or infinite.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum NonFinite {
    /// The file is refused, with the place of the first.
    #[default]
    Refuse,
    /// They are read as they are, for an edit that takes them away
    /// ([`removes_non_finite`](crate::edit::condition::removes_non_finite)).
    Keep,
}

impl NonFinite {
    /// What these actions let be read: anything where they take such Gaussians away before they ask for their numbers.
    pub fn of_chain(actions: &[crate::edit::Action]) -> Self {
        match crate::edit::condition::removes_non_finite(actions) {
            true => Self::Keep,
            false => Self::Refuse,
        }
    }
}

/// What a file may leave open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOptions {
    /// The axes of an SPZ file that declares none. Default: right, up, back, as the format's description says. Some
    /// tools have written those of the PLY file instead (right, down, forward): such scenes stand on their heads.
    pub undeclared_axes: Axes,
    /// Of .ply, .splat, .ksplat and .glb, which can hold such numbers. Default: the file is refused.
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
    /// Whether Gaussians with numbers that are not finite are to be read.
    pub(crate) fn keeps_non_finite(&self) -> bool {
        self.non_finite == NonFinite::Keep
    }
}

/// What takes such Gaussians away, for hints.
pub(crate) const NON_FINITE_HINT: &str = "the training that wrote it diverged, or the file is damaged; \
     `dapple edit in.ply out.ply --keep finite` removes such Gaussians";

/// The versions of SPZ that are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum SpzVersion {
    /// Packed by gzip: opens everywhere.
    #[default]
    V3,
    /// Packed by Zstandard, attribute by attribute: faster to read, and not known to all viewers yet.
    V4,
}

impl SpzVersion {
    /// As files say it.
    pub(super) fn number(self) -> u32 {
        match self {
            Self::V3 => 3,
            Self::V4 => 4,
        }
    }
}

/// What formats leave to choose.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteOptions {
    /// Of SPZ files.
    pub spz_version: SpzVersion,
    /// In which axes SPZ files are; version 4 declares them. Default: right, up, back.
    pub axes: Axes,
    /// Bits that SPZ files keep of the coefficients of degree 1, and of the others, 1 to 8, of all Gaussians alike; the
    /// format's first writer keeps 5 and 4. Default: the more, the more of a picture a Gaussian covers, as many as
    /// that on the average.
    pub spz_sh_bits: Option<[u8; 2]>,
    /// Whether the splats were trained with anti-aliasing: noted where the format has a place for it.
    pub antialiased: bool,
    /// The local origin that positions count from, which formats record that can: [`super::Format::holds_origin`].
    pub origin: DVec3,
    /// The motion of the splats since training, which formats record that can: [`super::Format::holds_motion`].
    pub moved: Similarity,
    /// Of .ply: positions are written in the frame that the origin lies in, as doubles.
    pub world: bool,
    /// Rounds in which SOG's palette of harmonics settles.
    pub sog_iterations: u32,
    /// Entries of that palette, cut to 1 to 65 536: more lose less and take more bytes. Default: one for ten Gaussians, at least
    /// 1 024.
    pub sog_palette: Option<usize>,
    /// Who finds the nearest entries of that palette, where they are many. Default: the processor. Files have the same
    /// bytes whoever it is.
    pub nearest: NearestBy,
    /// Levels of detail of streamed SOG, at least 1, which is all Gaussians; each other has a quarter of those before
    /// it, found by merging. Levels of a few dozen are left out.
    pub lod_levels: u32,
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
        }
    }
}
