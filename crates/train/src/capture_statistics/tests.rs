#![allow(clippy::unwrap_used, reason = "tests")]
use super::detail::tests::board;
use super::*;
use dapple_scene::{Pose, View};

fn seen(photos: usize, coverage: f64) -> PhotoCoverage {
    PhotoCoverage {
        photos,
        coverage: Some(coverage),
    }
}

fn evidence(pixels: u64, detail: u64, coverage: f64) -> CaptureStatistics {
    CaptureStatistics {
        seen: seen(100, coverage),
        pixels,
        detail,
    }
}

#[test]
fn coverage_is_the_mean_number_of_frames_that_hold_a_point() {
    let camera = |x: f64| {
        let pose = Pose::look_at(DVec3::new(x, 0.0, -2.0), DVec3::new(x, 0.0, 0.0), DVec3::Y);
        Camera::pinhole(100, 100, 100.0, pose)
    };
    let cameras = [camera(0.0), camera(0.5), camera(10.0)];
    let point = |x: f32, z: f32| Point {
        position: [x, 0.0, z],
        rgb: [0; 3],
    };
    // In two frames, in one, behind all, in none.
    let points = [
        point(0.2, 0.0),
        point(10.0, 0.0),
        point(0.0, -9.0),
        point(50.0, 0.0),
    ];
    let seen = PhotoCoverage::from_cameras(&cameras, &points);
    assert_eq!(
        seen,
        PhotoCoverage {
            photos: 3,
            coverage: Some(1.5)
        }
    );
    assert_eq!(PhotoCoverage::from_cameras(&cameras, &[]).coverage, None);
    assert_eq!(
        PhotoCoverage::from_cameras(&cameras, &points[2..]).coverage,
        None
    );
}

#[test]
fn steps_suit_photos_and_places() {
    assert_eq!(seen(14, 11.0).steps(), 7000);
    assert_eq!(seen(161, 157.0).steps(), 20_930);
    // As from a drone: a place is in 14 of 45 photos.
    assert_eq!(seen(45, 14.0).steps(), 9640);
    assert_eq!(seen(65, 1.0).steps(), 30_000);
    assert_eq!(seen(500, 400.0).steps(), 30_000);
    let quick = [14, 84, 161].map(|photos| seen(photos, 10.0).quick_steps());
    assert_eq!(quick, [3500, 5880, 7000]);
    let unknown = PhotoCoverage {
        photos: 100,
        coverage: None,
    };
    assert_eq!(unknown.steps(), 13_000);
    assert_eq!(
        PhotoCoverage {
            photos: 0,
            coverage: None
        }
        .steps(),
        7000
    );
}

#[test]
fn a_budget_goes_by_detail_within_its_bounds() {
    let found = |evidence: CaptureStatistics, first, fit| {
        let budget = evidence.budget(Preset::Standard, first, fit);
        (budget.gaussians, budget.bound)
    };
    let some = evidence(100_000_000, 1_000_000, 25.0);
    assert_eq!(found(some, 10, None), (537_000, LimitReason::Detail));
    assert_eq!(found(some, 600_000, None), (600_000, LimitReason::First));
    assert_eq!(
        found(some, 600_000, Some(50_000)),
        (50_000, LimitReason::Device)
    );
    assert_eq!(
        found(some, 10, Some(550_000)),
        (537_000, LimitReason::Detail)
    );
    let small = evidence(4_000_000, 1_000_000, 25.0);
    assert_eq!(found(small, 10, None), (133_333, LimitReason::Pixels));
    let rich = evidence(1_000_000_000, 100_000_000, 25.0);
    assert_eq!(found(rich, 10, None), (MOST, LimitReason::Most));
    let surfaces = |evidence: CaptureStatistics| {
        let run = BudgetFor {
            surfaces: true,
            ..Preset::Standard.into()
        };
        evidence.budget(run, 10, None).gaussians
    };
    assert_eq!(
        (surfaces(some), surfaces(small), surfaces(rich)),
        (671_000, 166_666, MOST)
    );
    let quick = |evidence: CaptureStatistics| evidence.budget(Preset::Quick, 10, None).gaussians;
    assert_eq!((quick(rich), quick(some)), (1_000_000, 537_000));
    // Twice the photos of all: detail that they repeat does not count.
    let twice = evidence(200_000_000, 2_000_000, 50.0);
    assert_eq!(found(twice, 10, None), (638_000, LimitReason::Detail));
    assert_eq!(
        found(evidence(0, 0, 1.0), 0, None),
        (1, LimitReason::Detail)
    );
    // Without points a third of the photos is assumed to show each place.
    let blind = CaptureStatistics {
        seen: PhotoCoverage {
            photos: 75,
            coverage: None,
        },
        ..some
    };
    assert_eq!(found(blind, 10, None), (537_000, LimitReason::Detail));
}

#[test]
fn an_extended_budget_is_twice_as_large_within_its_bounds() {
    let budget = evidence(12_000_000, 1_000_000, 25.0).budget(Preset::Standard, 10, None);
    assert_eq!(budget.gaussians, 400_000);
    assert_eq!(budget.extended(300_000, None), 600_000);
    assert_eq!(budget.extended(500_000, None), 800_000, "pixels");
    assert_eq!(budget.extended(400_000, Some(500_000)), 500_000);
    assert_eq!(budget.extended(400_000, Some(300_000)), 400_000);
    let rich = evidence(1_000_000_000, 100_000_000, 25.0).budget(Preset::Standard, 10, None);
    assert_eq!(rich.extended(1_500_000, None), MOST_EXTENDED);
}

#[test]
fn a_budget_says_why() {
    let budget = evidence(1_000_000_000, 7_640_000, 44.0).budget(Preset::Standard, 10, None);
    assert_eq!(
        budget.to_string(),
        "1.50 M Gaussians at most (more are taken only when named): the photos show 7.64 M details, \
         each place in 44 of 100 photos"
    );
}

#[test]
fn evidence_is_of_the_photos_trained_on() {
    let view = |size: u32| View {
        name: String::new(),
        camera: Camera::pinhole(64, 64, 64.0, Pose::IDENTITY),
        source_model: String::new(),
        photo: board(64, size, 50).into(),
        depth: None,
    };
    let dataset = Dataset {
        views: (0..40).map(|i| view(if i == 0 { 64 } else { 2 })).collect(),
        ..Dataset::default()
    };
    let train: Vec<usize> = (1..40).collect();
    let found = CaptureStatistics::measure(&dataset, &train).unwrap();
    assert_eq!(found.pixels, 39 * 64 * 64);
    // A sample of the photos is decoded, and the result is scaled to all photos.
    assert_eq!(found.detail, 39 * 256);
    assert_eq!(
        CaptureStatistics::measure(&dataset, &[0]).unwrap().detail,
        0
    );
    assert_eq!(CaptureStatistics::measure(&dataset, &[]).unwrap().detail, 0);
}
