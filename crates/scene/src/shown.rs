//! Computes the pixels of a photo that its lens model covers.
//!
//! A calibration has a limited range: a polynomial folds back, a fisheye reaches 90 degrees. Pixels outside that range
//! have no ray. Training on such pixels would accumulate Gaussians at the rim.
//!
//! 1. The last rays that the lens shows, in all directions, fall on a closed curve around the axis.
//! 2. The curve is stored as distances from the axis over directions; a pixel within it has a ray.

use crate::{Camera, Lens, Photo};
use std::f64::consts::{PI, TAU};

/// Number of directions of the curve, and number of samples.
const DIRECTIONS: usize = 720;

/// Returns, for every pixel, 255 if a ray of less than 89.5 degrees reaches it, else 0; `None` if every pixel has a
/// ray.
pub fn shown_pixels(camera: &Camera) -> Option<Vec<u8>> {
    if !camera.lens.is_perspective() {
        return None;
    }
    let reach = camera.lens.max_radius();
    let bends_angles = !matches!(
        camera.lens,
        Lens::Pinhole | Lens::Radial(_) | Lens::OpenCv(_) | Lens::FullOpenCv(_)
    );
    // A lens of slopes that never folds shows everything. Its tangential terms have no meaning so far from the axis.
    if camera.lens.is_identity() || !bends_angles && reach > 100.0 {
        return None;
    }
    let curve = rim(&camera.lens, reach);
    let ideal = |x: f64, y: f64| ((x - camera.cx) / camera.fx, (y - camera.cy) / camera.fy);
    let is_shown = |x: f64, y: f64| {
        let (u, v) = ideal(x, y);
        let direction = (v.atan2(u) + PI) / TAU * DIRECTIONS as f64;
        u.hypot(v) <= curve[(direction as usize).min(DIRECTIONS - 1)]
    };
    let (w, h) = (f64::from(camera.width), f64::from(camera.height));
    let nearest = curve.iter().copied().fold(f64::INFINITY, f64::min);
    let furthest = [(0.0, 0.0), (w, 0.0), (0.0, h), (w, h)]
        .map(|(x, y)| {
            let (u, v) = ideal(x, y);
            u.hypot(v)
        })
        .into_iter()
        .fold(0.0, f64::max);
    if furthest <= nearest {
        return None;
    }
    let mask: Vec<u8> = (0..camera.height)
        .flat_map(|y| (0..camera.width).map(move |x| (f64::from(x) + 0.5, f64::from(y) + 0.5)))
        .map(|(x, y)| if is_shown(x, y) { 255 } else { 0 })
        .collect();
    mask.contains(&0).then_some(mask)
}

/// Masks the pixels that no ray of the camera's lens reaches; returns false if there are none.
pub(crate) fn mask_beyond(photo: &mut Photo, camera: &Camera) -> bool {
    let Some(shown) = shown_pixels(camera) else {
        return false;
    };
    match &mut photo.mask {
        None => photo.mask = Some(shown),
        Some(mask) => mask
            .iter_mut()
            .zip(shown)
            .for_each(|(m, s)| *m = (*m).min(s)),
    }
    true
}

/// Computes the distance of the last rays from the axis, by direction from -180 degrees on.
fn rim(lens: &Lens, reach: f64) -> Vec<f64> {
    let place = |i: usize| {
        let angle = TAU * i as f64 / DIRECTIONS as f64;
        lens.distort(reach * angle.cos(), reach * angle.sin())
    };
    if reach <= 0.0 {
        return vec![0.0; DIRECTIONS];
    }
    let mut rim = vec![f64::INFINITY; DIRECTIONS];
    for i in 0..DIRECTIONS {
        let ((ax, ay), (bx, by)) = (place(i), place(i + 1));
        // Much finer than a bin: each bin gets several samples, and the nearest is stored.
        for part in 0..8 {
            let t = f64::from(part) / 8.0;
            let (x, y) = (ax + (bx - ax) * t, ay + (by - ay) * t);
            let direction = (y.atan2(x) + PI) / TAU * DIRECTIONS as f64;
            let bin = &mut rim[(direction as usize).min(DIRECTIONS - 1)];
            *bin = bin.min(x.hypot(y));
        }
    }
    rim
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pose;

    /// Checks the image points of the outermost rays in all directions, and points a little inside and outside.
    #[test]
    fn shown_is_what_has_a_ray() {
        for (lens, focal) in [
            (Lens::Radial([-1.2, 0.0]), 60.0),
            (Lens::OpenCv([-0.6, 0.02, 0.01, -0.012]), 50.0),
            (Lens::Fisheye([0.02, -0.008, 0.002, -0.0003]), 30.0),
            (
                Lens::ThinPrismFisheye([0.02, 0.0, 0.01, -0.01, 0.0, 0.0, 0.01, 0.02]),
                30.0,
            ),
        ] {
            let camera = Camera {
                lens,
                cx: 61.0,
                cy: 50.5,
                ..Camera::pinhole(128, 96, focal, Pose::IDENTITY)
            };
            let mask = shown_pixels(&camera).expect("corners are empty");
            let reach = lens.max_radius();
            let mut seen = [0, 0];
            for i in 0..360 {
                let (sin, cos) = f64::from(i).to_radians().sin_cos();
                let (u, v) = lens.distort(reach * cos, reach * sin);
                for (k, by) in [0.95, 1.05].into_iter().enumerate() {
                    let x = (camera.cx + focal * u * by).floor();
                    let y = (camera.cy + focal * v * by).floor();
                    if (0.0..128.0).contains(&x) && (0.0..96.0).contains(&y) {
                        let shown = mask[y as usize * 128 + x as usize] == 255;
                        assert_eq!(shown, by < 1.0, "{lens:?}: {x} {y}");
                        seen[k] += 1;
                    }
                }
            }
            assert!(seen[0] > 90 && seen[1] > 90, "{lens:?}: {seen:?}");
        }
    }

    #[test]
    fn lenses_that_show_everything_need_no_mask() {
        for lens in [
            Lens::Pinhole,
            Lens::Radial([0.2, 0.1]),
            Lens::OpenCv([0.1, 0.0, 0.02, 0.02]),
            Lens::Fisheye([0.02, -0.008, 0.002, -0.0003]),
            Lens::Fov(0.9),
            Lens::Eucm([0.6, 1.1]),
        ] {
            let camera = Camera {
                lens,
                ..Camera::pinhole(128, 96, 90.0, Pose::IDENTITY)
            };
            assert_eq!(shown_pixels(&camera), None, "{lens:?}");
        }
    }
}
