//! Models of panoramas: cameras without distortion whose image is a ring. One row a model.
//!
//! A panorama shows 360 degrees: the left and the right edge of its image meet, nothing is behind the camera, and its
//! depth is a distance. A place is a pair of longitude, radians, and height; focal length and principal point then give
//! pixels.

use crate::{Camera, Error, Lens, Pose, Result};
use glam::{DVec2, DVec3};
use serde::{Deserialize, Serialize};
use std::f64::consts::{PI, TAU};

/// Largest relative error of a focal length and a principal point that engines accept.
const EXACT: f64 = 1e-6;

/// Model of a panorama. The middle column of its image is the camera's +z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Panorama {
    /// All directions: longitude `atan2(x, z)` across, latitude `atan2(y, hypot(x, z))` down.
    Equirectangular,
}

impl Panorama {
    /// All models.
    pub const ALL: [Self; 1] = [Self::Equirectangular];

    /// Returns the model's name: that of COLMAP if COLMAP has the model.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Equirectangular => "EQUIRECTANGULAR",
        }
    }

    /// Returns parts of the names that programs give to the model, in capitals. OpenSfM and Metashape have "spherical" and
    /// "equirectangular".
    const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Equirectangular => &["EQUIRECT", "SPHERICAL", "PANORAM"],
        }
    }

    /// Returns the model with this name in COLMAP or a `transforms.json`.
    pub fn named(model: &str) -> Option<Self> {
        let model = model.to_ascii_uppercase();
        let is_named = |one: &Self| one.names().iter().any(|name| model.contains(name));
        Self::ALL.into_iter().find(is_named)
    }

    /// Returns the place of a point in camera coordinates: longitude and height.
    pub fn place(self, point: DVec3) -> DVec2 {
        let level = point.x.hypot(point.z);
        let height = match self {
            Self::Equirectangular => point.y.atan2(level),
        };
        DVec2::new(point.x.atan2(point.z), height)
    }

    /// Returns the point of depth 1 with this place.
    pub fn direction(self, place: DVec2) -> DVec3 {
        let (sin, cos) = place.x.sin_cos();
        let (y, level) = match self {
            Self::Equirectangular => place.y.sin_cos(),
        };
        DVec3::new(sin * level, y, cos * level)
    }

    /// Returns the weight of y in the depth: 1 if depths are distances from the centre, 0 if from the vertical axis.
    pub const fn depth_height(self) -> f32 {
        match self {
            Self::Equirectangular => 1.0,
        }
    }

    /// Returns the depth of a point in camera coordinates.
    pub fn depth(self, point: DVec3) -> f64 {
        (point * DVec3::new(1.0, self.depth_height().into(), 1.0)).length()
    }

    /// Builds the camera of an image of this size.
    pub fn camera(self, width: u32, height: u32, camera_from_world: Pose) -> Camera {
        let (w, h) = (f64::from(width), f64::from(height));
        let fy = match self {
            Self::Equirectangular => h / PI,
        };
        Camera {
            width,
            height,
            fx: w / TAU,
            fy,
            cx: w / 2.0,
            cy: h / 2.0,
            lens: Lens::Panorama(self),
            camera_from_world,
        }
    }

    /// Builds the camera of a capture's image of this size, at the identity pose. `given` are the focal lengths and the
    /// principal point of the capture, pixels; a model reads those that have a meaning for it.
    ///
    /// # Errors
    /// A size of another shape than the model's, up to a pixel of rounding.
    pub fn of_capture(
        self,
        (width, height): (u32, u32),
        _given: [Option<f64>; 4],
    ) -> Result<Camera> {
        match self {
            // Focal lengths have no meaning: the size is enough.
            Self::Equirectangular => {
                if u64::from(width).abs_diff(2 * u64::from(height)) > 2 {
                    return Err(Error::input(format!(
                        "a panorama of all directions has {width}x{height} pixels, but is twice as wide as high"
                    ))
                    .hint("pad the panorama to 360 by 180 degrees, and mask what was added"));
                }
                Ok(self.camera(width, height, Pose::IDENTITY))
            }
        }
    }

    /// Returns the quotient of width and height that an image needs; `None` if any will do.
    pub const fn aspect(self) -> Option<u32> {
        match self {
            Self::Equirectangular => Some(2),
        }
    }

    /// Returns the fault of a camera that is only a part of a panorama, and what to do.
    pub fn fault(self, camera: &Camera) -> Option<(&'static str, String)> {
        let whole = self.camera(camera.width, camera.height, camera.camera_from_world);
        let near = |a: f64, b: f64| (a - b).abs() <= EXACT * b;
        let goes_round = near(camera.fx, whole.fx) && near(camera.cx, whole.cx);
        match self {
            Self::Equirectangular => {
                let is_whole = goes_round && near(camera.fy, whole.fy) && near(camera.cy, whole.cy);
                let hint = || {
                    format!(
                        "an equirectangular camera of {} x {} pixels has focal lengths of {:.3} and {:.3} and its centre in the middle",
                        camera.width, camera.height, whole.fx, whole.fy
                    )
                };
                (!is_whole).then(|| ("a panorama does not show all directions", hint()))
            }
        }
    }
}
