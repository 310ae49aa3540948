//! Meshes of files as renderers draw them.

use super::gltf::read_glb;
use super::read::{origin_of, read_ply};
use crate::mesh::Mesh;
use dapple_base::Result;
use glam::{DVec3, Vec2, Vec3};

/// Encoded picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// Bytes of its file.
    pub bytes: Vec<u8>,
    /// Media type, such as `image/jpeg`.
    pub kind: String,
}

/// Mesh with one place in a picture or one colour for each vertex.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Drawable {
    /// Positions, world units.
    pub positions: Vec<Vec3>,
    /// Triangles, as indices of positions; counterclockwise from outside.
    pub triangles: Vec<[u32; 3]>,
    /// Places in the picture, 0 to 1 from its upper left corner; empty without a picture.
    pub places: Vec<Vec2>,
    /// sRGB colours; empty without colours.
    pub colours: Vec<[u8; 3]>,
    /// Texture.
    pub picture: Option<Picture>,
    /// Position of the mesh's origin in the frame of the capture, world units.
    pub origin: DVec3,
}

impl Drawable {
    /// Reads a mesh: GLB or PLY, by its first bytes.
    ///
    /// # Errors
    /// A file that is neither, is cut off, or has no triangle.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        if bytes.starts_with(b"glTF") {
            return read_glb(bytes);
        }
        let mesh = read_ply(bytes)?;
        Ok(Self {
            positions: mesh.positions,
            triangles: mesh.triangles,
            colours: mesh.colours,
            origin: origin_of(bytes),
            ..Self::default()
        })
    }

    /// Returns positions and triangles.
    pub fn mesh(&self) -> Mesh {
        Mesh {
            positions: self.positions.clone(),
            triangles: self.triangles.clone(),
            colours: self.colours.clone(),
            ..Mesh::default()
        }
    }
}
