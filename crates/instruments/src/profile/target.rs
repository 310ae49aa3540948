//! Profile targets: a capture, trained from its points or from existing splats; or synthetic splats and renders of
//! them.

use crate::Open;
use crate::bench::measure::changed;
use dapple::contract::RenderSettings;
use dapple::scene::{Camera, Dataset, Point, Result, Splats, View};
use dapple::synth;
use glam::{DQuat, DVec3};

/// Number of photos for synthetic splats.
const SYNTHETIC_VIEWS: usize = 4;
const SEED: u64 = 0;

/// A profile target.
#[derive(Debug)]
pub struct ProfileTarget {
    /// Name in titles and file names.
    pub name: String,
    /// Photos, cameras and points.
    pub dataset: Dataset,
    /// Splats at the start of training, if it does not start from the points.
    pub splats: Option<Splats>,
}

/// Makes `count` splats with the statistics of a trained scene, with photos of one size from places close to each
/// other. The photos are renders with small changes, so that the loss has a gradient.
///
/// # Errors
/// The engine fails.
pub fn synthetic(count: u32, size: [u32; 2], open: &Open<'_>) -> Result<ProfileTarget> {
    let splats = synth::splats(count as usize, SEED);
    let mut engine = open(false)?.into_engine();
    engine.upload(&splats, None)?;
    let mut views = Vec::with_capacity(SYNTHETIC_VIEWS);
    for i in 0..SYNTHETIC_VIEWS {
        let camera = turned(synth::bench_camera(size[0], size[1]), 2.0 * i as f64);
        let rendered = engine.render(&camera, &RenderSettings::default())?;
        views.push(View::new(
            format!("{i:02}.png"),
            camera,
            changed(rendered.photo()),
        ));
    }
    let points = splats
        .means
        .iter()
        .step_by(splats.len().div_ceil(1000).max(1));
    let points = points.map(|&position| Point {
        position,
        rgb: [128; 3],
    });
    Ok(ProfileTarget {
        name: format!("synthetic-{count}"),
        dataset: Dataset {
            views,
            points: points.collect(),
            ..Dataset::default()
        },
        splats: Some(splats),
    })
}

/// Returns the camera after a rotation by some degrees around the scene's axis.
fn turned(mut camera: Camera, degrees: f64) -> Camera {
    let turn = DQuat::from_axis_angle(DVec3::Y, degrees.to_radians());
    let pose = &mut camera.camera_from_world;
    pose.rotation *= turn;
    camera
}
