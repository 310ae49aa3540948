//! Metadata of a splat file.

use super::Axes;
use crate::Similarity;
use crate::origin::Frame;
use glam::DVec3;

/// Metadata of a splat file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SplatMetadata {
    /// Up direction of the file's program, in the form that the exporters of Nerfstudio and Brush write into PLY: a
    /// header line `comment Vertical Axis: z`.
    pub up: Option<[f64; 3]>,
    /// True if the splats were trained with anti-aliasing and need it in rendering.
    pub antialiased: bool,
    /// Local origin of the positions, in their original frame; zero if positions are in that frame. PLY stores it in a
    /// line `comment Origin: x y z`. Positions in doubles, far from zero, are read relative to a computed origin: see
    /// [`crate::origin`].
    pub origin: DVec3,
    /// Motion of the splats since training, of coordinates relative to `origin`; cameras of the capture follow it
    /// ([`Similarity::camera`]). PLY stores it in a line `comment Moved: `, with [`Similarity::numbers`]; SOG and glTF
    /// in the `extras` of their `asset`.
    pub moved: Similarity,
    /// For point clouds: rounding remainders of positions, if the file has them in doubles; see
    /// [`crate::origin::remainder`].
    pub remainders: Vec<[f32; 3]>,
    /// Axes that the file declares; the splats that were read have Dapple's.
    pub axes: Option<Axes>,
    /// Notes for the user: values that were read with changes, ignored data, and suspicious data.
    pub notes: Vec<String>,
}

impl SplatMetadata {
    /// Place of the splats relative to the capture that they were trained on.
    pub fn frame(&self) -> Frame {
        Frame {
            origin: self.origin,
            moved: self.moved,
        }
    }
}
