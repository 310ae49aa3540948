//! Meshes of files as renderers draw them.

use crate::mesh::Mesh;
use glam::{DVec3, Vec2};

/// Encoded picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// Bytes of its file.
    pub bytes: Vec<u8>,
    /// Media type, such as `image/jpeg`.
    pub kind: String,
}

/// Mesh of a file, with one place in a picture for each vertex.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Drawable {
    /// Positions, triangles and colours per vertex.
    pub mesh: Mesh,
    /// Place of each vertex in the picture, 0 to 1 from its upper left corner; empty without a picture.
    pub places: Vec<Vec2>,
    /// Texture.
    pub picture: Option<Picture>,
    /// Position of the mesh's origin in the frame of the capture, world units.
    pub origin: DVec3,
    /// Notes for the user: parts that are missing.
    pub notes: Vec<String>,
}
