//! Region of interest of a run: settings, automatic region, first Gaussians, rounds of density control.

#![allow(clippy::unwrap_used, reason = "tests")]

use dapple_cpu::{CpuEngine, CpuOptions};
use dapple_device::BoxedEngine;
use dapple_scene::edit::Region;
use dapple_scene::{Camera, Dataset, Photo, Point, Pose, Splats, View};
use dapple_train::config::FocusRegion;
use dapple_train::init::initial_splats;
use dapple_train::{Preset, Schedule, TrainConfig, Trainer, auto_region};
use glam::DVec3;

/// Cameras on a ring of radius 4 about (5, 0, 0), turned to its centre.
fn ring() -> Vec<Camera> {
    let camera = |i: usize| {
        let angle = i as f64;
        let eye = DVec3::new(5.0 + 4.0 * angle.cos(), 0.0, 4.0 * angle.sin());
        let pose = Pose::look_at(eye, DVec3::new(5.0, 0.0, 0.0), DVec3::Y);
        Camera::pinhole(64, 48, 64.0, pose)
    };
    (0..8).map(camera).collect()
}

/// A fine grid of points about (5, 0, 0), from 4 to 6, and points along x far away.
fn capture() -> Dataset {
    capture_with(0.0)
}

/// The capture with its far points at this y.
fn capture_with(y: f32) -> Dataset {
    let view = |(i, camera): (usize, &Camera)| {
        let photo = Photo::from_rgb(64, 48, vec![100; 64 * 48 * 3]);
        View::new(format!("{i:02}.png"), *camera, photo)
    };
    let point = |position| Point {
        position,
        rgb: [9, 90, 200],
    };
    let near = (0..1000_u16).map(|i| {
        let [x, y, z] = [i % 10, i / 10 % 10, i / 100].map(|v| f32::from(v) * 0.2 - 0.9);
        point([5.0 + x, y, z])
    });
    let far = (0..1000_u16).map(|i| point([20.0 + 0.2 * f32::from(i), y, 0.0]));
    Dataset {
        views: ring().iter().enumerate().map(view).collect(),
        points: near.chain(far).collect(),
        ..Dataset::default()
    }
}

fn focused(region: &str) -> TrainConfig {
    let mut config = Preset::Standard.config_for(3000);
    config.focus.region = region.parse().unwrap();
    config
}

fn refused(config: TrainConfig) -> String {
    let options = CpuOptions { threads: Some(1) };
    let engine = BoxedEngine::host(CpuEngine::new(options).unwrap());
    let error = Trainer::new(&capture(), config, engine).map(|_| ());
    error.unwrap_err().to_string()
}

#[test]
fn auto_is_the_place_that_cameras_look_at() {
    let Region::Sphere { centre, radius } = auto_region(&ring(), &[]).unwrap() else {
        panic!("not a sphere");
    };
    assert!(DVec3::from(centre).distance(DVec3::new(5.0, 0.0, 0.0)) < 0.01);
    assert!((radius - 1.0).abs() < 0.01, "{radius}");
}

/// The axes of these cameras meet behind them, and their photos overlap ahead.
#[test]
fn auto_is_where_most_photos_are_if_no_photo_shows_the_meeting_of_the_axes() {
    let camera = |i: usize| {
        let x = i as f64 * 0.2 - 0.7;
        let eye = DVec3::new(x, 0.0, 0.0);
        let pose = Pose::look_at(eye, eye + DVec3::new(0.5 * x, 0.0, 1.0), DVec3::Y);
        Camera::pinhole(64, 48, 64.0, pose)
    };
    let cameras: Vec<Camera> = (0..8).map(camera).collect();
    // In all photos about z = 8; the others are in few or none.
    let point = |position| Point {
        position,
        rgb: [0; 3],
    };
    let ahead = (0..20_u8).map(|i| point([0.0, 0.0, 8.0 + 0.01 * f32::from(i)]));
    let beside = (0..60_u8).map(|i| point([6.0, 0.01 * f32::from(i), 8.0]));
    let points: Vec<Point> = ahead.chain(beside).collect();
    let Region::Sphere { centre, radius } = auto_region(&cameras, &points).unwrap() else {
        panic!("not a sphere");
    };
    assert!(
        centre[0].abs() < 0.01 && (centre[2] - 8.1).abs() < 0.05,
        "{centre:?}"
    );
    assert!((radius - 2.0).abs() < 0.1, "{radius}");
    assert!(auto_region(&cameras, &points[20..]).is_err());
}

#[test]
fn auto_without_a_common_place_is_refused() {
    // Back to back, each looks away from the others.
    let camera = |i: usize| {
        let away = DVec3::new((i as f64).cos(), 0.0, (i as f64).sin());
        Camera::pinhole(64, 48, 64.0, Pose::look_at(away, 2.0 * away, DVec3::Y))
    };
    let outwards: Vec<Camera> = (0..8).map(camera).collect();
    let error = auto_region(&outwards, &[]).unwrap_err().to_string();
    assert!(error.contains("do not look at one place"), "{error}");
    assert!(error.contains("--focus sphere:X,Y,Z,RADIUS"), "{error}");
    // In one direction, the sparse points set the depth.
    let eye = |i: usize| DVec3::new(i as f64 * 0.1, 0.0, 0.0);
    let ahead = |i| Pose::look_at(eye(i), eye(i) + DVec3::Z, DVec3::Y);
    let parallel: Vec<Camera> = (0..8)
        .map(|i| Camera::pinhole(64, 48, 64.0, ahead(i)))
        .collect();
    let error = auto_region(&parallel, &[]).unwrap_err().to_string();
    assert!(error.contains("one direction"), "{error}");
    let point = Point {
        position: [0.3, 0.0, 6.0],
        rgb: [0; 3],
    };
    let Region::Sphere { centre, .. } = auto_region(&parallel, &[point]).unwrap() else {
        panic!("not a sphere");
    };
    assert!((centre[2] - 6.0).abs() < 0.02, "{centre:?}");
}

#[test]
fn a_region_that_holds_nothing_is_refused() {
    for (region, words) in [
        ("sphere:5,100,0,1", "no training photo shows the region"),
        ("sphere:5,0,0,0.15", "none of the 2000 sparse points"),
    ] {
        let error = refused(focused(region));
        for words in [words, "focus.region = sphere:5", "dapple info"] {
            assert!(error.contains(words), "{region}: {words}: {error}");
        }
    }
    let mut config = focused("none");
    config.focus.region = FocusRegion::Region(Region::Sphere {
        centre: [5.0, 0.0, 0.0],
        radius: f64::NAN,
    });
    let error = refused(config);
    assert!(error.contains("a region needs finite numbers"), "{error}");
}

/// Returns the number of Gaussians near (5, 0, 0), and the mean scale of the others.
fn near_and_far(splats: &Splats) -> (usize, f32) {
    let far = (0..splats.len()).filter(|&i| splats.means[i][0] > 10.0);
    let scales: Vec<f32> = far.map(|i| splats.scales[i][0].exp()).collect();
    let near = splats.len() - scales.len();
    (near, scales.iter().sum::<f32>() / scales.len() as f32)
}

#[test]
fn with_fewer_gaussians_than_points_those_outside_are_fewer_and_larger() {
    let (beside, behind) = (capture_with(400.0), capture());
    let train: Vec<usize> = (0..8).collect();
    let of = |dataset: &Dataset, region: &str, most: usize, share: f64| {
        let mut config = focused(region);
        (config.max_gaussians, config.focus.gaussians) = (most, share);
        initial_splats(dataset, &train, 4.0, &config).unwrap()
    };
    let first = |region: &str, most: usize, share: f64| of(&beside, region, most, share);
    let whole = first("none", 1200, 0.25);
    let splats = first("sphere:5,0,0,2", 1200, 0.25);
    assert_eq!((whole.len(), splats.len()), (1200, 1200));
    let ((near, scale), (more, larger)) = (near_and_far(&whole), near_and_far(&splats));
    assert!((500..700).contains(&near), "{near}");
    assert!((920..1000).contains(&more), "{more}");
    assert!(larger > 1.5 * scale, "{larger} {scale}");
    // No point is omitted for an empty place, whatever the others count.
    for share in [0.0, 0.05, 0.9] {
        assert_eq!(first("sphere:5,0,0,2", 1200, share).len(), 1200, "{share}");
    }
    assert_eq!(first("sphere:5,0,0,2", 5000, 0.0).len(), 2000);
    // Photos show points behind the region together with it: they count as much.
    let (near, _) = near_and_far(&of(&behind, "sphere:5,0,0,2", 1200, 0.0));
    assert!((550..650).contains(&near), "{near}");
}

#[test]
fn rounds_of_density_control_have_the_region() {
    let round = |config: TrainConfig| {
        let schedule = Schedule::new(config, 1.0);
        let plans = (1..3000).filter_map(|step| schedule.densify_plan(step));
        plans.map(|plan| plan.focus).next_back().unwrap()
    };
    assert_eq!(round(focused("none")), None);
    let focus = round(focused("box:1,2,3,2,4,6,0,0,90")).unwrap();
    assert_eq!((focus.is_box, focus.outside), (true, 51));
    // Turned by a right angle about z, the width is along y.
    for (mean, expected) in [
        ([1.0, 2.9, 3.0], true),
        ([1.0, 3.1, 3.0], false),
        ([2.9, 2.0, 3.0], true),
        ([3.1, 2.0, 3.0], false),
        ([1.0, 2.0, 5.9], true),
        ([1.0, 2.0, 6.1], false),
    ] {
        assert_eq!(focus.contains(mean), expected, "{mean:?}");
    }
    // With as many Gaussians outside, there is nothing to weigh.
    let mut config = focused("sphere:0,0,0,1");
    config.focus.gaussians = 1.0;
    assert_eq!(round(config), None);
}

#[test]
fn configurations_without_a_region_have_no_table() {
    let plain = focused("none").to_toml().unwrap();
    assert!(!plain.contains("focus"), "{plain}");
    let config = focused("box:1,2,3,2,4,6,0,0,90");
    let text = config.to_toml().unwrap();
    assert!(text.contains("[focus]"), "{text}");
    assert!(
        text.contains("region = \"box:1,2,3,2,4,6,0,0,90\""),
        "{text}"
    );
    assert_eq!(TrainConfig::parse(&text, "here").unwrap(), config);
    // A printed file of a run with a region is still one that names every key: another length scales the schedule.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    std::fs::write(&file, &text).unwrap();
    let longer = dapple_train::ConfigPatch {
        steps: Some(6000),
        ..Default::default()
    };
    let config = TrainConfig::resolve(None, Some(&file), longer).unwrap();
    let expected = Preset::Standard.config_for(6000);
    assert_eq!(config.densify.stop, expected.densify.stop);
    assert!(matches!(config.focus.region, FocusRegion::Region(_)));
    // A change of the region is one change.
    let other = dapple_train::ConfigPatch::parse("[focus]\nregion = \"auto\"", "here").unwrap();
    let differences = focused("none").differences(other).unwrap();
    assert_eq!(differences.len(), 1, "{differences:?}");
    assert_eq!(differences[0].0, "focus.region");
}
