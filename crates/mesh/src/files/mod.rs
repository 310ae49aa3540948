//! Mesh files: PLY, OBJ, GLB.

mod drawable;
mod flat;
mod glb;
mod gltf;
mod materials;
mod obj;
mod open;
mod ply;
mod read;
mod wavefront;

pub use drawable::{Drawable, Picture};
pub use glb::glb;
pub use gltf::read_glb;
pub use obj::obj;
pub use ply::ply;
pub use read::{Counted, read_counted_ply, read_ply};
pub use wavefront::read_obj;

use dapple_base::{Error, Result};
use glam::{DVec3, Vec3};

/// Facts about a mesh that its file records.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct About {
    /// Position of the mesh's origin in the frame of the capture, world units.
    pub origin: DVec3,
    /// Up direction of the scene, if it is known.
    pub up: Option<Vec3>,
    /// Distance between the voxels of the fusion, world units; 0 if unknown.
    pub voxel: f32,
}

impl About {
    /// Returns the facts as lines of text.
    pub fn comments(&self) -> Vec<String> {
        let mut lines = vec!["made by dapple mesh".to_owned()];
        let DVec3 { x, y, z } = self.origin;
        if self.origin != DVec3::ZERO {
            lines.push(format!("origin {x} {y} {z}"));
        }
        if let Some(up) = self.up {
            lines.push(format!("up {} {} {}", up.x, up.y, up.z));
        }
        if self.voxel > 0.0 {
            lines.push(format!("voxel {}", self.voxel));
        }
        lines
    }
}

/// Quality of JPEG textures.
const JPEG_QUALITY: u8 = 92;

/// Returns a texture as JPEG.
///
/// # Errors
/// A size that JPEG does not hold.
pub fn jpeg(texture: &crate::mesh::Texture) -> Result<Vec<u8>> {
    let fail = |e: &dyn std::fmt::Display| {
        Error::unsupported(format!("the texture cannot be written as JPEG: {e}"))
    };
    let [width, height] = texture.size;
    let side = |v: u32| u16::try_from(v).map_err(|e| fail(&e));
    let mut bytes = Vec::new();
    jpeg_encoder::Encoder::new(&mut bytes, JPEG_QUALITY)
        .encode(
            &texture.rgb,
            side(width)?,
            side(height)?,
            jpeg_encoder::ColorType::Rgb,
        )
        .map_err(|e| fail(&e))?;
    Ok(bytes)
}
