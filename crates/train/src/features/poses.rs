//! Pose refinement ([`dapple_engine::features::poses`]): poses are fixed until `poses.start`, then their rates fall.

use super::point::{At, Stored, TrainFeature};
use crate::TrainConfig;
use dapple_engine::PoseRates;
use dapple_engine::features::poses;
use dapple_scene::{Error, Result};

/// The feature in training.
pub(super) struct Feature;

impl TrainFeature for Feature {
    type Step = poses::Step;
    type State = poses::State;

    /// A rotation by `a` moves the image by `focal * a` pixels, a translation by `t` moves a point at depth z by
    /// `focal * t / z`. Depths are about as large as the distances between cameras, so that equal rates, with lengths
    /// in units of the extent, move the image by equal amounts.
    fn step(at: &At<'_>) -> Self::Step {
        let poses = &at.config.poses;
        if !poses.refine || at.done < poses.start {
            return PoseRates::default();
        }
        let since = (at.done - poses.start) / (1.0 - poses.start);
        let rate = poses.rate * poses.decay.powf(since);
        PoseRates {
            rotation: rate as f32,
            translation: (rate * at.extent) as f32,
        }
    }

    fn validate(config: &TrainConfig) -> Result<()> {
        let poses = &config.poses;
        if poses.refine && config.data.validate_every > 0 {
            return Err(Error::input(format!(
                "poses.refine and data.validate_every = {} contradict each other",
                config.data.validate_every
            ))
            .hint(
                "validation photos are not refined and would show the errors of their poses: \
                 omit --validate-every or --refine-poses",
            ));
        }
        Ok(())
    }

    fn sizes(of: &Stored<'_>) -> Result<usize> {
        Ok(of.poses)
    }
}
