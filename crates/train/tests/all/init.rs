//! The first Gaussians.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use dapple_scene::{Camera, Dataset, Photo, Point, Pose, View};
use dapple_train::TrainConfig;
use dapple_train::init::{from_points, initial_splats};
use glam::DVec3;

fn point(x: f32, y: f32, z: f32) -> Point {
    Point {
        position: [x, y, z],
        rgb: [255, 0, 128],
    }
}

fn ring(points: Vec<Point>) -> Dataset {
    let view = |i: usize| {
        let angle = i as f64;
        let eye = DVec3::new(5.0 + 4.0 * angle.cos(), 1.0, 4.0 * angle.sin());
        View::new(
            format!("{i:02}.png"),
            Camera::pinhole(
                16,
                12,
                16.0,
                Pose::look_at(eye, DVec3::new(5.0, 0.0, 0.0), DVec3::Y),
            ),
            Photo::from_rgb(16, 12, vec![100; 16 * 12 * 3]),
        )
    };
    Dataset {
        views: (0..8).map(view).collect(),
        points,
        ..Dataset::default()
    }
}

#[test]
fn scales_are_the_distance_to_three_neighbours() {
    let points = [
        (0.0, 0.0, 0.0),
        (1.0, 0.0, 0.0),
        (0.0, 2.0, 0.0),
        (0.0, 0.0, 3.0),
        (50.0, 0.0, 0.0),
    ]
    .map(|(x, y, z)| point(x, y, z));
    let splats = from_points(&points, 10.0, 2, 0).unwrap();
    let expected = ((1.0 + 4.0 + 9.0) / 3.0f64).sqrt().ln() as f32;
    assert!((splats.scales[0][0] - expected).abs() < 1e-6);
    assert_eq!(splats.scales[0], [splats.scales[0][0]; 3]);
    assert!((splats.opacities[0] - (0.1f32 / 0.9).ln()).abs() < 1e-6);
    assert!((0.5 + dapple_scene::SH_C0 * splats.sh0[0][0] - 1.0).abs() < 1e-6);
    assert_eq!(splats.sh_rest.len(), 5 * 8 * 3);
    for quat in &splats.quats {
        let length: f32 = quat.iter().map(|v| v * v).sum();
        assert!((length - 1.0).abs() < 1e-5);
    }
}

#[test]
fn coinciding_lost_and_lone_points_stay_finite() {
    let mut points = vec![point(1.0, 2.0, 3.0); 500];
    points.push(point(1e30, 0.0, 0.0));
    for points in [&points[..], &points[..1], &points[..2], &[]] {
        let splats = from_points(points, 1.0, 0, 0).unwrap();
        assert_eq!(splats.len(), points.len());
        assert!(splats.scales.iter().flatten().all(|v| v.is_finite()));
    }
    let mut broken = ring(vec![
        point(f32::NAN, 0.0, 0.0),
        point(0.0, 1.0, f32::INFINITY),
    ]);
    let config = TrainConfig::default();
    assert!(initial_splats(&broken, &[0, 1], 1.0, &config).is_err());
    broken.points.push(point(0.0, 0.0, 0.0));
    assert_eq!(
        initial_splats(&broken, &[0, 1], 1.0, &config)
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn the_start_is_capped_by_a_seeded_sample() {
    let points = (0..1000).map(|i| point(i as f32, 0.0, 0.0)).collect();
    let dataset = ring(points);
    let with = |seed, initial_gaussians, max_gaussians| {
        let config = TrainConfig {
            seed,
            initial_gaussians,
            max_gaussians,
            ..TrainConfig::default()
        };
        initial_splats(&dataset, &[0, 1], 1.0, &config).unwrap()
    };
    let sampled = with(1, 100, 0);
    assert_eq!(sampled.len(), 100);
    assert_eq!(sampled, with(1, 100, 0));
    assert_ne!(sampled.means, with(2, 100, 0).means);
    let xs: Vec<f32> = sampled.means.iter().map(|m| m[0]).collect();
    assert!(xs.windows(2).all(|w| w[0] < w[1]), "distinct and in order");
    assert!(xs[50] > 300.0 && xs[50] < 700.0, "spread over all points");
    assert_eq!(with(1, 0, 50).len(), 50);
}

#[test]
fn without_points_the_watched_box_is_filled() {
    let dataset = ring(Vec::new());
    let config = TrainConfig {
        initial_gaussians: 2000,
        ..TrainConfig::default()
    };
    let all: Vec<usize> = (0..8).collect();
    let splats = initial_splats(&dataset, &all, 4.4, &config).unwrap();
    assert_eq!(splats.len(), 2000);
    let mean = |axis: usize| splats.means.iter().map(|m| m[axis]).sum::<f32>() / 2000.0;
    assert!((mean(0) - 5.0).abs() < 0.2 && mean(1).abs() < 0.2 && mean(2).abs() < 0.2);
    // A capture that ought to have points is refused, unless random ones are asked for.
    let broken = Dataset {
        missing_points: Some("sparse/0/points3D.bin".into()),
        ..dataset
    };
    let error = initial_splats(&broken, &all, 4.4, &config).unwrap_err();
    assert_eq!(error.place(), Some("sparse/0/points3D.bin"));
    assert!(
        error
            .hint_text()
            .is_some_and(|hint| hint.contains("random"))
    );
    let asked = TrainConfig {
        random_start: true,
        ..config
    };
    let again = initial_splats(&broken, &all, 4.4, &asked).unwrap();
    assert_eq!(again, splats);
    // 4.12 away, half of 12 pixels at focal length 16: 1.55.
    let widest = splats.means.iter().map(|m| m[1].abs()).fold(0.0, f32::max);
    assert!((1.4..1.6).contains(&widest), "{widest}");
}
