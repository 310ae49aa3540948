//! Scores of splats: PSNR, SSIM and LPIPS of held-out photos, and comparisons of two runs.
//!
//! 1. Render each view at full SH degree; transparent photos are composited over the background.
//! 2. PSNR of the values clamped to 0..1; SSIM over windows inside the image ([`ssim`]).
//! 3. Masked pixels count in neither: a window counts if its centre counts, as in the loss. LPIPS if the user names a
//!    file of weights ([`Lpips`]).
//! 4. The score of a capture is the mean over its images, as in the 3DGS paper's evaluation.
//!
//! The engine computes 1 to 3 if it can ([`EngineExt::score`]), otherwise this module does ([`score`]). LPIPS and fitted
//! colours need the render's floats and are always computed here: LPIPS by tensors on the engine's device, if that is a
//! GPU.

mod adapt;
mod align;
mod colour_fit;
mod halves;
mod host;
mod loss;
mod lpips;
mod paired;
mod pixels;
mod scores;
mod ssim;
mod table;
mod tensors;

pub use align::{align, evaluate_aligned};
pub use halves::{Halves, evaluate_halves};
pub use host::{psnr, score};
pub use lpips::{Backbone, Convolution, DeviceLpips, Lpips, LpipsCrops, Window};
pub use paired::{Difference, LEAST_IMAGES, Paired};
pub use pixels::target;
pub use scores::{EvalReport, FocusScores, ImageScore, PSNR_MAX, Scores};
pub use ssim::ssim;
pub use table::{paired_table, table};

use host::score_by;
pub(crate) use loss::{MeanLoss, mean_loss};
use lpips::Measure;
pub(crate) use pixels::{counts, target_row};

use crate::loader::in_turn;
use crate::pictures::pictures_of;
use dapple_device::BoxedEngine;
use dapple_engine::{Engine, EngineExt, Pictures, RenderSettings, ScoreAsks};
use dapple_scene::{Camera, Error, Photo, Result, View};

/// Requests in addition to PSNR and SSIM.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scoring<'a> {
    /// Weights for scores by LPIPS.
    pub lpips: Option<&'a Lpips>,
    /// Score a second time, with each render's colours fitted to its photo's by an affine map: [`ImageScore::cc_psnr`].
    pub fitted: bool,
    /// Return each view as bytes. No score depends on this field.
    pub pictures: bool,
}

/// Result of scoring a view.
struct Seen {
    gaussians: u64,
    /// `None` if a mask hides all pixels.
    scores: Option<Scores>,
    /// PSNR and SSIM with fitted colours.
    fitted: Option<Scores>,
    pictures: Option<Pictures>,
}

/// Renders and scores `views` with the engine's current splats. Passes each view to `on_view` with its photo in memory,
/// and with pictures if `scoring` requests them. Photos that are not in memory are read one by one.
///
/// # Errors
/// No view to score, a photo of another size than its camera, a failed engine, and errors of `on_view`.
pub fn evaluate(
    engine: &mut BoxedEngine,
    views: &[&View],
    settings: &RenderSettings,
    scoring: &Scoring<'_>,
    on_view: &mut dyn FnMut(&View, Option<Pictures>) -> Result<()>,
) -> Result<EvalReport> {
    let (images, gaussians, notes) = scored_images(engine, views, settings, scoring, on_view)?;
    if images.is_empty() {
        return Err(Error::input("there is no photo to score")
            .hint("hold some out with data.eval_every (8 = every eighth), and see that masks leave something"));
    }
    let mean =
        |value: fn(&ImageScore) -> f64| images.iter().map(value).sum::<f64>() / images.len() as f64;
    // Either all images have these values, or none has.
    let some = |is_asked: bool, value: fn(&ImageScore) -> Option<f64>| {
        let values = images.iter().filter_map(value).sum::<f64>();
        is_asked.then(|| values / images.len() as f64)
    };
    Ok(EvalReport {
        psnr: mean(|image| image.psnr),
        ssim: mean(|image| image.ssim),
        lpips: some(scoring.lpips.is_some(), |image| image.lpips),
        cc_psnr: some(scoring.fitted, |image| image.cc_psnr),
        cc_ssim: some(scoring.fitted, |image| image.cc_ssim),
        focus: None,
        gaussians,
        background: settings.background,
        images,
        notes,
    })
}

/// Scores views as [`evaluate`] does; without an image if masks hide all pixels.
pub(crate) fn scores_inside(
    engine: &mut BoxedEngine,
    views: &[&View],
    settings: &RenderSettings,
    scoring: &Scoring<'_>,
) -> Result<Vec<ImageScore>> {
    scored_images(engine, views, settings, scoring, &mut |_, _| Ok(())).map(|(images, ..)| images)
}

/// Renders and scores views. Returns the scores of those of which a mask shows something, the number of Gaussians, and
/// notes for the user.
fn scored_images(
    engine: &mut BoxedEngine,
    views: &[&View],
    settings: &RenderSettings,
    scoring: &Scoring<'_>,
    on_view: &mut dyn FnMut(&View, Option<Pictures>) -> Result<()>,
) -> Result<(Vec<ImageScore>, u64, Vec<String>)> {
    let mut images = Vec::with_capacity(views.len());
    let mut gaussians = 0;
    let mut lpips = scoring.lpips.map(|lpips| Measure::new(lpips, engine));
    in_turn(views, &mut |view, photo| {
        let seen = match on_device(engine.as_mut(), &view.camera, &photo, settings, scoring)? {
            Some(seen) => seen,
            None => on_host(
                engine.as_mut(),
                view,
                &photo,
                settings,
                (scoring, lpips.as_mut()),
            )?,
        };
        gaussians = seen.gaussians;
        if let Some(Scores { psnr, ssim, lpips }) = seen.scores {
            images.push(ImageScore {
                name: view.name.clone(),
                psnr,
                ssim,
                lpips,
                cc_psnr: seen.fitted.map(|fitted| fitted.psnr),
                cc_ssim: seen.fitted.map(|fitted| fitted.ssim),
            });
        }
        on_view(&view.with_photo(photo), seen.pictures)
    })?;
    let notes = lpips.and_then(Measure::note).into_iter().collect();
    Ok((images, gaussians, notes))
}

/// Scores a view on the engine's device. `None` if the engine cannot, or if the scoring needs more than sums.
fn on_device(
    engine: &mut dyn Engine,
    camera: &Camera,
    photo: &Photo,
    settings: &RenderSettings,
    scoring: &Scoring<'_>,
) -> Result<Option<Seen>> {
    if scoring.lpips.is_some() || scoring.fitted {
        return Ok(None);
    }
    let asks = ScoreAsks {
        pictures: scoring.pictures,
    };
    let scored = engine.score(camera, settings, photo, asks)?;
    Ok(scored.map(|scored| Seen {
        gaussians: scored.counts.gaussians,
        scores: Some(Scores::from(&scored)),
        fitted: None,
        pictures: scored.pictures,
    }))
}

/// Scores a view from its render.
fn on_host(
    engine: &mut dyn Engine,
    view: &View,
    photo: &Photo,
    settings: &RenderSettings,
    (scoring, lpips): (&Scoring<'_>, Option<&mut Measure<'_>>),
) -> Result<Seen> {
    let rendered = engine.render(&view.camera, settings)?;
    let background = settings.background;
    let at = |error: Error| error.at(view.name.clone());
    let scores = score_by(&rendered, photo, background, lpips).map_err(at)?;
    let fitted = match scoring.fitted {
        true => {
            let fitted = colour_fit::fitted(&rendered, photo, background);
            score(&fitted, photo, background, None).map_err(at)?
        }
        false => None,
    };
    Ok(Seen {
        gaussians: rendered.counts.gaussians,
        scores,
        fitted,
        pictures: scoring
            .pictures
            .then(|| pictures_of(&rendered, photo, background)),
    })
}

/// Returns the PSNR of an image of one colour, the photo's own mean, dB. Splats whose PSNR is not higher do not show
/// the photo. `None` if a mask hides all pixels.
pub fn flat_psnr(photo: &Photo, background: [f32; 3]) -> Option<f64> {
    let target = target(photo, background);
    let counts = |i: &usize| photo.mask.as_ref().is_none_or(|mask| counts(mask[*i]));
    let pixels: Vec<usize> = (0..target.len() / 3).filter(counts).collect();
    let mut error = 0.0;
    for c in 0..3 {
        let values = || pixels.iter().map(|i| f64::from(target[3 * i + c]));
        let mean = values().sum::<f64>() / pixels.len() as f64;
        error += values().map(|v| (v - mean).powi(2)).sum::<f64>();
    }
    let mean_error = error / (3 * pixels.len()) as f64;
    // For a photo of one colour the result is 60 dB.
    (!pixels.is_empty()).then(|| -10.0 * mean_error.max(1e-6).log10())
}
