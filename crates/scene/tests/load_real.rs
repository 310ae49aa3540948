//! Real captures, against what is known of them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod load_support;

use dapple_scene::{LoadOptions, NoProgress, Progress, load};
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
        assert_eq!((view.photo.width, view.photo.height), (54, 96));
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
        ("plush", 97, 34_537, (1317, 984), 13),
        ("banana", 16, 19_492, (750, 499), 2),
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
            assert_eq!((view.photo.width, view.photo.height), size);
            assert_eq!(view.source_model, "PINHOLE");
        }
        assert_eq!(photos.div_ceil(8), held_out);
    }
}

/// Every sparse point was seen by some camera: projecting them must land in the photos, with
/// colours that resemble the photo's. Wrong poses or a wrong quaternion order fail this at once.
#[test]
fn banana_points_land_on_pixels_of_their_colour() {
    let Some(root) = data("banana") else { return };
    let options = LoadOptions {
        downscale: Some(4),
        ..LoadOptions::default()
    };
    let banana = load(&root, &options, &NoProgress).unwrap();
    let (mut inside, mut total, mut difference, mut control) = (0u64, 0u64, 0u64, 0u64);
    for view in &banana.views {
        let camera = &view.camera;
        for point in banana.points.iter().step_by(20) {
            total += 1;
            let p = camera
                .camera_from_world
                .transform(glam::DVec3::from(point.position.map(f64::from)));
            let Some(at) = camera.project_pinhole(p) else {
                continue;
            };
            if at.x < 0.0 || at.y < 0.0 {
                continue;
            }
            let (x, y) = (at.x as u32, at.y as u32);
            if x >= camera.width || y >= camera.height {
                continue;
            }
            inside += 1;
            let pixel = ((y * camera.width + x) * 3) as usize;
            let differs = |rgb: [u8; 3]| {
                (0..3)
                    .map(|c| u64::from(view.photo.rgb[pixel + c].abs_diff(rgb[c])))
                    .sum::<u64>()
            };
            difference += differs(point.rgb);
            control += differs(banana.points[(inside as usize * 7919) % banana.points.len()].rgb);
        }
    }
    let ratio = difference as f64 / control as f64;
    eprintln!("{inside} of {total} points inside, {ratio:.2} of what any point's colour differs");
    assert!(inside * 2 > total, "{inside} of {total} points inside");
    assert!(
        ratio < 0.6,
        "colours differ {ratio:.2} as much as those of other points"
    );
}
