//! Pairs of photos that are matched: new with old, new with new, and old neighbours by their poses.

use crate::pairs::{IndexPair, all};
use dapple_scene::Pose;
use glam::DVec3;
use std::collections::BTreeSet;

/// Neighbours of an old photo by pose.
const NEIGHBOURS: usize = 10;

/// Angle between viewing directions that separates as much as the distance to the tenth nearest photo, radians.
const ANGLE: f64 = 0.5;

/// Returns the pairs of each old photo with its nearest by position and viewing direction.
pub fn neighbours(poses: &[(usize, Pose)]) -> BTreeSet<IndexPair> {
    let views: Vec<(DVec3, DVec3)> = poses
        .iter()
        .map(|(_, pose)| (pose.centre(), pose.forward()))
        .collect();
    let unit = spacing(&views);
    let mut pairs = BTreeSet::new();
    for (a, (centre, forward)) in views.iter().enumerate() {
        let mut others: Vec<(f64, usize)> = (0..views.len())
            .filter(|&b| b != a)
            .map(|b| {
                let angle = forward.angle_between(views[b].1);
                (centre.distance(views[b].0) / unit + angle / ANGLE, b)
            })
            .collect();
        others.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        pairs.extend(others.iter().take(NEIGHBOURS).map(|&(_, b)| {
            let (a, b) = (poses[a].0, poses[b].0);
            (a.min(b), a.max(b))
        }));
    }
    pairs
}

/// Returns the median distance to the tenth nearest photo; 1 for photos at one position.
fn spacing(views: &[(DVec3, DVec3)]) -> f64 {
    let tenth = |(centre, _): &(DVec3, DVec3)| {
        let mut distances: Vec<f64> = views
            .iter()
            .map(|(other, _)| centre.distance(*other))
            .collect();
        distances.sort_by(f64::total_cmp);
        distances
            .get(NEIGHBOURS.min(distances.len() - 1))
            .copied()
            .unwrap_or(0.0)
    };
    let mut all: Vec<f64> = views.iter().map(tenth).collect();
    all.sort_by(f64::total_cmp);
    let median = all.get(all.len() / 2).copied().unwrap_or(0.0);
    if median > 0.0 { median } else { 1.0 }
}

/// Returns all pairs with a new photo.
pub fn with_new(is_new: &[bool]) -> BTreeSet<IndexPair> {
    let mut pairs = all(is_new.len());
    pairs.retain(|&(a, b)| is_new[a] || is_new[b]);
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_near_and_look_the_same_way() {
        // Two rows at one place that look in opposite directions.
        let pose = |i: usize| {
            let eye = DVec3::new((i / 2) as f64, 0.0, 0.0);
            let ahead = if i.is_multiple_of(2) { 5.0 } else { -5.0 };
            Pose::look_at(eye, eye + DVec3::new(0.0, 0.0, ahead), DVec3::NEG_Y)
        };
        let poses: Vec<(usize, Pose)> = (0..60).map(|i| (i + 100, pose(i))).collect();
        let pairs = neighbours(&poses);
        assert!(pairs.iter().all(|(a, b)| a < b && *a >= 100));
        assert!(
            pairs
                .iter()
                .all(|(a, b)| (b - a).is_multiple_of(2) && b - a <= 20),
            "{pairs:?}"
        );
        assert!(pairs.len() >= 60 * NEIGHBOURS / 2);
        assert!(neighbours(&[]).is_empty() && neighbours(&poses[..1]).is_empty());
        let still: Vec<(usize, Pose)> = (0..3).map(|i| (i, pose(0))).collect();
        assert_eq!(neighbours(&still).len(), 3);
    }

    #[test]
    fn every_new_photo_meets_every_other_photo() {
        let pairs = with_new(&[false, true, false, true]);
        assert_eq!(pairs.len(), 5);
        assert!(!pairs.contains(&(0, 2)));
    }
}
