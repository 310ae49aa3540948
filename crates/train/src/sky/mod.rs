//! The sky of a capture: which photos show it, and the Gaussians that it is trained with.
//!
//! 1. `mask`: the pixels of each photo that show the sky, and whether they surely do. Other photos are used if they
//!    have the colours that sure ones show in the same directions.
//! 2. A capture has a sky if enough of its photos show one, and if it is outdoors: its points reach far beyond the region
//!    that the cameras move in, or many photos show a blue sky. A ceiling is white and near.
//! 3. `dome`: the first Gaussians of the sky, on a sphere around the cameras beyond the sparse points. Training leaves
//!    their places and shapes as they are, and density control omits them ([`dapple_engine::OptimizerState::sky`]).
//! 4. `samples`: the depth of the sphere at pixels of the sky, for the loss of known depths. It is the opacity in front of
//!    the sphere, so that the space between cameras and sky becomes empty.

mod dome;
mod mask;
mod samples;
mod start;

pub(crate) use samples::{WEIGHT, samples};
pub(crate) use start::{first_splats, put_last};

use crate::views::Chosen;
use dapple_scene::edit::up_of_poses;
use dapple_scene::{Dataset, Error, Pose, Rays, Result, View};
use glam::{DVec2, DVec3};
use mask::{SkyMask, sky_of};
use rayon::prelude::*;

/// Fewest training photos that show the sky, and their least part.
const PHOTOS: usize = 3;
const PART_OF_PHOTOS: f64 = 0.15;

/// Least part of the training photos that show a blue sky, if the points are near.
const PART_BLUE: f64 = 0.25;

/// Least distance of the farthest hundredth of the sparse points from the cameras, in extents of the scene. Rooms and
/// objects have less.
const FAR: f64 = 6.0;

/// Radius of the sphere, in extents of the scene, and in distances of the farthest hundredth of the sparse points: from
/// a camera at the edge of the scene, the sky moves by two degrees.
const RADIUS: f64 = 30.0;
const BEYOND_POINTS: f64 = 2.0;

/// The sky of a capture.
#[derive(Debug)]
pub(crate) struct Sky {
    /// The sky of each training photo.
    photos: Vec<Option<SkyMask>>,
    /// Up direction, a unit vector.
    up: DVec3,
    /// Mean position of the cameras, the centre of the sphere.
    centre: DVec3,
    /// Radius of the sphere, world units.
    radius: f64,
    /// True if the sparse points reach far beyond the cameras.
    is_far: bool,
}

impl Sky {
    /// Finds the sky in the training photos.
    ///
    /// # Errors
    /// A photo cannot be read.
    pub(crate) fn find(dataset: &Dataset, chosen: &Chosen) -> Result<Self> {
        let views = chosen.train.iter().map(|&i| &dataset.views[i]);
        let poses: Vec<Pose> = views.map(|view| view.camera.camera_from_world).collect();
        let up = up_of_poses(&poses);
        let centre = poses.iter().map(Pose::centre).sum::<DVec3>() / poses.len().max(1) as f64;
        let tracks = dataset.tracks.as_ref();
        let tracks = tracks.map(|tracks| tracks.points_of_photos(dataset.views.len()));
        let place = |point: &u32| {
            let point = dataset.points.get(*point as usize)?;
            Some(DVec3::from(point.position.map(f64::from)))
        };
        let photos = chosen.train.par_iter().map(|&i| {
            let view = &dataset.views[i];
            let points = tracks
                .iter()
                .flat_map(|tracks| &tracks[i])
                .filter_map(place);
            let points = pixels_of(view, points);
            Ok(sky_of(view, view.photo.read()?.as_ref(), up, &points))
        });
        let mut photos = photos.collect::<Result<Vec<_>>>()?;
        dome::drop_contradicting(&mut photos)?;
        let far = farthest(dataset, centre);
        Ok(Self {
            photos,
            up,
            centre,
            radius: (RADIUS * chosen.cameras_extent).max(BEYOND_POINTS * far),
            is_far: far >= FAR * chosen.cameras_extent,
        })
    }

    /// Returns the number of photos that surely show the sky.
    pub(crate) fn count(&self) -> usize {
        self.photos
            .iter()
            .flatten()
            .filter(|mask| mask.is_sure)
            .count()
    }

    /// Returns a note for the user about a sky of `gaussians` Gaussians.
    pub(crate) fn note(&self, gaussians: usize) -> String {
        format!(
            "{} of {} training photos show a sky: {gaussians} Gaussians of it are {} world units away \
             (--sky off learns none)",
            self.photos.iter().flatten().count(),
            self.photos.len(),
            // Three digits.
            format!("{:.2e}", self.radius)
                .parse::<f64>()
                .unwrap_or(self.radius)
        )
    }

    /// Returns true if the capture surely has a sky.
    pub(crate) fn is_sure(&self) -> bool {
        let part = |count: usize| count as f64 / self.photos.len().max(1) as f64;
        let blue = self.photos.iter().flatten().filter(|mask| mask.is_blue);
        let is_outdoors = self.is_far || part(blue.count()) >= PART_BLUE;
        is_outdoors && self.count() >= PHOTOS && part(self.count()) >= PART_OF_PHOTOS
    }

    /// Returns true if a place is nearer than the sphere.
    pub(crate) fn is_within(&self, place: [f32; 3]) -> bool {
        let place = DVec3::from(place.map(f64::from));
        place.distance(self.centre) < self.radius
    }

    /// Refuses a capture whose photos show no sky.
    ///
    /// # Errors
    /// No photo shows a sky.
    pub(crate) fn refuse_none(&self) -> Result<()> {
        match self.count() {
            0 => Err(Error::input("no training photo shows a sky that can be found")
                .hint("omit --sky on: a sky is connected to the upper border of a photo, light or blue, and smooth")),
            _ => Ok(()),
        }
    }
}

/// Returns the pixels of world points in a view.
fn pixels_of(view: &View, points: impl Iterator<Item = DVec3>) -> Vec<DVec2> {
    let (rays, pose) = (Rays::new(&view.camera), view.camera.camera_from_world);
    points
        .filter_map(|point| rays.pixel(pose.transform(point)))
        .collect()
}

/// Returns the distance of the farthest hundredth of the sparse points; 0 without points.
fn farthest(dataset: &Dataset, centre: DVec3) -> f64 {
    let places = dataset
        .points
        .iter()
        .map(|point| DVec3::from(point.position.map(f64::from)));
    let mut far: Vec<f64> = places
        .map(|place| place.distance(centre))
        .filter(|distance| distance.is_finite())
        .collect();
    far.sort_by(f64::total_cmp);
    far.get(far.len().saturating_sub(1) * 99 / 100)
        .copied()
        .unwrap_or_default()
}
