//! Agreement between depth maps: pixels that no other map confirms are dropped.

use super::maps::DepthMap;
use glam::Vec3;
use rayon::prelude::*;
use std::cmp::Ordering;

/// Maps that are compared with each map: those of the nearest cameras that look the same way.
const NEIGHBOURS: usize = 8;

/// Least cosine between the directions of two cameras that are compared.
const LEAST_COSINE: f32 = 0.5;

/// Maps that must confirm a pixel.
const NEEDED: usize = 1;

/// Number of neighbours below which no pixel is dropped.
const FEW: usize = 4;

/// Drops the pixels whose depth no neighbouring map confirms within `tolerance` pixel footprints, or which
/// more maps see through than confirm. Returns the share of dropped pixels.
pub fn drop_inconsistent(maps: &mut [DepthMap], tolerance: f32) -> f32 {
    let (mut all, mut dropped) = (0usize, 0usize);
    let mut lists = Vec::with_capacity(maps.len());
    for i in 0..maps.len() {
        let map = &maps[i];
        let mut neighbours = neighbours(maps, i);
        if neighbours.len() < FEW {
            lists.push(Vec::new());
            continue;
        }
        let others = other_faces(maps, i, &neighbours);
        neighbours.extend(others);
        let is_lone = |&pixel: &usize| {
            let point = map.point(pixel);
            let slack = tolerance * map.depth[pixel] / map.camera.mean_focal();
            let compared = neighbours.iter();
            !has_support(compared.map(|&n| maps[n].compare(point, slack)), NEEDED)
        };
        let pixels = (0..map.depth.len())
            .into_par_iter()
            .filter(|&pixel| map.weight(pixel) > 0.0);
        let kept = pixels.clone().count();
        let lone: Vec<usize> = pixels.filter(is_lone).collect();
        all += kept;
        dropped += lone.len();
        lists.push(lone);
    }
    for (map, list) in maps.iter_mut().zip(lists) {
        for pixel in list {
            map.drop_pixel(pixel);
        }
    }
    dropped as f32 / all.max(1) as f32
}

/// Returns true if at least `needed` maps show a point, and at most as many see through it. Stops at the first map after
/// which the others cannot change this.
pub fn has_support(
    compared: impl ExactSizeIterator<Item = Option<Ordering>>,
    needed: usize,
) -> bool {
    let (mut shows, mut sees_through, mut left) = (0, 0, compared.len());
    for place in compared {
        left -= 1;
        match place {
            Some(Ordering::Equal) => shows += 1,
            Some(Ordering::Less) => sees_through += 1,
            _ => {}
        }
        if shows >= needed && shows >= sees_through + left {
            return true;
        }
    }
    shows >= needed && sees_through <= shows
}

/// Returns true if two cameras have one centre, as the faces of a panorama have.
pub fn is_same_place(a: Vec3, b: Vec3) -> bool {
    a.distance(b) <= 1e-6 * a.length().max(b.length())
}

/// Returns the other maps from the places of these neighbours: any face of a panorama may show a point.
fn other_faces(maps: &[DepthMap], of: usize, neighbours: &[usize]) -> Vec<usize> {
    let centre = |i: usize| maps[i].camera.centre;
    let is_beside = |i: usize| {
        let is_at = |&n: &usize| is_same_place(centre(n), centre(i));
        !is_same_place(centre(i), centre(of)) && neighbours.iter().any(is_at)
    };
    (0..maps.len())
        .filter(|i| !neighbours.contains(i) && is_beside(*i))
        .collect()
}

/// Returns the maps of the nearest cameras that look the same way.
fn neighbours(maps: &[DepthMap], of: usize) -> Vec<usize> {
    let camera = &maps[of].camera;
    let forward = camera.rotation.row(2);
    let mut found: Vec<(f32, usize)> = maps
        .iter()
        .enumerate()
        .filter(|&(i, map)| i != of && map.camera.rotation.row(2).dot(forward) > LEAST_COSINE)
        .map(|(i, map)| (map.camera.centre.distance_squared(camera.centre), i))
        .collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    found.truncate(NEIGHBOURS);
    found.into_iter().map(|(_, i)| i).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn support_of_all_maps_is_known_after_some() {
        let places = [None, Some(Ordering::Equal), Some(Ordering::Less)];
        for needed in 1..4 {
            for number in 0..3usize.pow(6) {
                let list = [1, 3, 9, 27, 81, 243].map(|digit| places[number / digit % 3]);
                let count = |place| list.iter().filter(|p| **p == place).count();
                let shows = count(Some(Ordering::Equal));
                let supported = shows >= needed && count(Some(Ordering::Less)) <= shows;
                assert_eq!(has_support(list.into_iter(), needed), supported, "{list:?}");
            }
        }
        let mut read = 0;
        let shown = (0..8).map(|_| Some(Ordering::Equal)).inspect(|_| read += 1);
        assert!(has_support(shown, 1));
        assert_eq!(read, 4);
    }
}
