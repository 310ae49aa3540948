//! The loss that training minimises, of photos that are looked at beside it.

use super::{Scores, mean_difference, score};
use crate::loader::in_turn;
use dapple_engine::{Engine, RenderSettings, ScoreAsks};
use dapple_scene::{Photo, Result, View};

/// The mean over some photos.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MeanLoss {
    /// Of the loss of colours, its terms weighted as in training.
    pub(crate) loss: f64,
    /// dB.
    pub(crate) psnr: f64,
}

/// Renders these views with the engine's present splats; `None` where masks hide all of them.
///
/// # Errors
/// A photo that cannot be read, what the engine cannot do.
pub(crate) fn mean_loss(
    engine: &mut dyn Engine,
    views: &[View],
    settings: &RenderSettings,
    ssim_weight: f64,
) -> Result<Option<MeanLoss>> {
    let (mut loss, mut psnr, mut count) = (0.0, 0.0, 0.0);
    let views: Vec<&View> = views.iter().collect();
    in_turn(&views, &mut |view, photo| {
        // Nothing where a mask hides all of it.
        if let Some((scores, l1)) = compare(engine, view, &photo, settings)? {
            loss += (1.0 - ssim_weight) * l1 + ssim_weight * (1.0 - scores.ssim);
            psnr += scores.psnr;
            count += 1.0;
        }
        Ok(())
    })?;
    Ok((count > 0.0).then(|| MeanLoss {
        loss: loss / count,
        psnr: psnr / count,
    }))
}

/// Scores of a view and its mean absolute error, from the engine or else from its render.
fn compare(
    engine: &mut dyn Engine,
    view: &View,
    photo: &Photo,
    settings: &RenderSettings,
) -> Result<Option<(Scores, f64)>> {
    let asks = ScoreAsks::default();
    if let Some(scored) = engine.score(&view.camera, settings, photo, asks)? {
        let mean = scored.absolute_error / scored.values.max(1) as f64;
        return Ok(Some((Scores::from(&scored), mean)));
    }
    let rendered = engine.render(&view.camera, settings)?;
    let scores = score(&rendered, photo, settings.background, None)
        .map_err(|error| error.at(view.name.clone()))?;
    Ok(scores.map(|scores| {
        let mean = mean_difference(&rendered.rgb, photo, settings.background);
        (scores, mean)
    }))
}
