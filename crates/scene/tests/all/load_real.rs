//! Real captures, compared with known facts about them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::load_support;

use dapple_scene::{LoadOptions, NoProgress, Progress, Tracks, load};
use load_support::data;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Default)]
struct Counter {
    total: AtomicU64,
    done: AtomicU64,
}

impl Progress for Counter {
    fn start(&self, _what: &str, total: u64) {
        self.total.store(total, Ordering::Relaxed);
    }
    fn advance(&self, n: u64) {
        self.done.fetch_add(n, Ordering::Relaxed);
    }
    fn finish(&self) {}
}

#[test]
fn bird_has_a_camera_per_image_and_unordered_records() {
    let Some(root) = data("bird") else { return };
    let options = LoadOptions {
        max_resolution: Some(96),
        ..LoadOptions::default()
    };
    let counter = Counter::default();
    let bird = load(&root, &options, &counter).unwrap();
    assert_eq!((bird.views.len(), bird.points.len()), (184, 6271));
    assert_eq!(counter.total.into_inner(), 184);
    assert_eq!(counter.done.into_inner(), 184);
    assert!(bird.views.is_sorted_by_key(|v| &v.name));
    let mut focals: Vec<f64> = Vec::new();
    for view in &bird.views {
        assert_eq!(view.source_model, "SIMPLE_PINHOLE");
        assert_eq!(view.photo.size(), [54, 96]);
        // Back at full size: 544x960.
        focals.push(view.camera.fy * 10.0);
        assert!((view.camera.fx * 544.0 / 54.0 - view.camera.fy * 10.0).abs() < 1e-9);
    }
    focals.sort_by(f64::total_cmp);
    assert_eq!((focals[0].round(), focals[183].round()), (793.0, 1037.0));
    let split = bird.split(8);
    assert_eq!((split.train.len(), split.eval.len()), (161, 23));
}

#[test]
fn plush_and_banana_have_the_counts_of_their_readme() {
    for (name, photos, points, size, held_out) in [
        ("plush", 97, 34_537, [1317, 984], 13),
        ("banana", 16, 19_492, [750, 499], 2),
    ] {
        let Some(root) = data(name) else { continue };
        let capture = dapple_scene::load::open(&root, &LoadOptions::default()).unwrap();
        assert_eq!(
            (capture.images.len(), capture.points.len()),
            (photos, points)
        );
        let options = LoadOptions {
            max_views: Some(2),
            ..LoadOptions::default()
        };
        let two = load(&root, &options, &NoProgress).unwrap();
        assert_eq!(two.views.len(), 2);
        for view in &two.views {
            assert_eq!(view.photo.size(), size);
            assert_eq!(view.source_model, "PINHOLE");
        }
        assert_eq!(photos.div_ceil(8), held_out);
    }
}

/// Compares COLMAP's observations with the projections of Dapple's cameras: by COLMAP's own report the mean distance is
/// 0.27 pixels. A wrong axis, quaternion order or half pixel exceeds this clearly.
#[test]
fn banana_points_project_to_where_they_were_observed() {
    let Some(root) = data("banana") else { return };
    let text = |name: &str| std::fs::read_to_string(root.join("sparse_txt").join(name)).unwrap();
    let points_text = text("points3D.txt");
    let point_of = |line: &str| {
        let mut fields = line.split(' ').map(|f| f.parse::<f64>().unwrap());
        let mut next = || fields.next().unwrap();
        (next() as i64, glam::DVec3::new(next(), next(), next()))
    };
    let points: std::collections::HashMap<i64, glam::DVec3> = points_text
        .lines()
        .filter(|l| !l.starts_with('#'))
        .map(point_of)
        .collect();
    for downscale in [1, 3] {
        let options = LoadOptions {
            downscale: Some(downscale),
            ..LoadOptions::default()
        };
        let banana = load(&root, &options, &NoProgress).unwrap();
        let images = text("images.txt");
        let mut lines = images.lines().filter(|l| !l.starts_with('#'));
        let (mut sum, mut count) = (0.0, 0);
        while let (Some(image), Some(observations)) = (lines.next(), lines.next()) {
            let name = image.split(' ').next_back().unwrap();
            let view = banana.views.iter().find(|v| v.name == name).unwrap();
            let to_full = 499.0 / f64::from(view.camera.height);
            let to_full = glam::DVec2::new(750.0 / f64::from(view.camera.width), to_full);
            let numbers: Vec<f64> = observations
                .split_whitespace()
                .map(|f| f.parse().unwrap())
                .collect();
            for seen in numbers.chunks_exact(3) {
                let Some(&point) = points.get(&(seen[2] as i64)) else {
                    continue;
                };
                let camera_point = view.camera.camera_from_world.transform(point);
                let put = view.camera.project_pinhole(camera_point).unwrap() * to_full;
                sum += put.distance(glam::DVec2::new(seen[0], seen[1]));
                count += 1;
            }
        }
        let mean = sum / f64::from(count);
        assert_eq!(count, 73_324);
        assert!((mean - 0.27).abs() < 0.01, "mean {mean} pixels");
    }
}

/// Checked with and without tracks.
#[test]
fn real_captures_do_not_contradict_themselves() {
    let options = LoadOptions {
        max_resolution: Some(160),
        max_views: Some(7),
        ..LoadOptions::default()
    };
    for name in [
        "banana",
        "bird",
        "plush",
        "room",
        "lewis",
        "sandpile",
        "caliterra",
        "sakharov",
    ] {
        let Some(root) = data(name) else { continue };
        let whole = load::open(&root, &LoadOptions::default()).unwrap();
        assert_eq!(whole.notes, [""; 0], "{name}");
        let mut bare = load::open(&root, &options).unwrap();
        bare.tracks = Some(Tracks::default());
        let dataset = load::decode(bare, &options, &NoProgress).unwrap();
        let contradicts = |note: &String| note.contains("contradict");
        assert!(
            !dataset.notes.iter().any(contradicts),
            "{name}: {:?}",
            dataset.notes
        );
    }
}
