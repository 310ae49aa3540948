//! LPIPS loss of a run: compares crops with the user's weights, if the configuration gives the loss a weight.

use crate::evaluate::Lpips;
use crate::trainer::Run;
use dapple_device::BoxedEngine;
use dapple_engine::EngineExt;
use dapple_scene::{Error, Result};

/// Passes the LPIPS loss to the engine. Its crops have the configured size, or that of the smallest photo.
///
/// # Errors
/// Photos too small for the network; an engine without an LPIPS loss; a device without memory.
pub(crate) fn hand_over(run: &mut Run, lpips: Option<&Lpips>) -> Result<()> {
    let config = run.config();
    if config.lpips_weight == 0.0 {
        return Ok(());
    }
    // The configuration was validated.
    let lpips = lpips.ok_or_else(|| Error::internal("there are no weights of LPIPS"))?;
    let side = config.lpips_crop.min(run.photos.least_edge());
    let least = lpips.backbone().least_edge();
    if (side as usize) < least {
        return Err(Error::input(format!(
            "crops of {side} x {side} pixels are too small for LPIPS with {}, which needs {least}",
            lpips.backbone().name()
        ))
        .at("lpips_weight")
        .hint("train on larger photos, raise lpips_crop, or omit --lpips-weight"));
    }
    match &mut run.engine {
        BoxedEngine::Host(engine) => engine.set_crop_loss(Some(Box::new(lpips.crops(side)?))),
        BoxedEngine::Device(engine) => {
            let routine = lpips.crop_routine(side, engine.gpu())?;
            engine.set_crop_routine(Some(routine))
        }
    }
}
