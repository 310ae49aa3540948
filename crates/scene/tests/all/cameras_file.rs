//! `cameras.json`: reading returns the written cameras, for every lens.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use dapple_scene::{Camera, ErrorKind, Lens, Pose, read_cameras, read_poses, write_cameras};
use glam::DVec3;

/// Returns every lens, with coefficients that all differ and need all digits.
fn lenses() -> Vec<(&'static str, Lens)> {
    let k =
        |i: usize| (i as f64 + 1.0).sqrt() * 1e-3 * if i.is_multiple_of(2) { 1.0 } else { -1.0 };
    let eight = std::array::from_fn(k);
    let four = std::array::from_fn(k);
    vec![
        ("pinhole", Lens::Pinhole),
        ("radial", Lens::Radial([k(0), k(1)])),
        ("opencv", Lens::OpenCv(four)),
        ("full", Lens::FullOpenCv(eight)),
        ("fov", Lens::Fov(0.9 + k(0))),
        ("eucm", Lens::Eucm([0.6 + k(0), 1.1 + k(1)])),
        ("fisheye", Lens::Fisheye(four)),
        ("prism", Lens::ThinPrismFisheye(eight)),
        ("aria", Lens::RadTanThinPrismFisheye(std::array::from_fn(k))),
    ]
}

fn camera(lens: Lens) -> Camera {
    let pose = Pose::look_at(DVec3::new(1.0, 2.0, 3.0), DVec3::ZERO, DVec3::NEG_Y);
    Camera {
        fy: 311.1 / 3.0,
        cx: 200.0 / 3.0,
        cy: 100.0 / 7.0,
        lens,
        ..Camera::pinhole(160, 120, 1000.0 / 7.0, pose)
    }
}

fn panorama() -> Camera {
    Camera::equirectangular(160, 80, camera(Lens::Pinhole).camera_from_world)
}

#[test]
fn every_lens_comes_back_with_every_bit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cameras.json");
    let written: Vec<(String, Camera)> = lenses()
        .into_iter()
        .map(|(name, lens)| (format!("left/{name}.png"), camera(lens)))
        .chain([("left/panorama.png".to_owned(), panorama())])
        .collect();
    write_cameras(&path, &written).unwrap();
    let read = read_cameras(&path).unwrap();
    assert_eq!(read.len(), written.len());
    for ((name, camera), (expected_name, expected)) in read.iter().zip(&written) {
        assert_eq!(name, expected_name);
        // A pose is stored as a matrix.
        let (found, pose) = (camera.camera_from_world, expected.camera_from_world);
        assert!(found.centre().distance(pose.centre()) < 1e-14, "{name}");
        let dot = found.rotation.dot(pose.rotation).abs();
        assert!((dot - 1.0).abs() < 1e-15, "{name}: {dot}");
        let unposed = |camera: &Camera| Camera {
            camera_from_world: Pose::IDENTITY,
            ..*camera
        };
        assert_eq!(unposed(camera), unposed(expected), "{name}");
    }
    let poses = read_poses(&path).unwrap();
    assert_eq!(poses.len(), written.len());
    assert_eq!(poses[3], (read[3].0.clone(), read[3].1.camera_from_world));
}

#[test]
fn cameras_that_are_not_all_there_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cameras.json");
    let refused = |change: &[(&str, &str)], words: &[&str]| {
        write_cameras(&path, &[("a.png".to_owned(), camera(Lens::Fov(0.9)))]).unwrap();
        let mut text = std::fs::read_to_string(&path).unwrap();
        for (from, to) in change {
            assert!(text.contains(from), "{from:?} is not in {text}");
            text = text.replace(from, to);
        }
        std::fs::write(&path, text).unwrap();
        let error = read_cameras(&path).unwrap_err();
        for word in words {
            assert!(error.to_string().contains(word), "{word:?}: {error}");
        }
        assert!(error.hint_text().is_some() && error.to_string().contains("a.png"));
        error.kind()
    };
    let input = ErrorKind::Input;
    assert_eq!(refused(&[("omega", "other")], &["no omega"]), input);
    assert_eq!(refused(&[("\"w\"", "\"v\"")], &["no size"]), input);
    assert_eq!(refused(&[("fl_x", "f")], &["no focal length"]), input);
    assert_eq!(
        refused(&[("FOV", "GLASS")], &["GLASS"]),
        ErrorKind::Unsupported
    );
}
