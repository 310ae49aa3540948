//! Vertices that move to where photos agree.

use crate::shapes::{Shape, Views, is_same_on_any_threads};
use dapple_base::{ErrorKind, NoProgress, Progress, Result};
use dapple_mesh::raster::{MeshDepths, seen_from};
use dapple_mesh::refine::{RefineOptions, Refined, refine};
use dapple_mesh::{Mesh, PhotoSource, Pinhole};
use dapple_scene::{Camera, Photo};
use glam::Vec3;
use std::sync::Arc;

/// Views with photos in these colours; one photo may be that of another place.
struct Painted {
    views: Views,
    colour: fn(Vec3) -> Vec3,
    wrong: Option<usize>,
}

impl PhotoSource for Painted {
    fn count(&self) -> usize {
        self.views.cameras.len()
    }

    fn photo(&self, index: usize) -> Result<(Camera, Arc<Photo>)> {
        let (camera, mut photo) = self.views.painted(index, self.colour);
        if self.wrong == Some(index) {
            photo.rgb.reverse();
        }
        Ok((camera, Arc::new(photo)))
    }
}

fn waves(p: Vec3) -> Vec3 {
    let wave = |x: f32, y: f32| (23.0 * x + 9.0 * y).sin() + (31.0 * y - 13.0 * x).cos();
    Vec3::splat(128.0 + 25.0 * (wave(p.x, p.y) + wave(p.y, p.z)))
}

fn sphere(colour: fn(Vec3) -> Vec3) -> Painted {
    Painted {
        views: Views::around(Shape::Sphere, 40, 160),
        colour,
        wrong: None,
    }
}

fn options() -> RefineOptions {
    RefineOptions {
        max_memory: 1 << 30,
        voxel: 0.05.into(),
    }
}

/// Returns the mesh of the sphere, larger by a factor.
fn swollen(photos: &mut Painted, factor: f32) -> Mesh {
    let (_, mut mesh) = photos.views.mesh(Some(0.05)).unwrap();
    for p in &mut mesh.positions {
        *p *= factor;
    }
    mesh
}

/// Returns the mean distance to the sphere.
fn error(mesh: &Mesh) -> f32 {
    let distances = mesh.positions.iter().map(|&p| Shape::Sphere.distance(p));
    distances.sum::<f32>() / mesh.positions.len() as f32
}

fn refined(mesh: &mut Mesh, photos: &Painted) -> Refined {
    refined_with(mesh, photos, &options(), &NoProgress).unwrap()
}

fn refined_with(
    mesh: &mut Mesh,
    photos: &Painted,
    options: &RefineOptions,
    progress: &dyn Progress,
) -> Result<Refined> {
    let cameras: Vec<Pinhole> = photos.views.cameras.iter().map(Pinhole::new).collect();
    let (_, depths) = seen_from(mesh, &cameras);
    let depths: Vec<&MeshDepths> = depths.iter().collect();
    refine(mesh, (photos, &depths), options, progress)
}

#[test]
fn a_surface_that_is_off_moves_to_where_photos_agree() {
    let mut photos = sphere(waves);
    for factor in [1.03, 0.97] {
        let mut mesh = swollen(&mut photos, factor);
        let before = error(&mesh);
        let done = refined(&mut mesh, &photos);
        let after = error(&mesh);
        assert!(after < before / 5.0, "{before} to {after}, {done:?}");
        assert!(done.matched > 0.3, "{done:?}");
        assert!((done.moved - 0.03).abs() < 0.01, "{done:?}");
    }
}

#[test]
fn a_photo_of_another_place_does_not_count() {
    let mut photos = sphere(waves);
    let mut mesh = swollen(&mut photos, 1.03);
    let mut with_wrong = mesh.clone();
    refined(&mut mesh, &photos);
    photos.wrong = Some(17);
    refined(&mut with_wrong, &photos);
    let (without, with) = (error(&mesh), error(&with_wrong));
    assert!(with < 2.0 * without, "{without} and {with}");
}

#[test]
fn a_surface_without_detail_stays() {
    let mut photos = sphere(|_| Vec3::splat(200.0));
    let mut mesh = swollen(&mut photos, 1.03);
    let before = error(&mesh);
    let done = refined(&mut mesh, &photos);
    assert!((error(&mesh) - before).abs() < 1e-3, "{done:?}");
    assert!(done.matched < 0.01, "{done:?}");
}

#[test]
fn refined_meshes_have_the_same_bytes_on_any_threads() {
    let mut photos = sphere(waves);
    let mesh = swollen(&mut photos, 1.02);
    assert!(is_same_on_any_threads(|| {
        let mut mesh = mesh.clone();
        refined(&mut mesh, &photos);
        let numbers = mesh.positions.iter().flat_map(|p| p.to_array());
        numbers.flat_map(f32::to_le_bytes).collect()
    }));
}

#[test]
fn photos_are_halved_until_they_fit() {
    let mut photos = sphere(waves);
    let mut mesh = swollen(&mut photos, 1.02);
    let pixels = 40 * 160 * 160;
    let options = RefineOptions {
        max_memory: 5 * pixels / 4,
        ..options()
    };
    let done = refined_with(&mut mesh, &photos, &options, &NoProgress).unwrap();
    assert_eq!(done.halvings, 1);
}

#[test]
fn a_mesh_without_triangles_or_photos_stays() {
    let photos = Painted {
        views: Views::around(Shape::Sphere, 0, 64),
        colour: waves,
        wrong: None,
    };
    let mut empty = Mesh::default();
    assert_eq!(refined(&mut empty, &photos), Refined::default());
    let mut lone = Mesh {
        positions: vec![Vec3::ZERO, Vec3::X, Vec3::Y],
        triangles: vec![[0, 1, 2]],
        ..Mesh::default()
    };
    let before = lone.positions.clone();
    refined(&mut lone, &photos);
    assert_eq!(lone.positions, before);
}

#[test]
fn photos_of_one_pixel_do_not_count() {
    let mut photos = sphere(waves);
    let mut mesh = swollen(&mut photos, 1.02);
    let before = mesh.positions.clone();
    photos.views = Views::around(Shape::Sphere, 8, 1);
    refined(&mut mesh, &photos);
    assert_eq!(mesh.positions, before);
}

#[test]
fn a_stop_is_an_interruption() {
    struct Stopped;
    impl Progress for Stopped {
        fn start(&self, _: &str, _: u64) {}
        fn advance(&self, _: u64) {}
        fn finish(&self) {}
        fn should_stop(&self) -> bool {
            true
        }
    }
    let photos = sphere(waves);
    let mut mesh = Mesh::default();
    let error = refined_with(&mut mesh, &photos, &options(), &Stopped).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
}
