//! A photo in shades of grey, and the depth of the mesh in it.

use crate::mesh::Mesh;
use crate::raster::rasterize;
use crate::view::Pinhole;
use dapple_scene::Camera;
use dapple_scene::grey::GreyPhoto;
use glam::Vec2;

/// A photo and the depth of the mesh in it.
pub(super) struct Look {
    pub camera: Pinhole,
    grey: GreyPhoto,
    /// Depth of the mesh, world units, `[height, width]`.
    depth: Vec<f32>,
}

impl Look {
    /// Halves a photo some times, and draws the mesh at this size.
    pub fn new(camera: &Camera, grey: &GreyPhoto, halvings: u32, mesh: &Mesh) -> Self {
        let mut grey = grey.clone();
        for _ in 0..halvings {
            grey = grey.halved();
        }
        let scale = 0.5f32.powi(halvings as i32);
        let full = Pinhole::new(camera);
        let camera = Pinhole {
            focal: full.focal * scale,
            principal: full.principal * scale,
            size: grey.size.map(|side| side as usize),
            ..full
        };
        let depth = rasterize(mesh, &camera).depth;
        Self {
            camera,
            grey,
            depth,
        }
    }

    /// Returns true if the mesh at a pixel is nearer than `depth`.
    pub fn hides(&self, pixel: usize, depth: f32) -> bool {
        self.depth[pixel] < depth
    }

    /// Returns the shade of the photo at a place; `None` outside of it and where its pixels do not count.
    pub fn shade(&self, place: Vec2) -> Option<f32> {
        let [width, height] = self.camera.size;
        let corner = place - 0.5;
        // NaN places fail the comparison.
        let is_inside = corner.x >= 0.0
            && corner.y >= 0.0
            && corner.x < (width - 1) as f32
            && corner.y < (height - 1) as f32;
        if !is_inside {
            return None;
        }
        let (x, y) = (corner.x as usize, corner.y as usize);
        let (u, v) = (corner.x - x as f32, corner.y - y as f32);
        let i = y * width + x;
        let shades = &self.grey.shades;
        let four = [
            shades[i],
            shades[i + 1],
            shades[i + width],
            shades[i + width + 1],
        ];
        if four.contains(&0) {
            return None;
        }
        let [a, b, c, d] = four.map(f32::from);
        let upper = a + (b - a) * u;
        let lower = c + (d - c) * u;
        Some(upper + (lower - upper) * v)
    }
}
