//! Captures for the tests.

use crate::resume::running::cpu;
use dapple::Point;
use dapple::prelude::*;
use dapple::scene::Tracks;
use std::sync::LazyLock;

/// Capture from 13 places, two of them held out.
pub static CAPTURE: LazyLock<Dataset> = LazyLock::new(|| ball(13, 0.7));

/// Creates a capture of a ball of coloured Gaussians with sparse points on it, from `places` places with
/// `turn` between two of them.
pub fn ball(places: usize, turn: f64) -> Dataset {
    let mut truth = Splats::empty(0);
    for i in 0..150 {
        let t = (i as f32 + 0.5) / 150.0;
        let (z, angle) = (1.0 - 2.0 * t, 2.399_963_2 * i as f32);
        let r = (1.0 - z * z).sqrt();
        truth.means.push([r * angle.cos(), r * angle.sin(), z]);
        truth.scales.push([-1.9, -2.2, -2.6]);
        truth.quats.push([angle.cos(), angle.sin(), t, 0.3]);
        truth.opacities.push(3.0);
        let band = if i % 5 < 2 { 0.9 } else { 0.2 };
        let colour = [band, t, 1.0 - t];
        truth.sh0.push(colour.map(|v| (v - 0.5) / SH_C0));
    }
    let mut engine = cpu();
    engine.upload(&truth, None).unwrap();
    let view = |i: usize| {
        let angle = i as f64 * turn;
        let eye = DVec3::new(3.5 * angle.cos(), 0.4 * (i % 3) as f64, 3.5 * angle.sin());
        let camera = Camera::pinhole(40, 32, 38.0, Pose::look_at(eye, DVec3::ZERO, DVec3::Y));
        let rendered = engine.render(&camera, &RenderSettings::default()).unwrap();
        View::new(format!("{i:02}.png"), camera, rendered.photo())
    };
    let views = (0..places).map(view).collect();
    let point = |i: usize| Point {
        position: truth.means[i].map(|v| v + 0.03 * (7.0 * v + i as f32).sin()),
        rgb: truth.sh0[i].map(|v| ((0.5 + v * SH_C0) * 255.0) as u8),
    };
    Dataset {
        points: (0..150).step_by(2).map(point).collect(),
        views,
        ..Dataset::default()
    }
}

/// Returns the capture with tracks: each point of the ball has the views that see it.
pub fn capture_with_tracks() -> Dataset {
    let mut capture = CAPTURE.clone();
    let mut tracks = Tracks::default();
    for point in &capture.points {
        let position = DVec3::from(point.position.map(f64::from));
        let views = capture.views.iter().zip(0u32..);
        let sees = |view: &View| position.dot(view.camera.camera_from_world.centre()) > 1.2;
        let found = views.filter(|(view, _)| sees(view)).map(|(_, i)| i);
        tracks.push(0.5, found);
    }
    capture.tracks = Some(tracks);
    capture
}
