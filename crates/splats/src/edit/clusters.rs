//! Floaters and clusters, without a GPU: a grid of cells that Gaussians fill.
//!
//! 1. Space is cut into cubes. A Gaussian fills those that its ellipsoid of one standard deviation touches,
//!    found by samples along its axes no farther apart than half a cube; those thinner than `SOLID` fill none.
//! 2. Filled cubes that touch, by faces, edges or corners, are one cluster.
//! 3. *Clusters*: the Gaussians of the largest clusters are kept, by the opacity in them.
//!    *Floaters*: the clusters with the least weight are removed, together a share of all weight. A Gaussian that
//!    fills nothing and is in no cube that another Gaussian fills counts as a cluster of its own. Weights are blend
//!    weights over the photos' pixels, or without cameras opacities times areas: background is few Gaussians, and
//!    large ones.
//!
//! A cube's side is by default so long that the cubes hold a few Gaussians each ([`default_cell`]).

use super::condition::sigmoid;
use crate::{Error, Result, Splats};
use glam::DVec3;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Below this opacity a Gaussian is haze and joins nothing.
const SOLID: f64 = 0.1;

/// Cubes a Gaussian fills at most along an axis of its own: background as large as the scene has no need of more.
const MOST_STEPS: f64 = 8.0;

/// Cubes along an axis at most, so that their places fit whole numbers.
const MOST_CELLS: f64 = 1e9;

type Cell = [i32; 3];

/// A cube's side where none is given: twice the median distance between solid Gaussians were they spread evenly in
/// the middle half of the scene along each axis, or the median size of a Gaussian, if that is more.
pub fn default_cell(splats: &Splats) -> f64 {
    let solid: Vec<usize> = (0..splats.len()).filter(|&i| is_solid(splats, i)).collect();
    if solid.is_empty() {
        return 1.0;
    }
    let quantile = |mut values: Vec<f64>, part: f64| {
        values.sort_by(f64::total_cmp);
        values[((values.len() - 1) as f64 * part) as usize]
    };
    let along = |axis: usize| {
        solid
            .iter()
            .map(|&i| f64::from(splats.means[i][axis]))
            .collect::<Vec<_>>()
    };
    let spans: Vec<f64> = (0..3)
        .map(|axis| quantile(along(axis), 0.75) - quantile(along(axis), 0.25))
        .collect();
    // Surfaces: half of the Gaussians in each of two dimensions are a quarter of all.
    let area = [
        spans[0] * spans[1],
        spans[0] * spans[2],
        spans[1] * spans[2],
    ];
    let spread = (area.iter().sum::<f64>() / 3.0 / (solid.len() as f64 / 4.0).max(1.0)).sqrt();
    let size = |&i: &usize| {
        splats.scales[i]
            .iter()
            .map(|v| f64::from(*v).exp())
            .fold(0.0, f64::max)
    };
    let size = quantile(solid.iter().map(size).collect(), 0.5);
    let cell = (2.0 * spread).max(size);
    if cell.is_finite() && cell > 0.0 {
        cell
    } else {
        1.0
    }
}

fn is_solid(splats: &Splats, i: usize) -> bool {
    super::condition::is_finite(splats, i) && sigmoid(splats.opacities[i].into()) >= SOLID
}

/// Which cluster each Gaussian is in, the one with most opacity first; `None` where it is in none. And the opacity
/// of each cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Clusters {
    /// By Gaussian.
    pub of: Vec<Option<u32>>,
    /// Sums of opacities, descending.
    pub opacity: Vec<f64>,
}

/// Finds the clusters of cubes of this side, world units.
///
/// # Errors
/// A side that is not above 0, or so small that cubes cannot be counted.
pub fn clusters(splats: &Splats, cell: f64) -> Result<Clusters> {
    let farthest = splats.means.iter().flatten().filter(|v| v.is_finite());
    let farthest = farthest.fold(0.0, |most: f64, v| most.max(f64::from(v.abs())));
    if !(cell > 0.0 && cell.is_finite() && farthest / cell < MOST_CELLS) {
        return Err(Error::input(format!(
            "cubes with a side of {cell} cannot be laid through this scene"
        ))
        .hint(format!(
            "a few times the distance between Gaussians suits; {:.3e} is the default",
            default_cell(splats)
        )));
    }
    let place = |p: DVec3| -> Cell { (p / cell).floor().to_array().map(|v| v as i32) };
    let filled: Vec<Vec<Cell>> = (0..splats.len())
        .into_par_iter()
        .map(|i| {
            if is_solid(splats, i) {
                fills(splats, i, cell).into_iter().map(place).collect()
            } else {
                Vec::new()
            }
        })
        .collect();
    let mut cells: Vec<Cell> = filled.iter().flatten().copied().collect();
    cells.par_sort_unstable();
    cells.dedup();
    let mut sets = Sets((0..cells.len() as u32).collect());
    for (i, &[x, y, z]) in cells.iter().enumerate() {
        // Half of the 26 neighbours: the other half finds this one.
        for step in 14..27i32 {
            let other = [
                x.wrapping_add(step / 9 - 1),
                y.wrapping_add(step / 3 % 3 - 1),
                z.wrapping_add(step % 3 - 1),
            ];
            if let Ok(j) = cells.binary_search(&other) {
                sets.join(i as u32, j as u32);
            }
        }
    }
    let at = |cell: &Cell| cells.binary_search(cell).ok();
    let root_of: Vec<Option<u32>> = (0..splats.len())
        .map(|i| {
            let mean = DVec3::from(splats.means[i].map(f64::from));
            let own = if mean.is_finite() {
                at(&place(mean))
            } else {
                None
            };
            let cell = filled[i].first().and_then(at).or(own)?;
            Some(sets.root(cell as u32))
        })
        .collect();
    let mut opacity: BTreeMap<u32, f64> = BTreeMap::new();
    for (i, root) in root_of.iter().enumerate() {
        if let Some(root) = root {
            *opacity.entry(*root).or_default() += sigmoid(splats.opacities[i].into());
        }
    }
    let mut ranked: Vec<(u32, f64)> = opacity.into_iter().collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let rank: BTreeMap<u32, u32> = ranked
        .iter()
        .zip(0..)
        .map(|((root, _), rank)| (*root, rank))
        .collect();
    Ok(Clusters {
        of: root_of
            .iter()
            .map(|root| rank.get(root.as_ref()?).copied())
            .collect(),
        opacity: ranked.into_iter().map(|(_, opacity)| opacity).collect(),
    })
}

/// Returns true for each Gaussian that is kept if the clusters with the least weight are removed, together `share`
/// percent of all weight. A Gaussian without a cluster counts as its own cluster.
///
/// # Errors
/// The errors of [`clusters`].
pub(super) fn most_of_clusters(
    splats: &Splats,
    cell: f64,
    weights: &[f32],
    share: f64,
) -> Result<Vec<bool>> {
    let found = clusters(splats, cell)?;
    let mut of = Vec::with_capacity(splats.len());
    let mut count = found.opacity.len() as u32;
    for cluster in found.of {
        of.push(cluster.unwrap_or(count) as usize);
        count += u32::from(cluster.is_none());
    }
    let mut sums = vec![0.0_f32; count as usize];
    for (cluster, weight) in of.iter().zip(weights) {
        sums[*cluster] += weight.max(0.0);
    }
    let is_kept = most_of(&sums, share);
    Ok(of.into_iter().map(|cluster| is_kept[cluster]).collect())
}

/// Returns points of an ellipsoid, so close that no cube along its axes is missed.
fn fills(splats: &Splats, i: usize, cell: f64) -> Vec<DVec3> {
    let [w, x, y, z] = splats.quats[i].map(f64::from);
    let rotation = glam::DQuat::from_xyzw(x, y, z, w).normalize();
    let mean = DVec3::from(splats.means[i].map(f64::from));
    let mut points = vec![mean];
    for axis in 0..3 {
        let length = f64::from(splats.scales[i][axis]).exp();
        let steps = (2.0 * length / cell).ceil().min(MOST_STEPS);
        let direction = rotation * DVec3::AXES[axis] * length.min(steps * cell);
        for step in 1..=steps as i32 {
            let part = f64::from(step) / steps;
            points.extend([mean + direction * part, mean - direction * part]);
        }
    }
    points
}

/// Disjoint sets; the lowest member stands for a set.
struct Sets(Vec<u32>);

impl Sets {
    fn root(&mut self, mut i: u32) -> u32 {
        while self.0[i as usize] != i {
            self.0[i as usize] = self.0[self.0[i as usize] as usize];
            i = self.0[i as usize];
        }
        i
    }

    fn join(&mut self, i: u32, j: u32) {
        let (a, b) = (self.root(i), self.root(j));
        self.0[a.max(b) as usize] = a.min(b);
    }
}

/// Marks the Gaussians that stay when those with the least contribution go that together have `share` percent of all.
/// Gaussians without a contribution go first. Equal ones go by index, the later first.
pub(super) fn most_of(contributions: &[f32], share: f64) -> Vec<bool> {
    let all: f64 = contributions.iter().map(|c| f64::from(*c)).sum();
    let mut ranked: Vec<usize> = (0..contributions.len()).collect();
    ranked.sort_by(|&a, &b| {
        contributions[a]
            .total_cmp(&contributions[b])
            .then(b.cmp(&a))
    });
    let mut is_kept = vec![true; contributions.len()];
    let mut gone = 0.0;
    for i in ranked {
        gone += f64::from(contributions[i]);
        if contributions[i] > 0.0 && gone > share / 100.0 * all {
            break;
        }
        is_kept[i] = false;
    }
    is_kept
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn at(places: &[[f32; 3]], logit: f32) -> Splats {
        let n = places.len();
        Splats {
            means: places.to_vec(),
            scales: vec![[0.01f32.ln(); 3]; n],
            quats: vec![[1.0, 0.0, 0.0, 0.0]; n],
            opacities: vec![logit; n],
            sh0: vec![[0.0; 3]; n],
            sh_rest: Vec::new(),
            sh_degree: 0,
        }
    }

    #[test]
    fn chains_of_neighbours_are_one_cluster_and_gaps_part_them() {
        // A diagonal chain, a pair, one alone; a cube is 1.
        let mut splats = at(
            &[
                [10.5, 0.5, 0.5],
                [0.5, 0.5, 0.5],
                [1.5, 1.5, 1.5],
                [2.5, 2.5, 0.5],
                [10.5, 1.5, 0.5],
                [20.5, 0.5, 0.5],
            ],
            3.0,
        );
        let found = clusters(&splats, 1.0).unwrap();
        assert_eq!(found.of, [1, 0, 0, 0, 1, 2].map(Some));
        assert!((found.opacity[1] / found.opacity[2] - 2.0).abs() < 1e-9);
        // A long one bridges the gap between the first and the second.
        splats.means.push([6.0, 1.0, 0.5]);
        splats.scales.push([5f32.ln(), -5.0, -5.0]);
        splats.quats.push([1.0, 0.0, 0.0, 0.0]);
        splats.opacities.push(3.0);
        splats.sh0.push([0.0; 3]);
        assert_eq!(
            clusters(&splats, 1.0).unwrap().of,
            [0, 0, 0, 0, 0, 1, 0].map(Some)
        );
        // Haze joins nothing, and belongs to what is where it is.
        splats.opacities[6] = -5.0;
        let found = clusters(&splats, 1.0).unwrap();
        assert_eq!(
            found.of,
            [Some(1), Some(0), Some(0), Some(0), Some(1), Some(2), None]
        );
    }

    #[test]
    fn every_neighbour_of_a_cube_is_found() {
        for step in 0..27 {
            let offset = [step % 3, step / 3 % 3, step / 9].map(|v| v as f32 - 1.0);
            let splats = at(&[[0.5; 3], offset.map(|v| v + 0.5)], 3.0);
            assert_eq!(
                clusters(&splats, 1.0).unwrap().opacity.len(),
                1,
                "{offset:?}"
            );
            let splats = at(&[[0.5; 3], offset.map(|v| 2.0 * v + 0.5)], 3.0);
            assert_eq!(
                clusters(&splats, 1.0).unwrap().opacity.len(),
                if step == 13 { 1 } else { 2 }
            );
        }
    }

    #[test]
    fn cubes_that_cannot_be_counted_are_refused() {
        let splats = at(&[[1000.0; 3]], 3.0);
        for bad in [0.0, -1.0, f64::NAN, 1e-9, f64::INFINITY] {
            assert!(
                clusters(&splats, bad).unwrap_err().hint_text().is_some(),
                "{bad}"
            );
        }
        assert_eq!(default_cell(&Splats::empty(0)), 1.0);
        assert_eq!(clusters(&Splats::empty(0), 1.0).unwrap().opacity.len(), 0);
    }
}
