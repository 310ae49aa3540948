//! Meshes of shapes with known surfaces.

use crate::shapes::{Shape, Views, is_same_on_any_threads, options};
use dapple_base::NoProgress;
use dapple_mesh::files::{About, Counted, ply};
use dapple_mesh::judge::{Rules, compare, samples};
use dapple_mesh::surface::{fill_holes, simplify};
use dapple_mesh::volume::PlanOptions;
use dapple_mesh::{Mesh, Topology, collision, fuse_views};
use glam::Vec3;

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
fn coarser_levels_continue_the_surface_outside_the_box_without_gaps() {
    let whole = Views::around(Shape::Sphere, 24, 96).mesh(None).unwrap().1;
    let corner = PlanOptions {
        voxel: Some(0.02),
        bounds: Some([Vec3::new(0.2, -0.45, -0.45), Vec3::new(1.1, 0.45, 0.45)]),
        ..options(None)
    };
    let fused = |far: bool| {
        let mut views = Views::around(Shape::Sphere, 24, 96);
        fuse_views(&mut views, &PlanOptions { far, ..corner }, &NoProgress).unwrap()
    };
    let truth = Counted {
        mesh: whole,
        seen: Vec::new(),
    };
    let rules = Rules {
        points: 50_000,
        distances: vec![0.03],
        most: None,
        thinning: 0.0,
        least_seen: 0,
        align: false,
        bounds: None,
    };
    let near = fused(false);
    let of_near = compare(&truth, &near.mesh, &rules).unwrap();
    assert!(of_near.shares[0].recall < 0.3, "{of_near:?}");
    let far = fused(true);
    let levels = &far.levels;
    assert!(levels.boxes().len() > 2, "{levels:?}");
    assert!(far.outside < 2e-3, "{}", far.outside);
    let of_far = compare(&truth, &far.mesh, &rules).unwrap();
    assert!(of_far.shares[0].recall > 0.9999, "{of_far:?}");
    let topology = Topology::from_mesh(&far.mesh);
    assert!(topology.is_manifold(), "{topology:?}");
    // Triangles grow with the voxels of their level.
    let mean_size = |factor: f32| {
        let of_level = (0..far.mesh.triangles.len())
            .filter(|&t| levels.factor(far.mesh.corners(t)[0]) == factor)
            .map(|t| far.mesh.cross(t).length().sqrt());
        let sizes: Vec<f32> = of_level.collect();
        sizes.iter().sum::<f32>() / sizes.len() as f32
    };
    let growth = mean_size(4.0) / mean_size(1.0);
    assert!((2.5..5.0).contains(&growth), "{growth}");
}

#[test]
fn the_bytes_are_the_same_on_one_two_and_eight_threads() {
    assert!(is_same_on_any_threads(|| {
        let mut views = Views::around(Shape::Cuboid, 12, 64);
        let (_, mesh) = views.mesh(None).unwrap();
        let mesh = simplify(&mesh, 800, f32::INFINITY);
        ply(&mesh, &About::default())
    }));
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

/// A mesh of several regions, in which threads collapse edges side by side.
#[test]
fn a_large_mesh_is_simplified_to_the_same_triangles_on_any_threads() {
    let side = 300;
    let height = |x: u32, y: u32| (0.05 * x as f32).sin() * (0.03 * y as f32).cos() * 10.0;
    let places = (0..side * side).map(|i| (i % side, i / side));
    let at = |x: u32, y: u32| y * side + x;
    let cells = places.clone().filter(|(x, y)| x + 1 < side && y + 1 < side);
    let mesh = Mesh {
        positions: places
            .map(|(x, y)| Vec3::new(x as f32, y as f32, height(x, y)))
            .collect(),
        triangles: cells
            .flat_map(|(x, y)| {
                let [a, b] = [at(x, y), at(x + 1, y)];
                let [c, d] = [at(x, y + 1), at(x + 1, y + 1)];
                [[a, b, d], [a, d, c]]
            })
            .collect(),
        ..Mesh::default()
    };
    let target = 9_000;
    let simplified = || simplify(&mesh, target, f32::INFINITY);
    let about = About {
        origin: glam::DVec3::ZERO,
        up: None,
        voxel: 1.0,
    };
    assert!(is_same_on_any_threads(|| ply(&simplified(), &about)));
    let simple = simplified();
    let count = simple.triangles.len();
    assert!(count <= target && count > target - 10, "{count}");
    let topology = Topology::from_mesh(&simple);
    assert!(topology.is_manifold(), "{topology:?}");
    assert_eq!(
        (topology.components, topology.holes),
        (1, 1),
        "{topology:?}"
    );
    // The distance along z; slopes are at most 0.6.
    let errors = samples(&simple, 20_000).into_iter().map(|(p, _)| {
        let truth = (0.05 * p.x).sin() * (0.03 * p.y).cos() * 10.0;
        (p.z - truth).abs()
    });
    let mean = errors.sum::<f32>() / 20_000.0;
    assert!(mean < 0.05, "{mean}");
}

#[test]
fn simplification_passes_over_collapses_that_are_cheap_and_impossible() {
    let mut views = Views::around(Shape::Sphere, 24, 96);
    let (_, mut mesh) = views.mesh(None).unwrap();
    // A tetrahedron has no edge less, and one of this size costs nothing.
    let tetrahedra = 400;
    for i in 0..tetrahedra {
        let first = mesh.positions.len() as u32;
        let corner = Vec3::new(3.0 + 0.01 * i as f32, 0.0, 0.0);
        let size = 1e-4;
        mesh.positions.extend([
            corner,
            corner + size * Vec3::X,
            corner + size * Vec3::Y,
            corner + size * Vec3::Z,
        ]);
        mesh.triangles.extend(
            [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]].map(|t: [u32; 3]| t.map(|v| first + v)),
        );
    }
    let target = 4 * tetrahedra + 600;
    assert!(
        mesh.triangles.len() > target + 1000,
        "{}",
        mesh.triangles.len()
    );
    let simple = simplify(&mesh, target, f32::INFINITY);
    assert!(
        simple.triangles.len() <= target,
        "{}",
        simple.triangles.len()
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
