//! Times some steps of a run to come.
//!
//! 1. Four training views with grey photos, at their size and at half of it; the run's first Gaussians,
//!    and a quarter of them. These are twice as large, so that they cover what all covered: in a scene that
//!    is trained, more Gaussians are smaller ones, and a pixel sees about as many.
//! 2. Each of whole, fewer pixels and fewer of both: a round over the views that is not timed, then
//!    rounds until a third of the time is spent. The fastest round counts: noise only adds.
//! 3. What rounds took on average, over what the fastest took, slows the model down: a machine that is
//!    shared will be so during the run too.

use super::{CostModel, Timed};
use crate::views::Chosen;
use crate::{Schedule, TrainConfig, init};
use dapple_engine::{Engine, TrainView, ViewId};
use dapple_scene::{Camera, Dataset, Photo, Result, Splats};
use std::sync::Arc;
use std::time::Instant;

/// Views that are timed.
const VIEWS: usize = 4;

/// Times steps on an engine that is used for nothing else, for about `seconds` (longer where a step takes
/// longer). The photos of `dataset` are not read.
///
/// # Errors
/// A capture that cannot be trained on; what the engine cannot do.
pub fn calibrate(
    dataset: &Dataset,
    config: &TrainConfig,
    engine: &mut dyn Engine,
    seconds: f64,
) -> Result<CostModel> {
    config.validate()?;
    let chosen = Chosen::of(dataset, config)?;
    let splats = init::initial_splats(dataset, &chosen.train, chosen.extent, config)?;
    let mut quarter = splats.clone();
    quarter.retain(|i| i.is_multiple_of(4));
    for scale in quarter.scales.iter_mut().flatten() {
        *scale += std::f32::consts::LN_2;
    }
    let count = chosen.train.len().min(VIEWS);
    let cameras: Vec<Camera> = (0..count)
        .map(|i| dataset.views[chosen.train[i * chosen.train.len() / count]].camera)
        .collect();
    let halves: Vec<Camera> = cameras
        .iter()
        .map(|c| c.resized(c.width.div_ceil(2), c.height.div_ceil(2)))
        .collect();
    let schedule = Schedule::new(config.clone(), chosen.extent);
    let mut slowdowns = Vec::new();
    let mut timed = |splats: &Splats, cameras: &[Camera]| -> Result<Timed> {
        engine.upload(splats, None)?;
        let views = cameras.iter().map(|&camera| grey(camera)).collect();
        let ids = engine.add_views(views)?;
        let pixels = cameras
            .iter()
            .map(|c| f64::from(c.width) * f64::from(c.height));
        let pace = pace(engine, &ids, &schedule, seconds / 3.0)?;
        slowdowns.push(pace.mean / pace.fastest);
        Ok(Timed {
            pixels: pixels.sum::<f64>() / cameras.len().max(1) as f64,
            gaussians: splats.len() as f64,
            seconds: pace.fastest,
        })
    };
    let whole = timed(&splats, &cameras)?;
    let fewer_pixels = timed(&splats, &halves)?;
    let fewer_of_both = timed(&quarter, &halves)?;
    let model = CostModel::fit(whole, fewer_pixels, fewer_of_both);
    Ok(model.slowed(slowdowns.iter().sum::<f64>() / slowdowns.len() as f64))
}

fn grey(camera: Camera) -> TrainView {
    let values = camera.width as usize * camera.height as usize * 3;
    let photo = Photo::from_rgb(camera.width, camera.height, vec![128; values]);
    TrainView {
        camera,
        photo: Arc::new(photo),
    }
}

/// Seconds of a step.
struct Pace {
    fastest: f64,
    mean: f64,
}

fn pace(
    engine: &mut dyn Engine,
    views: &[ViewId],
    schedule: &Schedule,
    seconds: f64,
) -> Result<Pace> {
    let mut settings = schedule.step_settings(1);
    settings.render.sh_degree = schedule.render_settings().sh_degree;
    let mut round = || -> Result<f64> {
        let started = Instant::now();
        for &view in views {
            engine.step(view, &settings)?;
            settings.step += 1;
        }
        engine.finish()?;
        engine.poll()?;
        let seconds = started.elapsed().as_secs_f64() / views.len().max(1) as f64;
        // Of a clock too coarse to see it.
        Ok(seconds.max(1e-9))
    };
    let started = Instant::now();
    round()?;
    let mut rounds = vec![round()?];
    while started.elapsed().as_secs_f64() < seconds {
        rounds.push(round()?);
    }
    Ok(Pace {
        fastest: rounds.iter().copied().fold(f64::INFINITY, f64::min),
        mean: rounds.iter().sum::<f64>() / rounds.len() as f64,
    })
}
