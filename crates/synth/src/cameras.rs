//! Cameras and lens of a synthetic capture.
//!
//! 1. Cameras orbit the middle of the scene at a height that follows a wave, as a person would with a phone: one and a
//!    half waves per turn, so that the next turn is high where this one was low. The ends of the path are not extremes.
//!    The number of turns leaves no direction to held-out photos only ([`turns`]), so that every held-out photo has
//!    training photos on both sides. Each camera is moved a little at random and looks near that middle.
//!    The cameras of a city are its own: [`city::pose`].
//! 2. All share one lens. Its distortion is strong enough that ignoring it shows.
//! 3. Rays are computed once for all photos, by inverting the lens numerically at every pixel's corner.

use super::random::Random;
use super::setting::{Setting, Site};
use super::{LensKind, SceneKind, SynthOptions, city};
use dapple_scene::{Camera, Lens, Panorama, Pose, Rays};
use glam::{DVec2, DVec3};
use rayon::prelude::*;
use std::f64::consts::{PI, TAU};

/// Default period of held-out photos in training.
pub(super) const HELD_OUT_EVERY: usize = 8;

/// The widest angle around the middle without a training photo, as a fraction of a turn.
const WIDEST_GAP: f64 = 0.1;

/// The kind of random stream that moves cameras.
const CAMERA_STREAM: u64 = 1;

/// Returns image size, focal lengths, principal point and lens; the pose is the identity.
pub(super) fn intrinsics(options: &SynthOptions, lens: LensKind) -> Camera {
    if let Some(panorama) = lens.panorama() {
        return panorama.camera(options.width, options.height, Pose::IDENTITY);
    }
    let longest = f64::from(options.width.max(options.height));
    // 61 degrees along the longer edge.
    let mut camera = Camera::pinhole(
        options.width,
        options.height,
        0.85 * longest,
        Pose::IDENTITY,
    );
    if lens != LensKind::Pinhole {
        // Real principal points are not in the middle.
        camera.cx += 0.011 * longest;
        camera.cy -= 0.007 * longest;
    }
    match lens {
        LensKind::SimpleRadial => camera.lens = Lens::Radial([-0.1, 0.0]),
        LensKind::Radial => camera.lens = Lens::Radial([-0.14, 0.04]),
        LensKind::OpenCv => {
            camera.fy *= 1.01;
            camera.lens = Lens::OpenCv([-0.16, 0.05, 0.002, -0.0015]);
        }
        LensKind::OpenCvFisheye => {
            // 96 degrees along the longer edge.
            (camera.fx, camera.fy) = (0.6 * longest, 0.604 * longest);
            camera.lens = Lens::Fisheye([0.02, -0.008, 0.002, -0.0003]);
        }
        _ => {}
    }
    camera
}

/// Returns all cameras of a capture.
pub(super) fn cameras(options: &SynthOptions, lens: LensKind) -> Vec<Camera> {
    let base = intrinsics(options, lens);
    let setting = Site::of(options).setting();
    let count = options.photos;
    let turns = turns(count) as f64;
    let pose = |i: usize| match options.scene {
        SceneKind::City => {
            let random = Random::new(options.seed, CAMERA_STREAM, i as u64);
            city::pose(options.blocks, (i, count), random)
        }
        _ => pose(&setting, (i, count), turns, options.seed),
    };
    (0..count)
        .map(|i| Camera {
            camera_from_world: pose(i),
            ..base
        })
        .collect()
}

/// Returns the number of turns of a path of `count` photos: about 18 photos per turn, 20 degrees between neighbours. If
/// the held-out photos of all turns then have equal directions, as for 64 photos in four turns, the number is one less
/// or one more.
fn turns(count: usize) -> usize {
    let usual = ((count as f64 / 18.0).round() as usize).max(1);
    [usual, usual - 1, usual + 1]
        .into_iter()
        .find(|&turns| turns > 0 && widest_gap(count, turns) <= WIDEST_GAP)
        .unwrap_or(usual)
}

/// Computes the widest angle around the middle without a training photo, as a fraction of a turn.
fn widest_gap(count: usize, turns: usize) -> f64 {
    let mut directions: Vec<usize> = (0..count)
        .filter(|i| !i.is_multiple_of(HELD_OUT_EVERY))
        .map(|i| i * turns % count)
        .collect();
    directions.sort_unstable();
    let around = directions.first().map(|first| first + count);
    let nexts = directions.iter().copied().skip(1).chain(around);
    let gaps = directions.iter().zip(nexts).map(|(&a, b)| b - a);
    gaps.max().unwrap_or(count) as f64 / count.max(1) as f64
}

/// Computes the pose of camera `i` of `count` on a path of `turns` turns.
fn pose(setting: &Setting, (i, count): (usize, usize), turns: f64, seed: u64) -> Pose {
    let mut random = Random::new(seed, CAMERA_STREAM, i as u64);
    let t = (i as f64 + 0.5) / count as f64;
    let spacing = TAU * turns / count as f64;
    let azimuth = TAU * turns * t + random.uniform(-0.2, 0.2) * spacing.min(PI / 8.0);
    let wave = (TAU * 1.5 * turns * t).sin();
    let Setting { low, high, aim, .. } = *setting;
    let middle = 0.5 * (low + high);
    let elevation = middle + 0.5 * (high - low) * wave + random.uniform(-0.04, 0.04);
    let distance = setting.orbit * random.uniform(0.93, 1.07);
    let (up, out) = elevation.sin_cos();
    let (z, x) = azimuth.sin_cos();
    let target = DVec3::new(
        random.uniform(-aim.x, aim.x),
        -0.25 + random.uniform(-aim.y, aim.y),
        random.uniform(-aim.z, aim.z),
    );
    // World y points down.
    let eye = DVec3::new(x * out, -up, z * out) * distance;
    Pose::look_at(eye, target, DVec3::NEG_Y)
}

/// Rays of a photo's pixels. Within a pixel a lens is almost linear: the error of interpolation between its corners is
/// below 1e-4 pixels.
#[derive(Debug)]
pub(super) struct RayGrid {
    /// Ideal points at the corners of pixels, normalised coordinates, or places of a panorama,
    /// `[height + 1, width + 1]`; `None` if the lens shows nothing there.
    corners: Vec<Option<DVec2>>,
    panorama: Option<Panorama>,
    width: usize,
    height: usize,
}

impl RayGrid {
    pub(super) fn new(camera: &Camera) -> Self {
        let reach = camera.lens.max_radius();
        let (width, height) = (camera.width as usize, camera.height as usize);
        let mut corners = vec![None; (width + 1) * (height + 1)];
        corners
            .par_chunks_mut(width + 1)
            .enumerate()
            .for_each(|(row, line)| {
                let y = (row as f64 - camera.cy) / camera.fy;
                let mut before = None;
                for (column, corner) in line.iter_mut().enumerate() {
                    let x = (column as f64 - camera.cx) / camera.fx;
                    let found = match camera.lens {
                        Lens::Pinhole | Lens::Panorama(_) => Some((x, y)),
                        lens => before
                            .and_then(|near| undistort_near(lens, (x, y), near))
                            .filter(|(x, y)| x.hypot(*y) <= reach)
                            .or_else(|| lens.undistort_within(x, y, reach)),
                    };
                    before = found;
                    *corner = found.map(|(x, y)| DVec2::new(x, y));
                }
            });
        Self {
            corners,
            panorama: camera.lens.panorama(),
            width,
            height,
        }
    }

    /// Returns the ray at `inside` (0 to 1, 0 to 1) of a pixel, camera coordinates, with a depth of 1.
    pub(super) fn at(&self, column: usize, row: usize, inside: DVec2) -> Option<DVec3> {
        let corner = |column: usize, row: usize| {
            let at = row * (self.width + 1) + column;
            self.corners.get(at).copied().flatten()
        };
        let above = corner(column, row)?.lerp(corner(column + 1, row)?, inside.x);
        let below = corner(column, row + 1)?.lerp(corner(column + 1, row + 1)?, inside.x);
        let place = above.lerp(below, inside.y);
        Some(match self.panorama {
            Some(panorama) => panorama.direction(place),
            None => place.extend(1.0),
        })
    }

    /// Returns the ray of a random position in the photo.
    pub(super) fn random(&self, random: &mut Random) -> Option<DVec3> {
        let (column, row) = (random.index(self.width), random.index(self.height));
        self.at(column, row, DVec2::new(random.unit(), random.unit()))
    }
}

/// Returns the ideal point that a lens maps to `(x, y)`, by Newton's method from that of an adjacent corner: two or
/// three steps. A search without a start takes a hundred evaluations.
fn undistort_near(lens: Lens, (x, y): (f64, f64), near: (f64, f64)) -> Option<(f64, f64)> {
    const H: f64 = 1e-6;
    let (mut px, mut py) = near;
    for _ in 0..6 {
        let (dx, dy) = lens.distort(px, py);
        let (ex, ey) = (x - dx, y - dy);
        if ex.abs().max(ey.abs()) < 1e-10 {
            return Some((px, py));
        }
        let (ax, ay) = lens.distort(px + H, py);
        let (bx, by) = lens.distort(px, py + H);
        let (xx, yx, xy, yy) = (ax - dx, ay - dy, bx - dx, by - dy);
        let scale = H / (xx * yy - xy * yx);
        px += (yy * ex - xy * ey) * scale;
        py += (xx * ey - yx * ex) * scale;
    }
    None
}

/// Projects a world point to pixels; `None` if it is behind the camera, beyond the range of its lens, or outside the
/// frame. `reach` is the lens's largest radius.
pub(super) fn project(camera: &Camera, reach: f64, point: DVec3) -> Option<[f64; 2]> {
    let p = camera.camera_from_world.transform(point);
    let rays = Rays::with_reach(camera, reach);
    if rays.depth(p) <= 0.05 {
        return None;
    }
    let pixel = rays.pixel(p)?;
    camera.frames(pixel).then(|| pixel.to_array())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_direction_is_left_to_held_out_photos() {
        // 16 photos per turn would be a multiple of the period of held-out photos, 8.
        assert_eq!([64, 48, 32].map(turns), [3, 2, 1]);
        assert!(widest_gap(64, 4) > 0.12 && widest_gap(64, 3) < 0.05);
        // Other numbers of turns are unchanged.
        assert_eq!([40, 60, 72, 100].map(turns), [2, 3, 4, 6]);
        for count in 20..300 {
            let gap = widest_gap(count, turns(count));
            assert!(gap <= WIDEST_GAP, "{count} photos have a gap of {gap}");
        }
        // With this few photos, gaps are wide for every number of turns.
        assert_eq!([0, 1, 2, 9].map(turns), [1; 4]);
    }
}
