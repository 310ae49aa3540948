//! Cylindrical panorama: longitude across, the slope of the height down. See [`dapple_engine::camera_model`].
//!
//! With h = hypot(x, z), t = y / h and the frame (e_lon, e_y, e_h) of a point, `dlon = e_lon . dp / h`,
//! `dh = e_h . dp` and `dt = (e_y - t e_h) . dp / h`; the frame turns: `d e_lon = -e_h dlon`, `d e_h = e_lon dlon`. The
//! Jacobian is taken at t', which is t within the limits of [`slope_range`], and constant beyond.

use super::super::lens::{LensModel, LensProjection};
use super::super::products::outer;
use dapple_engine::slope_range;
use dapple_scene::Camera;
use glam::{DMat3, DVec2, DVec3};

/// Cylindrical camera: `u = fx atan2(x, z) + cx`, `v = fy y / hypot(x, z) + cy`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cylindrical {
    /// Pixels per radian, and per unit of the slope.
    focal: DVec2,
    /// Pixel of +z.
    principal: DVec2,
    /// Width of the image, pixels.
    width: f64,
    /// Least and largest slope of the Jacobian.
    limits: [f64; 2],
}

impl Cylindrical {
    /// Creates a camera model.
    pub(super) fn new(camera: &Camera) -> Self {
        let (least, most) = slope_range(camera);
        Self {
            focal: DVec2::new(camera.fx, camera.fy),
            principal: DVec2::new(camera.cx, camera.cy),
            width: camera.width.into(),
            limits: [least.y, most.y],
        }
    }
}

impl LensModel for Cylindrical {
    fn depth(&self, point: DVec3) -> f64 {
        point.x.hypot(point.z)
    }

    fn depth_gradient(&self, point: DVec3) -> DVec3 {
        DVec3::new(point.x, 0.0, point.z).normalize_or_zero()
    }

    fn period(&self) -> Option<f64> {
        Some(self.width)
    }

    fn shows(&self, _: DVec3) -> bool {
        true
    }

    fn project(&self, p: DVec3) -> LensProjection {
        let h = self.depth(p);
        let (e_lon, e_h) = (
            DVec3::new(p.z, 0.0, -p.x) / h,
            DVec3::new(p.x, 0.0, p.z) / h,
        );
        let t = p.y / h;
        let clamped = t.clamp(self.limits[0], self.limits[1]);
        let (d_lon, d_t) = (e_lon / h, (DVec3::Y - t * e_h) / h);
        let d_clamped = if t == clamped { d_t } else { DVec3::ZERO };
        let down = (DVec3::Y - clamped * e_h) / h;
        // Rows: entries of e_lon / h and of `down`; columns: components of the point.
        let lon = (outer(e_h, d_lon) + outer(e_lon, e_h) / h) * (-1.0 / h);
        let slope =
            (outer(e_h, d_clamped) + outer(e_lon, d_lon) * clamped + outer(down, e_h)) * (-1.0 / h);
        let rows = |m: DMat3, f: f64| [0, 1, 2].map(|i| f * m.row(i));
        LensProjection {
            centre: self.focal * DVec2::new(p.x.atan2(p.z), t) + self.principal,
            centre_gradient: [self.focal.x * d_lon, self.focal.y * d_t],
            jacobian: [self.focal.x * d_lon, self.focal.y * down],
            jacobian_gradient: [rows(lon, self.focal.x), rows(slope, self.focal.y)],
        }
    }
}
