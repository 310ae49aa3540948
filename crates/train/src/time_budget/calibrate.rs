//! Times some steps of a planned run.
//!
//! 1. Four training views with grey photos, at full and at half size; with the most Gaussians that the run may reach,
//!    and with its first ones. [`grown`] makes many Gaussians from few: smaller copies within each Gaussian, so that
//!    they cover the same region. In a trained scene, more Gaussians are smaller ones, and the number that a pixel sees
//!    is similar. If the run cannot grow, the fewer Gaussians are a quarter of its Gaussians, twice as large.
//! 2. Three cases: full, fewer pixels, fewer of both. Each is a round over the views that is not timed, then rounds
//!    until a third of the time is spent. The fastest round counts, because noise only adds time.
//! 3. The mean time of a round divided by the fastest slows the model down: a machine that is shared now is assumed to
//!    be shared during the run.

use super::{CostModel, Timed};
use crate::random::{Purpose, generator, unit};
use crate::views::Chosen;
use crate::{Schedule, TrainConfig, init};
use dapple_engine::{Engine, TrainView, ViewId};
use dapple_scene::{Camera, Dataset, Photo, Result, Splats};
use std::sync::Arc;
use std::time::Instant;

/// Number of timed views.
const VIEWS: usize = 4;

/// With less than this many times the first Gaussians, the first ones are the most that are timed.
const LEAST_GROWTH: f64 = 1.5;

/// Opacity of the many Gaussians: about the mean of trained scenes, where a pixel is opaque after fewer of them than at
/// the start.
const GROWN_OPACITY: f32 = 0.3;

/// Time of a run's step over that of a calibrated step: density control, uploads of photos, and more Gaussians at a
/// pixel. Five runs of 15 s on a GPU and on 16 CPU cores gave 1.30 to 1.67.
const OVERHEAD: f64 = 1.4;

/// Times steps on an engine without other use, for about `seconds` (longer if a step takes longer), with up to `most`
/// Gaussians. The photos of `dataset` are not read.
///
/// # Errors
/// The capture cannot be trained on; the engine fails.
pub fn calibrate(
    dataset: &Dataset,
    config: &TrainConfig,
    engine: &mut dyn Engine,
    seconds: f64,
    most: usize,
) -> Result<CostModel> {
    config.validate()?;
    let chosen = Chosen::new(dataset, config)?;
    let first = init::initial_splats(dataset, &chosen.train, chosen.extent, config)?;
    let grows = most as f64 > LEAST_GROWTH * first.len() as f64;
    let (many, few) = if grows {
        (grown(&first, most), first)
    } else {
        let mut quarter = first.clone();
        quarter.retain(|i| i.is_multiple_of(4));
        for scale in quarter.scales.iter_mut().flatten() {
            *scale += std::f32::consts::LN_2;
        }
        (first, quarter)
    };
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
    let whole = timed(&many, &cameras)?;
    let fewer_pixels = timed(&many, &halves)?;
    let fewer_of_both = timed(&few, &halves)?;
    let model = CostModel::fit(whole, fewer_pixels, fewer_of_both);
    let slowdown = slowdowns.iter().sum::<f64>() / slowdowns.len() as f64;
    Ok(model.slowed(OVERHEAD * slowdown))
}

/// Returns `most` Gaussians made from few: copies of each in turn, placed within it and smaller by the root of their
/// number.
fn grown(splats: &Splats, most: usize) -> Splats {
    let (count, stride) = (splats.len(), splats.sh_rest_stride());
    let mut out = Splats::empty(splats.sh_degree);
    let logit = (GROWN_OPACITY / (1.0 - GROWN_OPACITY)).ln();
    for k in 0..most {
        let i = k % count.max(1);
        let copies = (most - i).div_ceil(count.max(1));
        let mut random = generator(0, Purpose::Grown, k as u64);
        let offset =
            |axis: usize, random: &mut _| splats.scales[i][axis].exp() * (2.0 * unit(random) - 1.0);
        let mean = [0, 1, 2].map(|axis| splats.means[i][axis] + offset(axis, &mut random));
        out.means.push(mean);
        let smaller = 0.5 * (copies as f32).ln();
        out.scales
            .push(splats.scales[i].map(|scale| scale - smaller));
        out.quats.push(splats.quats[i]);
        out.opacities.push(logit);
        out.sh0.push(splats.sh0[i]);
        let rest = &splats.sh_rest[i * stride..(i + 1) * stride];
        out.sh_rest.extend_from_slice(rest);
    }
    out
}

fn grey(camera: Camera) -> TrainView {
    let values = camera.width as usize * camera.height as usize * 3;
    let photo = Photo::from_rgb(camera.width, camera.height, vec![128; values]);
    TrainView {
        camera,
        photo: Arc::new(photo),
    }
}

/// Time of a step, s.
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
    let size = settings.batch.size.max(1);
    // Whole batches.
    let steps = views.len().next_multiple_of(size as usize);
    let mut round = || -> Result<f64> {
        let started = Instant::now();
        let batches = (0..size).cycle();
        for (&view, index) in views.iter().cycle().zip(batches).take(steps) {
            settings.batch.index = index;
            engine.step(view, &settings)?;
            settings.step += 1;
        }
        engine.finish()?;
        engine.poll()?;
        let seconds = started.elapsed().as_secs_f64() / steps.max(1) as f64;
        // The time is 0 if the clock is too coarse.
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
