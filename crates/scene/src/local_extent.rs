//! Local extent: the size of what a camera has around it. Training scales with it: cameras may cover far more than each of
//! them sees, in a street or a corridor.
//!
//! 1. The sparse points in a frame, nearest of each cell of a grid: their median distance is that at which the camera sees
//!    the scene.
//! 2. The local extent is [`SURROUNDINGS`] times the distance that a tenth of the cameras have or are below, or the extent
//!    if this is less, as in captures whose cameras look at one place or stay in one room.

use crate::extent::{FEWEST_POINTS, Region, place_of};
use crate::{Camera, Capture, Dataset};
use dapple_base::quantiles::{median, quantile};
use glam::{DVec3, USizeVec2};
use rayon::prelude::*;

/// Local extent, in distances at which cameras see the scene. Cameras around an object or in a room are within 2.5.
const SURROUNDINGS: f64 = 3.0;

/// Share of the cameras that may be nearer to the scene than the distance which sets the local extent.
const NEARER: f64 = 0.1;

/// Cells of a frame along each axis, of which the nearest point counts.
const CELLS: usize = 16;

/// Maximum number of cameras and of points from which the local extent is computed.
const LOCAL_SAMPLE: [usize; 2] = [64, 1 << 17];

impl Region<'_> {
    /// Computes the local extent: see the module.
    fn local_extent(&self) -> f64 {
        let far = self.far_off();
        let extent = self.extent_without(&far);
        let step = |count: usize, most: usize| count.div_ceil(most).max(1);
        let points: Vec<DVec3> = (0..self.points.len())
            .step_by(step(self.points.len(), LOCAL_SAMPLE[1]))
            .map(|i| self.point(i))
            .collect();
        let near: Vec<&Camera> = self
            .cameras
            .iter()
            .enumerate()
            .filter(|(i, _)| far.binary_search(i).is_err())
            .map(|(_, (camera, _))| *camera)
            .collect();
        let seen = near.par_iter().step_by(step(near.len(), LOCAL_SAMPLE[0]));
        let distances: Vec<f64> = seen
            .filter_map(|camera| distance_of(camera, &points))
            .collect();
        match quantile(distances, NEARER) {
            Some(distance) if distance > 0.0 => extent.min(SURROUNDINGS * distance),
            _ => extent,
        }
    }
}

/// Returns the distance at which a camera sees these points; `None` if it sees too few.
fn distance_of(camera: &Camera, points: &[DVec3]) -> Option<f64> {
    let mut nearest = vec![f64::INFINITY; CELLS * CELLS];
    for point in points {
        let point = camera.camera_from_world.transform(*point);
        let Some((place, distance)) = place_of(camera, point) else {
            continue;
        };
        let cell = (place * CELLS as f64)
            .as_usizevec2()
            .min(USizeVec2::splat(CELLS - 1));
        let nearest = &mut nearest[cell.y * CELLS + cell.x];
        *nearest = nearest.min(distance);
    }
    nearest.retain(|distance| distance.is_finite());
    (nearest.len() >= FEWEST_POINTS).then(|| median(nearest))?
}

impl Dataset {
    /// Computes the extent of what the cameras in `indices` have around them, world units: [`Self::extent`], or 3 times the
    /// distance to the scene of the nearest tenth of the cameras if that is less, as in a street. Learning rates, density
    /// thresholds and the near plane scale with it.
    pub fn local_extent(&self, indices: &[usize]) -> f64 {
        self.region(indices).1.local_extent()
    }
}

impl Capture {
    /// Computes the local extent before photos are decoded: [`Dataset::local_extent`].
    pub fn local_extent(&self, indices: &[usize]) -> f64 {
        let images = indices.iter().filter_map(|&i| self.images.get(i));
        Region::of_capture(self, images).local_extent()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extent::tests::{all, cloud, looking, ring};
    use crate::{Point, Pose, PosedImage};
    use std::path::PathBuf;

    /// Points on two walls along x, at this distance from the axis.
    fn street(length: f64, distance: f64) -> Vec<Point> {
        (0..4000)
            .map(|i| {
                let side = if i % 2 == 0 { distance } else { -distance };
                let (along, up) = (f64::from(i / 2) / 2000.0, f64::from(i * 37 % 100) / 100.0);
                Point {
                    position: [along * length, 3.0 * up - 1.5, side].map(|v| v as f32),
                    rgb: [0; 3],
                }
            })
            .collect()
    }

    #[test]
    fn a_street_is_as_large_as_what_a_camera_sees_of_it() {
        let centres: Vec<DVec3> = (0..200).map(|i| DVec3::X * f64::from(i)).collect();
        let mut dataset = looking(&centres, DVec3::ZERO, street(200.0, 5.0));
        // Cameras that look at one wall.
        for view in &mut dataset.views {
            let eye = view.camera.camera_from_world.centre();
            view.camera.camera_from_world = Pose::look_at(eye, eye + DVec3::Z, DVec3::Y);
        }
        let all = all(&dataset);
        let (local, extent) = (dataset.local_extent(&all), dataset.extent(&all));
        assert!(extent > 100.0, "{extent}");
        assert!(
            (14.0..16.0).contains(&local),
            "{local}: three times the distance of the wall"
        );
        // Few photos of a detail change nothing, and neither does a wrong pose.
        for view in &mut dataset.views[..10] {
            view.camera.camera_from_world.translation.z -= 4.9;
        }
        assert!(dataset.local_extent(&all) > 14.0);
        let some = &all[20..90];
        assert_eq!(
            capture_of(&dataset).local_extent(some),
            dataset.local_extent(some)
        );
        dataset.points.clear();
        assert_eq!(dataset.local_extent(&all), dataset.extent(&all));
    }

    /// The capture of a dataset, before its photos are decoded.
    fn capture_of(dataset: &Dataset) -> Capture {
        let images = dataset.views.iter().zip(1..).map(|(view, id)| PosedImage {
            name: view.name.clone(),
            folder: PathBuf::new(),
            file: PathBuf::new(),
            downscaled: false,
            mask: None,
            id,
            depth: None,
            camera: view.camera,
            source_model: String::new(),
        });
        Capture {
            images: images.collect(),
            points: dataset.points.clone(),
            ..Capture::default()
        }
    }

    #[test]
    fn cameras_around_an_object_keep_every_bit_of_the_extent() {
        for radius in [2.0, 4.0, 10.0] {
            let dataset = looking(&ring(40, radius), DVec3::ZERO, cloud(1.0));
            let all = all(&dataset);
            assert_eq!(
                dataset.local_extent(&all).to_bits(),
                dataset.extent(&all).to_bits()
            );
        }
    }
}
