//! Outliers among camera centres.
//!
//! 1. The middle is the median of the centres along each axis. The usual distance is the median distance of the centres
//!    from the middle.
//! 2. Centres are outliers if they are beyond 5 usual distances, behind a gap of 3 times, and at most one in four.

use crate::Pose;
use dapple_base::quantiles::median;
use glam::DVec3;

/// Number of usual distances beyond which a camera may be an outlier. Among ten captures of hand-held cameras and
/// drones the largest distance is 2.6.
const FAR: f64 = 5.0;

/// Ratio of an outlier's distance to that of the next camera within. Cameras that move away step by step remain.
const GAP: f64 = 3.0;

/// Outlier limit: at most one camera in four is an outlier. A larger group is a part of the capture.
const MOST: usize = 4;

/// Limit of rounding without points, as a share of the coordinates' size (at least 1).
const ROUNDING: f64 = 1e-6;

/// Returns the median of the finite centres along each axis; `None` if there is none.
pub fn middle(centres: &[DVec3]) -> Option<DVec3> {
    let finite: Vec<DVec3> = (centres.iter().copied())
        .filter(|centre| centre.is_finite())
        .collect();
    let axis = |k: usize| median(finite.iter().map(|c| c[k]).collect());
    Some(DVec3::new(axis(0)?, axis(1)?, axis(2)?))
}

/// Returns the distance between equal centres near `middle` that rounding may cause.
pub fn rounding(middle: DVec3) -> f64 {
    ROUNDING * middle.abs().max_element().max(1.0)
}

/// Returns the outliers among `centres` by their numbers, ascending: see the module. Centres that are not finite are
/// among them. The usual distance is at least `least_usual`; none is an outlier if it is not above `rounding`. Centres
/// for which `is_near` is true are no outliers.
pub fn far_off(
    centres: &[DVec3],
    middle: DVec3,
    least_usual: f64,
    rounding: f64,
    is_near: impl Fn(usize) -> bool,
) -> Vec<usize> {
    let distances = centres.iter().map(|c| c.distance(middle));
    let mut ranked: Vec<(f64, usize)> = distances.zip(0..).collect();
    for (distance, _) in &mut ranked {
        // NaN is sorted to the end.
        if distance.is_nan() {
            *distance = f64::INFINITY;
        }
    }
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let Some(&(usual, _)) = ranked.get(ranked.len() / 2) else {
        return Vec::new();
    };
    let usual = usual.max(least_usual);
    let first = ranked.len() - ranked.len() / MOST;
    // Cameras that share one position have no usual distance.
    let begins = (first.max(1)..ranked.len()).find(|&i| {
        usual > rounding && ranked[i].0 > FAR * usual && ranked[i].0 >= GAP * ranked[i - 1].0
    });
    let behind = ranked.iter().skip(begins.unwrap_or(ranked.len()));
    let mut far: Vec<usize> = behind.map(|&(_, i)| i).filter(|&i| !is_near(i)).collect();
    let lost = (0..centres.len()).filter(|&i| !centres[i].is_finite());
    far.extend(lost);
    far.sort_unstable();
    far.dedup();
    far
}

/// Returns the poses whose centres are no outliers, in their order.
pub fn without_far_off(poses: Vec<Pose>) -> Vec<Pose> {
    let centres: Vec<DVec3> = poses.iter().map(Pose::centre).collect();
    let Some(middle) = middle(&centres) else {
        return poses;
    };
    let far = far_off(&centres, middle, 0.0, rounding(middle), |_| false);
    let near = |(i, pose): (usize, Pose)| far.binary_search(&i).is_err().then_some(pose);
    poses.into_iter().enumerate().filter_map(near).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(centre: DVec3) -> Pose {
        Pose {
            translation: -centre,
            ..Pose::IDENTITY
        }
    }

    #[test]
    fn a_camera_far_from_all_others_is_an_outlier() {
        let ring = |i: i32| at(4.0 * DVec3::new(f64::from(i).cos(), 0.1, f64::from(i).sin()));
        let ring: Vec<Pose> = (0..16).map(ring).collect();
        assert_eq!(without_far_off(ring.clone()), ring);
        let mut strays = ring.clone();
        strays.insert(3, at(DVec3::X * 1000.0));
        strays.push(at(DVec3::NAN));
        assert_eq!(without_far_off(strays), ring);
        assert!(without_far_off(Vec::new()).is_empty());
    }
}
