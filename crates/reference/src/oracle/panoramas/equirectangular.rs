//! Panorama of all directions: longitude across, latitude down. See [`dapple_engine::camera_model`].
//!
//! In the frame (e_lon, e_lat, e_r) of a point, longitude and latitude move by `dlon = e_lon . dp / b` and
//! `dlat = e_lat . dp / r`, and the frame turns:
//! - `d e_lon = -e_h dlon`,
//! - `d e_lat = -e_r dlat - sin(lat) e_lon dlon`,
//! - `d (1/r) = -e_r . dp / r^2`, `d (1/b) = -e_h . dp / b^2`, or `-c e_r . dp / b^2` at the bound b = c r.
//!
//! Within half a pixel of a pole, where b is at its bound, `dlon` is the bounded derivative, not the true one.

use super::super::lens::{LensModel, LensProjection};
use super::super::products::outer;
use dapple_engine::camera_model::least_cosine;
use dapple_scene::Camera;
use glam::{DMat3, DVec2, DVec3};

/// Equirectangular camera: `u = fx atan2(x, z) + cx`, `v = fy atan2(y, hypot(x, z)) + cy`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Equirectangular {
    /// Pixels per radian.
    pub focal: DVec2,
    /// Pixel of +z.
    pub principal: DVec2,
    /// Width of the image, pixels.
    pub width: f64,
    /// Least cosine of the latitude in derivatives.
    pub least_cosine: f64,
}

impl Equirectangular {
    /// Creates a camera model.
    pub fn new(camera: &Camera) -> Self {
        Self {
            focal: DVec2::new(camera.fx, camera.fy),
            principal: DVec2::new(camera.cx, camera.cy),
            width: camera.width.into(),
            least_cosine: least_cosine(camera.fy as f32).into(),
        }
    }
}

impl LensModel for Equirectangular {
    fn depth(&self, point: DVec3) -> f64 {
        point.length()
    }

    fn depth_gradient(&self, point: DVec3) -> DVec3 {
        point.normalize_or_zero()
    }

    fn period(&self) -> Option<f64> {
        Some(self.width)
    }

    fn shows(&self, _: DVec3) -> bool {
        true
    }

    fn project(&self, p: DVec3) -> LensProjection {
        let (r, h) = (p.length(), p.x.hypot(p.z));
        let (longitude, latitude) = (p.x.atan2(p.z), p.y.atan2(h));
        let (sin, cos) = longitude.sin_cos();
        let (e_lon, e_h) = (DVec3::new(cos, 0.0, -sin), DVec3::new(sin, 0.0, cos));
        let e_r = p / r;
        let e_lat = (h * DVec3::Y - p.y * e_h) / r;
        let bound = self.least_cosine * r;
        let (b, b_gradient) = match h > bound {
            true => (h, e_h),
            false => (bound, self.least_cosine * e_r),
        };
        let (d_lon, d_lat) = (e_lon / b, e_lat / r);
        let jacobian = [self.focal.x * d_lon, self.focal.y * d_lat];
        // Rows: entries of e_lon / b and e_lat / r; columns: components of the point.
        let lon = outer(e_h, d_lon) * (-1.0 / b) - outer(e_lon, b_gradient) / (b * b);
        let lat = (outer(e_r, d_lat) + outer(e_lon, d_lon) * (p.y / r)) * (-1.0 / r)
            - outer(e_lat, e_r) / (r * r);
        let rows = |m: DMat3, f: f64| [0, 1, 2].map(|i| f * m.row(i));
        LensProjection {
            centre: self.focal * DVec2::new(longitude, latitude) + self.principal,
            centre_gradient: jacobian,
            jacobian,
            jacobian_gradient: [rows(lon, self.focal.x), rows(lat, self.focal.y)],
        }
    }
}
