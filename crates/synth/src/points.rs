//! Sparse points of a synthetic capture, distributed like those of structure from motion.
//!
//! 1. A ray through a random place of a random photo meets a surface: that is a point.
//! 2. A photo sees the point if the point is in its frame and not hidden, and observes it with probability [`FOUND`]. A
//!    point needs two photos, like a triangulated one.
//!    In a city only photos near the point count, and a point has few observations: [`Nearby`].
//! 3. The observations are exact projections. The position has Gaussian noise. The colour is the mean over the photos
//!    that observe the point.

use super::cameras::{RayGrid, project};
use super::photos::{Eye, encode};
use super::random::Random;
use super::scene::{Scene, flip};
use super::{SceneKind, SynthOptions};
use dapple_scene::Camera;
use glam::{DVec3, Vec3A};
use rayon::prelude::*;
use std::ops::Range;

/// The kind of random stream that places points.
const POINT_STREAM: u64 = 2;

/// Probability that a photo that sees a point also observes it.
const FOUND: f64 = 0.6;

/// Number of places tried for one point: with few photos most places are seen only once.
const ATTEMPTS: usize = 40;

/// A point of the sparse cloud and its observations.
#[derive(Debug, Clone)]
pub(super) struct SparsePoint {
    /// Position with noise, world units.
    pub(super) position: DVec3,
    /// Colour, sRGB.
    pub(super) rgb: [u8; 3],
    /// Mean distance between observations and projections of `position`, pixels.
    pub(super) error: f64,
    /// Photo and position in it, pixels; sorted by photo.
    pub(super) track: Vec<(usize, [f64; 2])>,
}

/// Finds the points of a capture, in any parts: point `i` depends on the options and on `i` only.
pub(super) struct Finder<'a> {
    observers: Observers<'a>,
    rays: &'a RayGrid,
    seed: u64,
}

impl<'a> Finder<'a> {
    pub(super) fn new(
        scene: &'a Scene,
        cameras: &'a [Camera],
        rays: &'a RayGrid,
        options: &SynthOptions,
    ) -> Self {
        let is_city = options.scene == SceneKind::City;
        let observers = Observers {
            scene,
            cameras,
            reach: cameras.first().map_or(0.0, |one| one.lens.max_radius()),
            noise: options.point_noise,
            nearby: is_city.then(|| Nearby::new(cameras, options.points)),
        };
        Self {
            observers,
            rays,
            seed: options.seed,
        }
    }

    /// Returns the points of these numbers, fewer where a place is hardly seen.
    pub(super) fn find(&self, numbers: Range<usize>) -> Vec<SparsePoint> {
        let cameras = self.observers.cameras;
        if cameras.is_empty() {
            return Vec::new();
        }
        let find = |number: usize| {
            let mut random = Random::new(self.seed, POINT_STREAM, number as u64);
            let mut attempts = 0..ATTEMPTS;
            attempts.find_map(|_| {
                let camera = &cameras[random.index(cameras.len())];
                let eye = Eye::new(camera);
                let direction = eye.direction(self.rays.random(&mut random)?);
                let hit = self.observers.scene.hit(eye.origin, direction);
                let place = flip(eye.origin + direction * hit.distance);
                self.observers.observe(place, &mut random)
            })
        };
        numbers.into_par_iter().filter_map(find).collect()
    }
}

/// Photos by place, where there are many over a large area.
struct Nearby {
    /// Least square with a photo, along x and z.
    corner: [i32; 2],
    /// Squares along x.
    across: usize,
    /// Photos of each square, ascending, row after row.
    by_square: Vec<Vec<u32>>,
    /// Most observations of a point.
    most: usize,
}

impl Nearby {
    /// Edge of a square, units. A point is observed from its square and the squares within [`Self::RING`] of it.
    const SQUARE: f64 = 40.0;
    const RING: i32 = 3;

    /// Observations of a point, and of each of more points than [`Self::MANY`], so that files have some gigabytes.
    const MOST: [usize; 2] = [8, 2];
    const MANY: usize = 10_000_000;

    fn new(cameras: &[Camera], points: usize) -> Self {
        let squares = cameras
            .iter()
            .map(|camera| Self::square(camera.camera_from_world.centre()));
        let squares: Vec<[i32; 2]> = squares.collect();
        let bound = |axis: usize, of: fn(i32, i32) -> i32| {
            squares
                .iter()
                .map(|square| square[axis])
                .reduce(of)
                .unwrap_or_default()
        };
        let corner = [bound(0, i32::min), bound(1, i32::min)];
        let size = |axis: usize| (bound(axis, i32::max) - corner[axis]) as usize + 1;
        let mut nearby = Self {
            corner,
            across: size(0),
            by_square: vec![Vec::new(); size(0) * size(1)],
            most: Self::MOST[usize::from(points > Self::MANY)],
        };
        for (index, square) in (0u32..).zip(squares) {
            if let Some(at) = nearby.place(square) {
                nearby.by_square[at].push(index);
            }
        }
        nearby
    }

    fn square(p: DVec3) -> [i32; 2] {
        [p.x, p.z].map(|v| (v / Self::SQUARE).floor() as i32)
    }

    /// Returns the index of a square; `None` outside of all photos.
    fn place(&self, [x, z]: [i32; 2]) -> Option<usize> {
        let along = |v: i32, axis: usize| usize::try_from(v - self.corner[axis]).ok();
        let (x, z) = (along(x, 0).filter(|&x| x < self.across)?, along(z, 1)?);
        let at = z * self.across + x;
        (at < self.by_square.len()).then_some(at)
    }

    /// Returns the photos near a point, beginning with a random one.
    fn of(&self, p: DVec3, random: &mut Random) -> Vec<usize> {
        let [x, z] = Self::square(p);
        let around = -Self::RING..=Self::RING;
        let squares = around
            .clone()
            .flat_map(|dz| around.clone().map(move |dx| [x + dx, z + dz]));
        let photos = squares.filter_map(|square| self.place(square));
        let photos = photos.flat_map(|at| &self.by_square[at]);
        let mut photos: Vec<usize> = photos.map(|&photo| photo as usize).collect();
        if !photos.is_empty() {
            let first = random.index(photos.len());
            photos.rotate_left(first);
        }
        photos
    }
}

/// Scene and cameras of the observations.
struct Observers<'a> {
    scene: &'a Scene,
    cameras: &'a [Camera],
    /// Largest radius of the lens.
    reach: f64,
    /// Noise of positions.
    noise: f64,
    nearby: Option<Nearby>,
}

impl Observers<'_> {
    /// Projects a place into the photos; `None` unless enough of them observe it.
    fn observe(&self, place: Vec3A, random: &mut Random) -> Option<SparsePoint> {
        let truth = DVec3::from(place.to_array().map(f64::from));
        let mut track = Vec::new();
        let mut colour = Vec3A::ZERO;
        let least = self.cameras.len().min(2);
        let mut try_photo = |index: usize, random: &mut Random| {
            if let Some((pixel, light)) = self.see(index, truth, random) {
                track.push((index, pixel));
                colour += light;
            }
            track.len()
        };
        match &self.nearby {
            None => (0..self.cameras.len()).for_each(|index| {
                try_photo(index, random);
            }),
            Some(nearby) => {
                for index in nearby.of(truth, random) {
                    if try_photo(index, random) >= nearby.most {
                        break;
                    }
                }
            }
        }
        if track.len() < least {
            return None;
        }
        track.sort_unstable_by_key(|&(photo, _)| photo);
        Some(self.point(truth, track, colour, random))
    }

    /// Returns the pixel and the light of a point in a photo; `None` if it does not show the point, or misses it.
    fn see(&self, index: usize, truth: DVec3, random: &mut Random) -> Option<([f64; 2], Vec3A)> {
        let camera = &self.cameras[index];
        let found = random.unit() < FOUND || self.cameras.len() == 1;
        let pixel = project(camera, self.reach, truth).filter(|_| found)?;
        let eye = camera.camera_from_world.centre();
        let origin = flip(eye.as_vec3a());
        let direction = flip((truth - eye).normalize().as_vec3a());
        let hit = self.scene.hit(origin, direction);
        // Nearer than the point: another surface hides it.
        let distance = truth.distance(eye) as f32;
        let is_hidden = hit.distance < distance - 2e-3;
        (!is_hidden).then(|| (pixel, self.scene.light(origin, direction, hit)))
    }

    fn point(
        &self,
        truth: DVec3,
        track: Vec<(usize, [f64; 2])>,
        colour: Vec3A,
        random: &mut Random,
    ) -> SparsePoint {
        let shift = DVec3::new(random.normal(), random.normal(), random.normal()) * self.noise;
        let position = truth + shift;
        let errors = track.iter().map(|&(index, seen)| {
            project(&self.cameras[index], self.reach, position)
                .map_or(0.0, |[x, y]| (x - seen[0]).hypot(y - seen[1]))
        });
        let error = errors.sum::<f64>() / track.len() as f64;
        let rgb = encode(colour / track.len() as f32);
        SparsePoint {
            position,
            rgb,
            error,
            track,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::light::Light;
    use super::super::setting::Site;
    use super::super::{LensKind, cameras};
    use super::*;

    #[test]
    fn points_found_in_parts_are_those_found_at_once_and_lie_on_surfaces() {
        let options = SynthOptions {
            scene: SceneKind::City,
            photos: 24,
            points: 300,
            point_noise: 0.0,
            ..SynthOptions::default()
        };
        let scene = Scene::new(Site::of(&options), Light::default());
        let cameras = cameras::cameras(&options, LensKind::Pinhole);
        let rays = RayGrid::new(&cameras::intrinsics(&options, LensKind::Pinhole));
        let finder = Finder::new(&scene, &cameras, &rays, &options);
        let all = finder.find(0..300);
        let parts = [0..101, 101..102, 102..300].map(|numbers| finder.find(numbers));
        assert_eq!(format!("{all:?}"), format!("{:?}", parts.concat()));
        for point in &all {
            for &(photo, _) in &point.track {
                let eye = cameras[photo].camera_from_world.centre();
                let along = (point.position - eye).normalize();
                let hit = scene.hit(flip(eye.as_vec3a()), flip(along.as_vec3a()));
                let distance = point.position.distance(eye) as f32;
                assert!((hit.distance - distance).abs() < 0.02, "{point:?}");
            }
        }
    }
}
