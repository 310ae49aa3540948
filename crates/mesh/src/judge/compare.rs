//! Distances between a mesh and the truth.

use super::align::aligned;
use super::samples::{samples, thinned};
use crate::files::Counted;
use crate::mesh::Mesh;
use crate::nearest::Nearest;
use crate::volume::is_in_box;
use dapple_base::{Error, Result};
use dapple_scene::edit::Similarity;
use glam::Vec3;
use rayon::prelude::*;

/// Rules of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Number of points on each mesh. A set of points is not resampled.
    pub points: usize,
    /// Distances of precision and recall, world units.
    pub distances: Vec<f32>,
    /// Limit of distances: larger distances count as the limit for completeness, and are excluded from accuracy. `None`
    /// for no limit.
    pub most: Option<f32>,
    /// Cell of the grid of which one point is used, world units; 0 for all points.
    pub thinning: f32,
    /// Parts of the truth that fewer cameras see do not count for completeness and recall, if the truth has the numbers.
    pub least_seen: u32,
    /// True to move the mesh onto the truth by a similarity first.
    pub align: bool,
    /// Least and largest corner of the box in which points count.
    pub bounds: Option<[Vec3; 2]>,
}

/// Precision, recall and F-score at one distance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Distance, world units.
    pub distance: f32,
    /// Share of the points of the mesh that are within the distance of the truth.
    pub precision: f64,
    /// Share of the points of the truth that are within the distance of the mesh.
    pub recall: f64,
    /// Harmonic mean of both.
    pub f_score: f64,
}

/// Result of a comparison; lengths in world units.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Mean distance from the mesh to the truth.
    pub accuracy: f64,
    /// Mean distance from the truth to the mesh.
    pub completeness: f64,
    /// Mean of accuracy and completeness.
    pub chamfer: f64,
    /// Precision, recall and F-score.
    pub shares: Vec<Share>,
    /// Share of the points of the mesh that are farther than [`Rules::most`].
    pub far: f64,
    /// Length of the diagonal of the box around the truth.
    pub extent: f32,
    /// Motion of the mesh onto the truth.
    pub motion: Option<Similarity>,
}

/// Returns the part of the truth that at least `least` cameras see; `None` for all of it.
fn seen_part(truth: &Counted, least: u32) -> Option<Mesh> {
    let is_known = least > 0 && truth.seen.len() == truth.mesh.triangles.len();
    let is_seen = |t: usize| truth.seen[t] >= least;
    (is_known && !truth.seen.is_empty()).then(|| truth.mesh.filtered(is_seen))
}

/// Compares a mesh with the truth, a mesh or a set of points.
///
/// # Errors
/// A mesh or a truth without points in the box, or without a part that enough cameras see.
pub fn compare(truth: &Counted, mesh: &Mesh, rules: &Rules) -> Result<Comparison> {
    let all =
        |mesh: &Mesh| -> Vec<Vec3> { samples(mesh, rules.points).iter().map(|s| s.0).collect() };
    let (all_truth, mut all_mesh) = (all(&truth.mesh), all(mesh));
    let to_find = seen_part(truth, rules.least_seen).map(|part| all(&part));
    let mut motion = None;
    if rules.align {
        let (found, moved) = aligned(&all_truth, &all_mesh)?;
        (motion, all_mesh) = (Some(found), moved);
    }
    let cut = |points: &[Vec3]| -> Vec<Vec3> {
        let thin = thinned(points, rules.thinning);
        match rules.bounds {
            None => thin,
            Some(bounds) => thin.into_iter().filter(|&p| is_in_box(p, bounds)).collect(),
        }
    };
    let (truth_points, mesh_points) = (cut(&all_truth), cut(&all_mesh));
    let seen_points = to_find.map(|points| cut(&points));
    let to_find = seen_points.as_ref().unwrap_or(&truth_points);
    for (points, name) in [
        (&truth_points, "truth"),
        (&mesh_points, "mesh"),
        (to_find, "part of the truth that cameras see"),
    ] {
        if points.is_empty() {
            return Err(Error::input(format!("the {name} has no point to compare"))
                .hint("choose another --box, or check the files"));
        }
    }
    let to_truth = distances(&mesh_points, &truth_points);
    let to_mesh = distances(to_find, &mesh_points);
    let near: Vec<f32> = match rules.most {
        Some(most) => to_truth.iter().copied().filter(|&d| d < most).collect(),
        None => to_truth.clone(),
    };
    let capped = to_mesh
        .iter()
        .map(|&d| rules.most.map_or(d, |most| d.min(most)));
    let accuracy = mean(near.iter().copied());
    let completeness = mean(capped);
    let shares = rules.distances.iter().map(|&distance| {
        let within = |values: &[f32]| share(values, distance);
        let (precision, recall) = (within(&near), within(&to_mesh));
        Share {
            distance,
            precision,
            recall,
            f_score: 2.0 * precision * recall / (precision + recall).max(f64::MIN_POSITIVE),
        }
    });
    Ok(Comparison {
        accuracy,
        completeness,
        chamfer: (accuracy + completeness) / 2.0,
        shares: shares.collect(),
        far: 1.0 - near.len() as f64 / to_truth.len() as f64,
        extent: extent(&truth_points),
        motion,
    })
}

/// Returns the length of the diagonal of the box around points.
pub fn extent(points: &[Vec3]) -> f32 {
    let first = points.first().copied().unwrap_or_default();
    let fold = |(low, high): (Vec3, Vec3), p: &Vec3| (low.min(*p), high.max(*p));
    let (low, high) = points.iter().fold((first, first), fold);
    low.distance(high)
}

fn distances(from: &[Vec3], to: &[Vec3]) -> Vec<f32> {
    let nearest = Nearest::new(to);
    let distance = |p: &Vec3| nearest.find(*p).map_or(f32::INFINITY, |(_, d)| d);
    from.par_iter().map(distance).collect()
}

fn mean(values: impl Iterator<Item = f32>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), v| {
        (sum + f64::from(v), count + 1.0)
    });
    if count > 0.0 {
        sum / count
    } else {
        f64::INFINITY
    }
}

fn share(values: &[f32], distance: f32) -> f64 {
    let within = values.iter().filter(|&&d| d < distance).count();
    within as f64 / values.len().max(1) as f64
}
