//! Points of a coloured point cloud.

/// A point of a cloud, for example a sparse point of a reconstruction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Position, world units.
    pub position: [f32; 3],
    /// sRGB colour.
    pub rgb: [u8; 3],
}
