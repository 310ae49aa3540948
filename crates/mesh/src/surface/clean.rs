//! Cleaning: parts that cameras hardly see, surfaces that no camera sees, small holes.

use crate::corners::Corners;
use crate::mesh::{Mesh, components};
use crate::raster::{MeshDepths, seen_from};
use crate::view::{Pinhole, ball_around};
use crate::volume::{ByLevel, DepthMap, has_support, is_same_place};
use glam::Vec3;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Least share of all seen pixels of a part of the mesh.
const LEAST_SHARE: f64 = 2e-4;

/// Rows of unseen triangles around seen ones that stay.
const RIM: usize = 3;

/// Depth maps that must show a triangle.
const NEEDED_MAPS: usize = 3;

/// Number of views below which one depth map is enough.
const FEW_VIEWS: usize = 6;

/// Triangles that are compared with the same maps.
const PATCH: usize = 128;

/// Factor on tolerances that select maps, for errors of rounding.
const SLACK: f32 = 1.01;

/// Counts of removed and filled parts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Parts that were removed.
    pub parts: usize,
    /// Triangles that no camera sees and that were removed.
    pub unseen: usize,
    /// Holes that were filled.
    pub filled: usize,
}

/// Removes the triangles that fewer than three depth maps show, or that more maps see through than show: the
/// sky, and Gaussians in front of one camera. Maps of fewer than six views need one map only. Returns the mesh and the
/// number of removed triangles.
pub fn drop_unsupported(mesh: &Mesh, maps: &[DepthMap], tolerance: &ByLevel) -> (Mesh, usize) {
    let needed = if are_few(maps) { 1 } else { NEEDED_MAPS };
    let patches = mesh.triangles.par_chunks(PATCH).map(|triangles| {
        let middle =
            |t: &[u32; 3]| t.map(|i| mesh.positions[i as usize]).iter().sum::<Vec3>() / 3.0;
        let middles: Vec<Vec3> = triangles.iter().map(middle).collect();
        let ball = ball_around(middles.iter().copied());
        let most = middles.iter().map(|&p| tolerance.at(p));
        let most = most.fold(0.0, f32::max);
        // The other maps count neither way.
        let near = maps.iter();
        let near = near.filter(|map| map.may_show(ball, most * SLACK));
        let near: Vec<&DepthMap> = near.collect();
        let is_supported = |&middle: &Vec3| {
            let tolerance = tolerance.at(middle);
            let compared = near.iter().map(|map| map.compare(middle, tolerance));
            has_support(compared, needed)
        };
        middles.iter().map(is_supported).collect::<Vec<bool>>()
    });
    let supported: Vec<bool> = patches.flatten_iter().collect();
    let removed = supported.iter().filter(|&&kept| !kept).count();
    (mesh.filtered(|t| supported[t]), removed)
}

/// Returns true if the maps are of fewer than [`FEW_VIEWS`] places: the faces of a panorama share one.
fn are_few(maps: &[DepthMap]) -> bool {
    let mut places: Vec<Vec3> = Vec::new();
    for map in maps {
        let centre = map.camera.centre;
        if !places.iter().any(|place| is_same_place(*place, centre)) {
            places.push(centre);
        }
        if places.len() == FEW_VIEWS {
            return false;
        }
    }
    true
}

/// Removes surfaces that no camera sees, then parts that cameras hardly see. Also returns the depths of the mesh from each
/// camera.
pub fn drop_unseen(mesh: &Mesh, cameras: &[Pinhole]) -> (Mesh, Cleaned, Vec<MeshDepths>) {
    let (pixels, depths) = seen_from(mesh, cameras);
    let mut near_seen = vec![false; mesh.positions.len()];
    for (t, triangle) in mesh.triangles.iter().enumerate() {
        if pixels[t] > 0 {
            for &i in triangle {
                near_seen[i as usize] = true;
            }
        }
    }
    for _ in 1..RIM {
        let before = near_seen.clone();
        for triangle in &mesh.triangles {
            if triangle.iter().any(|&i| before[i as usize]) {
                for &i in triangle {
                    near_seen[i as usize] = true;
                }
            }
        }
    }
    let is_near = |t: usize| mesh.triangles[t].iter().any(|&i| near_seen[i as usize]);
    let kept: Vec<usize> = (0..mesh.triangles.len()).filter(|&t| is_near(t)).collect();
    let unseen = mesh.triangles.len() - kept.len();
    let pixels: Vec<u32> = kept.iter().map(|&t| pixels[t]).collect();
    let mesh = mesh.filtered(is_near);
    let part_of = components(&mesh);
    let parts = part_of.iter().max().map_or(0, |&last| last as usize + 1);
    let mut by_part = vec![0u64; parts];
    for (&part, &count) in part_of.iter().zip(&pixels) {
        by_part[part as usize] += u64::from(count);
    }
    let total: u64 = by_part.iter().sum();
    let most = by_part.iter().max().copied().unwrap_or(0);
    let least = ((total as f64 * LEAST_SHARE) as u64).clamp(1, most.max(1));
    let is_kept = |t: usize| by_part[part_of[t] as usize] >= least;
    let removed = by_part.iter().filter(|&&count| count < least).count();
    let cleaned = Cleaned {
        parts: removed,
        unseen,
        filled: 0,
    };
    (mesh.filtered(is_kept), cleaned, depths)
}

/// Fills holes of at most `most` edges by a fan around their middle. Returns the number of filled holes.
pub fn fill_holes(mesh: &mut Mesh, most: usize) -> usize {
    let mut next = BTreeMap::new();
    let open = Corners::from_mesh(mesh).open_edges();
    for border in open.iter().filter(|open| open.is_border()) {
        // The rim runs against the triangle.
        let [a, b] = border.edge;
        let (from, to) = if border.forward { (b, a) } else { (a, b) };
        next.insert(from, to);
    }
    let mut filled = 0;
    while let Some((&start, _)) = next.first_key_value() {
        let mut rim = Vec::new();
        let mut at = start;
        while let Some(to) = next.remove(&at) {
            rim.push(at);
            at = to;
        }
        if at != start || rim.len() < 3 || rim.len() > most {
            continue;
        }
        filled += 1;
        if let [a, b, c] = rim[..] {
            mesh.triangles.push([a, b, c]);
            continue;
        }
        let sum: Vec3 = rim.iter().map(|&i| mesh.positions[i as usize]).sum();
        let middle = mesh.positions.len() as u32;
        mesh.positions.push(sum / rim.len() as f32);
        for (k, &from) in rim.iter().enumerate() {
            mesh.triangles
                .push([from, rim[(k + 1) % rim.len()], middle]);
        }
    }
    mesh.normals.clear();
    mesh.colours.clear();
    filled
}
