//! Pixels of points and rays of pixels, through the lens of a camera: made once for many of them.
//!
//! A perspective camera has its depth along +z and shows what is before it, up to the reach of its lens. The depth of a
//! panorama is a distance: see [`Rays::depth`].

use crate::{Camera, Lens};
use glam::{DVec2, DVec3};

/// A camera without its pose, prepared for many points or pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rays {
    focal: DVec2,
    principal: DVec2,
    lens: Lens,
    reach: f64,
}

impl Rays {
    /// Prepares a camera.
    pub fn new(camera: &Camera) -> Self {
        let reach = match camera.lens.is_identity() || !camera.lens.is_perspective() {
            true => f64::INFINITY,
            false => camera.lens.max_radius(),
        };
        Self::with_reach(camera, reach)
    }

    /// Returns the result of [`Self::new`] for a known [`Lens::max_radius`].
    pub fn with_reach(camera: &Camera, reach: f64) -> Self {
        Self {
            focal: DVec2::new(camera.fx, camera.fy),
            principal: DVec2::new(camera.cx, camera.cy),
            lens: camera.lens,
            reach,
        }
    }

    /// Returns the depth of a point in camera coordinates: z, or [`Panorama::depth`](crate::Panorama::depth). Not positive
    /// behind a perspective camera.
    pub fn depth(&self, point: DVec3) -> f64 {
        self.lens
            .panorama()
            .map_or(point.z, |panorama| panorama.depth(point))
    }

    /// Returns the pixel of a point in camera coordinates, inside the frame or not; `None` if the camera does not show
    /// the point.
    pub fn pixel(&self, point: DVec3) -> Option<DVec2> {
        let depth = self.depth(point);
        if depth.is_nan() || depth <= 0.0 {
            return None;
        }
        let place = if let Some(panorama) = self.lens.panorama() {
            panorama.place(point)
        } else {
            let (x, y) = (point.x / point.z, point.y / point.z);
            if x.hypot(y) > self.reach {
                return None;
            }
            match self.lens.is_identity() {
                true => DVec2::new(x, y),
                false => self.lens.distort(x, y).into(),
            }
        };
        Some(self.focal * place + self.principal)
    }

    /// Returns the ray through a pixel, in camera coordinates and with depth 1; `None` if no ray reaches the pixel.
    pub fn ray(&self, pixel: DVec2) -> Option<DVec3> {
        let place = (pixel - self.principal) / self.focal;
        if let Some(panorama) = self.lens.panorama() {
            return Some(panorama.direction(place));
        }
        if self.lens.is_identity() {
            return Some(place.extend(1.0));
        }
        let ideal = self.lens.undistort_within(place.x, place.y, self.reach)?;
        Some(DVec2::from(ideal).extend(1.0))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::Pose;

    /// The expected pixels follow from COLMAP's definition of EQUIRECTANGULAR: x grows to the right, y down.
    #[test]
    fn a_panorama_shows_all_directions_at_known_pixels() {
        let rays = Rays::new(&Camera::equirectangular(800, 400, Pose::IDENTITY));
        for (point, pixel) in [
            (DVec3::Z, [400.0, 200.0]),
            (DVec3::X, [600.0, 200.0]),
            (DVec3::NEG_X, [200.0, 200.0]),
            (DVec3::NEG_Z, [800.0, 200.0]),
            (DVec3::Y, [400.0, 400.0]),
            (DVec3::NEG_Y, [400.0, 0.0]),
            (DVec3::new(-1e-12, 1.0, -1.0), [0.0, 300.0]),
        ] {
            let found = rays.pixel(3.0 * point).unwrap();
            assert!(found.distance(pixel.into()) < 1e-6, "{point}: {found}");
            assert!((rays.depth(3.0 * point) - 3.0 * point.length()).abs() < 1e-12);
        }
        assert_eq!(rays.pixel(DVec3::ZERO), None);
    }

    #[test]
    fn rays_and_pixels_are_inverse() {
        let fisheye = Camera {
            lens: Lens::Fisheye([0.02, -0.01, 0.003, -0.0005]),
            ..Camera::pinhole(80, 60, 50.0, Pose::IDENTITY)
        };
        for camera in [
            Camera::pinhole(80, 60, 50.0, Pose::IDENTITY),
            fisheye,
            Camera::equirectangular(80, 40, Pose::IDENTITY),
        ] {
            let rays = Rays::new(&camera);
            for x in 0..camera.width {
                for y in 0..camera.height {
                    let pixel = DVec2::new(f64::from(x), f64::from(y)) + 0.5;
                    let ray = rays.ray(pixel).unwrap();
                    assert!((rays.depth(ray) - 1.0).abs() < 1e-12);
                    let back = rays.pixel(2.5 * ray).unwrap();
                    assert!(back.distance(pixel) < 1e-6, "{:?} {pixel}", camera.lens);
                }
            }
        }
    }

    /// The front half is also a lens in slopes, for what needs one.
    #[test]
    fn the_front_half_of_a_panorama_is_a_lens() {
        let camera = Camera::equirectangular(800, 400, Pose::IDENTITY);
        let rays = Rays::new(&camera);
        for (x, y) in [(0.0, 0.0), (0.7, -0.2), (-3.0, 5.0)] {
            let (u, v) = camera.lens.distort(x, y);
            let pixel = DVec2::new(camera.fx * u + camera.cx, camera.fy * v + camera.cy);
            let found = rays.pixel(DVec3::new(x, y, 1.0)).unwrap();
            assert!(found.distance(pixel) < 1e-9, "{found} {pixel}");
        }
    }
}
