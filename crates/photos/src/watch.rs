//! Poses while the mapper still works, for a display: the tool writes snapshots of its model, and each is read once.
//!
//! Snapshots change no result: the tool writes what it has, and continues.

use crate::algebra::mean;
use crate::model::Model;
use crate::work;
use dapple_base::{Error, Result};
use dapple_scene::{Camera, Point};
use glam::DVec3;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Snapshots of a mapping that places all photos.
const SNAPSHOTS: usize = 40;

/// Time between two searches for a snapshot.
const PATIENCE: Duration = Duration::from_millis(300);

/// Receives poses as they come.
pub type Watch<'a> = &'a (dyn Fn(Snapshot) + Sync);

/// Photos with a pose so far, and their sparse points.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Cameras of the photos with a pose, by the names of the photos.
    pub cameras: Vec<Camera>,
    /// Sparse points.
    pub points: Vec<Point>,
    /// True for the result, in the frame of the capture. The mapper has a frame of its own.
    pub is_final: bool,
}

impl Snapshot {
    /// Returns the cameras and points of a model.
    ///
    /// # Errors
    /// Cameras with impossible parameters.
    pub(crate) fn of(model: &Model) -> Result<Self> {
        let lenses = model.lenses()?;
        let camera = |image: &crate::model::Image| {
            Some(Camera {
                camera_from_world: image.pose,
                ..*lenses.get(&image.camera)?
            })
        };
        let point = |point: &crate::model::Point| Point {
            position: point.position.to_array().map(|value| value as f32),
            rgb: point.rgb,
        };
        Ok(Self {
            cameras: model.images.iter().filter_map(camera).collect(),
            points: model.points.iter().map(point).collect(),
            is_final: false,
        })
    }

    /// Returns the middle of the cameras and points, and the radius that shows all cameras and most points.
    pub fn bounds(&self) -> (DVec3, f64) {
        let centre = |camera: &Camera| camera.camera_from_world.centre();
        let centres: Vec<DVec3> = self.cameras.iter().map(centre).collect();
        let place = |point: &Point| DVec3::from(point.position.map(f64::from));
        let places: Vec<DVec3> = self.points.iter().map(place).collect();
        bounds(&centres, &places)
    }
}

/// Returns the centre of a camera, and the four corners of its image at a depth, in order.
pub fn frustum(camera: &Camera, depth: f64) -> (DVec3, [DVec3; 4]) {
    let pose = camera.camera_from_world;
    let (w, h) = (f64::from(camera.width), f64::from(camera.height));
    let corner = |(x, y): (f64, f64)| {
        let ray = DVec3::new(
            (x - camera.cx) / camera.fx,
            (y - camera.cy) / camera.fy,
            1.0,
        );
        pose.centre() + pose.rotation.conjugate() * (ray * depth)
    };
    let corners = [(0.0, 0.0), (w, 0.0), (w, h), (0.0, h)].map(corner);
    (pose.centre(), corners)
}

/// Returns the middle of the cameras and points, and the radius that shows most of them.
pub(crate) fn bounds(centres: &[DVec3], points: &[DVec3]) -> (DVec3, f64) {
    let all: Vec<DVec3> = centres.iter().chain(points).copied().collect();
    let axis = |k: usize| {
        let mut values: Vec<f64> = points.iter().chain(centres).map(|point| point[k]).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(0.0)
    };
    let near = DVec3::new(axis(0), axis(1), axis(2));
    let middle = if centres.is_empty() {
        near
    } else {
        (near + mean(centres.iter().copied())) / 2.0
    };
    let mut distances: Vec<f64> = all.iter().map(|point| point.distance(middle)).collect();
    distances.sort_by(f64::total_cmp);
    let most = distances
        .get(distances.len() * 9 / 10)
        .copied()
        .unwrap_or(1.0);
    let cameras = centres
        .iter()
        .map(|centre| centre.distance(middle))
        .fold(0.0, f64::max);
    (middle, most.max(cameras).max(1e-9))
}

/// Returns the number of photos between two snapshots.
pub(crate) fn interval(photos: usize) -> usize {
    photos.div_ceil(SNAPSHOTS).max(1)
}

/// Maps, and passes on the snapshots that appear in a folder, which is removed afterwards.
///
/// # Errors
/// The error of the mapping; a folder that cannot be made.
pub(crate) fn follow(
    folder: &Path,
    watch: Watch<'_>,
    map: impl FnOnce() -> Result<()>,
) -> Result<()> {
    work::remove(folder)?;
    std::fs::create_dir_all(folder)
        .map_err(|e| Error::io("cannot create the folder", folder, e))?;
    // Dropped at the end of the mapping, also at a panic.
    let (running, ended) = channel::<()>();
    let mapped = std::thread::scope(|scope| {
        scope.spawn(move || {
            while ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                if let Some(snapshot) = newest(folder) {
                    watch(snapshot);
                }
            }
        });
        let mapped = map();
        drop(running);
        mapped
    });
    work::remove(folder)?;
    mapped
}

/// Returns the newest whole snapshot, and removes it with those before it. The names are times, of equal length.
fn newest(folder: &Path) -> Option<Snapshot> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    folders.sort();
    // The last one may be unfinished: then it is read the next time.
    let (at, snapshot) = folders.iter().enumerate().rev().find_map(|(at, folder)| {
        let model = Model::read(folder).ok()?;
        Some((at, Snapshot::of(&model).ok()?))
    })?;
    for folder in &folders[..=at] {
        let _ = std::fs::remove_dir_all(folder);
    }
    Some(snapshot)
}
