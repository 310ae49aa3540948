//! A photo in shades of grey, and the depth of the mesh in it.

use crate::raster::MeshDepths;
use crate::view::Pinhole;
use dapple_scene::grey::GreyPhoto;
use dapple_scene::{Camera, Photo};
use glam::Vec2;
use std::borrow::Cow;

/// A photo in shades of grey, and its camera.
#[derive(Clone)]
pub(super) struct Shot {
    camera: Pinhole,
    pub grey: GreyPhoto,
}

impl Shot {
    pub fn new(camera: &Camera, photo: &Photo) -> Self {
        Self {
            camera: Pinhole::new(camera),
            grey: GreyPhoto::of(photo),
        }
    }

    /// Returns the photo at half the size, which may be nothing.
    #[must_use]
    pub fn halved(&self) -> Self {
        let grey = self.grey.halved();
        let camera = Pinhole {
            focal: self.camera.focal / 2.0,
            principal: self.camera.principal / 2.0,
            size: grey.size.map(|side| side as usize),
            ..self.camera
        };
        Self { camera, grey }
    }
}

/// A photo and the depth of the mesh in it.
pub(super) struct Look<'a> {
    pub camera: Pinhole,
    shot: Cow<'a, Shot>,
    depths: &'a MeshDepths,
}

impl<'a> Look<'a> {
    /// Halves a photo some times.
    pub fn new(shot: &'a Shot, halvings: u32, depths: &'a MeshDepths) -> Self {
        let mut shot = Cow::Borrowed(shot);
        for _ in 0..halvings {
            shot = Cow::Owned(shot.halved());
        }
        Self {
            camera: shot.camera,
            depths,
            shot,
        }
    }

    /// Returns true if the mesh at a place of the photo is nearer than `depth`.
    pub fn hides(&self, place: Vec2, depth: f32) -> bool {
        let size = self.camera.size.map(|side| side as f32);
        self.depths.at(place / Vec2::from(size)) < depth
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
        let shades = &self.shot.grey.shades;
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
