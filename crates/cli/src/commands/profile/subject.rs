//! What is trained while it is profiled: a capture, from its points or from splats that are there
//! already; or synthetic splats and renders of them.

use crate::commands::bench::measure::{changed, photo};
use crate::console::Console;
use crate::options::{DeviceOptions, read_splats, splats_file};
use dapple::TrainConfig;
use dapple::contract::RenderSettings;
use dapple::scene::{Camera, Dataset, Point, Result, Splats, View, load, printable, synth};
use glam::{DQuat, DVec3};
use std::path::Path;

/// Photos that synthetic splats are trained on.
const SYNTHETIC_VIEWS: usize = 4;
const SEED: u64 = 0;

/// What is trained.
pub struct Subject {
    /// For titles and file names.
    pub name: String,
    pub dataset: Dataset,
    /// Where training starts, if not at the points.
    pub splats: Option<Splats>,
}

/// A capture; `splats` may name a file to start from.
pub fn capture(
    scene: &Path,
    splats: Option<&Path>,
    config: &TrainConfig,
    console: &Console,
) -> Result<Subject> {
    let splats = splats.map(|path| Ok(read_splats(&splats_file(path)?, console)?.0));
    let splats = splats.transpose()?;
    let dataset = load(scene, &config.training_load_options(), &console.progress())?;
    for note in &dataset.notes {
        console.note(&format!("note: {}", printable(note)));
    }
    let whole = scene.canonicalize().unwrap_or_else(|_| scene.to_owned());
    let name = whole
        .file_name()
        .map_or("scene".into(), |name| name.to_string_lossy());
    Ok(Subject {
        name: name.into_owned(),
        dataset,
        splats,
    })
}

/// `count` splats with the statistics of a trained scene, seen by photos of one size from places close
/// to each other; the photos are renders, slightly changed, so that there is something to learn.
pub fn synthetic(count: u32, size: [u32; 2], device: &DeviceOptions) -> Result<Subject> {
    let splats = synth::splats(count as usize, SEED);
    let mut engine = device.open_quietly(false)?.engine;
    engine.as_engine().upload(&splats, None)?;
    let mut views = Vec::with_capacity(SYNTHETIC_VIEWS);
    for i in 0..SYNTHETIC_VIEWS {
        let camera = turned(synth::bench_camera(size[0], size[1]), 2.0 * i as f64);
        let rendered = engine
            .as_engine()
            .render(&camera, &RenderSettings::default())?;
        views.push(View {
            name: format!("{i:02}.png"),
            camera,
            source_model: "PINHOLE".to_owned(),
            photo: changed(photo(&rendered)).into(),
            depth: None,
        });
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
