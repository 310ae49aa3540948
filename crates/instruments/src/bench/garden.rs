//! Gaussians of the fixed-size training step: points of a real scene, replicated to the requested number, with random
//! shapes.
//!
//! 1. Select the points inside a box of 4 units a side; place copies of it side by side, g in x and g in y, centred on
//!    the original.
//! 2. Place a Gaussian of the point's colour at each point: scales, rotation, opacity and the harmonics beyond the
//!    colour are random, with fixed statistics.
//! 3. The photos are renders of these Gaussians. Training starts from the same Gaussians, displaced, with less opacity
//!    and fainter colours.
//!
//! Every Gaussian has its own stream of random numbers: it depends on the seed, the point and the copy, not on the
//! number of copies.

use super::random::Random;
use dapple::scene::{Camera, Error, Lens, Point, Pose, Result, SH_C0, Splats, bounded, ply};
use glam::{DMat3, DQuat, DVec3};
use serde::Deserialize;
use std::path::Path;

/// Half the side of the box that points are taken from, and its side, the distance of the copies.
pub(super) const HALF: f32 = 2.0;
const PITCH: f32 = 2.0 * HALF;

/// Standard deviations along the axes: uniform between these, world units.
const SCALES: [f64; 2] = [1e-4, 0.02];

/// Standard deviation of the harmonics' coefficients.
const SH_SPREAD: f64 = 0.05;

/// Distance of opacities from 0 and 1, which have no logit.
const SURE: f64 = 1e-6;

/// Start of training: displacement of the centres, fraction of the colour and of the other harmonics that remains,
/// distance of opacities from 0 and 1.
const START_SPREAD: f64 = 0.003;
const START_SH0: f32 = 0.9;
const START_SH_REST: f32 = 0.5;
const START_OPACITY: f64 = 1e-3;

const SH_DEGREE: u8 = 3;
const SH_REST: usize = 45;

/// Points and cameras of a folder.
#[derive(Debug)]
pub struct Garden {
    points: Vec<Point>,
    cameras: Vec<Camera>,
}

impl Garden {
    /// Reads `points.ply` and `cameras.json`.
    ///
    /// # Errors
    /// A file is missing or broken; no point in the box; no camera.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut points = ply::read_points(&folder.join("points.ply"))?;
        points.retain(|point| point.position.iter().all(|v| v.abs() <= HALF));
        if points.is_empty() {
            return Err(Error::input(
                "no point lies inside the box of 4 units a side about the origin",
            )
            .at_path(folder.join("points.ply")));
        }
        let cameras = read_cameras(&folder.join("cameras.json"))?;
        Ok(Self { points, cameras })
    }

    /// Returns the cameras for photos of `width` x `height`; both axes keep their field of view.
    pub fn cameras(&self, [width, height]: [u32; 2]) -> Vec<Camera> {
        let all = self.cameras.iter();
        all.map(|camera| camera.resized(width, height)).collect()
    }

    /// Returns the Gaussians of `copies` x `copies` boxes, from which the photos are rendered.
    pub fn splats(&self, copies: u32, seed: u64) -> Splats {
        let count = self.points.len() * (copies * copies) as usize;
        let mut splats = Splats::empty(SH_DEGREE);
        splats.sh_rest.reserve(SH_REST * count);
        let offset = |i: u32| (i as f32 - 0.5 * (copies as f32 - 1.0)) * PITCH;
        for copy in 0..copies * copies {
            let moved = [offset(copy % copies), offset(copy / copies)];
            for (i, point) in self.points.iter().enumerate() {
                let index = u64::from(copy) << 32 | i as u64;
                push(
                    &mut splats,
                    point,
                    moved,
                    &mut Random::for_item(seed, index),
                );
            }
        }
        splats
    }
}

fn push(splats: &mut Splats, point: &Point, moved: [f32; 2], random: &mut Random) {
    let [x, y, z] = point.position;
    splats.means.push([x + moved[0], y + moved[1], z]);
    let scale = std::array::from_fn(|_| random.uniform(SCALES[0], SCALES[1]).ln() as f32);
    splats.scales.push(scale);
    let quat: [f64; 4] = std::array::from_fn(|_| random.normal());
    let norm = quat.iter().map(|v| v * v).sum::<f64>().sqrt();
    splats.quats.push(quat.map(|v| (v / norm) as f32));
    let opacity = random.uniform(0.0, 1.0).clamp(SURE, 1.0 - SURE);
    splats.opacities.push(logit(opacity));
    let colour = point.rgb.map(|v| (f32::from(v) / 255.0 - 0.5) / SH_C0);
    splats.sh0.push(colour);
    let rest = (0..SH_REST).map(|_| (SH_SPREAD * random.normal()) as f32);
    splats.sh_rest.extend(rest);
}

/// Returns the start of training, made from the Gaussians of the photos.
pub fn start(mut splats: Splats, seed: u64) -> Splats {
    for (i, mean) in splats.means.iter_mut().enumerate() {
        let mut random = Random::for_item(!seed, i as u64);
        *mean = mean.map(|v| v + (START_SPREAD * random.normal()) as f32);
    }
    for colour in &mut splats.sh0 {
        *colour = colour.map(|v| START_SH0 * v);
    }
    for value in &mut splats.sh_rest {
        *value *= START_SH_REST;
    }
    let bound = logit(1.0 - START_OPACITY);
    for opacity in &mut splats.opacities {
        *opacity = opacity.clamp(-bound, bound);
    }
    splats
}

fn logit(p: f64) -> f32 {
    (p / (1.0 - p)).ln() as f32
}

/// The schema of `cameras.json`.
#[derive(Deserialize)]
struct CameraFile {
    width: u32,
    height: u32,
    /// Rows of the matrix of intrinsics, pixels.
    #[serde(rename = "K")]
    intrinsics: [[f64; 3]; 3],
    /// Rows of the transform of each camera.
    camera_from_world: Vec<[[f64; 4]; 4]>,
}

fn read_cameras(path: &Path) -> Result<Vec<Camera>> {
    let most = bounded::CAMERAS_BYTES;
    let text = bounded::read_text("cannot read the cameras", path, most)?;
    let file: CameraFile = serde_json::from_str(&text).map_err(|e| {
        Error::input(format!("the cameras cannot be read: {e}"))
            .at_path(path)
            .hint("width, height, K (3 x 3) and camera_from_world (4 x 4 each) are needed")
    })?;
    let cameras: Vec<Camera> = file
        .camera_from_world
        .iter()
        .map(|rows| Camera {
            width: file.width,
            height: file.height,
            fx: file.intrinsics[0][0],
            fy: file.intrinsics[1][1],
            cx: file.intrinsics[0][2],
            cy: file.intrinsics[1][2],
            lens: Lens::Pinhole,
            camera_from_world: pose(rows),
        })
        .collect();
    if cameras.is_empty() || cameras.iter().any(|c| !c.camera_from_world.is_finite()) {
        return Err(Error::input("there is no camera, or one without a finite pose").at_path(path));
    }
    Ok(cameras)
}

fn pose(rows: &[[f64; 4]; 4]) -> Pose {
    let row = |i: usize| DVec3::new(rows[i][0], rows[i][1], rows[i][2]);
    let rotation = DMat3::from_cols(row(0), row(1), row(2)).transpose();
    Pose {
        rotation: DQuat::from_mat3(&rotation).normalize(),
        translation: DVec3::new(rows[0][3], rows[1][3], rows[2][3]),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn garden() -> Garden {
        let point = |i: u16| Point {
            position: [f32::from(i) / 500.0 - 2.0, 0.0, 1.0],
            rgb: [255, 128, 0],
        };
        Garden {
            points: (0..2000).map(point).collect(),
            cameras: Vec::new(),
        }
    }

    #[test]
    fn copies_are_centred_and_the_first_of_one_is_that_of_many() {
        let garden = garden();
        let (one, nine) = (garden.splats(1, 7), garden.splats(3, 7));
        assert_eq!((one.len(), nine.len()), (2000, 18_000));
        assert_eq!(one.means[5], garden.points[5].position);
        let first = [one.means[5][0] - PITCH, one.means[5][1] - PITCH, 1.0];
        assert_eq!(nine.means[5], first);
        assert_eq!(nine.quats[5], one.quats[5]);
        let mean = |axis: usize| nine.means.iter().map(|m| m[axis]).sum::<f32>() / 18_000.0;
        assert!(mean(0).abs() < 0.01 && mean(1).abs() < 0.01);
        assert_ne!(garden.splats(1, 8).quats[5], one.quats[5]);
    }

    #[test]
    fn the_statistics_are_those_of_the_recipe() {
        let splats = garden().splats(3, 0);
        let n = splats.len() as f32;
        let scales: Vec<f32> = splats.scales.iter().flatten().map(|s| s.exp()).collect();
        let mean = scales.iter().sum::<f32>() / scales.len() as f32;
        assert!((mean - 0.010_05).abs() < 2e-4, "{mean}");
        assert!(scales.iter().all(|s| (0.99e-4..0.02001).contains(s)));
        let opacity = |l: &f32| 1.0 / (1.0 + (-l).exp());
        let mean = splats.opacities.iter().map(opacity).sum::<f32>() / n;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
        let square = splats.sh_rest.iter().map(|v| v * v).sum::<f32>();
        let spread = (square / splats.sh_rest.len() as f32).sqrt();
        assert!((spread - 0.05).abs() < 1e-3, "{spread}");
        for quat in &splats.quats {
            let norm = quat.iter().map(|v| v * v).sum::<f32>();
            assert!((norm - 1.0).abs() < 1e-5);
        }
        assert!((0.5 + SH_C0 * splats.sh0[0][0] - 1.0).abs() < 1e-6);

        let begun = start(splats.clone(), 0);
        let square = begun
            .means
            .iter()
            .zip(&splats.means)
            .map(|(a, b)| (a[0] - b[0]).powi(2))
            .sum::<f32>();
        assert!(((square / n).sqrt() - 0.003).abs() < 1e-4);
        assert_eq!(begun.sh0[3][0], 0.9 * splats.sh0[3][0]);
        assert_eq!(begun.sh_rest[3], 0.5 * splats.sh_rest[3]);
        assert!(begun.opacities.iter().all(|o| o.abs() <= 6.907));
        assert_eq!(begun.quats, splats.quats);
    }

    #[test]
    fn a_rotation_by_rows_maps_as_its_matrix() {
        let rows = [
            [0.0, -1.0, 0.0, 5.0],
            [1.0, 0.0, 0.0, 6.0],
            [0.0, 0.0, 1.0, 7.0],
            [0.0, 0.0, 0.0, 1.0],
        ];
        let mapped = pose(&rows).transform(DVec3::new(1.0, 2.0, 3.0));
        assert!((mapped - DVec3::new(3.0, 7.0, 10.0)).length() < 1e-12);
    }
}
