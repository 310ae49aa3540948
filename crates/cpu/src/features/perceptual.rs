//! Loss over crops: see [`crate::stages::crops`].

use super::point::Feature;
use crate::context::StepContext;
use crate::stages::crops::{self, Crop, Cut};
use dapple_engine::crops::{no_crop_loss, origin};
use dapple_engine::{CropLoss, LossTerm};
use dapple_scene::Result;

/// Loss over crops, if one is set.
#[derive(Debug, Default)]
pub struct Held {
    /// The loss.
    pub loss: Option<Box<dyn CropLoss>>,
    crop: Crop,
}

impl Feature for Held {
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
        crops::run(
            &step.camera,
            &step.photo,
            cut,
            loss,
            &mut self.crop,
            step.frame,
        )
    }
}
