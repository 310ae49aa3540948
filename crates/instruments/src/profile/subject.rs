//! What is trained while it is profiled: a capture, from its points or from splats that are there
//! already; or synthetic splats and renders of them.

use crate::Open;
use crate::bench::measure::changed;
use dapple::contract::RenderSettings;
use dapple::scene::{Camera, Dataset, Point, Result, Splats, View, synth};
use glam::{DQuat, DVec3};

/// Photos that synthetic splats are trained on.
const SYNTHETIC_VIEWS: usize = 4;
const SEED: u64 = 0;

/// What is trained.
#[derive(Debug)]
pub struct Subject {
    /// For titles and file names.
    pub name: String,
    /// Photos, cameras and points.
    pub dataset: Dataset,
    /// Where training starts, if not at the points.
    pub splats: Option<Splats>,
}

/// `count` splats with the statistics of a trained scene, seen by photos of one size from places close
/// to each other; the photos are renders, slightly changed, so that there is something to learn.
///
/// # Errors
/// Those of the engine.
pub fn synthetic(count: u32, size: [u32; 2], open: &Open<'_>) -> Result<Subject> {
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
    Ok(Subject {
        name: format!("synthetic-{count}"),
        dataset: Dataset {
            views,
            points: points.collect(),
            ..Dataset::default()
        },
        splats: Some(splats),
    })
}

/// The camera after a walk of some degrees around the scene's axis.
fn turned(mut camera: Camera, degrees: f64) -> Camera {
    let turn = DQuat::from_axis_angle(DVec3::Y, degrees.to_radians());
    let pose = &mut camera.camera_from_world;
    pose.rotation *= turn;
    camera
}
