//! Supervision by known depths ([`dapple_engine::features::depth`]). `samples` finds the depths in the capture.

mod samples;

use super::point::{At, Finding, Found, TrainFeature, Weighing};
use crate::TrainConfig;
use crate::config::{DepthConfig, DepthSource};
use dapple_engine::features::depth;
use dapple_engine::{EngineExt, LossTerm, LossWeights};
use dapple_scene::{Error, Result};
use samples::supervision;

/// Supervision by known depths.
pub(super) struct Feature;

impl TrainFeature for Feature {
    type Step = depth::Step;
    type State = depth::State;

    fn step(_at: &At<'_>) -> Self::Step {}

    fn weigh(of: &Weighing<'_>, weights: &mut LossWeights) {
        weights[LossTerm::Depth] = weight(&of.config.depth, of.done);
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
        let (samples, notes) = supervision(of.dataset, of.train, of.extent, of.config)?;
        Ok(Some(Box::new(move |to| {
            to.notes.extend(notes);
            for (&view, samples) in to.ids.iter().zip(samples) {
                to.engine.supervise_depth(view, samples)?;
            }
            Ok(())
        })))
    }
}

/// Returns the weight of the depth loss. It is log-linear over the run, so that depths determine the position of
/// Gaussians first, and photos refine it later (Kerbl et al. 2024, "A Hierarchical 3D Gaussian Representation").
/// `done` is the elapsed part of the schedule.
fn weight(config: &DepthConfig, done: f64) -> f32 {
    if config.from == DepthSource::None {
        return 0.0;
    }
    (config.weight * config.decay.powf(done)) as f32
}
