//! The first points of a capture that has none.
//!
//! 1. Number: one for [`PIXELS_PER_POINT`] pixels that show something, within bounds: few or small photos
//!    cannot settle a hundred thousand Gaussians in a short run.
//! 2. Region of cameras that look inwards: the cube where their optical axes meet. Where photos have alpha, or
//!    an even background, points that it rules out are left out (the visual hull), and the others have the
//!    colours that photos show there.
//! 3. Region of cameras that look outwards: along random rays of the photos, inverse depths uniform up to
//!    [`NEAREST`]; each point has the colour of its ray's pixel.
//!
//! Sources: `Kerbl et al. 2023` for random points in a cube; the visual hull of `Laurentini 1994`.

use super::shot::{Shot, seen_colour};
use crate::TrainConfig;
use crate::plain_background;
use crate::random::{Purpose, below, generator, unit};
use dapple_scene::{Camera, Dataset, Point, Result};
use glam::{DMat3, DVec3};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

/// Most random points (as the 3DGS paper's trainer has for Blender scenes), the same where photos carve them,
/// and fewest.
const MOST: usize = 100_000;
const MOST_CARVED: usize = 25_000;
const FEWEST: usize = 1000;

/// Pixels for each point.
const PIXELS_PER_POINT: f64 = 30.0;

/// Cameras look inwards where this part of them has the place in the frame that their axes are nearest to.
const INWARDS: f64 = 0.7;

/// A photo in this many may rule a point out without effect: masks and poses are not perfect.
const PHOTOS_PER_FAULT: usize = 50;

/// The same where photos are opaque and a plain background is found by its colour: parts of the object may
/// have that colour too.
const PHOTOS_PER_FAULT_PLAIN: usize = 8;

/// Candidates for each point that is wanted, at most.
const MOST_TRIES: usize = 256;

/// Candidates that are judged in parallel.
const BLOCK: usize = 1 << 14;

/// Depths along the rays of cameras that look outwards, in units of the scene's extent.
const NEAREST: f64 = 0.5;
const FARTHEST: f64 = 20.0;

/// Where random points go.
enum Region {
    /// Centre and half edge of a cube.
    Cube(DVec3, f64),
    /// Along the photos' rays, up to a depth.
    Rays { nearest: f64, farthest: f64 },
}

/// Random points for the views `train`: `wanted`, or as many as suit the photos, and at most `most`.
///
/// # Errors
/// A photo that cannot be read.
pub(super) fn points(
    dataset: &Dataset,
    train: &[usize],
    extent: f64,
    (wanted, most): (Option<usize>, usize),
    config: &TrainConfig,
) -> Result<Vec<Point>> {
    let mut shots = Shot::of(dataset, train)?;
    let plain = plain_background::colour(dataset, train)?;
    if let Some(colour) = plain {
        shots
            .par_iter_mut()
            .for_each(|shot| shot.mark_plain(colour, plain_background::TOLERANCE));
    }
    let region = region(dataset, train, extent);
    let filled = shots.iter().map(Shot::filled).sum::<f64>() / shots.len().max(1) as f64;
    let carves = filled < 1.0 && matches!(region, Region::Cube(..));
    let count = wanted.unwrap_or_else(|| {
        let pixels = |&i: &usize| {
            let [width, height] = dataset.views[i].photo.size();
            f64::from(width) * f64::from(height)
        };
        let pixels = train.iter().map(pixels).sum::<f64>() * filled;
        let most = if carves { MOST_CARVED } else { MOST };
        ((pixels / PIXELS_PER_POINT) as usize).clamp(FEWEST, most)
    });
    let count = count.min(most);
    let mut random = generator(config.seed, Purpose::Sample, 1);
    if carves {
        let faults = match plain {
            Some(_) => shots.len() / PHOTOS_PER_FAULT_PLAIN,
            None => shots.len() / PHOTOS_PER_FAULT,
        };
        let found = carved(&region, &shots, faults, count, &mut random);
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok((0..count).filter_map(|_| region.draw(&shots, &mut random)).collect())
}

/// Points that no more photos than `faults` rule out, with the colours that photos show there.
fn carved(
    region: &Region,
    shots: &[Shot],
    faults: usize,
    count: usize,
    random: &mut ChaCha8Rng,
) -> Vec<Point> {
    let kept = |mut point: Point| {
        let place = DVec3::from(point.position.map(f64::from));
        let rules_out = |shot: &&Shot| shot.pixel(place).is_some_and(|pixel| shot.is_empty(pixel));
        if shots.iter().filter(rules_out).nth(faults).is_some() {
            return None;
        }
        // A place that no photo shows is left out too.
        point.rgb = seen_colour(shots, place)?;
        Some(point)
    };
    let mut found = Vec::new();
    let mut tries = 0;
    while found.len() < count && tries < count.saturating_mul(MOST_TRIES) {
        let block: Vec<Point> = (0..BLOCK)
            .filter_map(|_| region.draw(shots, random))
            .collect();
        tries += BLOCK;
        found.par_extend(block.into_par_iter().filter_map(kept));
    }
    found.truncate(count);
    found
}

impl Region {
    fn draw(&self, shots: &[Shot], random: &mut ChaCha8Rng) -> Option<Point> {
        match *self {
            Self::Cube(centre, half) => {
                let position = centre.to_array().map(|c| {
                    (c + half * (2.0 * f64::from(unit(random)) - 1.0)) as f32
                });
                let rgb = std::array::from_fn(|_| below(256, random) as u8);
                Some(Point { position, rgb })
            }
            Self::Rays { nearest, farthest } => {
                // A ray that shows nothing is drawn again, not for ever.
                (0..MOST_TRIES).find_map(|_| {
                    let shot = &shots[below(shots.len(), random)];
                    let pixel = below(shot.pixels(), random);
                    let inverse = f64::from(unit(random));
                    let rgb = shot.colour(pixel)?;
                    let depth = 1.0 / (1.0 / farthest + inverse * (1.0 / nearest - 1.0 / farthest));
                    let place = shot.camera.camera_from_world.centre() + shot.ray(pixel)? * depth;
                    let position = place.as_vec3().to_array();
                    place.is_finite().then_some(Point { position, rgb })
                })
            }
        }
    }
}

/// The region that cameras look at.
///
/// The point nearest to all optical axes is the minimum of the summed squared distances and solves
/// `sum(I - d d^T) x = sum(I - d d^T) c`. Where most cameras have it in their frame, they look inwards, and the
/// half edge of the cube is the half width that a camera sees there, on average. Cameras that look in parallel
/// have no such point: then the cube is one extent in front of them.
fn region(dataset: &Dataset, train: &[usize], extent: f64) -> Region {
    let cameras: Vec<&Camera> = train.iter().map(|&i| &dataset.views[i].camera).collect();
    let count = cameras.len().max(1) as f64;
    let centres: Vec<DVec3> = cameras
        .iter()
        .map(|camera| camera.camera_from_world.centre())
        .collect();
    let axes: Vec<DVec3> = cameras
        .iter()
        .map(|camera| camera.camera_from_world.rotation.conjugate() * DVec3::Z)
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
        camera.project_pinhole(seen).is_some_and(|pixel| {
            let (width, height) = (f64::from(camera.width), f64::from(camera.height));
            (0.0..width).contains(&pixel.x) && (0.0..height).contains(&pixel.y)
        })
    };
    let looking = cameras.iter().filter(in_frame).count() as f64;
    if looking < INWARDS * count {
        return Region::Rays {
            nearest: NEAREST * extent,
            farthest: FARTHEST * extent,
        };
    }
    let half_width = |(camera, centre): (&&Camera, &DVec3)| {
        let across = f64::from(camera.width) / camera.fx;
        let down = f64::from(camera.height) / camera.fy;
        centre.distance(focus) * 0.5 * across.min(down)
    };
    let half = cameras.iter().zip(&centres).map(half_width).sum::<f64>() / count;
    if half.is_finite() && half > 0.0 && focus.is_finite() {
        Region::Cube(focus, half)
    } else {
        Region::Cube(mean_centre, extent)
    }
}
