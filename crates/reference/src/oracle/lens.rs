//! Camera models: map camera space to pixels, with first and second derivatives.
//!
//! EWA splatting (Zwicker et al. 2001, section 6.2.2) replaces the projection by its tangent at the
//! Gaussian's centre. Each camera model provides three results:
//! 1. the projected centre and its derivative (moves the ellipse);
//! 2. the Jacobian that shapes the ellipse. It may be evaluated at another point than the centre,
//!    because outside the image the tangent is meaningless;
//! 3. the derivative of that Jacobian by the centre (the shape changes when the centre moves).

use super::distortion::{Jet, distort};
use super::panoramas;
use dapple_engine::{CameraModel, slope_range};
use dapple_scene::{Camera, Error, Lens, Result};
use glam::{DMat3, DVec2, DVec3};

/// Result of [`LensModel::project`] for one point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LensProjection {
    /// Projected point, pixels.
    pub centre: DVec2,
    /// d centre / d point: rows are u and v, pixels per world unit.
    pub centre_gradient: [DVec3; 2],
    /// Jacobian for the projection of the covariance: rows are u and v.
    pub jacobian: [DVec3; 2],
    /// d jacobian / d point: `[row][column]` holds the gradient of that entry.
    pub jacobian_gradient: [[DVec3; 3]; 2],
}

/// Camera model: from camera coordinates to pixels.
pub trait LensModel {
    /// Returns the depth of a point in camera coordinates: the key of `order`, not positive behind the camera.
    fn depth(&self, point: DVec3) -> f64 {
        point.z
    }

    /// Returns the derivative of the depth by the point.
    fn depth_gradient(&self, _: DVec3) -> DVec3 {
        DVec3::Z
    }

    /// Returns the width of an image whose left and right edges meet, pixels, or `None`.
    fn period(&self) -> Option<f64> {
        None
    }

    /// Returns true if the lens shows a point in camera coordinates of positive depth, inside or outside
    /// of the image.
    fn shows(&self, point: DVec3) -> bool;

    /// Projects a point in camera coordinates of positive depth that the lens shows.
    fn project(&self, point: DVec3) -> LensProjection;
}

/// Pinhole camera: `u = fx x/z + cx`, `v = fy y/z + cy`.
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
    /// Creates a pinhole; the Jacobian's limits are [`slope_range`]'s.
    pub fn new(camera: &Camera) -> Self {
        let (slope_min, slope_max) = slope_range(camera);
        Self {
            focal: DVec2::new(camera.fx, camera.fy),
            principal: DVec2::new(camera.cx, camera.cy),
            slope_min,
            slope_max,
        }
    }
}

impl LensModel for Pinhole {
    fn shows(&self, _: DVec3) -> bool {
        true
    }

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
            // clamped = x/z moves with x and z; at its limit it moves with neither, and only 1/z
            // does.
            out.jacobian_gradient[axis][2] = if inside {
                unit * (-f / (z * z)) + DVec3::Z * (2.0 * f * slope / (z * z))
            } else {
                DVec3::Z * (f * clamped / (z * z))
            };
        }
        out
    }
}

/// Camera with a lens that distorts: `(u, v) = focal distort(x/z, y/z) + principal`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Distorting {
    /// Distortion of the lens.
    pub lens: Lens,
    /// Focal lengths, principal point and limits, as of a pinhole camera.
    pub pinhole: Pinhole,
    /// The largest length of (x/z, y/z) that the lens shows.
    pub reach: f64,
}

impl Distorting {
    /// Creates a camera model.
    ///
    /// # Errors
    /// A lens that the reference does not support.
    pub fn new(camera: &Camera) -> Result<Self> {
        distort(&camera.lens, 0.0, 0.0)?;
        Ok(Self {
            lens: camera.lens,
            pinhole: Pinhole::new(camera),
            reach: camera.lens.max_radius(),
        })
    }

    /// Calls [`distort`] for a lens that [`Self::new`] has checked.
    fn distort(&self, slope: DVec2) -> [Jet; 2] {
        distort(&self.lens, slope.x, slope.y).unwrap_or([Jet::constant(f64::NAN); 2])
    }
}

impl LensModel for Distorting {
    fn shows(&self, p: DVec3) -> bool {
        p.truncate().length() <= self.reach * p.z
    }

    fn project(&self, p: DVec3) -> LensProjection {
        let Pinhole {
            focal,
            principal,
            slope_min,
            slope_max,
        } = self.pinhole;
        let z = p.z;
        let slope = p.truncate() / z;
        let clamped = slope.clamp(slope_min, slope_max);
        // Gradients by the point: of the slopes, and of the slopes for the Jacobian.
        let gradient = |k: usize, at: DVec2| (DVec3::AXES[k] - DVec3::Z * at[k]) / z;
        let slopes = [gradient(0, slope), gradient(1, slope)];
        let moves = [0, 1].map(|k| match clamped[k] == slope[k] {
            true => slopes[k],
            false => DVec3::ZERO,
        });
        let (at, shape) = (self.distort(slope), self.distort(clamped));
        let mut out = LensProjection {
            centre: focal * DVec2::new(at[0].value, at[1].value) + principal,
            centre_gradient: [DVec3::ZERO; 2],
            jacobian: [DVec3::ZERO; 2],
            jacobian_gradient: [[DVec3::ZERO; 3]; 2],
        };
        for row in 0..2 {
            let f = focal[row];
            let [aa, ab, bb] = shape[row].second;
            let second = [[aa, ab], [ab, bb]];
            for k in 0..2 {
                out.centre_gradient[row] += f * at[row].first[k] * slopes[k];
                // J = sum over k of D_k B_k, B_k the gradient of slope k, at the clamped slopes.
                let (d, b) = (shape[row].first[k], gradient(k, clamped));
                out.jacobian[row] += f * d * b;
                let d_moves = second[k][0] * moves[0] + second[k][1] * moves[1];
                // B_k = (e_k - c_k e_z) / z.
                let along_z = DVec3::Z * (-1.0 / z);
                for column in 0..3 {
                    let mut b_moves = b[column] * along_z;
                    if column == 2 {
                        b_moves -= moves[k] / z;
                    }
                    out.jacobian_gradient[row][column] += f * (d_moves * b[column] + d * b_moves);
                }
            }
        }
        out
    }
}

/// Camera model with a pose.
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
    /// A camera that is non-finite or has no area, or whose lens the reference does not support.
    pub fn new(camera: &Camera) -> Result<Self> {
        let numbers = [camera.fx, camera.fy, camera.cx, camera.cy];
        let is_finite = numbers.iter().all(|v| v.is_finite()) && camera.lens.is_finite();
        if !is_finite || !camera.camera_from_world.is_finite() {
            return Err(Error::input("the camera has a number that is not finite")
                .hint("check its pose, focal lengths, principal point and lens"));
        }
        if camera.width == 0 || camera.height == 0 || camera.fx <= 0.0 || camera.fy <= 0.0 {
            return Err(Error::input(
                "the camera has an empty image or a focal length that is not positive",
            ));
        }
        let lens: Box<dyn LensModel> = match CameraModel::of(&camera.lens) {
            CameraModel::Pinhole => Box::new(Pinhole::new(camera)),
            CameraModel::Lens => Box::new(Distorting::new(camera)?),
            CameraModel::Panorama(panorama) => panoramas::model(panorama, camera),
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
