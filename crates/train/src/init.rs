//! The first Gaussians.
//!
//! 1. From the capture's sparse points, or a seeded sample of them; where their colours were not recorded
//!    (`lost_colours`), with those of the photos. Where its format has none (Blender), or on request, from
//!    random points where the cameras look (`random_start`).
//!    With a region of interest, more of the points outside are omitted if not all are used (`focus.rs`).
//! 2. Scale: the root mean square distance to the 3 nearest neighbours, the same along each axis.
//! 3. Opacity 0.1 and that scale unless the configuration says otherwise, random rotation, the point's colour, no view
//!    dependence.
//!
//! Source: Kerbl et al. 2023, section 5.1, and gsplat's `simple_trainer`.

mod lost_colours;
mod random_start;
mod shot;

pub(crate) use lost_colours::are_lost as colours_are_lost;

use crate::TrainConfig;
use crate::focus;
use crate::random::{Purpose, below, generator, unit};
use dapple_scene::order::morton_order;
use dapple_scene::{Dataset, Error, Point, Result, SH_C0, Splats};
use kiddo::{ImmutableKdTree, SquaredEuclidean};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use std::num::NonZero;

/// Opacity of every Gaussian at the start.
const INITIAL_OPACITY: f32 = 0.1;

/// Least colour of a channel at the start, of 255: the largest that is still rounded to a byte of zero. At zero itself,
/// rounding in `f32` determines whether the channel is clamped and gets no gradient.
const DARKEST: f32 = 0.5;

/// Neighbours that the first scale is measured from.
const NEIGHBOURS: usize = 3;

/// First scales are between these fractions of the scene's extent: coincident points would have a scale of zero, an
/// outlier a scale of infinity.
const SCALE_RANGE: (f64, f64) = (1e-6, 10.0);

/// Returns the first Gaussians of a run on the views `train`, in a scene of this extent.
///
/// # Errors
/// The capture has lost its points ([`Dataset::missing_points`]) and [`TrainConfig::random_start`] is not set; all
/// points are NaN or infinite; a photo cannot be read. Photos are read if the capture has no points, or no colours of
/// points.
pub fn initial_splats(
    dataset: &Dataset,
    train: &[usize],
    extent: f64,
    config: &TrainConfig,
) -> Result<Splats> {
    let wanted = match (config.initial_gaussians, config.gaussian_budget()) {
        (0, budget) => budget,
        (n, budget) => n.min(budget),
    };
    let points = if dataset.points.is_empty() {
        if let Some(file) = dataset
            .missing_points
            .as_ref()
            .filter(|_| !config.random_start)
        {
            return Err(Error::input("the capture has no sparse points to start from")
                .at_path(file)
                .hint(
                    "restore this file, or run COLMAP's mapper again; to start from random points, \
                     say so: --initial-gaussians 50000, or random_start = true in the configuration",
                ));
        }
        let named = Some(config.initial_gaussians).filter(|&n| n > 0);
        random_start::points(dataset, train, extent, (named, wanted), config)?
    } else {
        let finite: Vec<Point> = dataset
            .points
            .iter()
            .filter(|p| p.position.iter().all(|v| v.is_finite()))
            .copied()
            .collect();
        if finite.is_empty() {
            return Err(Error::input("every sparse point is NaN or infinite")
                .hint("the reconstruction is broken: make it again"));
        }
        let lost = lost_colours::are_lost(&finite);
        let mut points = sample(
            focus::thin(finite, wanted, config, &focus::views(dataset, train)),
            wanted,
            config.seed,
        );
        if lost {
            lost_colours::restore(dataset, train, &mut points)?;
        }
        points
    };
    first_splats(&points, extent, config)
}

/// Returns Gaussians at these points, with the first opacity and scale of the configuration.
pub(crate) fn first_splats(points: &[Point], extent: f64, config: &TrainConfig) -> Result<Splats> {
    let mut splats = from_points(points, extent, config.sh_degree, config.seed)?;
    let opacity = config.initial_opacity;
    let logit = (opacity / (1.0 - opacity)).ln() as f32;
    splats.opacities.fill(logit);
    if config.initial_scale != 1.0 {
        let log_scale = config.initial_scale.ln() as f32;
        for scale in splats.scales.as_flattened_mut() {
            *scale += log_scale;
        }
    }
    Ok(splats)
}

/// Returns Gaussians at these points, with their colours. Positions must be finite.
pub fn from_points(points: &[Point], extent: f64, sh_degree: u8, seed: u64) -> Result<Splats> {
    let means: Vec<[f32; 3]> = points.iter().map(|p| p.position).collect();
    let (least, most) = (SCALE_RANGE.0 * extent, SCALE_RANGE.1 * extent);
    let scales = neighbour_distances(&means)?
        .into_iter()
        .map(|distance| [distance.clamp(least, most).ln() as f32; 3])
        .collect();
    let mut random = generator(seed, Purpose::Initial, 0);
    let quats = means.iter().map(|_| random_rotation(&mut random)).collect();
    let colour = |v: u8| (f32::from(v).max(DARKEST) / 255.0 - 0.5) / SH_C0;
    let mut splats = Splats {
        scales,
        quats,
        opacities: vec![(INITIAL_OPACITY / (1.0 - INITIAL_OPACITY)).ln(); means.len()],
        sh0: points.iter().map(|p| p.rgb.map(colour)).collect(),
        means,
        sh_degree,
        ..Splats::default()
    };
    splats.sh_rest = vec![0.0; splats.len() * splats.sh_rest_stride()];
    Ok(splats)
}

/// Returns the root mean square distance of each point to its (at most 3) nearest neighbours, world units. Zero for a
/// point without neighbours.
pub(crate) fn neighbour_distances(means: &[[f32; 3]]) -> Result<Vec<f64>> {
    if means.len() < 2 {
        return Ok(vec![0.0; means.len()]);
    }
    let positions: Vec<[f64; 3]> = means.iter().map(|p| p.map(f64::from)).collect();
    let tree: ImmutableKdTree<f64, 3> = ImmutableKdTree::new_from_slice(&positions)
        .map_err(|e| Error::internal(format!("the points cannot be indexed: {e:?}")))?;
    let neighbours = NEIGHBOURS.min(positions.len() - 1);
    // The nearest is the point itself, or one that coincides with it: distance zero either way.
    let asked = NonZero::new(neighbours + 1).unwrap_or(NonZero::<usize>::MIN);
    let distance = |position: &[f64; 3]| {
        let sum: f64 = tree
            .query(position)
            .nearest_n::<SquaredEuclidean<f64>>(asked)
            .execute()
            .iter()
            .map(|found| found.distance)
            .sum();
        (sum / neighbours as f64).sqrt()
    };
    // Neighbours in the order have neighbours in memory.
    let order = morton_order(means);
    let found: Vec<f64> = order.par_iter().map(|&i| distance(&positions[i])).collect();
    let mut distances = vec![0.0; positions.len()];
    for (i, distance) in order.into_iter().zip(found) {
        distances[i] = distance;
    }
    Ok(distances)
}

/// Returns at most `wanted` of the points, drawn without replacement, in their order.
fn sample(points: Vec<Point>, wanted: usize, seed: u64) -> Vec<Point> {
    if wanted >= points.len() {
        return points;
    }
    let mut random = generator(seed, Purpose::Sample, 0);
    let mut indices: Vec<usize> = (0..points.len()).collect();
    for i in 0..wanted {
        let j = i + below(indices.len() - i, &mut random);
        indices.swap(i, j);
    }
    indices.truncate(wanted);
    indices.sort_unstable();
    indices.into_iter().map(|i| points[i]).collect()
}

/// Uniform on the unit sphere in four dimensions, by rejection: square roots are the same on every
/// machine, sines are not.
fn random_rotation(random: &mut ChaCha8Rng) -> [f32; 4] {
    loop {
        let quat: [f32; 4] = std::array::from_fn(|_| 2.0 * unit(random) - 1.0);
        let squared: f32 = quat.iter().map(|v| v * v).sum();
        if (0.01..=1.0).contains(&squared) {
            let length = squared.sqrt();
            return quat.map(|v| v / length);
        }
    }
}
