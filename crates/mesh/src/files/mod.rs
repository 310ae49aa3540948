//! Mesh files: PLY, OBJ, GLB.

mod ply;

pub use ply::ply;

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
