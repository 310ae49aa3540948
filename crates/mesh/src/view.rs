//! Inputs of the fusion: depth, normal and alpha of each view, through a pinhole camera.

use dapple_base::Result;
use dapple_scene::{Camera, Photo};
use glam::{Mat3, Vec2, Vec3};
use std::sync::Arc;

/// Depth of one view.
#[derive(Debug, Clone, Default)]
pub struct DepthView {
    /// Depth along +z in world units, 0 for a pixel without a surface, `[height, width]`.
    pub depth: Vec<f32>,
    /// Alpha of the render, `[height, width]`. A pixel without depth and with little alpha shows free space.
    pub alpha: Vec<f32>,
    /// Unit normals in camera coordinates that face the camera, zero for none, `[height, width]`. Without normals,
    /// the fusion derives them from the depth.
    pub normals: Option<Vec<[f32; 3]>>,
}

/// Source of depths. The cameras have no lens distortion.
pub trait DepthSource {
    /// Returns the cameras of all views.
    fn cameras(&self) -> &[Camera];

    /// Returns the depth of a view, of the size of its camera.
    ///
    /// # Errors
    /// A render that fails.
    fn depth(&mut self, view: usize) -> Result<DepthView>;

    /// Calls `take` with each view and its depth, in order.
    ///
    /// # Errors
    /// A render that fails; the first error of `take`.
    fn each_depth(&mut self, take: &mut dyn FnMut(usize, DepthView) -> Result<()>) -> Result<()> {
        for view in 0..self.cameras().len() {
            take(view, self.depth(view)?)?;
        }
        Ok(())
    }
}

/// Source of photos, for colours.
pub trait PhotoSource: Sync {
    /// Returns the number of photos.
    fn count(&self) -> usize;

    /// Returns a photo without lens distortion, and its camera. Several threads read photos at the same time.
    ///
    /// # Errors
    /// A photo that cannot be read.
    fn photo(&self, index: usize) -> Result<(Camera, Arc<Photo>)>;
}

/// Pinhole camera in `f32`, relative to an origin near the scene.
#[derive(Debug, Clone, Copy)]
pub struct Pinhole {
    /// Rotation, camera from world.
    pub rotation: Mat3,
    /// Translation, camera from world.
    pub translation: Vec3,
    /// Camera centre, world units.
    pub centre: Vec3,
    /// Focal lengths, pixels.
    pub focal: Vec2,
    /// Principal point, pixels.
    pub principal: Vec2,
    /// Width and height, pixels.
    pub size: [usize; 2],
}

impl Pinhole {
    /// Converts a camera.
    pub fn new(camera: &Camera) -> Self {
        let pose = &camera.camera_from_world;
        Self {
            rotation: pose.rotation_matrix().as_mat3(),
            translation: pose.translation.as_vec3(),
            centre: pose.centre().as_vec3(),
            focal: Vec2::new(camera.fx as f32, camera.fy as f32),
            principal: Vec2::new(camera.cx as f32, camera.cy as f32),
            size: [camera.width as usize, camera.height as usize],
        }
    }

    /// Returns the point in camera coordinates.
    pub fn to_camera(&self, world: Vec3) -> Vec3 {
        self.rotation * world + self.translation
    }

    /// Returns the world point of a point in camera coordinates.
    pub fn to_world(&self, camera: Vec3) -> Vec3 {
        self.rotation.transpose() * (camera - self.translation)
    }

    /// Projects a point in camera coordinates in front of the camera; pixel centres are at .5.
    pub fn project(&self, camera: Vec3) -> Vec2 {
        self.focal * Vec2::new(camera.x, camera.y) / camera.z + self.principal
    }

    /// Returns the ray of a place in the image, with z = 1, camera coordinates.
    pub fn ray(&self, place: Vec2) -> Vec3 {
        ((place - self.principal) / self.focal).extend(1.0)
    }

    /// Returns the pixel that contains a place, if it is inside the image.
    pub fn pixel(&self, place: Vec2) -> Option<usize> {
        // Negative and NaN places fail the comparison.
        let inside = place.x >= 0.0
            && place.y >= 0.0
            && place.x < self.size[0] as f32
            && place.y < self.size[1] as f32;
        inside.then(|| place.y as usize * self.size[0] + place.x as usize)
    }

    /// Returns the corners of a box around a ball, camera coordinates, in pixels: a pixel larger, for errors of rounding,
    /// and infinite if the ball reaches behind the camera. `None` if the ball is behind the camera or outside the image,
    /// or is no ball (NaN).
    pub fn around_ball(&self, centre: Vec3, radius: f32) -> Option<[Vec2; 2]> {
        const ROUNDING: f32 = 1.0;
        let (near, far) = (centre.z - radius, centre.z + radius);
        if near <= 0.0 {
            return (far > 0.0).then_some([Vec2::NEG_INFINITY, Vec2::INFINITY]);
        }
        let side = |k: usize, by: f32| {
            let edge = centre[k] + by;
            // The edge is farther out where the ball is near, if it is on the side of the axis to which it moves.
            let depth = if edge * by > 0.0 { near } else { far };
            edge / depth * self.focal[k] + self.principal[k]
        };
        let [low, high] = [-radius, radius].map(|by| Vec2::new(side(0, by), side(1, by)));
        let (low, high) = (low - ROUNDING, high + ROUNDING);
        let size = Vec2::from(self.size.map(|side| side as f32));
        let is_in_image = high.cmpge(Vec2::ZERO).all() && low.cmplt(size).all();
        is_in_image.then_some([low, high])
    }

    /// Returns the mean focal length, pixels.
    pub fn mean_focal(&self) -> f32 {
        (self.focal.x * self.focal.y).sqrt()
    }
}

/// Returns middle and radius of a ball around points, not the least one, a thousandth larger for errors of rounding;
/// without points the radius is NaN.
pub(crate) fn ball_around(points: impl Iterator<Item = Vec3>) -> (Vec3, f32) {
    let bounds = [Vec3::INFINITY, Vec3::NEG_INFINITY];
    let [low, high] = points.fold(bounds, |[low, high], p| [low.min(p), high.max(p)]);
    ((low + high) / 2.0, (high - low).length() / 2.0 * 1.001)
}

/// Reduces depths by the nearest pixel, so that no depth of two surfaces mixes.
pub fn reduced(view: &DepthView, size: [usize; 2], to: [usize; 2]) -> DepthView {
    let place = |i: usize, k: usize| ((2 * i + 1) * size[k] / (2 * to[k])).min(size[k] - 1);
    let pixels: Vec<usize> = (0..to[1])
        .flat_map(|y| (0..to[0]).map(move |x| (x, y)))
        .map(|(x, y)| place(y, 1) * size[0] + place(x, 0))
        .collect();
    DepthView {
        depth: pixels.iter().map(|&i| view.depth[i]).collect(),
        alpha: pixels.iter().map(|&i| view.alpha[i]).collect(),
        normals: view
            .normals
            .as_ref()
            .map(|normals| pixels.iter().map(|&i| normals[i]).collect()),
    }
}
