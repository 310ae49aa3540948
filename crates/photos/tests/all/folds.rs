//! The fold test: planted folds are found, sound models are not suspected.

use crate::support::{Bench, View, model, random, row, wall};
use dapple_base::test_requirements;
use dapple_photos::database::Database;
use dapple_photos::model::Model;
use dapple_photos::quality::{Evidence, Kind, Review};
use glam::DVec3;

/// Photos of two identical facades, placed at one facade by a model. `shared` of the points are on the facade.
fn folded(shared: usize) -> Model {
    let mut views: Vec<View> = row(0, 8);
    let beside = row(8, 8)
        .into_iter()
        .map(|(name, eye, target)| (name, eye + DVec3::Y * 0.1, target + DVec3::Y * 0.1));
    views.extend(beside);
    let mut points = wall(shared, -4.0, 8.0, 1);
    points.extend(wall(600 - shared, -4.0, 8.0, 9000));
    points.extend(wall(600 - shared, -4.0, 8.0, 19_000));
    model(&views, &points, |view, point| {
        let is_mine = point < shared || (point < 600) == (view < 8);
        is_mine && random((view * 5000 + point) as u32) < 0.5
    })
}

#[test]
fn a_planted_fold_is_found_and_both_groups_are_named() {
    let Some(bench) = Bench::new() else { return };
    bench.add_photos(16);
    for shared in [200, 350] {
        bench.add_model(0, &folded(shared));
        let _ = std::fs::remove_dir_all(bench.capture());
        let done = bench.make().unwrap();
        let finding = &done.review.findings[0];
        assert_eq!(finding.kind, Kind::Fold, "{:?}", done.review.findings);
        assert_eq!(
            finding.what.matches("8 photos (").count(),
            2,
            "{}",
            finding.what
        );
        assert!(finding.remedy.contains("one capture of each place"));
        let is_first = |name: &String| name.len() == 5 && name.as_str() < "8";
        let first = finding.photos.iter().filter(|name| is_first(name)).count();
        assert!(
            finding.photos.len() == 8 && matches!(first, 0 | 8),
            "{:?}",
            finding.photos
        );
    }
}

#[test]
fn a_sound_model_of_the_same_views_is_not_suspected() {
    let Some(bench) = Bench::new() else { return };
    bench.add_photos(16);
    bench.add_model(0, &folded(600));
    let done = bench.make().unwrap();
    assert!(
        done.review.findings.is_empty(),
        "{:?}",
        done.review.findings
    );
}

/// Photos from near and from far match among themselves: many places are two points of a sound model.
#[test]
fn two_points_for_one_place_are_no_fold() {
    let Some(bench) = Bench::new() else { return };
    bench.add_photos(16);
    let whole = wall(600, -4.0, 8.0, 1);
    let mut points = whole.clone();
    points.extend(whole[200..].iter().map(|place| *place + 0.001 * DVec3::X));
    let views: Vec<View> = row(0, 16);
    let split = model(&views, &points, |view, point| {
        let is_mine = point < 200 || (point < 600) == (view % 2 == 0);
        is_mine && random((view * 5000 + point) as u32) < 0.5
    });
    bench.add_model(0, &split);
    let findings = bench.make().unwrap().review.findings;
    assert!(
        findings.iter().all(|f| f.kind != Kind::Fold),
        "{findings:?}"
    );
}

#[test]
fn a_camera_inside_points_of_others_is_named() {
    let Some(bench) = Bench::new() else { return };
    bench.add_photos(9);
    let mut views = row(0, 9);
    // Photo 8 is in the wall, and looks away from it.
    views[8].1 = DVec3::new(1.0, 0.0, 10.2);
    views[8].2 = DVec3::new(1.0, 0.0, 30.0);
    let mut points = wall(600, -6.0, 10.0, 1);
    points.extend((0..60).map(|i| {
        DVec3::new(
            0.9 + 0.2 * random(i),
            0.2 * random(i + 99) - 0.1,
            10.1 + 0.2 * random(i + 999),
        )
    }));
    points.extend(
        wall(200, -6.0, 10.0, 7)
            .into_iter()
            .map(|point| point + DVec3::Z * 20.0),
    );
    let found = model(&views, &points, |view, point| {
        (view == 8) == (point >= 660) || point >= 660
    });
    bench.add_model(0, &found);
    let done = bench.make().unwrap();
    let finding = done
        .review
        .findings
        .iter()
        .find(|f| f.kind == Kind::CameraInside);
    assert_eq!(
        finding.unwrap().photos,
        ["8.jpg"],
        "{:?}",
        done.review.findings
    );
}

/// Real captures, whose poses are known to be right.
#[test]
fn real_captures_are_not_suspected() {
    for name in [
        "banana",
        "bird",
        "plush",
        "sandpile",
        "caliterra",
        "lewis",
        "room",
        "sakharov",
    ] {
        let Some(folder) =
            test_requirements::capture(env!("CARGO_MANIFEST_DIR"), &format!("{name}/sparse/0"))
        else {
            return;
        };
        let model = Model::read(&folder).unwrap();
        let database = Database::default();
        let evidence = Evidence::new(&model, &[], &database, &[]).unwrap();
        let review = Review::from_evidence(&evidence);
        let suspected = review
            .findings
            .iter()
            .filter(|f| matches!(f.kind, Kind::Fold | Kind::CameraInside));
        let suspected: Vec<_> = suspected.collect();
        assert!(suspected.is_empty(), "{name}: {suspected:?}");
    }
}
