//! How much there is to learn: what a capture itself says of it, before a run begins.
//!
//! The number of sparse points says how many features a matcher was told to keep, not how much there is to
//! see. Two things say that better:
//! 1. *Detail*: how many Haar coefficients of the photos' luma stand out, at structures of
//!    two pixels and more. A blank wall has none, gravel has one for every few pixels; the finest level is
//!    left out, where sensors' noise and JPEG's ringing are. Of many photos some are looked at.
//! 2. *Coverage*: in how many photos a place is seen, the mean number of cameras that have a sparse point
//!    in their frame. Where photos show a place from one distance they repeat its detail, where they come
//!    nearer they add to it: `detail / coverage` and `detail` are the bounds of what the scene holds. Most of
//!    what photos of one place show is repeated: `detail / coverage^(3/4)` is taken.
//!
//! From them: [`Evidence::budget`], the most Gaussians, and [`Seen::steps`], the length of a run. Both are
//! functions of the capture alone; how their constants were found, and on which captures they were judged,
//! is in BENCHMARKS.md.

mod detail;

use crate::Preset;
use dapple_scene::{Camera, Dataset, Point, Result};
use detail::details;
use glam::DVec3;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Photos whose detail is counted, at most; spread evenly. More change the count by a few per cent.
const LOOKED_AT: usize = 32;

/// Sparse points that are looked for in all frames, at most.
const POINTS: usize = 4096;

/// Gaussians for each detail over coverage to three quarters: with each of ten captures left out, the other
/// nine choose this exponent but for two, and 5.7 (BENCHMARKS.md, "Budgets by coverage").
const PER_DETAIL: f64 = 6.0;

/// Photos of a capture without points for each that shows a place: of photos all around an object, about a third show
/// a part of its surface (BENCHMARKS.md, "Objects without points").
const PHOTOS_PER_SIGHT: f64 = 3.0;

/// Pixels of all photos together for each Gaussian of a budget, at least: one and a half observed numbers
/// for each of a Gaussian's 59. With fewer it learns the photos by heart.
const PIXELS_PER_GAUSSIAN: u64 = 30;

/// The same where photos set aside have said that more would gain ([`mod@crate::outlook`]).
const PIXELS_PER_EXTENDED: u64 = 15;

/// The most that a budget allows by itself. Up to here captures that ask for more gain (a million: 0.005 to 0.008 of
/// SSIM less); two million gain nothing, and take longer.
const MOST: usize = 1_500_000;

/// The same of a quick run: in its steps more gain nothing, for a quarter of its time.
const MOST_QUICK: usize = 1_000_000;

/// The same where photos set aside have said that more would gain.
const MOST_EXTENDED: usize = 2_000_000;

/// Steps for each photo: with more, the classic recipe and its successors begin to learn photos by heart
/// (BENCHMARKS.md).
const STEPS_PER_PHOTO: f64 = 130.0;

/// Steps in which each place is seen: where photos share little, as a drone's do, a place is in few of them.
const STEPS_PER_PLACE: f64 = 3000.0;

/// The fewest and the most steps that a capture is given.
const STEPS: [f64; 2] = [7000.0, LONGEST as f64];

/// The most steps that a run is given by itself.
pub(crate) const LONGEST: u32 = 30_000;

/// Steps for each photo of a quick run, and the fewest and the most of all: what a capture's quality falls
/// off below, for the time of a third of the other trainers' runs (BENCHMARKS.md).
const QUICK_STEPS_PER_PHOTO: f64 = 70.0;
const QUICK_STEPS: [f64; 2] = [3500.0, 7000.0];

/// What is known of a capture before its photos are decoded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Photos to train on.
    pub photos: usize,
    /// In how many of them a place is seen; `None` without sparse points.
    pub coverage: Option<f64>,
}

/// How much a capture shows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Photos, and what they share.
    pub seen: Seen,
    /// Pixels of all of them.
    pub pixels: u64,
    /// Details of all of them.
    pub detail: u64,
}

/// What settled a number of Gaussians.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The detail that the photos show.
    Detail,
    /// The number of their pixels.
    Pixels,
    /// No budget is larger by itself.
    Most,
    /// The first Gaussians are more.
    First,
    /// More do not fit the device.
    Device,
}

/// A number of Gaussians that a capture was given, and why.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// The most Gaussians.
    pub gaussians: usize,
    /// What settled it.
    pub bound: Bound,
    /// What it was found by.
    pub evidence: Evidence,
}

impl Seen {
    /// Of these cameras, one for each photo to train on, and the capture's sparse points.
    pub fn of<'a>(cameras: impl IntoIterator<Item = &'a Camera>, points: &[Point]) -> Self {
        let cameras: Vec<&Camera> = cameras.into_iter().collect();
        Self {
            coverage: coverage(&cameras, points),
            photos: cameras.len(),
        }
    }

    /// The steps of a run without haste: enough for each photo and for each place, within bounds.
    pub fn steps(&self) -> u32 {
        let photos = self.photos as f64;
        let by_place = self.coverage.map_or(0.0, |seen_by| {
            STEPS_PER_PLACE * photos / seen_by.clamp(1.0, photos.max(1.0))
        });
        within(STEPS, (STEPS_PER_PHOTO * photos).max(by_place))
    }

    /// The steps of [`Preset::Quick`]: enough for a good first look.
    pub fn quick_steps(&self) -> u32 {
        within(QUICK_STEPS, QUICK_STEPS_PER_PHOTO * self.photos as f64)
    }
}

impl Evidence {
    /// Looks at the views of a capture that are trained on.
    ///
    /// # Errors
    /// A photo that cannot be read.
    pub fn of(dataset: &Dataset, train: &[usize]) -> Result<Self> {
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
            seen: Seen::of(views.iter().map(|view| &view.camera), &dataset.points),
            pixels: all,
            detail: u64::try_from(scaled).unwrap_or(u64::MAX),
        })
    }

    /// The most Gaussians of a run by this preset that nobody named them for: no fewer than the `first`, and no more
    /// than `fit` the device, where that is known.
    pub fn budget(&self, preset: Preset, first: usize, fit: Option<usize>) -> Budget {
        let most = match preset {
            Preset::Quick => MOST_QUICK,
            _ => MOST,
        };
        let without_points = self.seen.photos as f64 / PHOTOS_PER_SIGHT;
        let seen_by = self.seen.coverage.unwrap_or(without_points);
        // Roots are rounded alike everywhere, powers are not.
        let root = seen_by.max(1.0).sqrt();
        let by_detail = PER_DETAIL * self.detail as f64 / (root * root.sqrt());
        let by_pixels = usize::try_from(self.pixels / PIXELS_PER_GAUSSIAN).unwrap_or(usize::MAX);
        let mut found = (rounded(by_detail).max(1), Bound::Detail);
        for (bounded, bound) in [(by_pixels.max(1), Bound::Pixels), (most, Bound::Most)] {
            if bounded < found.0 {
                found = (bounded, bound);
            }
        }
        if first > found.0 {
            found = (first, Bound::First);
        }
        if let Some(fit) = fit.filter(|&fit| fit < found.0) {
            found = (fit.max(1), Bound::Device);
        }
        Budget {
            gaussians: found.0,
            bound: found.1,
            evidence: *self,
        }
    }
}

impl Budget {
    /// The most Gaussians of a run that had `now` and gains by more: twice as many, no more than `fit` the device,
    /// where that is known. None is taken away.
    pub(crate) fn extended(&self, now: usize, fit: Option<usize>) -> usize {
        let by_pixels = self.evidence.pixels / PIXELS_PER_EXTENDED;
        let by_pixels = usize::try_from(by_pixels).unwrap_or(usize::MAX);
        let most = by_pixels.min(MOST_EXTENDED).min(fit.unwrap_or(usize::MAX));
        now.saturating_mul(2).min(most).max(now)
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Evidence { seen, detail, .. } = self.evidence;
        write!(f, "{} Gaussians at most", short(self.gaussians as u64))?;
        match self.bound {
            Bound::Detail => {}
            Bound::Pixels => write!(f, " (one for {PIXELS_PER_GAUSSIAN} pixels)")?,
            Bound::Most => f.write_str(" (more are taken only when named)")?,
            Bound::First => f.write_str(" (as many as at the start)")?,
            Bound::Device => f.write_str(" (more do not fit the device)")?,
        }
        write!(f, ": the photos show {} details", short(detail))?;
        match seen.coverage {
            Some(seen_by) => write!(f, ", each place in {seen_by:.0} of {} photos", seen.photos),
            None => Ok(()),
        }
    }
}

/// To tens: nobody means a step.
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

/// To three digits, so that a photo more or less changes nothing. Saturates.
fn rounded(value: f64) -> usize {
    let unit = 10f64.powi((value.max(1.0).log10().floor() as i32 - 2).max(0));
    ((value / unit).round() * unit) as usize
}

/// The mean number of cameras that have a point in their frame; `None` without points. Lenses are left
/// out: what they bend stands near a frame's edge either way.
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
