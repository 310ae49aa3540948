//! Neighbours of a view: views that show the same places from another side.
//!
//! 1. The place of a view is before its camera, at the median depth of the sparse points in its photo.
//! 2. A neighbour shows this place, looks in a similar direction, and sees the place at an angle from [`LEAST`] to
//!    [`MOST`] to the view.
//! 3. The neighbours are those whose angles are next to [`BEST`], at most [`COUNT`]: with a smaller angle a photo says
//!    little about depth, with a larger one the patches differ.

use dapple_base::quantiles::median;
use dapple_scene::{Camera, Point, Rays};
use glam::{DVec3, Vec3};

/// Least angle, radians.
const LEAST: f64 = 0.02;

/// The angle that is best, radians.
const BEST: f64 = 0.2;

/// Largest angle, and that between directions of view, radians.
const MOST: f64 = 0.7;

/// Largest number of neighbours of a view.
const COUNT: usize = 6;

/// Sparse points that depths are computed from, at most.
const POINTS: usize = 4000;

/// Cameras with their places.
pub(super) struct Neighbours<'a> {
    cameras: &'a [Camera],
    places: Vec<DVec3>,
}

impl<'a> Neighbours<'a> {
    /// Finds the place of each camera. Without points in its photo it is `extent` away.
    pub(super) fn new(cameras: &'a [Camera], points: &[Point], extent: f64) -> Self {
        let every = points.len().div_ceil(POINTS).max(1);
        let points = points.iter().step_by(every);
        let points: Vec<DVec3> = points.map(|p| Vec3::from(p.position).as_dvec3()).collect();
        let place = |camera: &Camera| {
            let depths = points
                .iter()
                .filter(|&&point| shows(camera, point))
                .map(|&point| camera.camera_from_world.transform(point).z);
            let depth = median(depths.collect()).unwrap_or(extent);
            camera.camera_from_world.centre() + depth * camera.camera_from_world.forward()
        };
        let places = cameras.iter().map(place).collect();
        Self { cameras, places }
    }

    /// Returns the neighbours of a view, the best first; none of a panorama.
    pub(super) fn of(&self, view: usize) -> Vec<usize> {
        let (camera, place) = (&self.cameras[view], self.places[view]);
        let side = |camera: &Camera| camera.camera_from_world.centre() - place;
        let rank = |other: &Camera| {
            let angle = side(camera).angle_between(side(other));
            let is_near = (LEAST..=MOST).contains(&angle)
                && camera
                    .camera_from_world
                    .forward()
                    .angle_between(other.camera_from_world.forward())
                    <= MOST
                && shows(other, place);
            is_near.then(|| (angle / BEST).ln().abs())
        };
        if !camera.lens.is_perspective() {
            return Vec::new();
        }
        let others = self.cameras.iter().enumerate();
        let mut found: Vec<(f64, usize)> = others
            .filter(|&(i, other)| i != view && is_alike(camera, other))
            .filter_map(|(i, other)| Some((rank(other)?, i)))
            .collect();
        found.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        found.truncate(COUNT);
        found.into_iter().map(|(_, i)| i).collect()
    }
}

/// Returns true if both lenses distort, or none. Engines compare photos of one camera model.
fn is_alike(camera: &Camera, other: &Camera) -> bool {
    other.lens.is_perspective() && other.lens.is_identity() == camera.lens.is_identity()
}

fn shows(camera: &Camera, point: DVec3) -> bool {
    let pixel = Rays::new(camera).pixel(camera.camera_from_world.transform(point));
    pixel.is_some_and(|pixel| camera.frames(pixel))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_scene::Pose;

    #[test]
    fn neighbours_see_the_place_at_a_good_angle() {
        let ring = |turns: f64| {
            let angle = std::f64::consts::TAU * turns;
            let eye = DVec3::new(4.0 * angle.sin(), 0.5, -4.0 * angle.cos());
            Camera::pinhole(64, 48, 60.0, Pose::look_at(eye, DVec3::ZERO, DVec3::NEG_Y))
        };
        let mut cameras: Vec<Camera> = (0..36).map(|i| ring(f64::from(i) / 36.0)).collect();
        // One at the same place, and one that looks away: no neighbours of the first.
        cameras.push(cameras[0]);
        cameras.push(Camera::pinhole(
            64,
            48,
            60.0,
            Pose::look_at(
                DVec3::new(0.7, 0.5, -4.0),
                DVec3::new(0.7, 0.5, -9.0),
                DVec3::NEG_Y,
            ),
        ));
        let neighbours = Neighbours::new(&cameras, &[], 4.0);
        let mut of = neighbours.of(0);
        assert_eq!(of.len(), COUNT);
        of.sort_unstable();
        assert_eq!(of, [1, 2, 3, 33, 34, 35]);
    }
}
