//! Captures with perturbed poses: photos are unchanged, poses move by the requested amount, and the true poses are read
//! from their file.

#![allow(clippy::unwrap_used, reason = "tests")]

use dapple_scene::{LoadOptions, NoProgress, Pose, load, read_poses};
use dapple_synth::{self as synth, PoseNoise, SynthOptions};

#[test]
fn written_poses_are_off_and_true_ones_beside() {
    let folder = tempfile::tempdir().unwrap();
    let exact = SynthOptions {
        photos: 40,
        width: 32,
        height: 24,
        points: 50,
        ..SynthOptions::default()
    };
    let noisy = SynthOptions {
        pose_noise: PoseNoise {
            degrees: 0.5,
            fraction: 0.01,
        },
        ..exact.clone()
    };
    let write = |name: &str, options: &SynthOptions| {
        let path = folder.path().join(name);
        synth::generate(options, &path, &NoProgress).unwrap();
        load(&path, &LoadOptions::default(), &NoProgress).unwrap()
    };
    let (exact, off) = (write("exact", &exact), write("off", &noisy));
    assert!(!folder.path().join("exact/true_cameras.json").exists());
    let truth = read_poses(&folder.path().join("off/true_cameras.json")).unwrap();
    assert_eq!(truth.len(), 40);

    let (mut angles, mut distances) = (0.0, 0.0);
    for ((exact, off), (name, truth)) in exact.views.iter().zip(&off.views).zip(&truth) {
        assert_eq!(&exact.name, name);
        let photos = [&exact, &off].map(|view| view.photo.read().unwrap());
        assert_eq!(photos[0], photos[1], "{name}");
        let (a, b) = (exact.camera.camera_from_world, off.camera.camera_from_world);
        let (angle, distance) = between(&a, truth);
        assert!(
            angle < 1e-6 && distance < 1e-6,
            "{name}: the truth is another"
        );
        let (angle, distance) = between(&b, truth);
        angles += angle.to_degrees() / 40.0;
        distances += distance / 40.0;
    }
    // The mean length of three normal numbers is 1.6 standard deviations; the orbit is 4.3 wide.
    assert!((0.6..1.0).contains(&angles), "{angles}");
    assert!((0.05..0.1).contains(&distances), "{distances}");
    // It can be replaced like any synthetic capture.
    let again = synth::generate(&noisy, &folder.path().join("off"), &NoProgress);
    assert!(again.is_ok());
}

fn between(a: &Pose, b: &Pose) -> (f64, f64) {
    let angle = a.rotation.angle_between(b.rotation);
    (angle, a.centre().distance(b.centre()))
}
