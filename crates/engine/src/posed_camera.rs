//! Posed camera with the precision and the fields of kernels.

use crate::constants::TILE_SIZE;
use crate::{CameraModel, LensForm, slope_range};
use dapple_scene::{Camera, Error, Rays, Result};

/// Longest side of an image, pixels.
pub const MAX_IMAGE_SIDE: u32 = 1 << 16;

/// Checked camera for kernels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PosedCamera {
    /// World to camera, row by row.
    pub rotation: [[f32; 3]; 3],
    /// Centre in world coordinates.
    pub centre: [f32; 3],
    /// Rounding error of `centre` in `f32`: `(m - centre) - centre_rest` is exact to the last place
    /// of the distance. This also holds directly in front of a camera far from the origin, where
    /// `rotation m + translation` cancels.
    pub centre_rest: [f32; 3],
    /// Focal lengths, pixels.
    pub focal: [f32; 2],
    /// Principal point, pixels.
    pub principal: [f32; 2],
    /// Least x/z and y/z at which the projection's Jacobian is evaluated; see [`slope_range`].
    pub jacobian_min: [f32; 2],
    /// Largest x/z and y/z at which the projection's Jacobian is evaluated; see [`slope_range`].
    pub jacobian_max: [f32; 2],
    /// Camera model.
    pub model: CameraModel,
    /// Distortion of the lens; `None` for a pinhole and for a panorama.
    pub lens: Option<LensForm>,
    /// Rays of the pixels, in camera coordinates.
    pub rays: Rays,
    /// Image size, pixels.
    pub size: [u32; 2],
    /// Tiles across and down.
    pub tiles: [u32; 2],
}

impl PosedCamera {
    /// Checks a camera and prepares it for kernels.
    ///
    /// # Errors
    /// A lens that engines do not support or that shows nothing; a pose or focal length that is
    /// non-finite; an image without area or beyond [`MAX_IMAGE_SIDE`].
    pub fn new(camera: &Camera) -> Result<Self> {
        let finite = camera.camera_from_world.is_finite()
            && [camera.fx, camera.fy, camera.cx, camera.cy]
                .iter()
                .all(|v| v.is_finite());
        if !finite || camera.fx <= 0.0 || camera.fy <= 0.0 {
            return Err(Error::input(
                "a camera has a non-finite pose or a focal length that is not positive",
            ));
        }
        let size = [camera.width, camera.height];
        if size.contains(&0) || size.iter().any(|&side| side > MAX_IMAGE_SIDE) {
            return Err(Error::input(format!(
                "a camera has an image of {} x {} pixels",
                camera.width, camera.height
            ))
            .hint(format!(
                "each side must be between 1 and {MAX_IMAGE_SIDE} pixels"
            )));
        }
        if let Some((what, hint)) = camera.lens.panorama().and_then(|p| p.fault(camera)) {
            return Err(Error::input(what).hint(hint));
        }
        let pose = &camera.camera_from_world;
        let r = pose.rotation_matrix();
        let exact = pose.centre().to_array();
        let centre = exact.map(|v| v as f32);
        let focal = [camera.fx, camera.fy];
        let principal = [camera.cx, camera.cy];
        let (slope_min, slope_max) = slope_range(camera);
        let lens = LensForm::from_lens(&camera.lens)?;
        let reach = lens.map_or(f64::INFINITY, |lens| f64::from(lens.reach).sqrt());
        Ok(Self {
            rotation: [0, 1, 2].map(|i| r.row(i).to_array().map(|v| v as f32)),
            centre,
            centre_rest: [0, 1, 2].map(|i| (exact[i] - f64::from(centre[i])) as f32),
            focal: focal.map(|v| v as f32),
            principal: principal.map(|v| v as f32),
            jacobian_min: slope_min.to_array().map(|v| v as f32),
            jacobian_max: slope_max.to_array().map(|v| v as f32),
            model: CameraModel::of(&camera.lens),
            lens,
            rays: Rays::with_reach(camera, reach),
            size,
            tiles: size.map(|v| v.div_ceil(TILE_SIZE)),
        })
    }

    /// Returns the number of tiles.
    pub fn tile_count(&self) -> usize {
        self.tiles[0] as usize * self.tiles[1] as usize
    }

    /// Returns the number of pixels.
    pub fn pixel_count(&self) -> usize {
        self.size[0] as usize * self.size[1] as usize
    }
}
