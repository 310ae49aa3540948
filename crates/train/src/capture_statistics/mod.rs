//! Capture statistics: Gaussian cap and length of a run, computed from the capture before the run begins.
//!
//! The number of sparse points depends on the settings of the matcher more than on the scene. Two other statistics
//! describe the scene better:
//! 1. *Detail*: the number of large Haar coefficients of the photos' luma, at structures of two pixels and more. A
//!    blank wall has none, gravel has one for every few pixels. The finest level does not count, because it holds
//!    sensor noise and JPEG ringing. If there are many photos, a sample of them is counted.
//! 2. *Coverage*: the number of photos that show a place, computed as the mean number of cameras with a sparse point in
//!    their frame. Photos from one distance repeat the detail of a place, nearer photos add detail: `detail / coverage`
//!    and `detail` bound the detail of the scene. Most of it is repeated, so the cap uses `detail / coverage^(3/4)`.
//!
//! [`CaptureStatistics::budget`] computes the Gaussian cap from them, and [`PhotoCoverage::steps`] the length of a run.
//! Both are functions of the capture only. `docs/experiments/2026-11-24-cap-by-coverage.md` has the fit of their
//! constants and the captures.

mod detail;

use crate::{Preset, TrainConfig};
use dapple_scene::{Camera, Capture, Dataset, Point, Result};
use detail::details;
use glam::DVec3;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Most photos whose detail is counted, spread evenly. More photos change the count by a few per cent.
const LOOKED_AT: usize = 32;

/// Most sparse points that are projected into all frames.
const POINTS: usize = 4096;

/// Gaussians for each detail over coverage to three quarters. In a test on ten captures without each in turn, the
/// other nine choose this exponent except for two, and 5.7 (`docs/experiments/2026-11-24-cap-by-coverage.md`).
const PER_DETAIL: f64 = 6.0;

/// Number of photos for each one that shows a place, if a capture has no points: of photos all around an object, about
/// a third show a part of its surface (`docs/experiments/2026-11-26-objects-without-points.md`).
const PHOTOS_PER_SIGHT: f64 = 3.0;

/// Fewest pixels of all photos together for each Gaussian of the cap: one and a half observed numbers for each of a
/// Gaussian's 59. With fewer pixels the run overfits.
const PIXELS_PER_GAUSSIAN: u64 = 30;

/// Factor on the Gaussians of a run that trains for surfaces: flat Gaussians fill less volume.
/// `docs/experiments/2026-11-28-surface-training.md` has its effect.
const FOR_SURFACES: f64 = 1.25;

/// [`PIXELS_PER_GAUSSIAN`] of a run that trains for surfaces.
const PIXELS_PER_SURFACE_GAUSSIAN: u64 = (PIXELS_PER_GAUSSIAN as f64 / FOR_SURFACES) as u64;

/// Fewest pixels for each Gaussian after a run extension ([`mod@crate::extension`]).
const PIXELS_PER_EXTENDED: u64 = 15;

/// Largest cap that the statistics give. Up to this number, captures with enough detail gain (a million: 0.005 to 0.008
/// of SSIM less). Two million gain nothing and take longer.
const MOST: usize = 1_500_000;

/// Largest cap of a quick run. More Gaussians gain nothing in its steps, and cost a quarter more time.
const MOST_QUICK: usize = 1_000_000;

/// Largest cap after a run extension.
const MOST_EXTENDED: usize = 2_000_000;

/// Steps for each photo. With more, the recipe of the 3DGS paper and its successors begin to overfit
/// (`docs/experiments/2026-11-22-capture-statistics.md`).
const STEPS_PER_PHOTO: f64 = 130.0;

/// Steps that show each place. If photos share little, as a drone's do, few of them show a place.
const STEPS_PER_PLACE: f64 = 3000.0;

/// Fewest and most steps that the statistics give.
const STEPS: [f64; 2] = [7000.0, LONGEST as f64];

/// Most steps of a run whose length is not set.
pub(crate) const LONGEST: u32 = 30_000;

/// Steps for each photo of a quick run, and the fewest and the most steps. Fewer steps reduce the quality; these take a
/// third of the time of other trainers' runs (`docs/experiments/2026-11-25-half-or-double.md`).
const QUICK_STEPS_PER_PHOTO: f64 = 70.0;
const QUICK_STEPS: [f64; 2] = [3500.0, 7000.0];

/// Capture statistics that need no decoded photos.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PhotoCoverage {
    /// Number of training photos.
    pub photos: usize,
    /// Number of photos that show a place; `None` without sparse points.
    pub coverage: Option<f64>,
}

/// Capture statistics with the detail of the photos.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CaptureStatistics {
    /// Number of photos and coverage.
    pub seen: PhotoCoverage,
    /// Pixels of all photos.
    pub pixels: u64,
    /// Details of all photos.
    pub detail: u64,
}

/// Reason of a Gaussian cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitReason {
    /// Detail of the photos.
    Detail,
    /// Number of pixels of the photos.
    Pixels,
    /// Largest cap that the statistics give.
    Most,
    /// Number of Gaussians at the start, which is larger.
    First,
    /// Memory of the device.
    Device,
}

/// Kind of run that a cap is computed for.
#[derive(Debug, Clone, Copy)]
pub struct BudgetFor {
    preset: Preset,
    surfaces: bool,
}

impl From<Preset> for BudgetFor {
    fn from(preset: Preset) -> Self {
        Self {
            preset,
            surfaces: false,
        }
    }
}

impl From<&TrainConfig> for BudgetFor {
    fn from(config: &TrainConfig) -> Self {
        Self {
            preset: config.preset,
            surfaces: config.surface.enabled,
        }
    }
}

/// Gaussian cap computed for a capture, and its reason.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// The Gaussian cap.
    pub gaussians: usize,
    /// Reason of the cap.
    pub bound: LimitReason,
    /// Statistics that the cap was computed from.
    pub evidence: CaptureStatistics,
    /// True for a run that trains for surfaces, whose cap is 1.25 times as high.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub surfaces: bool,
}

impl PhotoCoverage {
    /// Computes the statistics from one camera for each training photo, and from the capture's sparse points.
    pub fn from_cameras<'a>(
        cameras: impl IntoIterator<Item = &'a Camera>,
        points: &[Point],
    ) -> Self {
        let cameras: Vec<&Camera> = cameras.into_iter().collect();
        Self {
            coverage: coverage(&cameras, points),
            photos: cameras.len(),
        }
    }

    /// Computes the statistics of photos of a capture that has not been read.
    pub fn of_capture(capture: &Capture, train: &[usize]) -> Self {
        let cameras = train.iter().map(|&i| &capture.images[i].camera);
        Self::from_cameras(cameras, &capture.points)
    }

    /// Returns the steps of a run without a time limit: enough for each photo and for each place, within bounds.
    pub fn steps(&self) -> u32 {
        let photos = self.photos as f64;
        let by_place = self.coverage.map_or(0.0, |seen_by| {
            STEPS_PER_PLACE * photos / seen_by.clamp(1.0, photos.max(1.0))
        });
        within(STEPS, (STEPS_PER_PHOTO * photos).max(by_place))
    }

    /// Returns the steps of [`Preset::Quick`].
    pub fn quick_steps(&self) -> u32 {
        within(QUICK_STEPS, QUICK_STEPS_PER_PHOTO * self.photos as f64)
    }
}

impl CaptureStatistics {
    /// Computes the statistics of the training views of a capture.
    ///
    /// # Errors
    /// A photo cannot be read.
    pub fn measure(dataset: &Dataset, train: &[usize]) -> Result<Self> {
        let views: Vec<_> = train.iter().map(|&i| &dataset.views[i]).collect();
        let pixels = |[width, height]: [u32; 2]| u64::from(width) * u64::from(height);
        let all: u64 = views.iter().map(|view| pixels(view.photo.size())).sum();
        let count = views.len().min(LOOKED_AT);
        let sample: Vec<_> = (0..count)
            .map(|i| views[(2 * i + 1) * views.len() / (2 * count)])
            .collect();
        let looked_at: u64 = sample.iter().map(|view| pixels(view.photo.size())).sum();
        let details: Vec<u64> = sample
            .par_iter()
            .map(|view| Ok(details(view.photo.read()?.as_ref())))
            .collect::<Result<_>>()?;
        let found = u128::from(details.iter().sum::<u64>());
        let scaled = found * u128::from(all) / u128::from(looked_at.max(1));
        Ok(Self {
            seen: PhotoCoverage::from_cameras(
                views.iter().map(|view| &view.camera),
                &dataset.points,
            ),
            pixels: all,
            detail: u64::try_from(scaled).unwrap_or(u64::MAX),
        })
    }

    /// Returns the Gaussian cap of a run whose configuration sets none. It is at least `first` and at
    /// most `fit`, the Gaussians that fit the device, if that is known.
    pub fn budget(&self, run: impl Into<BudgetFor>, first: usize, fit: Option<usize>) -> Budget {
        let BudgetFor { preset, surfaces } = run.into();
        let most = match preset {
            Preset::Quick => MOST_QUICK,
            _ => MOST,
        };
        let without_points = self.seen.photos as f64 / PHOTOS_PER_SIGHT;
        let seen_by = self.seen.coverage.unwrap_or(without_points);
        // Roots are rounded equally on every machine, powers are not.
        let root = seen_by.max(1.0).sqrt();
        let factor = if surfaces { FOR_SURFACES } else { 1.0 };
        let by_detail = factor * PER_DETAIL * self.detail as f64 / (root * root.sqrt());
        let by_pixels = self.pixels / pixels_per_gaussian(surfaces);
        let by_pixels = usize::try_from(by_pixels).unwrap_or(usize::MAX);
        let mut found = (rounded(by_detail).max(1), LimitReason::Detail);
        for (bounded, bound) in [
            (by_pixels.max(1), LimitReason::Pixels),
            (most, LimitReason::Most),
        ] {
            if bounded < found.0 {
                found = (bounded, bound);
            }
        }
        if first > found.0 {
            found = (first, LimitReason::First);
        }
        if let Some(fit) = fit.filter(|&fit| fit < found.0) {
            found = (fit.max(1), LimitReason::Device);
        }
        Budget {
            gaussians: found.0,
            bound: found.1,
            evidence: *self,
            surfaces,
        }
    }
}

impl Budget {
    /// Returns the Gaussian cap of a run with the cap `now` that is extended: twice as many, at most `fit`, the
    /// Gaussians that fit the device, if that is known. It is never below `now`.
    pub(crate) fn extended(&self, now: usize, fit: Option<usize>) -> usize {
        let by_pixels = self.evidence.pixels / PIXELS_PER_EXTENDED;
        let by_pixels = usize::try_from(by_pixels).unwrap_or(usize::MAX);
        let most = by_pixels.min(MOST_EXTENDED).min(fit.unwrap_or(usize::MAX));
        now.saturating_mul(2).min(most).max(now)
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CaptureStatistics { seen, detail, .. } = self.evidence;
        write!(f, "{} Gaussians at most", short(self.gaussians as u64))?;
        match self.bound {
            LimitReason::Detail => {}
            LimitReason::Pixels => {
                let pixels = pixels_per_gaussian(self.surfaces);
                write!(f, " (one for {pixels} pixels)")?;
            }
            LimitReason::Most => f.write_str(" (more are taken only when named)")?,
            LimitReason::First => f.write_str(" (as many as at the start)")?,
            LimitReason::Device => f.write_str(" (more do not fit the device)")?,
        }
        write!(f, ": the photos show {} details", short(detail))?;
        match seen.coverage {
            Some(seen_by) => write!(f, ", each place in {seen_by:.0} of {} photos", seen.photos),
            None => Ok(()),
        }
    }
}

/// Returns the least pixels of the photos for each Gaussian.
fn pixels_per_gaussian(surfaces: bool) -> u64 {
    match surfaces {
        true => PIXELS_PER_SURFACE_GAUSSIAN,
        false => PIXELS_PER_GAUSSIAN,
    }
}

/// Rounds to tens, because single steps have no effect.
fn within([fewest, most]: [f64; 2], steps: f64) -> u32 {
    (steps / 10.0).round().clamp(fewest / 10.0, most / 10.0) as u32 * 10
}

/// 950, 12 k, 1.02 M.
fn short(number: u64) -> String {
    match number {
        0..1000 => number.to_string(),
        1000..999_500 => format!("{:.0} k", number as f64 * 1e-3),
        _ => format!("{:.2} M", number as f64 * 1e-6),
    }
}

/// Rounds to three digits, so that a photo more or less changes nothing. Saturates.
fn rounded(value: f64) -> usize {
    let unit = 10f64.powi((value.max(1.0).log10().floor() as i32 - 2).max(0));
    ((value / unit).round() * unit) as usize
}

/// Returns the mean number of cameras with a point in their frame; `None` without points. Lens distortion is ignored:
/// it only moves points near the edge of a frame.
fn coverage(cameras: &[&Camera], points: &[Point]) -> Option<f64> {
    let every = points.len().div_ceil(POINTS).max(1);
    let counts: Vec<usize> = points
        .par_iter()
        .step_by(every)
        .map(|point| {
            let world = DVec3::from(point.position.map(f64::from));
            let sees = |camera: &&&Camera| {
                let seen = camera.camera_from_world.transform(world);
                camera.project_pinhole(seen).is_some_and(|pixel| {
                    let (width, height) = (f64::from(camera.width), f64::from(camera.height));
                    (0.0..width).contains(&pixel.x) && (0.0..height).contains(&pixel.y)
                })
            };
            cameras.iter().filter(sees).count()
        })
        .filter(|&count| count > 0)
        .collect();
    let sum: usize = counts.iter().sum();
    (!counts.is_empty()).then(|| sum as f64 / counts.len() as f64)
}

#[cfg(test)]
mod tests;
