//! Scores of an image, and of a capture.

use dapple_engine::ScoredView;
use dapple_scene::edit::Region;
use serde::{Deserialize, Serialize};

/// PSNR of identical images, dB: the logarithm is bounded here.
pub const PSNR_MAX: f64 = 100.0;

/// Scores of one image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImageScore {
    /// Name of the photo.
    pub name: String,
    /// Peak signal-to-noise ratio, dB, at most [`PSNR_MAX`].
    pub psnr: f64,
    /// Structural similarity, 1 = equal.
    pub ssim: f64,
    /// Perceptual distance, 0 = equal; `None` without weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lpips: Option<f64>,
    /// PSNR after the render's colours were fitted to the photo's, dB, see [`Scoring::fitted`](super::Scoring::fitted); `None` unless
    /// requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cc_psnr: Option<f64>,
    /// SSIM after the render's colours were fitted to the photo's; `None` unless requested.
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
    /// Mean LPIPS over the images; `None` without weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lpips: Option<f64>,
    /// Mean PSNR with fitted colours, dB, see [`Scoring::fitted`](super::Scoring::fitted); `None` unless requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cc_psnr: Option<f64>,
    /// Mean SSIM with fitted colours; `None` unless requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cc_ssim: Option<f64>,
    /// Scores inside the region of interest; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<FocusScores>,
    /// Number of rendered Gaussians.
    pub gaussians: u64,
    /// Background of transparent photos and of renders, 0..1.
    #[serde(default)]
    pub background: [f32; 3],
    /// Scores of each image, in the order of the views. Images that their mask hides completely are omitted.
    pub images: Vec<ImageScore>,
    /// Notes for the user about the scoring, such as that LPIPS did not fit the device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Scores of the pixels whose rays meet a region of interest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FocusScores {
    /// Region, as `--focus` takes it.
    pub region: String,
    /// Share of the pixels of the views that are inside, 0..1.
    pub pixels: f64,
    /// Mean PSNR over the images, dB.
    pub psnr: f64,
    /// Mean SSIM over the images.
    pub ssim: f64,
    /// Scores of each image that shows the region, in the order of the views.
    pub images: Vec<ImageScore>,
}

impl FocusScores {
    /// Returns the means over the images; `None` without an image.
    pub fn new(region: Region, pixels: f64, images: Vec<ImageScore>) -> Option<Self> {
        let mean = |value: fn(&ImageScore) -> f64| {
            images.iter().map(value).sum::<f64>() / images.len() as f64
        };
        let (psnr, ssim) = (mean(|image| image.psnr), mean(|image| image.ssim));
        (!images.is_empty()).then(|| Self {
            region: region.to_string(),
            pixels,
            psnr,
            ssim,
            images,
        })
    }
}

impl EvalReport {
    /// Returns the `count` images with the lowest PSNR, worst first.
    pub fn worst(&self, count: usize) -> Vec<&ImageScore> {
        let mut images: Vec<&ImageScore> = self.images.iter().collect();
        images.sort_by(|a, b| a.psnr.total_cmp(&b.psnr));
        images.truncate(count);
        images
    }
}

/// Scores of one rendered view: PSNR (dB), SSIM, and LPIPS if weights were given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scores {
    /// Peak signal-to-noise ratio, dB, at most [`PSNR_MAX`].
    pub psnr: f64,
    /// Structural similarity, 1 = equal.
    pub ssim: f64,
    /// Perceptual distance, 0 = equal.
    pub lpips: Option<f64>,
}

impl From<&ScoredView> for Scores {
    fn from(scored: &ScoredView) -> Self {
        Self {
            psnr: psnr_of(scored.squared_error, scored.values),
            ssim: scored.similarity / scored.windows.max(1) as f64,
            lpips: None,
        }
    }
}

/// Returns the PSNR for a sum of squared errors over `count` values, dB, at most [`PSNR_MAX`].
pub(super) fn psnr_of(sum: f64, count: u64) -> f64 {
    let mean = sum / count.max(1) as f64;
    if mean > 0.0 {
        (-10.0 * mean.log10()).min(PSNR_MAX)
    } else {
        PSNR_MAX
    }
}
