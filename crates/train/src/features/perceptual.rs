//! LPIPS loss of a run: compares crops with the user's weights, if the configuration gives the loss a weight.

use super::point::{At, HandOver, TrainFeature, Weighing};
use crate::TrainConfig;
use crate::random::{Purpose, generator};
use dapple_device::BoxedEngine;
use dapple_engine::features::perceptual;
use dapple_engine::{EngineExt, LossTerm, LossWeights};
use dapple_scene::{Error, Result};
use rand_chacha::rand_core::Rng;

/// The LPIPS loss.
pub(super) struct Feature;

impl TrainFeature for Feature {
    type Step = perceptual::Step;
    type State = perceptual::State;

    /// Draws the position of the crop that the step compares.
    fn step(at: &At<'_>) -> Self::Step {
        if at.config.lpips_weight == 0.0 {
            return perceptual::Step::default();
        }
        let mut random = generator(at.config.seed, Purpose::Crop, at.step.into());
        perceptual::Step {
            crop: std::array::from_fn(|_| random.next_u32()),
        }
    }

    fn weigh(of: &Weighing<'_>, weights: &mut LossWeights) {
        weights[LossTerm::Perceptual] = of.config.lpips_weight as f32;
    }

    fn validate(config: &TrainConfig) -> Result<()> {
        if config.lpips_weight > 0.0 && config.eval.lpips.as_os_str().is_empty() {
            return Err(Error::input(format!(
                "lpips_weight = {} compares crops by LPIPS, and eval.lpips names no weights of it",
                config.lpips_weight
            ))
            .hint(
                "add --lpips FILE.safetensors; `dapple eval --help` says where weights come from",
            ));
        }
        Ok(())
    }

    /// Passes the loss to the engine. Its crops have the configured size, or that of the smallest photo.
    fn hand_over(to: &mut HandOver<'_>) -> Result<()> {
        if to.config.lpips_weight == 0.0 {
            return Ok(());
        }
        // The configuration was validated.
        let lpips = to.lpips;
        let lpips = lpips.ok_or_else(|| Error::internal("there are no weights of LPIPS"))?;
        let side = to.config.lpips_crop.min(to.least_edge);
        let least = lpips.backbone().least_edge();
        if (side as usize) < least {
            return Err(Error::input(format!(
                "crops of {side} x {side} pixels are too small for LPIPS with {}, which needs {least}",
                lpips.backbone().name()
            ))
            .at("lpips_weight")
            .hint("train on larger photos, raise lpips_crop, or omit --lpips-weight"));
        }
        match to.engine {
            BoxedEngine::Host(engine) => engine.set_crop_loss(Some(Box::new(lpips.crops(side)?))),
            BoxedEngine::Device(engine) => {
                let routine = lpips.crop_routine(side, engine.gpu())?;
                engine.set_crop_routine(Some(routine))
            }
        }
    }
}
