//! Photos of a sky whose colour depends on the direction.

use super::*;
use crate::{Point, Pose, View};
use glam::DQuat;

/// Returns the brightness in a direction.
fn sky(direction: DVec3) -> u8 {
    let d = direction.normalize();
    let waves = (5.0 * d.x).sin() + (4.0 * d.y + 1.0).cos() + (6.0 * d.z).sin() * (3.0 * d.x).cos();
    (127.0 + 40.0 * waves) as u8
}

fn dataset(mistake: fn(&mut Camera)) -> Dataset {
    let view = |i: i32| {
        let angle = f64::from(i) * 0.9;
        let to = DVec3::new(angle.cos(), 0.3 * f64::from(i % 3 - 1), angle.sin());
        let pose = Pose::look_at(DVec3::ZERO, to, DVec3::Y);
        let camera = Camera::pinhole(64, 48, 40.0, pose);
        let back = pose.rotation.conjugate();
        let pixels =
            (0..48).flat_map(|y| (0..64).map(move |x| (f64::from(x) + 0.5, f64::from(y) + 0.5)));
        let colour = |(x, y): (f64, f64)| {
            let ray = DVec3::new(
                (x - camera.cx) / camera.fx,
                (y - camera.cy) / camera.fy,
                1.0,
            );
            [sky(back * ray); 3]
        };
        let photo = Photo::from_rgb(64, 48, pixels.flat_map(colour).collect());
        let mut camera = camera;
        mistake(&mut camera);
        View::new(format!("{i}.png"), camera, photo)
    };
    let point = |i: u32| {
        // Points of a spiral from pole to pole.
        let y = 2.0 * f64::from(i) / 3000.0 - 1.0;
        let (sin, cos) = (2.4 * f64::from(i)).sin_cos();
        let r = (1.0 - y * y).sqrt();
        let direction = DVec3::new(r * cos, y, r * sin);
        Point {
            position: (5.0 * direction).as_vec3().to_array(),
            rgb: [sky(direction); 3],
        }
    };
    Dataset {
        views: (0..7).map(view).collect(),
        points: (0..3000).map(point).collect(),
        ..Dataset::default()
    }
}

#[test]
fn colours_tell_where_points_fall_into_photos_by_chance() {
    assert_eq!(note(&dataset(|_| {})), None);
    let flip = |camera: &mut Camera| {
        let half = DQuat::from_rotation_x(std::f64::consts::PI);
        let pose = &mut camera.camera_from_world;
        pose.rotation = half * pose.rotation;
    };
    let said = note(&dataset(flip)).unwrap_or_default();
    assert!(said.contains("axes (right"), "{said:?}");
    let wide = |camera: &mut Camera| (camera.fx, camera.fy) = (160.0, 160.0);
    let mut four = dataset(wide);
    let said = note(&four).unwrap_or_default();
    assert!(said.is_empty() || said.contains("focal length"), "{said:?}");
    // Points of one colour, or none, give no result.
    for point in &mut four.points {
        point.rgb = [128; 3];
    }
    assert_eq!(note(&four), None);
    four.points.clear();
    assert_eq!(note(&four), None);
}

#[test]
fn a_contradiction_is_told_once() {
    let flip = |camera: &mut Camera| {
        let half = DQuat::from_rotation_x(std::f64::consts::PI);
        let pose = &mut camera.camera_from_world;
        pose.rotation = half * pose.rotation;
    };
    let mut known = dataset(flip);
    assert!(note(&known).is_some());
    known.notes.push(format!("{CONTRADICTION}: axes"));
    assert_eq!(note(&known), None);
}
