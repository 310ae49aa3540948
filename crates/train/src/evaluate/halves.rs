//! Scores of photos with an unknown appearance. The appearance of each photo is fitted to its left half, and its right
//! half is scored (as in Martin-Brualla et al. 2021, "NeRF in the Wild", arXiv:2008.02268, section 5).
//!
//! 1. The held-out photos become views of the engine, their right halves masked. Splats and the network of the
//!    appearance MLP are frozen: [`STEPS`] steps for each photo move only its grid, its photometric model with that of
//!    its camera, or its embedding, by the training loss, with Adam and rates that fall to a hundredth.
//! 2. On request the appearance MLP is adapted further, by a LoRA on its network ([`super::adapt`]).
//! 3. The appearance of an embedding is baked into the splats, or the maps of a grid or the photometric model are
//!    applied to their render. Then the right half is scored.
//!
//! Without appearance, no fit takes place: right halves are scored directly, for comparison.

use super::adapt::{self, Adapter};
use super::host::score;
use super::scores::{EvalReport, ImageScore};
use crate::config::AppearanceConfig;
use dapple_device::BoxedEngine;
use dapple_engine::appearance::{AFFINE, AppearanceGrids, AppearanceSettings, Place};
use dapple_engine::constants::LUMINANCE;
use dapple_engine::photometric::{Model, Radii};
use dapple_engine::{
    AppearanceMlp, AppearanceMlpSettings, Engine, EngineExt, LossTerm, LossWeights, OptimizerState,
    PhotometricSettings, RenderSettings, Rendered, StepFeatures, StepSettings, TrainView,
    ViewState, appearance_mlp,
};
use dapple_scene::{Camera, Error, Photo, Progress, Result, Splats, View};
use std::sync::Arc;

/// Steps for each photo.
const STEPS: u32 = 150;

/// First step size of an embedding. A grid uses the rate of its run.
const CODE_RATE: f64 = 0.1;

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
        if !learnt.appearance.is_empty() {
            map_colours(&mut rendered, &learnt.appearance, i);
        }
        if let Some(model) = learnt.photometric.model(i) {
            correct(&mut rendered, &model, &view.camera);
        }
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
    let appearance = how.appearance;
    StepSettings {
        losses: LossWeights::default().with(LossTerm::Ssim, how.ssim_weight as f32),
        features: StepFeatures {
            appearance: appearance.has_grids().then_some(AppearanceSettings {
                cells: appearance.grid,
                rate: (appearance.rate * rate) as f32,
                smoothness: appearance.smoothness as f32,
                identity: appearance.identity as f32,
            }),
            photometric: appearance.has_photometric().then_some(PhotometricSettings {
                rate: (appearance.rate * rate) as f32,
                prior: appearance.identity as f32,
            }),
            appearance_mlp: appearance.has_mlp().then_some(AppearanceMlpSettings {
                network_rate: 0.0,
                embedding_rate: (CODE_RATE * rate) as f32,
                feature_rate: 0.0,
                neutral: appearance.identity as f32,
            }),
            ..StepFeatures::default()
        },
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

/// Applies a photometric model to a render.
fn correct(rendered: &mut Rendered, model: &Model, camera: &Camera) {
    let size = [rendered.width, rendered.height];
    let radii = Radii::new(size, [camera.cx as f32, camera.cy as f32]);
    let curves = model.curves();
    let width = rendered.width as usize;
    for (pixel, colour) in rendered.rgb.chunks_exact_mut(3).enumerate() {
        let radius2 = radii.squared(pixel % width, pixel / width);
        for (c, value) in colour.iter_mut().enumerate() {
            *value = model.apply(c, *value, radius2, curves[c]).value;
        }
    }
}

/// Applies a view's grid to a render: `dapple_reference::appearance`, in `f32`.
fn map_colours(rendered: &mut Rendered, learnt: &AppearanceGrids, view: usize) {
    let grid = learnt.grid(view);
    let cells = learnt.cells.map(|n| n as usize);
    let (width, height) = (rendered.width as usize, rendered.height as usize);
    for (pixel, colour) in rendered.rgb.chunks_exact_mut(3).enumerate() {
        let luminance: f32 = (0..3).map(|c| LUMINANCE[c] * colour[c]).sum();
        let places = [
            ((pixel % width) as f32 + 0.5) / width as f32,
            ((pixel / width) as f32 + 0.5) / height as f32,
            luminance.clamp(0.0, 1.0),
        ];
        let around: [[(usize, f32); 2]; 3] = std::array::from_fn(|axis| {
            let place = Place::at(places[axis] * (cells[axis] - 1) as f32, cells[axis]);
            [(place.first, 1.0 - place.part), (place.next, place.part)]
        });
        let mut map = [0.0f32; AFFINE];
        for (x, wx) in around[0] {
            for (y, wy) in around[1] {
                for (l, wl) in around[2] {
                    let cell = ((y * cells[0] + x) * cells[2] + l) * AFFINE;
                    for (sum, value) in map.iter_mut().zip(&grid[cell..cell + AFFINE]) {
                        *sum += wx * wy * wl * value;
                    }
                }
            }
        }
        let input = [colour[0], colour[1], colour[2], 1.0];
        for (c, out) in colour.iter_mut().enumerate() {
            *out = (0..4).map(|k| map[4 * c + k] * input[k]).sum();
        }
    }
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

    #[test]
    fn a_grid_that_changes_nothing_changes_nothing() {
        let mut rendered = Rendered {
            width: 3,
            height: 1,
            rgb: vec![0.1, 0.2, 0.3, 0.0, 1.5, 0.5, 1.0, 1.0, 1.0],
            ..Rendered::default()
        };
        let before = rendered.rgb.clone();
        map_colours(&mut rendered, &AppearanceGrids::identity([2, 3, 2], 1), 0);
        for (a, b) in rendered.rgb.iter().zip(&before) {
            assert!((a - b).abs() < 1e-6, "{a} {b}");
        }
        let mut bright = AppearanceGrids::identity([1; 3], 1);
        bright.coefficients[3] = 0.25;
        map_colours(&mut rendered, &bright, 0);
        assert!((rendered.rgb[0] - 0.35).abs() < 1e-6);
    }
}
