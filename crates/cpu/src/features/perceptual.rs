//! Loss over crops: see [`kernels`].

pub mod kernels;

use super::point::{Feature, Learnt};
use crate::context::StepContext;
use crate::views::Views;
use dapple_engine::crops::{no_crop_loss, origin};
use dapple_engine::{CropLoss, FeatureInput, LossTerm};
use dapple_scene::Result;
use kernels::{Crop, Cut};

/// Loss over crops, if one is set.
#[derive(Debug, Default)]
pub struct Held {
    /// The loss.
    loss: Option<Box<dyn CropLoss>>,
    crop: Crop,
}

impl Feature for Held {
    fn set_input(&mut self, _views: &Views, input: FeatureInput) -> Result<Option<FeatureInput>> {
        match input {
            FeatureInput::Perceptual(loss) => {
                self.loss = loss;
                Ok(None)
            }
            other => Ok(Some(other)),
        }
    }

    fn image_loss(&mut self, step: &mut StepContext<'_>) -> Result<()> {
        let weight = step.settings.losses[LossTerm::Perceptual];
        if weight == 0.0 {
            return Ok(());
        }
        let loss = self.loss.as_deref_mut().ok_or_else(no_crop_loss)?;
        let cut = Cut {
            origin: origin(
                step.settings.features.perceptual.crop,
                step.camera.size,
                loss.side(),
            )?,
            background: step.settings.render.background,
            weight,
        };
        kernels::run(
            &step.camera,
            &step.photo,
            cut,
            loss,
            &mut self.crop,
            step.frame,
        )
    }
}

impl Learnt for Held {
    type State = ();
}
