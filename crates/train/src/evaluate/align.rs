//! Fits the poses of held-out photos to finished splats: test-time alignment.
//!
//! Where training refines poses, its cameras drift together by a rigid motion that no photo sees, and a
//! held-out photo, never trained on, keeps the error of its own pose. Its raw score then measures that
//! error, not the splats.
//!
//! As is usual with refined poses (Lin et al. 2021, "BARF", arXiv:2104.06405, section 4; Bian et al. 2023,
//! "NoPe-NeRF"), only the photo's pose is fitted to the frozen splats:
//!
//! 1. [`STEPS`] times: render, the derivative of the mean squared error by the camera's motion (`EngineExt::gradients`), a
//!    step of Adam (`reference::refine_pose`) with a rate that falls to a hundredth.
//! 2. The pose with the least error of all that were rendered is taken. The given pose is among them.
//!
//! Both scores are reported. The score after alignment measures the splats. Do not compare it with scores of runs that
//! were not aligned.

use super::pixels::target;
use super::scores::EvalReport;
use super::{Scoring, evaluate};
use dapple_device::BoxedEngine;
use dapple_engine::{Adam, Engine, EngineExt, PoseRates, RenderSettings, Rendered};
use dapple_engine::{PoseMoments, refine_pose};
use dapple_scene::{Photo, Result, View};

/// Steps for each photo.
const STEPS: u32 = 60;

/// The first step's size, radians and fractions of the scene's extent. Together the steps reach 13
/// times as far: one and a half degrees.
const RATE: f64 = 2e-3;

/// The rate at the end, as a fraction of [`RATE`].
const DECAY: f64 = 0.01;

/// Scores `views` like [`evaluate`], each with its pose fitted to the engine's splats. `extent` is the scene's, world
/// units.
///
/// # Errors
/// See [`evaluate`].
pub fn evaluate_aligned(
    engine: &mut BoxedEngine,
    views: &[&View],
    settings: &RenderSettings,
    extent: f64,
) -> Result<EvalReport> {
    let mut aligned = Vec::with_capacity(views.len());
    for view in views {
        aligned.push(align(engine.as_mut(), view, settings, extent)?);
    }
    let views: Vec<&View> = aligned.iter().collect();
    let scoring = Scoring::default();
    evaluate(engine, &views, settings, &scoring, &mut |_, _| Ok(()))
}

/// Returns the view with its pose fitted to the engine's splats.
///
/// # Errors
/// The engine fails.
pub fn align(
    engine: &mut dyn Engine,
    view: &View,
    settings: &RenderSettings,
    extent: f64,
) -> Result<View> {
    let photo = view.photo.read()?;
    let target = target(&photo, settings.background);
    let mut camera = view.camera;
    let mut best = (f64::INFINITY, camera);
    let mut moments = PoseMoments::default();
    for step in 0..=STEPS {
        let rendered = engine.render(&camera, settings)?;
        let (error, slope) = squared_error(&rendered, &target, &photo);
        if error < best.0 {
            best = (error, camera);
        }
        if step == STEPS {
            break;
        }
        let gradient = engine.gradients(&camera, settings, &slope, None)?.pose;
        if gradient.iter().any(|v| !v.is_finite()) {
            break;
        }
        let rate = RATE * DECAY.powf(f64::from(step) / f64::from(STEPS));
        let rates = PoseRates {
            rotation: rate as f32,
            translation: (rate * extent) as f32,
        };
        let pose = &mut camera.camera_from_world;
        (*pose, moments) = refine_pose(pose, &moments, &gradient, &rates, &Adam::default());
    }
    Ok(View {
        camera: best.1,
        ..view.clone()
    })
}

/// Returns the mean squared error over the pixels that a mask shows, and half its derivative times the number of
/// values.
fn squared_error(rendered: &Rendered, target: &[f32], photo: &Photo) -> (f64, Vec<f32>) {
    let shown = |i: usize| photo.mask.as_ref().is_none_or(|mask| mask[i / 3] >= 128);
    let difference = |(i, (a, b)): (usize, (&f32, &f32))| if shown(i) { a - b } else { 0.0 };
    let pairs = rendered.rgb.iter().zip(target).enumerate();
    let slope: Vec<f32> = pairs.map(difference).collect();
    let sum: f64 = slope.iter().map(|&v| f64::from(v) * f64::from(v)).sum();
    (sum / slope.len().max(1) as f64, slope)
}
