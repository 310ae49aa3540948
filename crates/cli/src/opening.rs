//! Initial view, orbit centre and bounds of a page of splats.
//!
//! 1. The initial view is that of a photo. A sample of the Gaussians is weighted by opacity times area, up to a cap,
//!    and by the number of cameras with the Gaussian in their frustum, since Gaussians in many photos are accurate.
//!    The photo with the most weight in its frustum is selected; photos nearer or farther than the median distance
//!    from the centre have less weight.
//! 2. The view has the photo's angular area, in the shape of a page, and no roll.
//! 3. The page orbits the point of the view axis that is nearest to the common point of all view axes. If the cameras
//!    look outwards, it orbits the median depth in the photo.
//! 4. The cameras bound the motion of the page: see [`PageBounds`].

use crate::camera_paths::{CameraOrbit, Seen};
use crate::cameras::Named;
use crate::viewing::{InitialView, stance_of_splats};
use dapple::scene::undistort::pinhole_camera;
use dapple::scene::{Camera, Result, Splats, without_far_off};
use dapple_viewer::export::{PageBounds, PageCamera};
use glam::DVec3;

/// Most Gaussians to compare views by.
const SAMPLE: usize = 10_000;

/// Most cameras to compare, and to bound a page.
const MOST_CAMERAS: usize = 200;

/// Width of a page's view in heights.
const ASPECT: f64 = 16.0 / 9.0;

/// Share of the sample whose weights are not capped.
const UNCAPPED: f64 = 0.95;

/// Deviation of the logarithm of a photo's distance from the centre at which its weight is 0.6.
const SPREAD: f64 = 0.4;

/// Least distance of the orbit centre, in median distances.
const LEAST: f64 = 0.2;

/// Splats have a broad side if their horizontal spreads differ by this part of their sum.
const BROAD: f64 = 0.3;

/// First camera of a page; the module documents its choice.
#[derive(Debug, Clone, PartialEq)]
pub struct Opening {
    /// Selected photo; `None` without cameras.
    pub photo: Option<String>,
    /// Initial view.
    pub view: PageCamera,
    /// Up direction.
    pub up: DVec3,
    /// Centre that the page's camera orbits.
    pub centre: DVec3,
    /// Distance of the centre from the initial view.
    pub distance: f64,
    /// Bounds of the page's camera; `None` = no bounds.
    pub bounds: Option<PageBounds>,
}

/// Sampled Gaussian: centre, weight, and the number of cameras with the Gaussian in their frustum.
struct Sample {
    place: DVec3,
    weight: f64,
    seen: f64,
}

impl Opening {
    /// Chooses the camera from the splats, without photos.
    ///
    /// # Errors
    /// There are no splats.
    pub fn of_splats(splats: &Splats, up: Option<DVec3>) -> Result<Self> {
        let InitialView {
            up,
            centre,
            distance,
        } = stance_of_splats(splats, up)?;
        Ok(Self {
            photo: None,
            view: broadside(splats, up, centre, distance),
            up,
            centre,
            distance,
            bounds: None,
        })
    }

    /// Chooses one of these cameras, by its index `chosen` or else by its weight; `None` without cameras.
    pub fn of_cameras(
        named: &[Named],
        splats: &Splats,
        up: Option<DVec3>,
        chosen: Option<usize>,
    ) -> Option<Self> {
        // A panorama counts as its front.
        let flat = |(name, camera): &Named| {
            let front = (!camera.lens.is_perspective()).then(|| pinhole_camera(camera));
            (name.clone(), front.unwrap_or(*camera))
        };
        let named: Vec<Named> = named.iter().map(flat).collect();
        let named = named.as_slice();
        let like = pinhole_camera(&named.first()?.1);
        let poses = named.iter().map(|(_, camera)| camera.camera_from_world);
        let poses = without_far_off(poses.collect());
        let ring = CameraOrbit::of_poses(&Seen {
            poses: poses.clone(),
            like,
            up,
        });
        let (middle, up, median) = ring.stance();
        let is_inward = ring.looks_inward(&poses);
        let samples = samples(splats, named);
        let photo = chosen.or_else(|| best(named, &samples, middle, median))?;
        let (name, camera) = named.get(photo)?;
        let pose = &camera.camera_from_world;
        let forward = forward(camera);
        let depth = match is_inward {
            true => (middle - pose.centre()).dot(forward),
            false => median_depth(camera, &samples).unwrap_or(median),
        };
        let distance = depth.max(LEAST * median);
        let centre = pose.centre() + forward * distance;
        let view = PageCamera::looking(pose.centre(), centre, up, focal(camera));
        let eyes: Vec<DVec3> = poses.iter().map(dapple::scene::Pose::centre).collect();
        let step = eyes.len().div_ceil(MOST_CAMERAS).max(1);
        let eyes: Vec<DVec3> = eyes.into_iter().step_by(step).collect();
        Some(Self {
            photo: Some(name.clone()),
            view,
            up,
            centre,
            distance,
            bounds: PageBounds::of_cameras(&eyes, centre, is_inward),
        })
    }

    /// Moves the initial view to another camera, around the point of its axis that is nearest to the previous centre.
    pub fn stand(&mut self, camera: &Camera) {
        let (eye, forward) = (camera.camera_from_world.centre(), forward(camera));
        let depth = (self.centre - eye).dot(forward);
        if depth > LEAST * self.distance {
            self.distance = depth;
        }
        self.centre = eye + forward * self.distance;
        self.view = PageCamera::looking(eye, self.centre, self.up, focal(camera));
        self.photo = None;
    }
}

/// Returns the view of the broad side of the splats: a little from above, along the horizontal axis of their least
/// spread. With equal spreads, the default side.
fn broadside(splats: &Splats, up: DVec3, centre: DVec3, distance: f64) -> PageCamera {
    let usual = PageCamera::around(up.into(), centre.into(), distance);
    let side = DVec3::from(usual.position) - centre;
    let back = (side - up * side.dot(up)).normalize_or(DVec3::Z);
    let across = up.cross(back);
    let step = splats.len().div_ceil(SAMPLE).max(1);
    let (mut bb, mut ba, mut aa) = (0.0, 0.0, 0.0);
    for i in (0..splats.len()).step_by(step) {
        let arm = DVec3::from(splats.means[i].map(f64::from)) - centre;
        // Background is excluded.
        if arm.is_finite() && arm.length() < distance {
            let opacity = 1.0 / (1.0 + (-f64::from(splats.opacities[i])).exp());
            let (b, a) = (arm.dot(back), arm.dot(across));
            bb += opacity * b * b;
            ba += opacity * b * a;
            aa += opacity * a * a;
        }
    }
    let spread = ((bb - aa).powi(2) + 4.0 * ba * ba).sqrt();
    if spread < BROAD * (bb + aa) {
        return usual;
    }
    // Perpendicular to the axis of their largest spread.
    let turn = 0.5 * (2.0 * ba).atan2(bb - aa) + std::f64::consts::FRAC_PI_2;
    let way = back * turn.cos() + across * turn.sin();
    let way = if way.dot(back) < 0.0 { -way } else { way };
    let eye = centre + (0.35 * up + way).normalize() * distance;
    PageCamera::looking(eye, centre, up, 1.0)
}

fn forward(camera: &Camera) -> DVec3 {
    let pose = &camera.camera_from_world;
    pose.rotation_matrix().transpose().col(2)
}

/// Returns the focal length, in heights of a page, of a view with the angular area of a camera.
fn focal(camera: &Camera) -> f64 {
    let (x, y) = (
        camera.fx / f64::from(camera.width.max(1)),
        camera.fy / f64::from(camera.height.max(1)),
    );
    (ASPECT * x * y).sqrt()
}

/// Returns the position in camera coordinates, if it is in the frustum.
fn in_frustum(camera: &Camera, place: DVec3) -> Option<DVec3> {
    let p = camera.camera_from_world.transform(place);
    let (x, y) = (
        camera.fx * p.x / p.z + camera.cx,
        camera.fy * p.y / p.z + camera.cy,
    );
    let is_in = p.z > 0.0
        && (0.0..f64::from(camera.width)).contains(&x)
        && (0.0..f64::from(camera.height)).contains(&y);
    is_in.then_some(p)
}

/// Returns a sample of the Gaussians with their weights.
fn samples(splats: &Splats, named: &[Named]) -> Vec<Sample> {
    let step = splats.len().div_ceil(SAMPLE).max(1);
    let mut samples: Vec<Sample> = (0..splats.len())
        .step_by(step)
        .map(|i| Sample {
            place: DVec3::from(splats.means[i].map(f64::from)),
            weight: f64::from(splats.coverage(i)),
            seen: 0.0,
        })
        .filter(|sample| sample.place.is_finite() && sample.weight.is_finite())
        .collect();
    let mut weights: Vec<f64> = samples.iter().map(|sample| sample.weight).collect();
    weights.sort_by(f64::total_cmp);
    let cap = weights
        .get((weights.len() as f64 * UNCAPPED) as usize)
        .copied();
    let step = named.len().div_ceil(MOST_CAMERAS).max(1);
    for sample in &mut samples {
        sample.weight = sample.weight.min(cap.unwrap_or(f64::INFINITY));
        let sees = |(_, camera): &&Named| in_frustum(camera, sample.place).is_some();
        sample.seen = named.iter().step_by(step).filter(sees).count() as f64;
    }
    samples
}

/// Returns the photo that shows the scene best.
fn best(named: &[Named], samples: &[Sample], middle: DVec3, median: f64) -> Option<usize> {
    let step = named.len().div_ceil(MOST_CAMERAS).max(1);
    let score = |camera: &Camera| {
        let seen = samples
            .iter()
            .filter(|sample| in_frustum(camera, sample.place).is_some());
        let weight: f64 = seen.map(|sample| sample.weight * sample.seen).sum();
        let far = camera.camera_from_world.centre().distance(middle);
        let off = (far / median).max(1e-9).ln() / SPREAD;
        weight * (-0.5 * off * off).exp()
    };
    let scored = named.iter().enumerate().step_by(step);
    let scored = scored.map(|(i, (_, camera))| (i, score(camera)));
    // The first of several maxima.
    scored
        .fold(None, |best: Option<(usize, f64)>, (i, score)| match best {
            Some((_, most)) if most >= score => best,
            _ => Some((i, score)),
        })
        .map(|(i, _)| i)
}

/// Returns the median depth, by weight, of the Gaussians in a camera's frustum.
fn median_depth(camera: &Camera, samples: &[Sample]) -> Option<f64> {
    let seen = samples.iter().filter_map(|sample| {
        let p = in_frustum(camera, sample.place)?;
        Some((p.z, sample.weight * sample.seen))
    });
    let mut seen: Vec<(f64, f64)> = seen.collect();
    seen.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = seen.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut sum = 0.0;
    let found = seen.iter().find(|(_, weight)| {
        sum += weight;
        sum >= half
    });
    found.map(|(depth, _)| *depth)
}
