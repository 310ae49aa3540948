//! Points spread over a mesh by area.

use crate::mesh::Mesh;
use glam::Vec3;

/// Returns `count` points, spread evenly over the area of a mesh, and the triangle of each. The points follow a fixed
/// sequence. For a mesh without triangles, returns its positions.
pub fn samples(mesh: &Mesh, count: usize) -> Vec<(Vec3, u32)> {
    if mesh.triangles.is_empty() {
        return mesh.positions.iter().map(|&p| (p, 0)).collect();
    }
    let areas = (0..mesh.triangles.len()).map(|t| f64::from(mesh.cross(t).length()));
    let total: f64 = areas.clone().sum();
    let mut found = Vec::with_capacity(count);
    let (mut sum, mut next) = (0.0, 0usize);
    for (t, area) in areas.enumerate() {
        sum += area;
        // The k-th point is where the sum of areas passes (k + 1/2) / count.
        while next < count && (next as f64 + 0.5) / count as f64 * total < sum {
            // A sequence of low discrepancy (Roberts' R2).
            let along = |step: f64| ((next as f64 + 1.0) * step).fract() as f32;
            let (mut u, mut v) = (
                along(0.754_877_666_246_692_8),
                along(0.569_840_290_998_053_2),
            );
            if u + v > 1.0 {
                (u, v) = (1.0 - u, 1.0 - v);
            }
            let [a, b, c] = mesh.corners(t);
            found.push((a + (b - a) * u + (c - a) * v, t as u32));
            next += 1;
        }
    }
    found
}

/// Keeps the first point of each cell of a grid.
pub fn thinned(points: &[Vec3], cell: f32) -> Vec<Vec3> {
    if cell.is_nan() || cell <= 0.0 {
        return points.to_vec();
    }
    let mut seen = std::collections::HashSet::new();
    let is_first = |p: &&Vec3| seen.insert((**p / cell).floor().as_ivec3().to_array());
    points.iter().filter(is_first).copied().collect()
}
