//! A mesh against the sparse points of its capture: distances in pixels.

use super::samples::samples;
use crate::mesh::Mesh;
use crate::nearest::Nearest;
use crate::view::Pinhole;
use crate::volume::is_in_box;
use dapple_base::quantiles::median;
use glam::{DMat3, DVec3, Vec3};
use rayon::prelude::*;

/// Least and largest number of points on a mesh.
const POINTS: [usize; 2] = [200_000, 4_000_000];

/// Farthest sparse point that says something about a vertex, share of the diagonal of the mesh.
const REACH: f32 = 0.03;

/// Largest uncertainty of a sparse point that says more about the mesh than about itself, pixels.
pub const CERTAIN: f32 = 2.0;

/// Sparse point with the cameras that observe it.
#[derive(Debug, Clone, PartialEq)]
pub struct SparsePoint {
    /// Position, world units.
    pub position: Vec3,
    /// Indices of cameras; without any, all cameras that face the point count.
    pub cameras: Vec<u32>,
}

/// Distance of a sparse point to the mesh.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SparseDistance {
    /// Position of the sparse point, world units.
    pub position: Vec3,
    /// Distance in pixels of the nearest camera that observes the point.
    pub pixels: f32,
    /// Expected error of the sparse point itself, in the same pixels, if its place in each photo is off by a pixel.
    /// Infinite for a point of fewer than two cameras.
    pub uncertainty: f32,
}

/// Medians of the distances of sparse points, pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SparseScore {
    /// Median over all points.
    pub median: f32,
    /// Number of all points.
    pub count: usize,
    /// Median over the points with an uncertainty up to [`CERTAIN`], if there are any.
    pub median_of_certain: Option<f32>,
    /// Number of these points.
    pub certain: usize,
}

/// Returns the distances of the sparse points in the box of the mesh, in their order. Points that no camera faces are
/// omitted.
pub fn sparse_distances(
    mesh: &Mesh,
    points: &[SparsePoint],
    cameras: &[Pinhole],
) -> Vec<SparseDistance> {
    let Some(bounds) = mesh.bounds() else {
        return Vec::new();
    };
    let inside: Vec<&SparsePoint> = points
        .iter()
        .filter(|p| is_in_box(p.position, bounds))
        .collect();
    let spots = samples(mesh, (4 * mesh.triangles.len()).clamp(POINTS[0], POINTS[1]));
    let places: Vec<Vec3> = spots.iter().map(|s| s.0).collect();
    let nearest = Nearest::new(&places);
    let distance = |point: &&SparsePoint| {
        let (i, _) = nearest.find(point.position)?;
        let distance = to_triangle(mesh.corners(spots[i].1 as usize), point.position);
        let depth = |camera: &Pinhole| camera.to_camera(point.position).z / camera.mean_focal();
        let observing = point.cameras.iter();
        let observing = observing.filter_map(|&c| cameras.get(c as usize));
        let all = cameras.iter().map(depth);
        let own = observing.clone().map(depth);
        let footprint = match point.cameras.is_empty() {
            true => all.filter(|&d| d > 0.0).min_by(f32::total_cmp),
            false => own.filter(|&d| d > 0.0).min_by(f32::total_cmp),
        }?;
        Some(SparseDistance {
            position: point.position,
            pixels: distance / footprint,
            uncertainty: expected_error(point.position, observing) / footprint,
        })
    };
    inside.par_iter().filter_map(distance).collect()
}

/// Returns the expected error of a point that cameras determine, world units, if its place in each is off by a pixel.
fn expected_error<'a>(point: Vec3, cameras: impl Iterator<Item = &'a Pinhole>) -> f32 {
    let (mut information, mut count) = (DMat3::ZERO, 0);
    for camera in cameras {
        let p = camera.to_camera(point).as_dvec3();
        let focal = camera.focal.as_dvec2();
        let rotation = camera.rotation.as_dmat3().transpose();
        let slopes = [
            DVec3::new(p.z, 0.0, -p.x) * (focal.x / (p.z * p.z)),
            DVec3::new(0.0, p.z, -p.y) * (focal.y / (p.z * p.z)),
        ];
        for slope in slopes {
            let slope = rotation * slope;
            information += DMat3::from_cols(slope * slope.x, slope * slope.y, slope * slope.z);
        }
        count += 1;
    }
    let covariance = information.inverse();
    let square = covariance.x_axis.x + covariance.y_axis.y + covariance.z_axis.z;
    match count >= 2 && square > 0.0 {
        true => square.sqrt() as f32,
        false => f32::INFINITY,
    }
}

/// Returns the medians of the [`sparse_distances`]; `None` without points in the box of the mesh.
pub fn sparse_score(
    mesh: &Mesh,
    points: &[SparsePoint],
    cameras: &[Pinhole],
) -> Option<SparseScore> {
    let found = sparse_distances(mesh, points, cameras);
    let all: Vec<f32> = found.iter().map(|found| found.pixels).collect();
    let certain = found.iter().filter(|found| found.uncertainty <= CERTAIN);
    let certain: Vec<f32> = certain.map(|found| found.pixels).collect();
    Some(SparseScore {
        count: all.len(),
        certain: certain.len(),
        median_of_certain: median(certain),
        median: median(all)?,
    })
}

/// Returns for each vertex the distance in pixels of the nearest sparse point to the mesh; NaN if there is no sparse
/// point within 3 % of the diagonal of the mesh.
pub fn vertex_errors(mesh: &Mesh, distances: &[SparseDistance]) -> Vec<f32> {
    let diagonal = mesh.bounds().map_or(0.0, |[low, high]| low.distance(high));
    let places: Vec<Vec3> = distances.iter().map(|found| found.position).collect();
    let nearest = Nearest::new(&places);
    let error = |&vertex: &Vec3| match nearest.find(vertex) {
        Some((i, distance)) if distance <= REACH * diagonal => distances[i].pixels,
        _ => f32::NAN,
    };
    mesh.positions.par_iter().map(error).collect()
}

/// Returns the distance of a point to a triangle.
pub fn to_triangle([a, b, c]: [Vec3; 3], p: Vec3) -> f32 {
    let normal = (b - a).cross(c - a);
    let is_inside = [(a, b), (b, c), (c, a)]
        .into_iter()
        .all(|(from, to)| (to - from).cross(p - from).dot(normal) >= 0.0);
    if is_inside && normal.length_squared() > 0.0 {
        return (p - a).dot(normal.normalize()).abs();
    }
    let to_edge = |from: Vec3, to: Vec3| {
        let along = to - from;
        let share = (p - from).dot(along) / along.length_squared().max(f32::MIN_POSITIVE);
        p.distance(from + along * share.clamp(0.0, 1.0))
    };
    to_edge(a, b).min(to_edge(b, c)).min(to_edge(c, a))
}
