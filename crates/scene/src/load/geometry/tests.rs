//! Correct captures, and every mistake in each.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::capture::PosedImage;
use crate::colmap::Observation;
use crate::{Point, Pose, Tracks};
use glam::DQuat;
use std::path::PathBuf;

/// Pseudo-random numbers in -1 to 1.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as f64 / f64::from(1u32 << 30) - 1.0
    }

    fn vector(&mut self) -> DVec3 {
        DVec3::new(self.next(), self.next(), self.next())
    }
}

fn capture(poses: Vec<Pose>, points: Vec<DVec3>) -> Capture {
    let image = |(pose, id): (Pose, u32)| PosedImage {
        name: format!("{id}.png"),
        folder: PathBuf::new(),
        file: PathBuf::from(format!("{id}.png")),
        downscaled: false,
        mask: None,
        id: 10 + id,
        depth: None,
        camera: Camera::pinhole(640, 480, 600.0, pose),
        source_model: "PINHOLE".to_owned(),
    };
    let point = |p: DVec3| Point {
        position: p.as_vec3().to_array(),
        rgb: [9; 3],
    };
    Capture {
        images: poses.into_iter().zip(0..).map(image).collect(),
        points: points.into_iter().map(point).collect(),
        ..Capture::default()
    }
}

/// Builds a ring of cameras around an object.
fn object() -> Capture {
    let eye = |i: i32| {
        let angle = f64::from(i) * 0.52;
        DVec3::new(4.0 * angle.cos(), 1.0, 4.0 * angle.sin())
    };
    let poses = (0..12).map(|i| Pose::look_at(eye(i), DVec3::ZERO, DVec3::Y));
    let mut numbers = Numbers(1);
    capture(
        poses.collect(),
        (0..300).map(|_| numbers.vector()).collect(),
    )
}

/// Cameras in the middle of a box-shaped interior, facing its walls.
fn room() -> Capture {
    let look = |i: i32| {
        let angle = f64::from(i) * 0.4;
        let eye = DVec3::new(0.3 * angle.sin(), 0.1 * angle.cos(), 0.0);
        let to = DVec3::new(angle.cos(), 0.2 * f64::from(i % 3 - 1), angle.sin());
        Pose::look_at(eye, eye + to, DVec3::Y)
    };
    let mut numbers = Numbers(2);
    let walls = (0..2000).map(|_| 5.0 * numbers.vector().normalize());
    capture((0..16).map(look).collect(), walls.collect())
}

/// Builds a survey that looks straight down, each photo at a hundredth of the ground.
fn survey() -> Capture {
    let eye = |i: i32| {
        DVec3::new(
            f64::from(i % 10 - 5) * 10.0 + 300.0,
            20.0,
            f64::from(i / 10 - 5) * 10.0,
        )
    };
    let poses = (0..100).map(|i| Pose::look_at(eye(i), eye(i) - DVec3::Y, DVec3::Z));
    let mut numbers = Numbers(3);
    let ground = (0..5000)
        .map(|_| DVec3::new(300.0, 0.0, 0.0) + numbers.vector() * DVec3::new(60.0, 1.0, 60.0));
    capture(poses.collect(), ground.collect())
}

/// Builds cameras that look in one direction from a small grid.
fn forward() -> Capture {
    let eye = |i: i32| DVec3::new(f64::from(i % 4) * 0.3, f64::from(i / 4) * 0.3, 0.0);
    let poses = (0..16).map(|i| Pose::look_at(eye(i), eye(i) + DVec3::Z, -DVec3::Y));
    let mut numbers = Numbers(4);
    let scene = (0..500).map(|_| DVec3::new(0.0, 0.0, 6.0) + 3.0 * numbers.vector());
    capture(poses.collect(), scene.collect())
}

/// Returns the capture with the tracks and observations of its photos.
fn with_tracks(mut capture: Capture) -> Capture {
    let mut tracks = Tracks::default();
    for (index, point) in capture.points.iter().enumerate() {
        let point = DVec3::from(point.position.map(f64::from));
        let mut photos = Vec::new();
        for image in &capture.images {
            let seen = Probe::new(&image.camera, &Reading::given()).project(point);
            if let Some(pixel) = seen.inside {
                photos.push(image.id);
                capture.observations.push(Observation {
                    image: image.id,
                    point: index,
                    pixel: pixel.to_array(),
                });
            }
        }
        tracks.push(0.5, photos);
    }
    capture.tracks = Some(tracks);
    capture
}

fn change(capture: &mut Capture, camera: impl Fn(&mut Camera)) {
    for image in &mut capture.images {
        camera(&mut image.camera);
    }
}

fn move_points(capture: &mut Capture, to: impl Fn(DVec3) -> DVec3) {
    for point in &mut capture.points {
        point.position = to(DVec3::from(point.position.map(f64::from)))
            .as_vec3()
            .to_array();
    }
}

fn flip(pose: &mut Pose) {
    let half = DQuat::from_rotation_x(std::f64::consts::PI);
    *pose = Pose {
        rotation: half * pose.rotation,
        translation: half * pose.translation,
    };
}

fn invert(pose: &mut Pose) {
    *pose = Pose {
        rotation: pose.rotation.conjugate(),
        translation: pose.centre(),
    };
}

#[test]
fn right_captures_get_no_remark() {
    for make in [object, room, survey, forward] {
        assert_eq!(note(&make()), None);
        assert_eq!(note(&with_tracks(make())), None);
        // A COLMAP model without tracks.
        let mut bare = make();
        bare.tracks = Some(Tracks::default());
        assert_eq!(note(&bare), None);
    }
}

type Mistake = (&'static str, fn(&mut Capture));

const MISTAKES: [Mistake; 4] = [
    ("axes (right", |c| {
        change(c, |camera| flip(&mut camera.camera_from_world))
    }),
    ("invert", |c| {
        change(c, |camera| invert(&mut camera.camera_from_world))
    }),
    ("principal point", |c| {
        change(c, |camera| {
            for value in [
                &mut camera.fx,
                &mut camera.fy,
                &mut camera.cx,
                &mut camera.cy,
            ] {
                *value *= 4.0;
            }
        });
    }),
    ("another reconstruction", |c| {
        let mut numbers = Numbers(9);
        let stray = DVec3::new(4e4, 3e4, -2e4) + 100.0 * numbers.vector();
        move_points(c, |p| p + stray);
    }),
];

#[test]
fn mistakes_are_named_without_tracks_and_with_them() {
    for (words, mistake) in MISTAKES {
        for (make, name) in [(object as fn() -> Capture, "object"), (forward, "forward")] {
            for tracked in [false, true] {
                let mut capture = match tracked {
                    true => with_tracks(make()),
                    false => make(),
                };
                mistake(&mut capture);
                // Poses that nearly are the identity are nearly their inverses.
                if words == "invert" && name == "forward" {
                    continue;
                }
                let said = note(&capture).unwrap_or_default();
                assert!(said.contains(words), "{name} {tracked} {words}: {said:?}");
            }
        }
    }
}

#[track_caller]
fn assert_says(capture: &Capture, words: &str) {
    let said = note(capture).unwrap_or_default();
    assert!(said.contains(words), "no {words:?} in {said:?}");
}

#[test]
fn tracks_tell_what_points_alone_do_not() {
    // Cameras that look the other way see the other walls.
    let mut capture = with_tracks(room());
    change(&mut capture, |camera| flip(&mut camera.camera_from_world));
    assert_says(&capture, "axes (right");
    let mut capture = with_tracks(object());
    change(&mut capture, |camera| {
        (camera.fx, camera.fy) = (2400.0, 2400.0)
    });
    assert_says(&capture, "focal length seems");
    let mut capture = with_tracks(object());
    move_points(&mut capture, |p| 100.0 * p);
    assert_says(&capture, "another unit");
    // Wider lenses also show all of a larger object: the observations decide.
    for factor in [4.0, 8.0] {
        let mut capture = with_tracks(object());
        change(&mut capture, |camera| {
            (camera.fx, camera.fy) = (600.0 * factor, 600.0 * factor);
        });
        assert_says(&capture, &format!("divided by {factor} "));
    }
    let mut capture = with_tracks(object());
    move_points(&mut capture, |p| DVec3::new(0.0, 0.1, 0.2) + 10.0 * p);
    assert_says(&capture, "multiplied by 0.1 ");
    let mut capture = with_tracks(survey());
    move_points(&mut capture, |p| DVec3::new(p.x, p.z, -p.y));
    assert_says(&capture, "other axes than");
    // Placeholder tracks: all points in one photo.
    let mut capture = room();
    let mut tracks = Tracks::default();
    (0..capture.points.len()).for_each(|_| tracks.push(0.0, [10]));
    capture.tracks = Some(tracks);
    assert_eq!(note(&capture), None);
}

#[test]
fn observations_tell_of_another_focal_length() {
    for (factor, is_told) in [(1.0, false), (1.02, false), (1.4, true)] {
        let mut capture = with_tracks(object());
        change(&mut capture, |camera| {
            (camera.fx, camera.fy) = (600.0 * factor, 600.0 * factor)
        });
        let said = note(&capture);
        assert_eq!(said.is_some(), is_told, "{factor}: {said:?}");
    }
    // Observations of the original photos, with cameras of smaller ones.
    let mut capture = with_tracks(object());
    for observation in &mut capture.observations {
        observation.pixel = observation.pixel.map(|v| 4.0 * v);
    }
    assert_eq!(note(&capture), None);
    // Synthetic observations of a converter.
    for observation in &mut capture.observations {
        observation.pixel = [0.0; 2];
    }
    assert_eq!(note(&capture), None);
}

#[test]
fn absurd_angles_are_told() {
    for (focal, is_told) in [(20.0, true), (200.0, false), (1e5, true)] {
        let mut capture = forward();
        capture.points.clear();
        change(&mut capture, |camera| {
            (camera.fx, camera.fy) = (focal, focal)
        });
        let said = note(&capture).unwrap_or_default();
        assert_eq!(said.contains("angle of view"), is_told, "{focal}: {said:?}");
    }
}

#[test]
fn few_points_contradict_nothing_unless_all_are_behind_the_cameras() {
    let mut capture = object();
    capture.points.truncate(10);
    assert_eq!(note(&capture), None);
    change(&mut capture, |camera| flip(&mut camera.camera_from_world));
    let said = note(&capture).unwrap();
    assert!(said.contains("no sparse point is in front"), "{said}");
    capture.points.clear();
    assert_eq!(note(&capture), None);
    assert_eq!(note(&Capture::default()), None);
}
