//! Meshes of shapes with known surfaces.

use crate::shapes::{Shape, Views, options};
use dapple_base::NoProgress;
use dapple_mesh::files::{About, ply};
use dapple_mesh::judge::samples;
use dapple_mesh::surface::{fill_holes, simplify};
use dapple_mesh::{Mesh, Topology, collision, fuse_views};

fn mean_distance(mesh: &Mesh, shape: Shape) -> f32 {
    let points = samples(mesh, 20_000);
    points.iter().map(|(p, _)| shape.distance(*p)).sum::<f32>() / points.len() as f32
}

#[test]
fn a_sphere_becomes_one_closed_manifold_within_a_tenth_of_a_voxel() {
    let mut views = Views::around(Shape::Sphere, 24, 96);
    let (fused, mesh) = views.mesh(None).unwrap();
    let topology = Topology::from_mesh(&mesh);
    assert!(topology.is_manifold(), "{topology:?}");
    assert_eq!(
        (topology.components, topology.boundary_edges),
        (1, 0),
        "{topology:?}"
    );
    // V - E + F = 2 with E = 3 F / 2.
    assert_eq!(
        mesh.positions.len() as i64 - mesh.triangles.len() as i64 / 2,
        2
    );
    let distance = mean_distance(&mesh, Shape::Sphere);
    assert!(
        distance < 0.07 * fused.plan.grid.voxel,
        "{distance} of {}",
        fused.plan.grid.voxel
    );
    let outward = mesh
        .positions
        .iter()
        .zip(&mesh.normals)
        .all(|(p, n)| p.dot(*n) > 0.9);
    assert!(outward, "normals point outward");
}

#[test]
fn a_box_is_within_a_fifth_of_a_voxel() {
    let mut views = Views::around(Shape::Cuboid, 30, 96);
    let (fused, mesh) = views.mesh(None).unwrap();
    let topology = Topology::from_mesh(&mesh);
    assert!(
        topology.is_manifold() && topology.boundary_edges == 0,
        "{topology:?}"
    );
    let distance = mean_distance(&mesh, Shape::Cuboid);
    assert!(
        distance < 0.2 * fused.plan.grid.voxel,
        "{distance} of {}",
        fused.plan.grid.voxel
    );
}

#[test]
fn the_bytes_are_the_same_on_one_two_and_eight_threads() {
    let bytes = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| {
            let mut views = Views::around(Shape::Cuboid, 12, 64);
            let (_, mesh) = views.mesh(None).unwrap();
            let mesh = simplify(&mesh, 800, f32::INFINITY);
            ply(&mesh, &About::default())
        })
    };
    let one = bytes(1);
    assert!(one == bytes(2) && one == bytes(8));
}

#[test]
fn simplification_keeps_a_closed_manifold_near_the_surface() {
    let mut views = Views::around(Shape::Sphere, 24, 96);
    let (fused, mesh) = views.mesh(None).unwrap();
    let simple = simplify(&mesh, 600, f32::INFINITY);
    assert!(simple.triangles.len() <= 600 && simple.triangles.len() > 500);
    let topology = Topology::from_mesh(&simple);
    assert!(
        topology.is_manifold() && topology.boundary_edges == 0,
        "{topology:?}"
    );
    let distance = mean_distance(&simple, Shape::Sphere);
    assert!(
        distance < 0.01 && distance < fused.plan.grid.voxel,
        "{distance}"
    );
}

#[test]
fn holes_are_counted_and_filled() {
    let mut views = Views::around(Shape::Sphere, 24, 64);
    let (_, mesh) = views.mesh(None).unwrap();
    // Two triangles apart from each other.
    let far = mesh.triangles.len() / 2;
    let mut open = mesh.filtered(|t| t != 0 && t != far);
    assert_eq!(Topology::from_mesh(&open).holes, 2);
    assert_eq!(fill_holes(&mut open, 24), 2);
    let topology = Topology::from_mesh(&open);
    assert!(
        topology.is_manifold() && topology.boundary_edges == 0,
        "{topology:?}"
    );
}

#[test]
fn the_collision_mesh_is_closed_even_if_the_mesh_is_open() {
    let mut views = Views::around(Shape::Cuboid, 30, 64);
    let (fused, mesh) = views.mesh(None).unwrap();
    let half = mesh.filtered(|t| mesh.corners(t)[0].z > 0.0);
    let proxy = collision(&half, 4000).unwrap();
    let topology = Topology::from_mesh(&proxy);
    assert!(
        topology.is_manifold() && topology.boundary_edges == 0,
        "{topology:?}"
    );
    assert!(proxy.triangles.len() <= 4000);
    assert!(fused.plan.bytes > 0);
}

#[test]
fn a_memory_limit_enlarges_the_voxel_and_states_the_requested_one() {
    let mut views = Views::around(Shape::Sphere, 12, 64);
    let mut options = options(Some(1e-9));
    options.max_memory = 16 << 20;
    let fused = fuse_views(&mut views, &options, &NoProgress).unwrap();
    assert_eq!(fused.plan.wanted, Some(1e-9));
    assert!(fused.plan.bytes <= 16 << 20, "{}", fused.plan.bytes);
    assert!(
        fused.plan.grid.voxel > 1e-3 && fused.plan.grid.voxel < 0.5,
        "{}",
        fused.plan.grid.voxel
    );
}
