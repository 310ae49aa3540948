//! How a lens maps camera space to pixels, with its first and second derivatives.
//!
//! EWA splatting (Zwicker et al. 2001, section 6.2.2) replaces the projection by its tangent at the
//! Gaussian's centre. Three things follow, kept in one place for each camera model:
//! 1. where the centre lands, and its derivative (moves the ellipse);
//! 2. the Jacobian that shapes the ellipse; it may be evaluated elsewhere than at the centre,
//!    because outside the image the tangent is meaningless;
//! 3. the derivative of that Jacobian by the centre (the shape changes when the centre moves).

use crate::constants::JACOBIAN_MARGIN;
use dapple_scene::{Camera, Error, Lens, Result};
use glam::{DMat3, DVec2, DVec3};

/// What [`LensModel::project`] says about one point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LensProjection {
    /// Where the point lands, pixels.
    pub centre: DVec2,
    /// d centre / d point: rows are u and v, pixels per world unit.
    pub centre_gradient: [DVec3; 2],
    /// The Jacobian that the covariance is projected with: rows are u and v.
    pub jacobian: [DVec3; 2],
    /// d jacobian / d point: `[row][column]` holds the gradient of that entry.
    pub jacobian_gradient: [[DVec3; 3]; 2],
}

/// A camera model: from camera coordinates to pixels.
pub trait LensModel {
    /// Projects a point in camera coordinates with `z > 0`.
    fn project(&self, point: DVec3) -> LensProjection;
}

/// `u = fx x/z + cx`, `v = fy y/z + cy`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pinhole {
    /// Focal lengths, pixels.
    pub focal: DVec2,
    /// Principal point, pixels.
    pub principal: DVec2,
    /// Least x/z and y/z at which the Jacobian is evaluated.
    pub slope_min: DVec2,
    /// Largest x/z and y/z at which the Jacobian is evaluated.
    pub slope_max: DVec2,
}

impl Pinhole {
    /// The Jacobian's limits lie [`JACOBIAN_MARGIN`] of half the field of view outside the image,
    /// measured from the image's edges, so that an off-centre principal point is no exception
    /// (gsplat; the 3DGS paper's code assumes a centred one).
    pub fn new(camera: &Camera) -> Self {
        let size = DVec2::new(f64::from(camera.width), f64::from(camera.height));
        let focal = DVec2::new(camera.fx, camera.fy);
        let principal = DVec2::new(camera.cx, camera.cy);
        let tan_half_fov = 0.5 * size / focal;
        let margin = f64::from(JACOBIAN_MARGIN) * tan_half_fov;
        Self {
            focal,
            principal,
            slope_min: -(principal / focal + margin),
            slope_max: (size - principal) / focal + margin,
        }
    }
}

impl LensModel for Pinhole {
    fn project(&self, p: DVec3) -> LensProjection {
        let z = p.z;
        let mut out = LensProjection {
            centre: self.focal * p.truncate() / z + self.principal,
            centre_gradient: [DVec3::ZERO; 2],
            jacobian: [DVec3::ZERO; 2],
            jacobian_gradient: [[DVec3::ZERO; 3]; 2],
        };
        // Row 0 differentiates u by (x, y, z), row 1 v. Both depend on their own axis and z only.
        for axis in 0..2 {
            let f = self.focal[axis];
            let slope = p[axis] / z;
            let clamped = slope.clamp(self.slope_min[axis], self.slope_max[axis]);
            let inside = slope == clamped;

            let unit = DVec3::AXES[axis];
            out.centre_gradient[axis] = unit * (f / z) - DVec3::Z * (f * slope / z);
            // arXiv:2312.02121, eq. 9, at slope `clamped` instead of x/z:
            // [f/z, 0, -f clamped / z].
            out.jacobian[axis] = unit * (f / z) - DVec3::Z * (f * clamped / z);

            out.jacobian_gradient[axis][axis] = DVec3::Z * (-f / (z * z));
            // clamped = x/z moves with x and z; at its limit with neither, and only 1/z is left.
            out.jacobian_gradient[axis][2] = if inside {
                unit * (-f / (z * z)) + DVec3::Z * (2.0 * f * slope / (z * z))
            } else {
                DVec3::Z * (f * clamped / (z * z))
            };
        }
        out
    }
}

/// A lens where it stands.
pub struct PosedLens {
    /// The camera model.
    pub lens: Box<dyn LensModel>,
    /// Rotation from world to camera.
    pub rotation: DMat3,
    /// Translation from world to camera, camera coordinates.
    pub translation: DVec3,
    /// Centre of the camera, world coordinates.
    pub centre: DVec3,
}

impl PosedLens {
    /// Prepares a camera.
    ///
    /// # Errors
    /// A camera that is not finite or has no area, or whose lens the reference does not know.
    pub fn new(camera: &Camera) -> Result<Self> {
        let numbers = [camera.fx, camera.fy, camera.cx, camera.cy];
        if !numbers.iter().all(|v| v.is_finite()) || !camera.camera_from_world.is_finite() {
            return Err(Error::input("the camera has a number that is not finite")
                .hint("check its pose, focal lengths and principal point"));
        }
        if camera.width == 0 || camera.height == 0 || camera.fx <= 0.0 || camera.fy <= 0.0 {
            return Err(Error::input(
                "the camera has an empty image or a focal length that is not positive",
            ));
        }
        let lens = match camera.lens {
            Lens::Pinhole => Box::new(Pinhole::new(camera)),
            other => {
                return Err(Error::unsupported(format!(
                    "the reference renders pinhole cameras only, not {other:?}"
                ))
                .hint("undistort the photos first"));
            }
        };
        Ok(Self {
            lens,
            rotation: camera.camera_from_world.rotation_matrix(),
            translation: camera.camera_from_world.translation,
            centre: camera.camera_from_world.centre(),
        })
    }

    /// Maps a point from world to camera coordinates.
    pub fn to_camera(&self, point: DVec3) -> DVec3 {
        self.rotation * point + self.translation
    }
}
