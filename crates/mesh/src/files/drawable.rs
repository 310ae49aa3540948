//! Meshes of files as renderers draw them.

use super::gltf::read_glb;
use super::read::{origin_of, read_ply};
use crate::mesh::Mesh;
use dapple_base::Result;
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
}

impl Drawable {
    /// Reads a mesh: GLB or PLY, by its first bytes.
    ///
    /// # Errors
    /// A file that is neither or is cut off; a GLB file without a triangle.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        if bytes.starts_with(b"glTF") {
            return read_glb(bytes);
        }
        Ok(Self {
            mesh: read_ply(bytes)?,
            origin: origin_of(bytes),
            ..Self::default()
        })
    }
}
