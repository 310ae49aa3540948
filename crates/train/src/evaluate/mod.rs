//! How good the splats are: PSNR, SSIM and LPIPS of held-out photos, and whether others are better.
//!
//! 1. Render each view at full SH degree; transparent photos are composited over the background.
//! 2. PSNR of the values clamped to 0..1; SSIM over windows that lie inside the image ([`ssim`]).
//! 3. Pixels a mask hides count in neither: a window counts when its centre does, as in the loss.
//!    LPIPS where the user names a file of weights ([`Lpips`]).
//! 4. The score of a capture is the mean over its images, as in the 3DGS paper's evaluation.

mod align;
mod colour_fit;
mod lpips;
mod paired;
mod ssim;
mod table;

pub use align::{align, evaluate_aligned};
pub use colour_fit::CorrectedScores;
pub use lpips::{Backbone, Lpips};
pub use paired::{Difference, LEAST_IMAGES, Paired};
pub use ssim::ssim;
pub use table::{paired_table, table};

use crate::loader::in_turn;
use dapple_engine::{Engine, RenderSettings, Rendered};
use dapple_scene::{Error, Photo, Result, View};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// PSNR of images without any difference, dB: the logarithm has to stop somewhere.
pub const PSNR_MAX: f64 = 100.0;

/// Scores of one image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImageScore {
    /// The photo's name.
    pub name: String,
    /// Peak signal-to-noise ratio, dB, at most [`PSNR_MAX`].
    pub psnr: f64,
    /// Structural similarity, 1 = equal.
    pub ssim: f64,
    /// Perceptual distance, 0 = equal; `None` where no weights were given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lpips: Option<f64>,
    /// PSNR after the render's colours were fitted to the photo's, see [`CorrectedScores`]; where asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cc_psnr: Option<f64>,
    /// SSIM likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cc_ssim: Option<f64>,
}

/// Scores of a capture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvalReport {
    /// Mean PSNR over the images, dB.
    pub psnr: f64,
    /// Mean SSIM over the images.
    pub ssim: f64,
    /// Mean LPIPS over the images; `None` where no weights were given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lpips: Option<f64>,
    /// Mean PSNR with fitted colours, dB; where asked for, see [`CorrectedScores`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cc_psnr: Option<f64>,
    /// Mean SSIM likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cc_ssim: Option<f64>,
    /// Gaussians rendered from.
    pub gaussians: u64,
    /// What transparent photos and renders were seen over, 0..1.
    #[serde(default)]
    pub background: [f32; 3],
    /// Each image, in the order of the views. An image that its mask hides whole is left out.
    pub images: Vec<ImageScore>,
}

impl EvalReport {
    /// The `count` images with the lowest PSNR, worst first.
    pub fn worst(&self, count: usize) -> Vec<&ImageScore> {
        let mut images: Vec<&ImageScore> = self.images.iter().collect();
        images.sort_by(|a, b| a.psnr.total_cmp(&b.psnr));
        images.truncate(count);
        images
    }
}

/// Scores of one rendered view: PSNR (dB), SSIM, and LPIPS where weights were given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scores {
    /// Peak signal-to-noise ratio, dB, at most [`PSNR_MAX`].
    pub psnr: f64,
    /// Structural similarity, 1 = equal.
    pub ssim: f64,
    /// Perceptual distance, 0 = equal.
    pub lpips: Option<f64>,
}

/// Renders and scores `views` with the engine's present splats, by `lpips` too if it is given; each
/// rendered view is shown to `on_render`, its photo in memory. Photos that are not are read one by one.
///
/// # Errors
/// No view to score, a photo of another size than its camera, what the engine cannot do.
pub fn evaluate(
    engine: &mut dyn Engine,
    views: &[&View],
    settings: &RenderSettings,
    lpips: Option<&Lpips>,
    on_render: &mut dyn FnMut(&View, &Rendered) -> Result<()>,
) -> Result<EvalReport> {
    let mut images = Vec::with_capacity(views.len());
    let mut gaussians = 0;
    in_turn(views, &mut |view, photo| {
        let rendered = engine.render(&view.camera, settings)?;
        gaussians = rendered.counts.gaussians;
        let scores = score(&rendered, &photo, settings.background, lpips)
            .map_err(|error| error.at(view.name.clone()))?;
        if let Some(Scores { psnr, ssim, lpips }) = scores {
            images.push(ImageScore {
                name: view.name.clone(),
                psnr,
                ssim,
                lpips,
                cc_psnr: None,
                cc_ssim: None,
            });
        }
        on_render(&view.with_photo(photo), &rendered)
    })?;
    if images.is_empty() {
        return Err(Error::input("there is no photo to score")
            .hint("hold some out with data.eval_every (8 = every eighth), and see that masks leave something"));
    }
    let mean =
        |value: fn(&ImageScore) -> f64| images.iter().map(value).sum::<f64>() / images.len() as f64;
    Ok(EvalReport {
        psnr: mean(|image| image.psnr),
        ssim: mean(|image| image.ssim),
        // Each image has it, or none.
        lpips: lpips.map(|_| mean(|image| image.lpips.unwrap_or(0.0))),
        cc_psnr: None,
        cc_ssim: None,
        gaussians,
        background: settings.background,
        images,
    })
}

/// Scores of a rendered view against its photo; `None` when a mask hides all of it.
///
/// # Errors
/// Sizes that differ; an image too small for LPIPS.
pub fn score(
    rendered: &Rendered,
    photo: &Photo,
    background: [f32; 3],
    lpips: Option<&Lpips>,
) -> Result<Option<Scores>> {
    let (width, height) = (photo.width as usize, photo.height as usize);
    if (rendered.width, rendered.height) != (photo.width, photo.height)
        || rendered.rgb.len() != width * height * 3
    {
        return Err(Error::input(format!(
            "the photo is {width}x{height} and the rendered view {}x{}",
            rendered.width, rendered.height
        ))
        .hint("a photo and its camera must have one size"));
    }
    let target = target(photo, background);
    let mask = photo.mask.as_deref();
    if mask.is_some_and(|mask| !mask.iter().any(|&m| counts(m))) {
        return Ok(None);
    }
    let image: Vec<f32> = rendered.rgb.par_iter().map(|&v| clamped(v)).collect();
    let distance = |lpips: &Lpips| lpips.distance(&image, &target, width, height, mask);
    Ok(Some(Scores {
        psnr: psnr(&image, &target, width, mask),
        ssim: ssim(&image, &target, width, height, mask),
        lpips: lpips.map(distance).transpose()?,
    }))
}

/// The photo as a renderer should show it: values in 0..1, `[height, width, 3]`, composited over
/// `background` where it has alpha.
pub fn target(photo: &Photo, background: [f32; 3]) -> Vec<f32> {
    let value = |i: usize| f32::from(photo.rgb[i]) / 255.0;
    match &photo.alpha {
        None => (0..photo.rgb.len()).into_par_iter().map(value).collect(),
        Some(alpha) => (0..photo.rgb.len())
            .into_par_iter()
            .map(|i| {
                let a = f32::from(alpha[i / 3]) / 255.0;
                value(i) * a + background[i % 3] * (1.0 - a)
            })
            .collect(),
    }
}

/// The PSNR of a picture of one colour, the photo's own mean, dB: splats that do not show a photo better
/// show something else. `None` where a mask leaves nothing.
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
    // A photo of one colour is shown well enough at 60 dB.
    (!pixels.is_empty()).then(|| -10.0 * mean_error.max(1e-6).log10())
}

/// `10 log10(1 / mean squared error)` over the pixels that `mask` shows, dB.
///
/// Images are `[height, width, 3]` in 0..1. Rows are summed apart and added in order, so that the
/// result does not depend on the number of threads.
pub fn psnr(image: &[f32], target: &[f32], width: usize, mask: Option<&[u8]>) -> f64 {
    let row_floats = width.max(1) * 3;
    let rows: Vec<(f64, usize)> = image
        .par_chunks(row_floats)
        .zip(target.par_chunks(row_floats))
        .enumerate()
        .map(|(y, (image, target))| {
            let mask = mask.map(|mask| &mask[y * width..][..width]);
            let shown = |i: usize| mask.is_none_or(|mask| counts(mask[i / 3]));
            image
                .iter()
                .zip(target)
                .enumerate()
                .filter(|(i, _)| shown(*i))
                .fold((0.0, 0), |(sum, count), (_, (a, b))| {
                    let difference = f64::from(a - b);
                    (sum + difference * difference, count + 1)
                })
        })
        .collect();
    let (sum, count) = rows
        .iter()
        .fold((0.0, 0), |(s, n), (row, count)| (s + row, n + count));
    let mean = sum / count.max(1) as f64;
    if mean > 0.0 {
        (-10.0 * mean.log10()).min(PSNR_MAX)
    } else {
        PSNR_MAX
    }
}

/// Whether a mask's value shows its pixel. Masks are 0 or 255; scaled ones have values between.
pub(crate) fn counts(mask: u8) -> bool {
    mask >= 128
}

/// Into 0..1; NaN becomes 0, so that a broken pixel costs instead of poisoning the mean.
fn clamped(value: f32) -> f32 {
    if value > 0.0 { value.min(1.0) } else { 0.0 }
}
