//! Fits few Gaussians to renders of many: a short training run whose photos are renders.
//!
//! 1. The many are rendered from every camera, in 8 bits.
//! 2. The few are trained on these renders: the training loss, Adam, no density control, all views in an order that the
//!    seed fixes, rates that fall log-linearly to a tenth.
//!
//! No photo of a capture is used, so that edits of the splats are preserved.

use crate::ViewOrder;
use crate::contributions::stopped;
use dapple_engine::{
    Engine, EngineExt, LearningRates, LossTerm, LossWeights, RenderSettings, StepSettings,
    TrainView,
};
use dapple_scene::{Camera, Photo, Progress, Result, Splats};
use std::sync::Arc;

/// Last rates as a fraction of the first.
const LAST: f32 = 0.1;

/// Centres move by a tenth of their rate at the beginning of a training run, because they are near their final
/// position.
const MEANS: f64 = 1.6e-5;

/// The other rates are those of a training run, except for a lower one of opacities, which are not reset.
const RATES: LearningRates = LearningRates {
    means: 0.0,
    scales: 5e-3,
    quats: 1e-3,
    opacities: 1e-2,
    sh0: 2.5e-3,
    sh_rest: 1.25e-4,
};

/// Target of a fit.
#[derive(Debug, Clone, Copy)]
pub struct Refit<'a> {
    /// Cameras of the renders.
    pub cameras: &'a [Camera],
    /// How to render.
    pub settings: RenderSettings,
    /// Size of the region that the cameras move in, world units: [`dapple_scene::Dataset::local_extent`].
    pub extent: f64,
    /// Steps to take.
    pub steps: u32,
}

/// Fits `few` to renders of `many`. Pass a new engine: its views are replaced.
///
/// # Errors
/// The engine fails; a request to stop.
pub fn refit(
    engine: &mut dyn Engine,
    many: &Splats,
    few: &Splats,
    how: &Refit<'_>,
    progress: &dyn Progress,
) -> Result<Splats> {
    engine.upload(many, None)?;
    let mut views = Vec::with_capacity(how.cameras.len());
    for camera in how.cameras {
        let shown = engine.render_bytes(camera, &how.settings)?;
        let rgb = shown
            .rgba
            .chunks_exact(4)
            .flat_map(|p| [p[0], p[1], p[2]])
            .collect();
        let photo = Photo::from_rgb(camera.width, camera.height, rgb);
        views.push(TrainView {
            camera: *camera,
            photo: Arc::new(photo),
        });
    }
    let ids = engine.add_views(views)?;
    engine.upload(few, None)?;
    let mut order = ViewOrder::new(0, ids.len());
    progress.start("fitting to what was there", how.steps.into());
    for step in 1..=how.steps {
        if progress.should_stop() {
            progress.finish();
            return Err(stopped());
        }
        engine.step(ids[order.view_at(step)], &settings_of(step, how))?;
        engine.poll()?;
        progress.advance(1);
    }
    engine.finish()?;
    progress.finish();
    engine.splats()
}

fn settings_of(step: u32, how: &Refit<'_>) -> StepSettings {
    let done = step as f32 / how.steps.max(1) as f32;
    let falls = LAST.powf(done);
    StepSettings {
        learning_rates: LearningRates {
            means: (MEANS * how.extent) as f32 * falls,
            scales: RATES.scales * falls,
            quats: RATES.quats * falls,
            opacities: RATES.opacities * falls,
            sh0: RATES.sh0 * falls,
            sh_rest: RATES.sh_rest * falls,
        },
        losses: LossWeights::default().with(LossTerm::Ssim, 0.2),
        ..StepSettings::new(step, how.settings)
    }
}
