//! Inputs without a usable surface.

use crate::shapes::{Shape, Views, options};
use dapple_base::{ErrorKind, NoProgress, Result};
use dapple_mesh::files::read_ply;
use dapple_mesh::surface::{drop_unseen, fill_holes, simplify};
use dapple_mesh::{DepthSource, DepthView, Mesh, Pinhole, Topology, collision, fuse_views};
use dapple_scene::Camera;
use glam::Vec3;

fn error_of(source: &mut dyn DepthSource, options: &dapple_mesh::volume::PlanOptions) -> String {
    let error = fuse_views(source, options, &NoProgress).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input, "{error}");
    error.to_string()
}

/// Depths that do not belong to the cameras.
struct Constant(Vec<Camera>, f32, f32);

impl DepthSource for Constant {
    fn cameras(&self) -> &[Camera] {
        &self.0
    }

    fn depth(&mut self, view: usize) -> Result<DepthView> {
        let pixels = (self.0[view].width * self.0[view].height) as usize;
        Ok(DepthView {
            depth: vec![self.1; pixels],
            alpha: vec![self.2; pixels],
            normals: None,
        })
    }
}

#[test]
fn no_cameras_and_no_depths_are_errors() {
    let error = error_of(&mut Views::around(Shape::Sphere, 0, 32), &options(None));
    assert!(error.contains("no cameras"), "{error}");
    let cameras = Views::around(Shape::Sphere, 4, 32).cameras;
    for depth in [0.0, f32::NAN, -1.0, f32::INFINITY] {
        let error = error_of(&mut Constant(cameras.clone(), depth, 1.0), &options(None));
        assert!(error.contains("no surface"), "{depth}: {error}");
    }
}

#[test]
fn one_camera_gives_the_part_that_it_sees() {
    let mut views = Views::around(Shape::Sphere, 1, 96);
    let (_, mesh) = views.mesh(None).unwrap();
    let topology = Topology::from_mesh(&mesh);
    assert!(
        topology.is_manifold() && topology.boundary_edges > 0,
        "{topology:?}"
    );
    assert!(
        mesh.positions
            .iter()
            .all(|&p| Shape::Sphere.distance(p) < 0.02)
    );
}

#[test]
fn options_out_of_range_are_errors() {
    let mut views = Views::around(Shape::Sphere, 4, 32);
    let error = fuse_views(&mut views, &options(Some(1e6)), &NoProgress).unwrap_err();
    let hint = error.hint_text().unwrap();
    assert!(hint.contains("smaller --voxel"), "{error} {hint}");
    for voxel in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        let error = error_of(&mut views, &options(Some(voxel)));
        assert!(error.contains("--voxel"), "{error}");
    }
    for detail in [0.0, -2.0, f32::NAN] {
        let mut options = options(None);
        options.detail = detail;
        assert!(error_of(&mut views, &options).contains("--detail"));
    }
    let mut outside = options(None);
    outside.bounds = Some([Vec3::splat(50.0), Vec3::splat(60.0)]);
    let error = error_of(&mut views, &outside);
    assert!(
        error.contains("no surface is inside the box") && error.contains("the cameras see"),
        "{error}"
    );
    outside.bounds = Some([Vec3::ONE, Vec3::ZERO]);
    assert!(error_of(&mut views, &outside).contains("the box is empty"));
    let mut little = options(None);
    little.max_memory = 1000;
    error_of(&mut views, &little);
}

#[test]
fn depths_that_contradict_each_other_end_without_a_panic() {
    let cameras = Views::around(Shape::Sphere, 6, 48).cameras;
    for depth in [1e-6, 0.5, 3.5, 1e6] {
        let mut source = Constant(cameras.clone(), depth, 1.0);
        match fuse_views(&mut source, &options(None), &NoProgress) {
            Ok(fused) => assert!(Topology::from_mesh(&fused.mesh).is_manifold()),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Input, "{error}"),
        }
    }
}

#[test]
fn many_small_parts_are_removed() {
    let mut mesh = Views::around(Shape::Sphere, 24, 64).mesh(None).unwrap().1;
    let real = mesh.triangles.len();
    for i in 0..30_000u32 {
        let at = Vec3::new(
            (i % 100) as f32,
            (i / 100 % 100) as f32,
            (i / 10_000) as f32,
        ) * 0.02
            - 3.0;
        let first = mesh.positions.len() as u32;
        mesh.positions
            .extend([at, at + Vec3::X * 0.001, at + Vec3::Y * 0.001]);
        mesh.triangles.push([first, first + 1, first + 2]);
    }
    mesh.normals.clear();
    let cameras: Vec<Pinhole> = Views::around(Shape::Sphere, 24, 64)
        .cameras
        .iter()
        .map(Pinhole::new)
        .collect();
    let (clean, ..) = drop_unseen(&mesh, &cameras);
    assert_eq!(clean.triangles.len(), real);
    assert_eq!(Topology::from_mesh(&clean).components, 1);
}

#[test]
fn degenerate_meshes_pass_through() {
    let empty = Mesh::default();
    assert_eq!(simplify(&empty, 10, 1.0), empty);
    assert!(collision(&empty, 100).is_none());
    let mut point = Mesh {
        positions: vec![Vec3::ONE; 3],
        triangles: vec![[0, 1, 2]; 3],
        ..Mesh::default()
    };
    point.compute_normals();
    assert!(collision(&point, 100).is_none());
    fill_holes(&mut point, 100);
    assert!(simplify(&point, 1, f32::INFINITY).triangles.len() <= 3);
}

#[test]
fn damaged_ply_files_are_errors() {
    let mesh = Views::around(Shape::Sphere, 12, 32).mesh(None).unwrap().1;
    let bytes = dapple_mesh::files::ply(&mesh, &dapple_mesh::files::About::default());
    assert_eq!(read_ply(&bytes).unwrap().triangles, mesh.triangles);
    for length in (0..bytes.len()).step_by(bytes.len() / 97 + 1) {
        assert!(
            read_ply(&bytes[..length]).is_err(),
            "{length} of {}",
            bytes.len()
        );
    }
    for bad in [
        "ply\nelement vertex x\nend_header\n",
        "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nproperty float z\nend_header\n1 2 nan\n",
        "ply\nformat ascii 1.0\nelement vertex 99999999999\nproperty float x\nend_header\n",
        "glTF",
    ] {
        assert!(read_ply(bad.as_bytes()).is_err(), "{bad:?}");
    }
}
