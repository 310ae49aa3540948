//! Scene extent: the size of the region that the cameras cover, and the detection of distant outlier cameras.
//!
//! 1. The middle is the median of the camera centres along each axis. The usual distance is the median distance of the
//!    centres from the middle, or [`POINTS_SHARE`] of that of the sparse points if this is more.
//! 2. Cameras far beyond the usual distance are outliers ([`outliers`]). A camera whose sparse points fill its frame
//!    is a distant photo of the scene, and counts with the rest.
//! 3. The extent is 1.1 times the largest distance of the remaining cameras from their mean.
//! 4. Cameras within [`ONE_PLACE`] of the distance to the sparse points share one position. Their distances are
//!    rounding errors, so the spread of the points replaces the extent.
//!
//! Step 3 is that of the 3DGS paper's released trainer (`cameras_extent`). Without cameras of steps 2 and 4 the
//! value is bit-identical to step 3 over all cameras.

use crate::origin::position;
use crate::{Camera, Capture, Dataset, Point, PosedImage, Tracks};
use dapple_base::quantiles::median;
use dapple_splats::outliers;
use glam::{DVec2, DVec3};
use std::f64::consts::PI;

/// Median distances of sparse points from their middle beyond which points do not count.
const LOST: f64 = 8.0;

/// If the distances among cameras are below this share of the distance to the points, they do not measure the scene.
const POINTS_SHARE: f64 = 0.1;

/// Cameras share one position if none is farther from their mean than this share of the median distance to the points:
/// parallax is then below a tenth of a pixel at a focal length of 1000 pixels.
const ONE_PLACE: f64 = 1e-4;

/// Maximum number of points from which medians and frames are computed.
const SAMPLE: usize = 4096;

/// Minimum number of points to determine the content of a camera's frame.
pub(crate) const FEWEST_POINTS: usize = 8;

/// Minimum share of the sparse points in the frame of a distant photo of the scene, and minimum standard deviation of
/// these points as a share of the frame's width or height: 0.20 to 0.28 in the photos of `banana`. Points of a wrong
/// pose are outside the frame, or concentrated in it.
const SHARE_IN_FRAME: f64 = 0.25;
const SPREAD_IN_FRAME: f64 = 0.12;

/// Cameras and sparse points of one scene, input of the extent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Region<'a> {
    /// Camera centres, world units.
    pub(crate) centres: Vec<DVec3>,
    /// Cameras with their numbers in `tracks`, in the order of `centres`; empty if only the centres are known.
    pub(crate) cameras: Vec<(&'a Camera, u32)>,
    /// Sparse points.
    pub(crate) points: &'a [Point],
    /// Rounding remainders of the positions, see [`crate::Capture::remainders`].
    pub(crate) remainders: &'a [[f32; 3]],
    /// Photos that observe each point.
    pub(crate) tracks: Option<&'a Tracks>,
}

impl<'a> Region<'a> {
    /// Builds a region of cameras and their numbers in `tracks`.
    pub(crate) fn of_cameras(cameras: Vec<(&'a Camera, u32)>) -> Self {
        let centre = |(camera, _): &(&Camera, u32)| camera.camera_from_world.centre();
        Self {
            centres: cameras.iter().map(centre).collect(),
            cameras,
            ..Self::default()
        }
    }

    /// Returns the region of these images of a capture, without rounding remainders.
    pub(crate) fn of_capture(
        capture: &'a Capture,
        images: impl IntoIterator<Item = &'a PosedImage>,
    ) -> Self {
        let cameras = images.into_iter().map(|image| (&image.camera, image.id));
        Self {
            points: &capture.points,
            tracks: capture.tracks.as_ref(),
            ..Self::of_cameras(cameras.collect())
        }
    }

    /// Computes the scene extent by the steps of the module documentation; 1 if nothing has a size.
    pub(crate) fn extent(&self) -> f64 {
        self.extent_without(&self.far_off())
    }

    /// Computes the extent without these outlier cameras, ascending.
    pub(crate) fn extent_without(&self, far: &[usize]) -> f64 {
        let near = |(i, centre): (usize, &DVec3)| far.binary_search(&i).is_err().then_some(*centre);
        let centres: Vec<DVec3> = self.centres.iter().enumerate().filter_map(near).collect();
        let radius = radius_about_mean(&centres);
        if radius > self.rounding() {
            return 1.1 * radius;
        }
        let spread = self.spread_of_points();
        if spread > 0.0 { spread } else { 1.0 }
    }

    /// Returns the outlier cameras, ascending: see the module. Cameras whose centre is not finite are among them.
    pub(crate) fn far_off(&self) -> Vec<usize> {
        let Some(middle) = self.middle() else {
            return Vec::new();
        };
        let least_usual = POINTS_SHARE * self.distance_of_points(middle);
        let is_distant_photo = |i| self.is_distant_photo(i);
        outliers::far_off(
            &self.centres,
            middle,
            least_usual,
            self.rounding(),
            is_distant_photo,
        )
    }

    /// Returns the median of the finite centres along each axis; `None` if there is none.
    pub(crate) fn middle(&self) -> Option<DVec3> {
        outliers::middle(&self.centres)
    }

    /// Returns the distance of cameras that rounding may cause.
    fn rounding(&self) -> f64 {
        let Some(middle) = self.middle() else {
            return 0.0;
        };
        let by_points = ONE_PLACE * self.distance_of_points(middle);
        match by_points > 0.0 {
            true => by_points,
            false => outliers::rounding(middle),
        }
    }

    /// Returns the median distance of sparse points from a place; 0 without points.
    fn distance_of_points(&self, from: DVec3) -> f64 {
        let step = self.points.len().div_ceil(SAMPLE).max(1);
        let sample = (0..self.points.len()).step_by(step);
        let distances = sample.map(|i| self.point(i).distance(from));
        median(distances.filter(|d| d.is_finite()).collect()).unwrap_or(0.0)
    }

    /// Returns the largest distance of a sparse point from their mean, or [`LOST`] times the median distance if that is
    /// less: distant outlier points do not count.
    fn spread_of_points(&self) -> f64 {
        let points: Vec<DVec3> = (0..self.points.len())
            .map(|i| self.point(i))
            .filter(|point| point.is_finite())
            .collect();
        let spread = radius_about_mean(&points);
        let axis = |k: usize| median(points.iter().map(|p| p[k]).collect());
        let (Some(x), Some(y), Some(z)) = (axis(0), axis(1), axis(2)) else {
            return 0.0;
        };
        let middle = DVec3::new(x, y, z);
        let usual = median(points.iter().map(|p| p.distance(middle)).collect());
        match usual {
            Some(usual) if usual > 0.0 => spread.min(LOST * usual),
            _ => spread,
        }
    }

    /// Returns the position of a sparse point in doubles.
    pub(crate) fn point(&self, i: usize) -> DVec3 {
        position(&self.points[i], self.remainders.get(i))
    }

    /// Returns true if the sparse points that this camera observes fill its frame.
    fn is_distant_photo(&self, camera: usize) -> bool {
        let Some((camera, number)) = self.cameras.get(camera) else {
            return false;
        };
        let own =
            |&i: &usize| (self.tracks).is_some_and(|tracks| tracks.photos_of(i).contains(number));
        let mut seen: Vec<usize> = (0..self.points.len()).filter(own).take(SAMPLE).collect();
        if seen.is_empty() {
            let step = self.points.len().div_ceil(SAMPLE).max(1);
            seen = (0..self.points.len()).step_by(step).collect();
        }
        if !camera.lens.is_perspective() {
            // A panorama shows points all round: the part of the sphere that they fill counts.
            let ways = seen
                .iter()
                .map(|&i| camera.camera_from_world.transform(self.point(i)));
            let ways: Vec<DVec3> = ways.filter_map(DVec3::try_normalize).collect();
            let mean = ways.iter().copied().sum::<DVec3>() / ways.len().max(1) as f64;
            let spread = (1.0 - mean.length_squared()).max(0.0).sqrt();
            return ways.len() >= FEWEST_POINTS && spread >= SPREAD_IN_FRAME * PI;
        }
        let in_frame = |&i: &usize| {
            let point = camera.camera_from_world.transform(self.point(i));
            place_of(camera, point).map(|(at, _)| at)
        };
        let places: Vec<DVec2> = seen.iter().filter_map(in_frame).collect();
        let count = places.len() as f64;
        if places.len() < FEWEST_POINTS || count < SHARE_IN_FRAME * seen.len() as f64 {
            return false;
        }
        let mean = places.iter().copied().sum::<DVec2>() / count;
        let squares = places.iter().map(|at| (*at - mean) * (*at - mean));
        let variance = squares.sum::<DVec2>() / count;
        variance.max_element().sqrt() >= SPREAD_IN_FRAME
    }
}

/// Returns the place of a point in camera coordinates in the frame, 0 to 1, and its distance; `None` outside the frame.
pub(crate) fn place_of(camera: &Camera, point: DVec3) -> Option<(DVec2, f64)> {
    let pixel = camera.project_pinhole(point)?;
    let (width, height) = (f64::from(camera.width), f64::from(camera.height));
    let place = DVec2::new(pixel.x / width, pixel.y / height);
    let is_inside = place.min_element() >= 0.0 && place.max_element() <= 1.0;
    let distance = match camera.lens.is_perspective() {
        true => point.z,
        false => point.length(),
    };
    is_inside.then_some((place, distance))
}

fn radius_about_mean(points: &[DVec3]) -> f64 {
    if points.is_empty() {
        return 0.0;
    }
    let mean = points.iter().copied().sum::<DVec3>() / points.len() as f64;
    points.iter().map(|p| p.distance(mean)).fold(0.0, f64::max)
}

/// Computes the extent of a scene from camera centres and sparse points, as [`Dataset::extent`].
pub fn extent_of(centres: &[DVec3], points: &[Point]) -> f64 {
    let region = Region {
        centres: centres.to_vec(),
        points,
        ..Region::default()
    };
    region.extent()
}

impl Dataset {
    /// Computes the scene extent: 1.1 times the largest distance of a camera from the mean of the camera centres, world
    /// units. Source: the 3DGS paper's released trainer (`cameras_extent`).
    ///
    /// Uses the views in `indices` without outliers ([`Dataset::far_off`]). If all cameras share one position up to
    /// rounding, the extent is the spread of the sparse points, or 1 without points.
    pub fn extent(&self, indices: &[usize]) -> f64 {
        self.region(indices).1.extent()
    }

    /// Returns the views among `indices` that are far from all others, as after a failed registration. They are at most
    /// a quarter of the views, beyond 5 times the median distance from the median camera centre, and behind a gap of 3
    /// times. A distant photo that its sparse points fill is not an outlier.
    pub fn far_off(&self, indices: &[usize]) -> Vec<usize> {
        let (used, region) = self.region(indices);
        region.far_off().into_iter().map(|i| used[i]).collect()
    }

    /// Builds the region of these views, and returns the valid numbers among `indices`.
    pub(crate) fn region(&self, indices: &[usize]) -> (Vec<usize>, Region<'_>) {
        let used: Vec<usize> = (indices.iter().copied())
            .filter(|&i| i < self.views.len())
            .collect();
        let cameras = used.iter().map(|&i| (&self.views[i].camera, i as u32));
        let region = Region {
            points: &self.points,
            tracks: self.tracks.as_ref(),
            ..Region::of_cameras(cameras.collect())
        };
        (used, region)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::{Photo, Pose, View};
    use dapple_splats::without_far_off;

    /// Cameras that look at a place from these centres.
    pub(crate) fn looking(centres: &[DVec3], at: DVec3, points: Vec<Point>) -> Dataset {
        let view = |(i, eye): (usize, &DVec3)| {
            let mut pose = Pose::look_at(DVec3::new(1.0, 0.3, -4.0), at, DVec3::Y);
            pose.translation = -(pose.rotation * *eye);
            let toward = Pose::look_at(*eye, at, DVec3::Y);
            let pose = if toward.is_finite() { toward } else { pose };
            let photo = Photo::from_rgb(8, 6, vec![0; 144]);
            View::new(format!("{i:03}"), Camera::pinhole(8, 6, 8.0, pose), photo)
        };
        Dataset {
            views: centres.iter().enumerate().map(view).collect(),
            points,
            ..Dataset::default()
        }
    }

    pub(crate) fn ring(count: usize, radius: f64) -> Vec<DVec3> {
        let angle = |i: usize| i as f64 * std::f64::consts::TAU / count as f64;
        (0..count)
            .map(|i| radius * DVec3::new(angle(i).cos(), 0.1 * (i % 3) as f64, angle(i).sin()))
            .collect()
    }

    /// A cloud around the origin; fuller than a photo's frame from a few radii.
    pub(crate) fn cloud(radius: f64) -> Vec<Point> {
        (0..200)
            .map(|i| {
                let t = f64::from(i);
                let at = radius * DVec3::new((t * 0.7).sin(), (t * 1.3).cos(), (t * 2.1).sin());
                Point {
                    position: at.to_array().map(|v| v as f32),
                    rgb: [0; 3],
                }
            })
            .collect()
    }

    pub(crate) fn all(dataset: &Dataset) -> Vec<usize> {
        (0..dataset.views.len()).collect()
    }

    /// Extent without the removal of outliers: the formula of the 3DGS paper's trainer.
    fn by_largest(dataset: &Dataset) -> f64 {
        let centres = dataset.views.iter();
        let centres: Vec<DVec3> = centres
            .map(|view| view.camera.camera_from_world.centre())
            .collect();
        1.1 * radius_about_mean(&centres)
    }

    #[test]
    fn ordinary_captures_keep_every_bit() {
        let line: Vec<DVec3> = (0..40).map(|i| DVec3::X * f64::from(i)).collect();
        // Increasing distances, as of a rising drone: no gap.
        let rising: Vec<DVec3> = (0..30)
            .map(|i| DVec3::new(0.1 * f64::from(i % 5), 1.3f64.powi(i), 0.0))
            .collect();
        // A third of the photos is an overview.
        let overview: Vec<DVec3> = ring(20, 1.0).into_iter().chain(ring(10, 60.0)).collect();
        // Four, of which one is twice as far, or three on a line.
        let four = vec![DVec3::X, DVec3::Y, DVec3::Z, DVec3::splat(-2.5)];
        let few = vec![DVec3::ZERO, DVec3::X, DVec3::X * 50.0];
        for centres in [ring(16, 4.0), line, rising, overview, four, few] {
            for points in [Vec::new(), cloud(2.0), cloud(30.0)] {
                let dataset = looking(&centres, DVec3::new(0.2, 0.1, 0.0), points);
                assert!(dataset.far_off(&all(&dataset)).is_empty(), "{centres:?}");
                let extent = dataset.extent(&all(&dataset));
                assert_eq!(extent.to_bits(), by_largest(&dataset).to_bits());
            }
        }
    }

    #[test]
    fn cameras_far_off_do_not_count() {
        let past = DVec3::new(0.0, 900.0, -900.0);
        let good = looking(&ring(16, 4.0), past, Vec::new());
        let extent = good.extent(&all(&good));
        for strays in [
            vec![DVec3::X * 1000.0],
            vec![DVec3::new(-40.0, 120.0, 3.0)],
            vec![DVec3::X * 36.0],
            vec![DVec3::X * 1000.0, DVec3::Y * -300.0, DVec3::Z * 1e6],
            vec![DVec3::splat(1e300)],
            vec![DVec3::splat(f64::NAN), DVec3::X * 50.0],
            vec![DVec3::new(f64::INFINITY, 0.0, 0.0)],
        ] {
            for points in [Vec::new(), cloud(2.0)] {
                let centres: Vec<DVec3> = strays.iter().copied().chain(ring(16, 4.0)).collect();
                // The cameras look past the points.
                let dataset = looking(&centres, past, points);
                let far = dataset.far_off(&all(&dataset));
                assert_eq!(far, (0..strays.len()).collect::<Vec<_>>(), "{strays:?}");
                assert_eq!(dataset.extent(&all(&dataset)).to_bits(), extent.to_bits());
                assert_eq!(dataset.far_off(&[0, 7, 8, 9, 10]), [0]);
                let poses = dataset
                    .views
                    .iter()
                    .map(|view| view.camera.camera_from_world);
                assert_eq!(without_far_off(poses.collect()).len(), 16);
            }
        }
    }

    #[test]
    fn a_distant_photo_of_the_scene_counts() {
        let centres: Vec<DVec3> = ring(16, 1.0).into_iter().chain([DVec3::Y * 40.0]).collect();
        // A town around a statue: from above it fills the frame.
        let seen = looking(&centres, DVec3::new(0.0, 0.0, 0.1), cloud(15.0));
        assert!(seen.far_off(&all(&seen)).is_empty());
        assert_eq!(
            seen.extent(&all(&seen)).to_bits(),
            by_largest(&seen).to_bits()
        );
        // From above, only the statue covers a few pixels.
        let heap = looking(&centres, DVec3::new(0.0, 0.0, 0.1), cloud(0.6));
        assert_eq!(heap.far_off(&all(&heap)), [16]);
        // With tracks, only the points observed in the photo count: here points outside the frame.
        let mut tracked = seen;
        let mut tracks = Tracks::default();
        for point in &tracked.points {
            let is_outside = point.position[0].abs() > 14.0;
            tracks.push(0.5, is_outside.then_some(16));
        }
        tracked.tracks = Some(tracks);
        let mut camera = tracked.views[16].camera;
        (camera.fx, camera.fy) = (80.0, 80.0);
        tracked.views[16].camera = camera;
        assert_eq!(tracked.far_off(&all(&tracked)), [16]);
    }

    #[test]
    fn cameras_in_one_place_have_the_extent_of_the_points() {
        let jitter = |size: f64| -> Vec<DVec3> {
            ring(16, size)
                .into_iter()
                .map(|c| c + DVec3::new(1.0, 2.0, 3.0))
                .collect()
        };
        let ahead = DVec3::new(9.0, 2.0, 3.0);
        let exact = looking(&jitter(0.0), ahead, cloud(6.0));
        let extent = exact.extent(&all(&exact));
        assert!((4.0..12.0).contains(&extent), "{extent}");
        for size in [1e-15, 1e-9, 1e-6, 1e-4] {
            let dataset = looking(&jitter(size), ahead, cloud(6.0));
            assert_eq!(
                dataset.extent(&all(&dataset)).to_bits(),
                extent.to_bits(),
                "{size}"
            );
        }
        // With one camera at another place, the capture has parallax; if that camera is an outlier, it has none.
        let beside: Vec<DVec3> = jitter(1e-9)
            .into_iter()
            .chain([DVec3::new(3.0, 2.0, 3.0)])
            .collect();
        let beside = looking(&beside, ahead, cloud(6.0));
        assert_eq!(
            beside.extent(&all(&beside)).to_bits(),
            by_largest(&beside).to_bits()
        );
        let lost: Vec<DVec3> = jitter(1e-9).into_iter().chain([DVec3::Z * 500.0]).collect();
        let lost = looking(&lost, ahead, cloud(6.0));
        assert_eq!(lost.far_off(&all(&lost)), [16]);
        assert_eq!(lost.extent(&all(&lost)).to_bits(), extent.to_bits());
        // Without points nothing has a size; then one camera at another place gives the only size.
        let bare = looking(&jitter(1e-9), ahead, Vec::new());
        assert_eq!(bare.extent(&all(&bare)), 1.0);
        let bare: Vec<DVec3> = jitter(1e-9).into_iter().chain([DVec3::Z * 500.0]).collect();
        let bare = looking(&bare, ahead, Vec::new());
        assert_eq!(
            bare.extent(&all(&bare)).to_bits(),
            by_largest(&bare).to_bits()
        );
        // Outlier points do not count, with any position.
        let mut points = cloud(6.0);
        for far in [[1e7, 0.0, 0.0], [f32::NAN, 0.0, 0.0]] {
            points.push(Point {
                position: far,
                rgb: [0; 3],
            });
        }
        let lost = looking(&jitter(0.0), ahead, points);
        let extent = lost.extent(&all(&lost));
        assert!((4.0..80.0).contains(&extent), "{extent}");
        assert_eq!(Dataset::default().extent(&[]), 1.0);
        assert_eq!(extent_of(&[], &[]), 1.0);
    }
}
