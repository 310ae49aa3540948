//! The first points of a capture that has none.
//!
//! 1. Number: by the photos' pixels, within bounds. Few or small photos cannot settle a hundred thousand
//!    Gaussians in a short run.
//! 2. Photos with alpha or on a plain background, of cameras that look inwards: points in the cube where the
//!    optical axes meet (Kerbl et al. 2023), without those that photos rule out (the visual hull, Laurentini
//!    1994), in the colours that photos show there.
//! 3. Other photos: points along random rays, at random inverse depths, in the colours of the rays' pixels. Of
//!    some depths the one is taken where other photos show that colour too.

use super::shot::{Shot, seen_colour};
use crate::TrainConfig;
use crate::plain_background;
use crate::random::{Purpose, below, generator, unit};
use dapple_scene::{Camera, Dataset, Point, Result};
use glam::{DMat3, DVec3};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

/// Most random points (as the 3DGS paper's trainer has for Blender scenes), most points if photos carve them, and
/// fewest points.
const MOST: usize = 100_000;
const MOST_CARVED: usize = 25_000;
const FEWEST: usize = 1000;

/// Pixels for each point, and non-empty pixels for each point that photos carve.
const PIXELS_PER_POINT: f64 = 30.0;
const PIXELS_PER_CARVED: f64 = 10.0;

/// Cameras look inwards if this part of them has the place in the frame that their axes are nearest to.
const INWARDS: f64 = 0.7;

/// A place stays if at most one in this many photos rules it out: masks and poses are not perfect.
const PHOTOS_PER_FAULT: usize = 50;

/// The limit of [`PHOTOS_PER_FAULT`] for opaque photos on a plain background that is found by its colour: parts of the
/// object may have that colour too.
const PHOTOS_PER_FAULT_PLAIN: usize = 8;

/// Most candidates for each wanted point.
const MOST_TRIES: usize = 256;

/// Candidates that are tested in parallel.
const BLOCK: usize = 1 << 14;

/// Depths along the photos' rays, in units of the scene's extent. In eight real captures nine tenths of the sparse
/// points are 0.4 to 6 extents in front of the cameras that see them.
const NEAREST: f64 = 0.3;
const FARTHEST: f64 = 12.0;

/// Number of depths that are tried on a ray.
const DEPTHS: usize = 16;

/// A place on a ray is compared with this part of the photos that see it, those that agree best: in other photos
/// something else may be in front.
const AGREEING: (usize, usize) = (1, 2);

/// Returns random points for the views `train`: `wanted`, or a number that suits the photos, and at most `most`.
///
/// # Errors
/// A photo cannot be read.
pub(super) fn points(
    dataset: &Dataset,
    train: &[usize],
    extent: f64,
    (wanted, most): (Option<usize>, usize),
    config: &TrainConfig,
) -> Result<Vec<Point>> {
    // Cameras far from all others carry no information about the scene.
    let far = dataset.far_off(train);
    let train: Vec<usize> = train.iter().copied().filter(|i| !far.contains(i)).collect();
    let train = train.as_slice();
    let mut shots = Shot::read_all(dataset, train)?;
    let plain = plain_background::colour(dataset, train)?;
    if let Some(colour) = plain {
        shots
            .par_iter_mut()
            .for_each(|shot| shot.mark_plain(colour, plain_background::TOLERANCE));
    }
    let filled = shots.iter().map(Shot::filled).sum::<f64>() / shots.len().max(1) as f64;
    let cube = watched_cube(dataset, train, extent);
    let count = |per_point: f64, at_most: usize| {
        let pixels = |&i: &usize| {
            let [width, height] = dataset.views[i].photo.size();
            f64::from(width) * f64::from(height)
        };
        let pixels =
            train.iter().map(pixels).sum::<f64>() * if filled > 0.0 { filled } else { 1.0 };
        let suited = ((pixels / per_point) as usize).clamp(FEWEST, at_most);
        wanted.unwrap_or(suited).min(most)
    };
    let mut random = generator(config.seed, Purpose::Sample, 1);
    if filled < 1.0 && filled > 0.0 && cube.is_watched {
        let per_fault = match plain {
            Some(_) => PHOTOS_PER_FAULT_PLAIN,
            None => PHOTOS_PER_FAULT,
        };
        let count = count(PIXELS_PER_CARVED, MOST_CARVED);
        let found = carved(&cube, &shots, per_fault, count, &mut random);
        if !found.is_empty() {
            return Ok(found);
        }
    }
    let count = count(PIXELS_PER_POINT, MOST);
    if filled > 0.0 {
        let found = along_rays(&shots, extent, count, &mut random);
        if !found.is_empty() {
            return Ok(found);
        }
    }
    // Photos of one colour carry no information about places.
    Ok((0..count).map(|_| cube.draw(&mut random)).collect())
}

/// Returns points that at most one of `per_fault` photos that see them rules out, with the colours that photos show
/// there.
fn carved(
    cube: &Cube,
    shots: &[Shot],
    per_fault: usize,
    count: usize,
    random: &mut ChaCha8Rng,
) -> Vec<Point> {
    let kept = |mut point: Point| {
        let place = DVec3::from(point.position.map(f64::from));
        let (mut seen, mut empty) = (0, 0);
        for shot in shots {
            if let Some(pixel) = shot.pixel(place) {
                seen += 1;
                empty += usize::from(shot.is_empty(pixel));
            }
        }
        if empty > seen / per_fault {
            return None;
        }
        // A place that no photo shows is skipped too.
        point.rgb = seen_colour(shots, place)?;
        Some(point)
    };
    let mut found = Vec::new();
    let mut tries = 0;
    while found.len() < count && tries < count.saturating_mul(MOST_TRIES) {
        let block: Vec<Point> = (0..BLOCK).map(|_| cube.draw(random)).collect();
        tries += BLOCK;
        found.par_extend(block.into_par_iter().filter_map(kept));
    }
    found.truncate(count);
    found
}

/// Returns points along random rays of the photos, each at the depth of several where the photos agree best.
fn along_rays(shots: &[Shot], extent: f64, count: usize, random: &mut ChaCha8Rng) -> Vec<Point> {
    let mut rays = Vec::new();
    for _ in 0..count.saturating_mul(MOST_TRIES) {
        if rays.len() == count {
            break;
        }
        let shot = &shots[below(shots.len(), random)];
        let pixel = below(shot.pixels(), random);
        let depths = [(); DEPTHS].map(|()| extent * depth(unit(random)));
        if let Some((ray, rgb)) = shot.ray(pixel).zip(shot.colour(pixel)) {
            let centre = shot.camera.camera_from_world.centre();
            rays.push((rgb, depths.map(|depth| centre + ray * depth)));
        }
    }
    rays.into_par_iter()
        .filter_map(|(rgb, places)| {
            let best = places
                .into_iter()
                .min_by_key(|&place| disagreement(shots, place, rgb))?;
            let position = best.as_vec3().to_array();
            best.is_finite().then_some(Point { position, rgb })
        })
        .collect()
}

/// A depth in units of the extent; its logarithm is as uniform as `u`. Square roots are the same on every
/// machine, powers are not.
fn depth(u: f32) -> f64 {
    let (mut low, mut high) = (NEAREST, FARTHEST);
    let mut part = f64::from(u);
    // Halves the interval of logarithms 12 times, then takes its place within linearly.
    for _ in 0..12 {
        let middle = (low * high).sqrt();
        part *= 2.0;
        if part < 1.0 {
            high = middle;
        } else {
            (low, part) = (middle, part - 1.0);
        }
    }
    low + part * (high - low)
}

/// Returns the mean difference from a colour over the photos that agree best with it where they see a place, 0 to 765,
/// and the mean over all photos, which breaks ties.
fn disagreement(shots: &[Shot], place: DVec3, rgb: [u8; 3]) -> [u32; 2] {
    let apart = |shot: &Shot| {
        let colour = shot.colour(shot.pixel(place)?)?;
        let channels = colour.iter().zip(rgb);
        Some(channels.map(|(&a, b)| u32::from(a.abs_diff(b))).sum())
    };
    let mut all: Vec<u32> = shots.iter().filter_map(apart).collect();
    all.sort_unstable();
    // One of them is the photo of the ray itself, which always agrees.
    let used = (all.len() * AGREEING.0 / AGREEING.1).max(2);
    let mean = |others: &[u32]| others.iter().sum::<u32>() / others.len() as u32;
    match (all.get(1..used), all.get(1..)) {
        (Some(agreeing), Some(others)) => [mean(agreeing), mean(others)],
        // No other photo sees the place: its score is that of a random colour.
        _ => [UNSEEN; 2],
    }
}

/// Difference of a place that only the photo of its ray sees.
const UNSEEN: u32 = 200;

/// A cube, and whether cameras look at it.
struct Cube {
    centre: DVec3,
    /// Half edge.
    half: f64,
    /// True if most cameras have the centre in their frame.
    is_watched: bool,
}

impl Cube {
    fn draw(&self, random: &mut ChaCha8Rng) -> Point {
        let mut within = |c: f64| (c + self.half * (2.0 * f64::from(unit(random)) - 1.0)) as f32;
        let position = self.centre.to_array().map(&mut within);
        Point {
            position,
            rgb: std::array::from_fn(|_| below(256, random) as u8),
        }
    }
}

/// The cube that cameras look at.
///
/// The centre is the point nearest to all optical axes: the minimum of the summed squared distances solves
/// `sum(I - d d^T) x = sum(I - d d^T) c`. The half edge is the half width that a camera sees there, on average.
/// Cameras that look in parallel have no such point: then the cube is one extent in front of them.
fn watched_cube(dataset: &Dataset, train: &[usize], extent: f64) -> Cube {
    let cameras: Vec<&Camera> = train.iter().map(|&i| &dataset.views[i].camera).collect();
    let count = cameras.len().max(1) as f64;
    let centres: Vec<DVec3> = cameras
        .iter()
        .map(|camera| camera.camera_from_world.centre())
        .collect();
    let axes: Vec<DVec3> = cameras
        .iter()
        .map(|camera| camera.camera_from_world.forward())
        .collect();
    let mean_centre = centres.iter().copied().sum::<DVec3>() / count;
    let mean_axis = axes.iter().copied().sum::<DVec3>() / count;
    let (mut matrix, mut right) = (DMat3::ZERO, DVec3::ZERO);
    for (centre, axis) in centres.iter().zip(&axes) {
        let across =
            DMat3::IDENTITY - DMat3::from_cols(*axis * axis.x, *axis * axis.y, *axis * axis.z);
        matrix += across;
        right += across * *centre;
    }
    // Eigenvalues of matrix / count sum to 2; a determinant near zero means parallel axes.
    let meet = (matrix.determinant() / count.powi(3)).abs() > 1e-3;
    let focus = match meet {
        true => matrix.inverse() * right,
        false => mean_centre + mean_axis * extent,
    };
    let in_frame = |camera: &&&Camera| {
        let seen = camera.camera_from_world.transform(focus);
        // A panorama shows all sides and looks at none.
        camera.lens.is_perspective()
            && camera.project_pinhole(seen).is_some_and(|pixel| {
                let (width, height) = (f64::from(camera.width), f64::from(camera.height));
                (0.0..width).contains(&pixel.x) && (0.0..height).contains(&pixel.y)
            })
    };
    let looking = cameras.iter().filter(in_frame).count() as f64;
    let half_width = |(camera, centre): (&&Camera, &DVec3)| {
        let across = f64::from(camera.width) / camera.fx;
        let down = f64::from(camera.height) / camera.fy;
        centre.distance(focus) * 0.5 * across.min(down)
    };
    let half = cameras.iter().zip(&centres).map(half_width).sum::<f64>() / count;
    let is_watched = looking >= INWARDS * count;
    let (centre, half) = match half.is_finite() && half > 0.0 && focus.is_finite() {
        true => (focus, half),
        false => (mean_centre, extent),
    };
    Cube {
        centre,
        half,
        is_watched,
    }
}
