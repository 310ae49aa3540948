//! Comparisons with known results.

use crate::shapes::{Shape, Views};
use dapple_mesh::files::Counted;
use dapple_mesh::judge::{
    Rules, SparsePoint, SparseScore, compare, sparse_distances, sparse_score, to_triangle,
    vertex_errors,
};
use dapple_mesh::{Mesh, Pinhole};
use dapple_scene::{Camera, Pose};
use glam::{DVec3, Quat, Vec3};

/// Square of side 1 at a height.
fn square(z: f32) -> Mesh {
    let positions = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]];
    Mesh {
        positions: positions.iter().map(|p| Vec3::new(p[0], p[1], z)).collect(),
        triangles: vec![[0, 1, 2], [0, 2, 3]],
        ..Mesh::default()
    }
}

fn truth(mesh: Mesh) -> Counted {
    Counted {
        mesh,
        seen: Vec::new(),
    }
}

fn rules(distances: &[f32]) -> Rules {
    Rules {
        points: 10_000,
        distances: distances.to_vec(),
        most: None,
        thinning: 0.0,
        least_seen: 1,
        align: false,
        bounds: None,
    }
}

#[test]
fn parallel_squares_have_their_distance() {
    let found = compare(&truth(square(0.0)), &square(0.1), &rules(&[0.05, 0.2])).unwrap();
    for value in [found.accuracy, found.completeness, found.chamfer] {
        assert!((value - 0.1).abs() < 1e-3, "{found:?}");
    }
    assert_eq!(
        (found.shares[0].f_score, found.shares[1].f_score),
        (0.0, 1.0)
    );
}

#[test]
fn half_a_square_has_full_precision_and_half_the_recall() {
    let mut half = square(0.0);
    half.triangles.truncate(1);
    let found = compare(&truth(square(0.0)), &half, &rules(&[0.01])).unwrap();
    let share = found.shares[0];
    assert!(
        share.precision > 0.999 && (share.recall - 0.51).abs() < 0.02,
        "{share:?}"
    );
    assert!(found.accuracy < found.completeness);
}

#[test]
fn parts_that_no_camera_sees_need_not_be_found() {
    let mut half = square(0.0);
    half.triangles.truncate(1);
    let mut truth = truth(square(0.0));
    truth.seen = vec![3, 0];
    let found = compare(&truth, &half, &rules(&[0.01])).unwrap();
    assert!(found.shares[0].recall > 0.999, "{found:?}");
    assert!(found.completeness < 0.01, "{found:?}");
    truth.seen = vec![0, 0];
    let error = compare(&truth, &half, &rules(&[0.01])).unwrap_err();
    assert!(error.to_string().contains("cameras see"), "{error}");
}

#[test]
fn far_points_are_left_out_of_accuracy_and_capped_in_completeness() {
    let mut limited = rules(&[0.01]);
    limited.most = Some(0.5);
    let found = compare(&truth(square(0.0)), &square(3.0), &limited).unwrap();
    assert!(
        (found.far - 1.0).abs() < 1e-9 && (found.completeness - 0.5).abs() < 1e-6,
        "{found:?}"
    );
}

#[test]
fn alignment_undoes_a_similarity() {
    let surface = Views::around(Shape::Cuboid, 24, 64).mesh(None).unwrap().1;
    let turn = Quat::from_rotation_y(0.05) * Quat::from_rotation_x(-0.03);
    let mut moved = surface.clone();
    let truth_of = truth(surface);
    for p in &mut moved.positions {
        *p = turn * *p * 1.03 + Vec3::new(0.03, -0.02, 0.01);
    }
    let mut rules = rules(&[0.02]);
    let before = compare(&truth_of, &moved, &rules).unwrap();
    rules.align = true;
    let found = compare(&truth_of, &moved, &rules).unwrap();
    let scale = found.motion.unwrap().scale;
    assert!((scale - 1.0 / 1.03).abs() < 2e-3, "{scale}");
    assert!(
        found.chamfer < 0.3 * before.chamfer,
        "{} {}",
        found.chamfer,
        before.chamfer
    );
}

#[test]
fn sparse_points_are_measured_in_pixels() {
    let views = Views::around(Shape::Sphere, 24, 96);
    let mesh = Views::around(Shape::Sphere, 24, 96).mesh(None).unwrap().1;
    let cameras: Vec<Pinhole> = views.cameras.iter().map(Pinhole::new).collect();
    // A pixel at a depth of 3 is 3 / 134.4 units wide.
    let away = 1.0 + 2.0 * 3.0 / 134.4;
    let directions = mesh.positions.iter().step_by(50).map(|p| p.normalize());
    let inner = directions.filter(|d| d.abs().max_element() < 0.9);
    let points: Vec<SparsePoint> = inner
        .map(|d| SparsePoint {
            position: d * away,
            cameras: Vec::new(),
        })
        .collect();
    let score = sparse_score(&mesh, &points, &cameras).unwrap();
    assert!(
        (score.median - 2.0).abs() < 0.2 && score.count > 10,
        "{score:?}"
    );
    assert_eq!(
        (score.median_of_certain, score.certain),
        (None, 0),
        "no camera observes them"
    );
    // Vertices near a point have its distance, the others have none.
    let found = sparse_distances(&mesh, &points[..1], &cameras);
    let errors = vertex_errors(&mesh, &found);
    let known: Vec<bool> = errors.iter().map(|e| !e.is_nan()).collect();
    let near = mesh
        .positions
        .iter()
        .map(|p| p.distance(points[0].position));
    assert!(near.zip(&known).all(|(d, &known)| known == (d <= 0.03 * 2.0 * 3f32.sqrt()) || (d - 0.104).abs() < 0.01));
    assert!(known.contains(&true) && known.contains(&false));
    assert!(errors.iter().all(|e| e.is_nan() || (e - 2.0).abs() < 0.5));
}

#[test]
fn points_are_as_certain_as_their_cameras_determine_them() {
    let mesh = Views::around(Shape::Sphere, 24, 96).mesh(None).unwrap().1;
    let looking = |eye: DVec3| {
        let pose = Pose::look_at(eye, DVec3::ZERO, DVec3::Z);
        Pinhole::new(&Camera::pinhole(100, 100, 120.0, pose))
    };
    let few_degrees = DVec3::new(4.0 * 0.05f64.cos(), 4.0 * 0.05f64.sin(), 0.0);
    let cameras = [
        looking(4.0 * DVec3::X),
        looking(4.0 * DVec3::Y),
        looking(few_degrees),
    ];
    let point = |cameras: &[u32]| SparsePoint {
        position: Vec3::new(0.0, 0.0, 0.9),
        cameras: cameras.to_vec(),
    };
    let of = |cameras_of: &[u32]| sparse_distances(&mesh, &[point(cameras_of)], &cameras)[0];
    // Each camera determines two of three axes: variances of 1, 1 and 1/2 square pixels. The rays are not quite level.
    let right_angle = of(&[0, 1]).uncertainty;
    assert!((right_angle - 2.5f32.sqrt()).abs() < 0.1, "{right_angle}");
    // Along rays with an angle of 0.05 rad between them, a pixel is 1 / 0.05 pixels times the root of 2.
    let narrow = of(&[0, 2]).uncertainty;
    assert!((narrow - 2f32.sqrt() / 0.05).abs() < 2.0, "{narrow}");
    assert_eq!(of(&[1]).uncertainty, f32::INFINITY);
    let points = [point(&[0, 1]), point(&[0, 2])];
    let SparseScore { count, certain, .. } = sparse_score(&mesh, &points, &cameras).unwrap();
    assert_eq!((count, certain), (2, 1));
}

#[test]
fn distances_to_a_triangle_are_those_of_its_parts() {
    let triangle = [Vec3::ZERO, Vec3::X, Vec3::Y];
    for (p, distance) in [
        (Vec3::new(0.2, 0.2, 0.5), 0.5),
        (Vec3::new(-1.0, 0.0, 0.0), 1.0),
        (Vec3::new(0.5, -2.0, 0.0), 2.0),
        (Vec3::new(1.0, 1.0, 0.0), 0.5f32.sqrt()),
    ] {
        assert!((to_triangle(triangle, p) - distance).abs() < 1e-6, "{p}");
    }
}
