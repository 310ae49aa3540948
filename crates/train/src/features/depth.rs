//! Supervision by known depths ([`dapple_engine::features::depth`]), and by the depth of a sky ([`crate::sky`]). `samples`
//! finds the depths in the capture.

mod samples;

use super::point::{At, Finding, Found, TrainFeature, Weighing};
use crate::TrainConfig;
use crate::config::{DepthSource, SkyMode};
use crate::sky::{self, Sky};
use crate::trainer::half_camera;
use dapple_engine::features::depth;
use dapple_engine::{DepthSample, EngineExt, LossTerm, LossWeights};
use dapple_scene::{Camera, Error, Result};
use samples::supervision;
use std::collections::BTreeMap;

/// Supervision by known depths.
pub(super) struct Feature;

impl TrainFeature for Feature {
    type Step = depth::Step;
    type State = depth::State;

    fn step(_at: &At<'_>) -> Self::Step {}

    fn weigh(of: &Weighing<'_>, weights: &mut LossWeights) {
        weights[LossTerm::Depth] = weight(of.config, of.done);
    }

    fn validate(config: &TrainConfig) -> Result<()> {
        let depth = &config.depth;
        let of_images = [
            ("depth.folder", !depth.folder.as_os_str().is_empty()),
            ("depth.relative", depth.relative),
        ];
        for (key, is_set) in of_images {
            if is_set && depth.from != DepthSource::Images {
                return Err(Error::input(format!(
                    "{key} is set, but depth.from = {} reads no depth images",
                    depth.from
                ))
                .hint("set depth.from = \"images\" (--depth-from images), or omit the option"));
            }
        }
        Ok(())
    }

    fn find(of: &Finding<'_>) -> Result<Option<Found>> {
        let (mut samples, notes) = supervision(of.dataset, of.train, of.extent, of.config)?;
        let mut of_halves = Vec::new();
        if let Some(sky) = of.sky {
            samples.resize(of.train.len(), Vec::new());
            of_halves = add_sky(of, sky, &mut samples);
        }
        Ok(Some(Box::new(move |to| {
            to.notes.extend(notes);
            let full = to.ids.iter().zip(samples);
            for (&view, samples) in full.chain(to.coarse_ids.iter().zip(of_halves)) {
                to.engine.supervise_depth(view, samples)?;
            }
            Ok(())
        })))
    }
}

/// Adds the samples of the sky to those of the photos, and returns its samples of the photos at half size. Where a pixel
/// has both, the known depth stays.
fn add_sky(of: &Finding<'_>, sky: &Sky, all: &mut [Vec<DepthSample>]) -> Vec<Vec<DepthSample>> {
    let depth = &of.config.depth;
    let scale = match depth.from {
        DepthSource::None => 1.0,
        _ => (sky::WEIGHT / depth.weight) as f32,
    };
    let scaled = |photo: usize, camera: &Camera| {
        let mut samples = sky::samples(sky, photo, camera);
        samples.iter_mut().for_each(|sample| sample.weight *= scale);
        samples
    };
    let cameras = of.train.iter().map(|&view| of.dataset.views[view].camera);
    let add = |(photo, camera): (usize, Camera)| {
        let by_pixel = |samples: Vec<DepthSample>| samples.into_iter().map(|s| (s.pixel, s));
        let mut both: BTreeMap<u32, DepthSample> = by_pixel(scaled(photo, &camera)).collect();
        both.extend(by_pixel(std::mem::take(&mut all[photo])));
        all[photo] = both.into_values().collect();
        scaled(photo, &half_camera(&camera))
    };
    cameras.enumerate().map(add).collect()
}

/// Returns the weight of the depth loss. It is log-linear over the run, so that depths determine the position of
/// Gaussians first, and photos refine it later (Kerbl et al. 2024, "A Hierarchical 3D Gaussian Representation"). With only
/// the depths of a sky it is constant. `done` is the elapsed part of the schedule.
fn weight(config: &TrainConfig, done: f64) -> f32 {
    let depth = &config.depth;
    let weight = match (depth.from, config.sky) {
        (DepthSource::None, SkyMode::On) => sky::WEIGHT,
        (DepthSource::None, _) => 0.0,
        _ => depth.weight * depth.decay.powf(done),
    };
    weight as f32
}
