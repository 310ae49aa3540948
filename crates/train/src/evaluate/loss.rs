//! Training loss of photos that are measured but not trained on.

use super::host::score;
use super::pixels::mean_difference;
use super::scores::Scores;
use crate::loader::in_turn;
use dapple_engine::{Engine, EngineExt, RenderSettings, ScoreAsks};
use dapple_scene::{Photo, Result, View};

/// Mean over some photos.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MeanLoss {
    /// Loss of colours, its terms weighted as in training.
    pub(crate) loss: f64,
    /// dB.
    pub(crate) psnr: f64,
}

/// Renders these views with the engine's current splats; `None` if masks hide all of them.
///
/// # Errors
/// A photo cannot be read; the engine fails.
pub(crate) fn mean_loss(
    engine: &mut dyn Engine,
    views: &[View],
    settings: &RenderSettings,
    ssim_weight: f64,
) -> Result<Option<MeanLoss>> {
    let (mut loss, mut psnr, mut count) = (0.0, 0.0, 0.0);
    let views: Vec<&View> = views.iter().collect();
    in_turn(&views, &mut |view, photo| {
        // `None` if a mask hides all pixels.
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

/// Returns the scores of a view and its mean absolute error, from the engine or from its render.
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
