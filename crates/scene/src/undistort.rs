//! Resamples the photo of a real lens to that of a pinhole camera.
//!
//! 1. Choose the pinhole camera: same focal length and pose, hence the same detail in the centre. Its frame is the
//!    largest axis-aligned rectangle between the photo's undistorted borders, so that no corner is empty. A field wider
//!    than [`WIDEST_HALF_FIELD`] to a side is cut there (the pinhole image of a fisheye is infinite). The frame never
//!    exceeds [`MAX_GROWTH`] times the photo: the focal length is reduced first.
//! 2. For each of its pixels, find the ray and its point through the lens, and blend the four pixels around. Colours
//!    are weighted with alpha, so that transparent pixels do not bleed.
//! 3. Pixels that the photo does not show (strong mixed distortion, beyond a lens's fold) become black, and the mask
//!    excludes them.

use crate::{Camera, Lens, Photo, Pose, Rays};
use glam::{DQuat, DVec3};
use rayon::prelude::*;
use std::f64::consts::PI;

/// Largest angle between the axis and a side of the frame, radians: 55 degrees, a field of 110. Beyond it a
/// pinhole image spends most of its pixels on the rim, and splatting's local affine approximation
/// of the projection is poor there.
pub const WIDEST_HALF_FIELD: f64 = 55.0 / 180.0 * std::f64::consts::PI;

/// Maximum size of the frame as a multiple of the photo, in each direction.
pub const MAX_GROWTH: f64 = 1.5;

/// Sampled points along each border in the search for the frame.
const BORDER_SAMPLES: u32 = 64;

/// Returns pinhole cameras that together show what `camera` shows: [`pinhole_camera`], or the six faces of a cube for a
/// panorama, with the panorama's pixels per radian in their middles.
pub fn pinhole_cameras(camera: &Camera) -> Vec<Camera> {
    if camera.lens.is_perspective() {
        return vec![pinhole_camera(camera)];
    }
    let side = (2.0 * camera.fx).ceil().max(1.0) as u32;
    let sideways = [0.0, 0.5, 1.0, 1.5].map(|turns| DQuat::from_rotation_y(-PI * turns));
    let ends = [-0.5, 0.5].map(|turns| DQuat::from_rotation_x(PI * turns));
    let face = |turn: &DQuat| {
        let pose = camera.camera_from_world;
        let turned = Pose {
            rotation: *turn * pose.rotation,
            translation: *turn * pose.translation,
        };
        Camera::pinhole(side, side, 0.5 * f64::from(side), turned)
    };
    sideways.iter().chain(&ends).map(face).collect()
}

/// Returns the pinhole camera to which [`undistort`] renders a photo of `camera`. For a panorama these are the front 90
/// degrees, in a frame of 4:3.
pub fn pinhole_camera(camera: &Camera) -> Camera {
    if !camera.lens.is_perspective() {
        let edge = |length: f64| length.round().max(1.0) as u32;
        let (width, height) = (edge(2.0 * camera.fx), edge(1.5 * camera.fx));
        return Camera::pinhole(width, height, camera.fx, camera.camera_from_world);
    }
    if camera.lens.is_identity() {
        return Camera {
            lens: Lens::Pinhole,
            ..*camera
        };
    }
    let (w, h) = (f64::from(camera.width), f64::from(camera.height));
    let reach = camera.lens.max_radius();
    let ideal = |px: f64, py: f64| {
        let (x, y) = ((px - camera.cx) / camera.fx, (py - camera.cy) / camera.fy);
        camera.lens.undistort_within(x, y, reach)
    };
    // Sides in normalised coordinates. A border point without a ray is outside the lens's field and does not limit the
    // frame.
    let limit = WIDEST_HALF_FIELD.tan();
    let (mut left, mut right, mut top, mut bottom) = (-limit, limit, -limit, limit);
    for i in 0..=BORDER_SAMPLES {
        let t = f64::from(i) / f64::from(BORDER_SAMPLES);
        left = ideal(0.0, t * h).map_or(left, |p| left.max(p.0));
        right = ideal(w, t * h).map_or(right, |p| right.min(p.0));
        top = ideal(t * w, 0.0).map_or(top, |p| top.max(p.1));
        bottom = ideal(t * w, h).map_or(bottom, |p| bottom.min(p.1));
    }
    if (right - left) * camera.fx < 1.0 || (bottom - top) * camera.fy < 1.0 {
        // No rectangle fits between the borders: keep the photo's own frame; the mask marks the empty pixels.
        return Camera {
            lens: Lens::Pinhole,
            ..*camera
        };
    }
    let growth = ((right - left) * camera.fx / w).max((bottom - top) * camera.fy / h);
    let scale = (MAX_GROWTH / growth).min(1.0);
    let (fx, fy) = (camera.fx * scale, camera.fy * scale);
    Camera {
        // Rounded down, with a tolerance for rounding noise: the last pixel must be complete.
        width: (((right - left) * fx + 1e-6).floor() as u32).max(1),
        height: (((bottom - top) * fy + 1e-6).floor() as u32).max(1),
        fx,
        fy,
        cx: -left * fx,
        cy: -top * fy,
        lens: Lens::Pinhole,
        ..*camera
    }
}

/// Renders `photo`, taken through `camera`'s lens, as [`pinhole_camera`] would see it.
pub fn undistort(photo: &Photo, camera: &Camera) -> (Photo, Camera) {
    let target = pinhole_camera(camera);
    if camera.lens.is_identity() {
        return (photo.clone(), target);
    }
    (resample(photo, camera, &target), target)
}

/// Renders `photo`, taken by `camera`, as the pinhole camera `target` at the same place would see it.
pub fn resample(photo: &Photo, camera: &Camera, target: &Camera) -> Photo {
    let rays = Rays::with_reach(camera, camera.lens.max_radius());
    let turn = camera.camera_from_world.rotation * target.camera_from_world.rotation.conjugate();
    let width = target.width as usize;
    let pixels = width * target.height as usize;
    let mut rgb = vec![0u8; pixels * 3];
    let mut alpha = vec![0u8; if photo.alpha.is_some() { pixels } else { 0 }];
    let mut mask = vec![0u8; pixels];
    let alpha_stride = if photo.alpha.is_some() { width } else { 0 };
    let mut alpha_rows: Vec<&mut [u8]> = if alpha_stride > 0 {
        alpha.chunks_mut(alpha_stride).collect()
    } else {
        (0..target.height).map(|_| &mut [][..]).collect()
    };
    rgb.par_chunks_mut(width * 3)
        .zip(mask.par_chunks_mut(width))
        .zip(alpha_rows.par_iter_mut())
        .enumerate()
        .for_each(|(row, ((rgb, mask), alpha))| {
            let y = (row as f64 + 0.5 - target.cy) / target.fy;
            for column in 0..width {
                let x = (column as f64 + 0.5 - target.cx) / target.fx;
                let ray = DVec3::new(x, y, 1.0);
                let turned = match camera.lens.is_perspective() {
                    true => ray,
                    false => turn * ray,
                };
                let place = rays.pixel(turned);
                let Some(sample) = place.and_then(|place| sample(photo, place.into())) else {
                    continue;
                };
                rgb[column * 3..column * 3 + 3].copy_from_slice(&sample.rgb);
                mask[column] = if sample.masked_in { 255 } else { 0 };
                if let Some(alpha) = alpha.get_mut(column) {
                    *alpha = sample.alpha;
                }
            }
        });
    drop(alpha_rows);
    let whole = mask.iter().all(|&m| m == 255);
    Photo {
        width: target.width,
        height: target.height,
        rgb,
        alpha: photo.alpha.is_some().then_some(alpha),
        mask: (!whole).then_some(mask),
    }
}

struct Sample {
    rgb: [u8; 3],
    alpha: u8,
    masked_in: bool,
}

/// Samples bilinearly at a position in pixels; `None` outside the photo.
fn sample(photo: &Photo, (px, py): (f64, f64)) -> Option<Sample> {
    let (w, h) = (f64::from(photo.width), f64::from(photo.height));
    // The tolerance includes a frame that ends exactly on the photo's border.
    let inside = |p: f64, size: f64| (-1e-6..=size + 1e-6).contains(&p);
    if !(inside(px, w) && inside(py, h)) {
        return None;
    }
    let (x, y) = (
        (px - 0.5).clamp(0.0, w - 1.0),
        (py - 0.5).clamp(0.0, h - 1.0),
    );
    let (x0, y0) = (x as usize, y as usize);
    let (x1, y1) = (
        (x0 + 1).min(photo.width as usize - 1),
        (y0 + 1).min(photo.height as usize - 1),
    );
    let (tx, ty) = ((x - x0 as f64) as f32, (y - y0 as f64) as f32);
    let corners = [
        (y0 * photo.width as usize + x0, (1.0 - tx) * (1.0 - ty)),
        (y0 * photo.width as usize + x1, tx * (1.0 - ty)),
        (y1 * photo.width as usize + x0, (1.0 - tx) * ty),
        (y1 * photo.width as usize + x1, tx * ty),
    ];
    let (mut rgb, mut weight, mut used) = ([0.0f32; 3], 0.0f32, 0.0f32);
    for (at, share) in corners {
        let opacity = photo
            .alpha
            .as_ref()
            .map_or(1.0, |alpha| f32::from(alpha[at]) / 255.0);
        for (sum, value) in rgb.iter_mut().zip(&photo.rgb[at * 3..at * 3 + 3]) {
            *sum += share * opacity * f32::from(*value);
        }
        weight += share * opacity;
        let keep = photo.mask.as_ref().is_none_or(|mask| mask[at] != 0);
        used += if keep { share } else { 0.0 };
    }
    let scale = if weight > 0.0 { weight.recip() } else { 0.0 };
    Some(Sample {
        rgb: rgb.map(|c| (c * scale).round() as u8),
        alpha: (weight * 255.0).round() as u8,
        masked_in: used >= 0.5,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn camera(lens: Lens) -> Camera {
        Camera {
            lens,
            fx: 110.0,
            fy: 112.0,
            cx: 63.0,
            cy: 47.5,
            ..Camera::pinhole(128, 96, 110.0, Pose::IDENTITY)
        }
    }

    /// Smooth radiance as a function of the ray, for photos through any lens.
    fn radiance(x: f64, y: f64) -> [f64; 3] {
        [
            128.0 + 90.0 * (3.0 * x).sin() * (2.0 * y).cos(),
            128.0 + 100.0 * x.atan(),
            128.0 + 100.0 * y.atan(),
        ]
    }

    fn take(camera: &Camera) -> Photo {
        let mut rgb = Vec::new();
        let reach = camera.lens.max_radius();
        for row in 0..camera.height {
            for column in 0..camera.width {
                let x = (f64::from(column) + 0.5 - camera.cx) / camera.fx;
                let y = (f64::from(row) + 0.5 - camera.cy) / camera.fy;
                let (x, y) = camera
                    .lens
                    .undistort_within(x, y, reach)
                    .unwrap_or((0.0, 0.0));
                rgb.extend(radiance(x, y).map(|c| c.round().clamp(0.0, 255.0) as u8));
            }
        }
        Photo::from_rgb(camera.width, camera.height, rgb)
    }

    #[test]
    fn an_undistorted_photo_is_what_a_pinhole_camera_sees() {
        for lens in [
            Lens::Radial([-0.1, 0.02]),
            Lens::Radial([0.15, 0.0]),
            Lens::OpenCv([-0.15, 0.03, 0.002, -0.003]),
            Lens::FullOpenCv([0.1, -0.02, 0.001, 0.0, 0.01, 0.2, 0.0, 0.0]),
            Lens::Fov(0.8),
            Lens::Eucm([0.6, 1.1]),
            Lens::Fisheye([0.01, -0.005, 0.0, 0.0]),
            Lens::ThinPrismFisheye([0.01, 0.0, 0.001, 0.0, 0.0, 0.0, 0.002, 0.0]),
        ] {
            let distorted = camera(lens);
            let (photo, pinhole) = undistort(&take(&distorted), &distorted);
            assert_eq!(pinhole.lens, Lens::Pinhole);
            assert_eq!((photo.width, photo.height), (pinhole.width, pinhole.height));
            assert!(photo.mask.is_none(), "{lens:?} leaves empty pixels");
            let seen = take(&pinhole);
            let worst = seen
                .rgb
                .iter()
                .zip(&photo.rgb)
                .map(|(a, b)| a.abs_diff(*b))
                .max()
                .unwrap();
            assert!(worst <= 3, "{lens:?} is off by {worst}");
            // Nearly all of the field remains: these lenses are mild.
            assert!(
                photo.pixel_count() * 10 > 128 * 96 * 8,
                "{lens:?} {pinhole:?}"
            );
        }
    }

    #[test]
    fn a_half_sphere_fisheye_keeps_a_field_of_110_degrees() {
        // 180 degrees across 300 pixels.
        let mut fisheye = camera(Lens::Fisheye([0.0; 4]));
        (fisheye.width, fisheye.height) = (300, 300);
        (fisheye.cx, fisheye.cy) = (150.0, 150.0);
        (fisheye.fx, fisheye.fy) = (300.0 / std::f64::consts::PI, 300.0 / std::f64::consts::PI);
        let pinhole = pinhole_camera(&fisheye);
        let half_field = (f64::from(pinhole.width) / 2.0 / pinhole.fx).atan();
        assert!((half_field.to_degrees() - 55.0).abs() < 0.5);
        let (photo, _) = undistort(&take(&fisheye), &fisheye);
        assert!(photo.mask.is_none());
    }

    #[test]
    fn pixels_beyond_the_fold_are_masked() {
        // The lens folds at r = 0.52; a wide photo shows nothing outside it.
        let mut strong = camera(Lens::Radial([-1.2, 0.0]));
        (strong.fx, strong.fy) = (60.0, 60.0);
        let (photo, _) = undistort(&take(&strong), &strong);
        let mask = photo.mask.expect("corners are empty");
        assert!(mask.contains(&0) && mask.contains(&255));
    }

    #[test]
    fn transparent_pixels_do_not_bleed_and_masks_follow() {
        let lens = camera(Lens::Radial([-0.1, 0.0]));
        let (w, h) = (lens.width as usize, lens.height as usize);
        let mut photo = Photo::from_rgb(lens.width, lens.height, vec![0; w * h * 3]);
        // Left half: opaque red. Right half: transparent, stored as white.
        let (mut alpha, mut mask) = (vec![0; w * h], vec![255; w * h]);
        for i in 0..w * h {
            let left = i % w < w / 2;
            let colour = if left { [200, 0, 0] } else { [255; 3] };
            photo.rgb[i * 3..i * 3 + 3].copy_from_slice(&colour);
            alpha[i] = if left { 255 } else { 0 };
            mask[i] = if i / w < h / 2 { 0 } else { 255 };
        }
        (photo.alpha, photo.mask) = (Some(alpha), Some(mask));
        let (flat, pinhole) = undistort(&photo, &lens);
        let alpha = flat.alpha.expect("still there");
        for (at, &alpha) in alpha.iter().enumerate() {
            if alpha > 0 {
                assert_eq!(&flat.rgb[at * 3..at * 3 + 3], &[200, 0, 0]);
            }
        }
        let mask = flat.mask.expect("still there");
        assert_eq!(mask[0], 0);
        assert_eq!(mask[mask.len() - 1], 255);
        assert_eq!(mask.len(), pinhole.width as usize * pinhole.height as usize);
    }

    /// The faces of a cube show the radiance of their rays, and meet without gaps.
    #[test]
    fn a_panorama_becomes_six_faces() {
        let panorama = Camera::equirectangular(240, 120, Pose::IDENTITY);
        let rays = Rays::new(&panorama);
        let light = |ray: DVec3| {
            (ray.normalize() * 100.0 + 128.0)
                .to_array()
                .map(|v| v as u8)
        };
        let mut rgb = Vec::new();
        for y in 0..120 {
            for x in 0..240 {
                let pixel = glam::DVec2::new(f64::from(x) + 0.5, f64::from(y) + 0.5);
                rgb.extend(rays.ray(pixel).map_or([0; 3], light));
            }
        }
        let photo = Photo::from_rgb(240, 120, rgb);
        let faces = pinhole_cameras(&panorama);
        assert_eq!(faces.len(), 6);
        for face in &faces {
            let seen = resample(&photo, &panorama, face);
            assert!(seen.mask.is_none(), "a face has gaps");
            let through = Rays::new(face);
            for (i, found) in seen.rgb.as_chunks::<3>().0.iter().enumerate() {
                let (x, y) = (i % face.width as usize, i / face.width as usize);
                let pixel = glam::DVec2::new(x as f64 + 0.5, y as f64 + 0.5);
                let ray = face.camera_from_world.rotation.conjugate()
                    * through.ray(pixel).unwrap_or_default();
                let off = |c: usize| found[c].abs_diff(light(ray)[c]);
                assert!((0..3).all(|c| off(c) <= 3), "{x} {y}");
            }
        }
        let front = pinhole_camera(&panorama);
        assert_eq!((front.width, front.height), (76, 57));
    }
}
