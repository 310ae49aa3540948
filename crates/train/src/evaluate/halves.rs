//! Scores of photos with an unknown appearance. The appearance of each photo is fitted to its left half, and its right
//! half is scored (as in Martin-Brualla et al. 2021, "NeRF in the Wild", arXiv:2008.02268, section 5).
//!
//! 1. The held-out photos become views of the engine, their right halves masked. Splats and the network of the
//!    appearance MLP are frozen: [`STEPS`] steps for each photo move only its own appearance (a grid, numbers of the
//!    photo and its camera, an embedding), by the training loss, with Adam and rates that fall to a hundredth.
//! 2. On request the appearance MLP is adapted further, by a LoRA on its network ([`super::adapt`]).
//! 3. The appearance of an embedding is baked into the splats; other corrections are applied to their render. Then the
//!    right half is scored.
//!
//! Without appearance, no fit takes place: right halves are scored directly, for comparison.

use super::adapt::{self, Adapter};
use super::host::score;
use super::scores::{EvalReport, ImageScore};
use crate::config::AppearanceConfig;
use crate::features;
use dapple_device::BoxedEngine;
use dapple_engine::{
    AppearanceMlp, Engine, EngineExt, LossTerm, LossWeights, OptimizerState, RenderSettings,
    StepSettings, TrainView, ViewState, appearance_mlp,
};
use dapple_scene::{Error, Photo, Progress, Result, Splats, View};
use std::sync::Arc;

/// Steps for each photo.
const STEPS: u32 = 150;

/// The last rate as a fraction of the first.
const DECAY: f64 = 0.01;

/// Settings of the fit.
#[derive(Debug, Clone, Copy)]
pub struct Halves<'a> {
    /// Appearance configuration of the run.
    pub appearance: &'a AppearanceConfig,
    /// The appearance MLP, if the run learned one.
    pub appearance_mlp: Option<&'a AppearanceMlp>,
    /// Rank of the addition that adapts the appearance MLP to each photo, in addition to its embedding. `None` = no
    /// addition.
    pub lora: Option<usize>,
    /// Weight of SSIM in the loss.
    pub ssim_weight: f64,
    /// How to render.
    pub settings: RenderSettings,
}

/// Scores the right halves of `views`. Pass a new engine: its views and splats are replaced.
///
/// # Errors
/// No view has pixels to score; the engine fails; a request to stop.
pub fn evaluate_halves(
    engine: &mut BoxedEngine,
    splats: &Splats,
    views: &[&View],
    how: &Halves<'_>,
    progress: &dyn Progress,
) -> Result<EvalReport> {
    let learnt = match how.appearance.is_on() {
        true => fit(engine.as_mut(), splats, views, how, progress)?,
        false => ViewState::default(),
    };
    engine.upload(splats, None)?;
    let lora = how.lora.filter(|_| !learnt.appearance_mlp.is_empty());
    let adapter = lora
        .map(|rank| Adapter::new(engine, splats, &learnt.appearance_mlp, rank))
        .transpose()?;
    if adapter.is_some() {
        let rounds = u64::from(adapt::ROUNDS) * views.len() as u64;
        progress.start("adapting to left halves", rounds);
    }
    let mut images = Vec::with_capacity(views.len());
    for (i, view) in views.iter().enumerate() {
        if !learnt.appearance_mlp.is_empty() {
            let code = learnt.appearance_mlp.embedding(i);
            let lit = match &adapter {
                Some(adapter) => {
                    let left = half(view.photo.read()?.as_ref(), true);
                    let seen = (&view.camera, &left);
                    adapter.fit(engine.as_mut(), seen, &code, &how.settings, progress)?
                }
                None => {
                    let mut lit = splats.clone();
                    appearance_mlp::bake(&mut lit, &learnt.appearance_mlp, &code);
                    lit
                }
            };
            engine.upload(&lit, None)?;
        }
        let mut rendered = engine.render(&view.camera, &how.settings)?;
        features::correct(&learnt, i, &view.camera, &mut rendered);
        let photo = half(view.photo.read()?.as_ref(), false);
        let scores = score(&rendered, &photo, how.settings.background, None)
            .map_err(|error| error.at(view.name.clone()))?;
        images.extend(scores.map(|scores| ImageScore {
            name: view.name.clone(),
            psnr: scores.psnr,
            ssim: scores.ssim,
            lpips: None,
            cc_psnr: None,
            cc_ssim: None,
        }));
    }
    if adapter.is_some() {
        progress.finish();
    }
    if images.is_empty() {
        return Err(
            Error::input("no photo has anything to score in its right half")
                .hint("masks hide all of them"),
        );
    }
    let mean =
        |of: fn(&ImageScore) -> f64| images.iter().map(of).sum::<f64>() / images.len() as f64;
    Ok(EvalReport {
        psnr: mean(|image| image.psnr),
        ssim: mean(|image| image.ssim),
        lpips: None,
        cc_psnr: None,
        cc_ssim: None,
        focus: None,
        gaussians: splats.len() as u64,
        background: how.settings.background,
        images,
        notes: Vec::new(),
    })
}

/// Step 1: fits the appearance to the left halves.
fn fit(
    engine: &mut dyn Engine,
    splats: &Splats,
    views: &[&View],
    how: &Halves<'_>,
    progress: &dyn Progress,
) -> Result<ViewState> {
    let mut left = Vec::with_capacity(views.len());
    for view in views {
        left.push(TrainView {
            camera: view.camera,
            photo: Arc::new(half(view.photo.read()?.as_ref(), true)),
        });
    }
    let ids = engine.add_views(left)?;
    let state = how.appearance_mlp.map(|mlp| {
        let views = ViewState {
            appearance_mlp: mlp.for_views(ids.len()),
            ..ViewState::default()
        };
        OptimizerState::untrained(splats, views)
    });
    engine.upload(splats, state.as_ref())?;
    progress.start("fitting left halves", u64::from(STEPS) * ids.len() as u64);
    let mut number = 0;
    for step in 0..STEPS {
        let rate = DECAY.powf(f64::from(step) / f64::from(STEPS));
        for &id in &ids {
            if progress.should_stop() {
                progress.finish();
                return Err(crate::contributions::stopped());
            }
            number += 1;
            engine.step(id, &settings_of(number, rate, how))?;
            engine.poll()?;
            progress.advance(1);
        }
    }
    engine.finish()?;
    progress.finish();
    engine.view_state()
}

/// Returns the settings of a step that moves only the photo's appearance.
fn settings_of(step: u32, rate: f64, how: &Halves<'_>) -> StepSettings {
    StepSettings {
        losses: LossWeights::default().with(LossTerm::Ssim, how.ssim_weight as f32),
        features: features::fit(how.appearance, rate),
        ..StepSettings::new(step, how.settings)
    }
}

/// Returns the photo with its other half masked.
fn half(photo: &Photo, is_left: bool) -> Photo {
    let width = photo.width as usize;
    let mut half = photo.clone();
    let mask = half
        .mask
        .get_or_insert_with(|| vec![255; photo.pixel_count()]);
    for row in mask.chunks_exact_mut(width.max(1)) {
        let (left, right) = row.split_at_mut(width / 2);
        if is_left { right } else { left }.fill(0);
    }
    half
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_the_whole_photo_once() {
        let photo = Photo::from_rgb(5, 2, vec![0; 30]);
        let [left, right] = [true, false].map(|is_left| half(&photo, is_left).mask.unwrap());
        assert_eq!(left, [255, 255, 0, 0, 0, 255, 255, 0, 0, 0]);
        let both: Vec<u8> = left.iter().zip(&right).map(|(a, b)| a | b).collect();
        assert!(left.iter().zip(&right).all(|(a, b)| a & b == 0));
        assert_eq!(both, [255; 10]);
    }
}
