//! How much there is to learn: what a capture itself says of it, before a run begins.
//!
//! The number of sparse points says how many features a matcher was told to keep, not how much there is to
//! see. Two things say that better:
//! 1. *Detail*: how many Haar coefficients of the photos' luma stand out by `CONTRAST`, at structures of
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

use dapple_scene::{Camera, Dataset, Photo, Point, Result};
use glam::DVec3;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The least amplitude of a coefficient that counts, of 0 to 255: what JPEG keeps of dark photos too.
const CONTRAST: f32 = 4.0;

/// Levels of the transform that count, the finest left out: structures of 2 to 32 pixels.
const LEVELS: usize = 4;

/// Photos whose detail is counted, at most; spread evenly. More change the count by a few per cent.
const LOOKED_AT: usize = 32;

/// Sparse points that are looked for in all frames, at most.
const POINTS: usize = 4096;

/// Gaussians for each detail over coverage to three quarters: with each of ten captures left out, the other
/// nine choose this exponent but for two, and 5.7 (BENCHMARKS.md, "Budgets by coverage").
const PER_DETAIL: f64 = 6.0;

/// Pixels of all photos together for each Gaussian of a budget, at least: one and a half observed numbers
/// for each of a Gaussian's 59. With fewer it learns the photos by heart.
const PIXELS_PER_GAUSSIAN: u64 = 30;

/// The same where photos set aside have said that more would gain ([`mod@crate::outlook`]).
const PIXELS_PER_EXTENDED: u64 = 15;

/// The most that a budget allows by itself: what the published trainers take for scenes of any size. Two
/// million gain SSIM alone on captures that ask for them, and take half as long again.
const MOST: usize = 1_000_000;

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
const QUICK_STEPS_PER_PHOTO: f64 = 80.0;
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

    /// The steps of [`Preset::Quick`](crate::Preset::Quick): enough for a good first look.
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

    /// The most Gaussians of a run that nobody named them for: no fewer than the `first`, and no more than
    /// `fit` the device, where that is known.
    pub fn budget(&self, first: usize, fit: Option<usize>) -> Budget {
        // Without points, as if each photo showed everything.
        let seen_by = self.seen.coverage.unwrap_or(self.seen.photos as f64);
        // Roots are rounded alike everywhere, powers are not.
        let root = seen_by.max(1.0).sqrt();
        let by_detail = PER_DETAIL * self.detail as f64 / (root * root.sqrt());
        let by_pixels = usize::try_from(self.pixels / PIXELS_PER_GAUSSIAN).unwrap_or(usize::MAX);
        let mut found = (rounded(by_detail).max(1), Bound::Detail);
        for (most, bound) in [(by_pixels.max(1), Bound::Pixels), (MOST, Bound::Most)] {
            if most < found.0 {
                found = (most, bound);
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

/// Counts the coefficients of a photo that stand out.
fn details(photo: &Photo) -> u64 {
    let mut level = Level::of(photo).halved();
    let mut found = 0;
    for _ in 0..LEVELS {
        found += level.stand_out();
        level = level.halved();
    }
    found
}

/// An image of a photo's pyramid.
struct Level {
    width: usize,
    height: usize,
    /// 0 to 255; NaN where a mask hides or nothing is opaque, which no comparison takes for detail.
    luma: Vec<f32>,
}

impl Level {
    fn of(photo: &Photo) -> Self {
        let shown = |i: usize| {
            let counts = |plane: &Option<Vec<u8>>| plane.as_ref().is_none_or(|p| p[i] >= 128);
            counts(&photo.mask) && counts(&photo.alpha)
        };
        let luma = |(i, &[r, g, b]): (usize, &[u8; 3])| match shown(i) {
            true => 0.299 * f32::from(r) + 0.587 * f32::from(g) + 0.114 * f32::from(b),
            false => f32::NAN,
        };
        let pixels = photo.rgb.as_chunks::<3>().0.iter().enumerate();
        Self {
            width: photo.width as usize,
            height: photo.height as usize,
            luma: pixels.map(luma).collect(),
        }
    }

    /// The four pixels of each block of two by two.
    fn blocks(&self) -> impl Iterator<Item = [f32; 4]> + '_ {
        (0..self.height / 2).flat_map(move |y| {
            let top = &self.luma[2 * y * self.width..][..self.width];
            let bottom = &self.luma[(2 * y + 1) * self.width..][..self.width];
            let (top, bottom) = (top.as_chunks::<2>().0, bottom.as_chunks::<2>().0);
            top.iter()
                .zip(bottom)
                .map(|(&[a, b], &[c, d])| [a, b, c, d])
        })
    }

    fn halved(&self) -> Self {
        Self {
            width: self.width / 2,
            height: self.height / 2,
            luma: self
                .blocks()
                .map(|[a, b, c, d]| 0.25 * (a + b + c + d))
                .collect(),
        }
    }

    fn stand_out(&self) -> u64 {
        let counts = |[a, b, c, d]: [f32; 4]| {
            [a - b + c - d, a + b - c - d, a - b - c + d]
                .into_iter()
                .filter(|sum| 0.25 * sum.abs() > CONTRAST)
                .count() as u64
        };
        self.blocks().map(counts).sum()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use dapple_scene::{Pose, View};

    fn seen(photos: usize, coverage: f64) -> Seen {
        Seen {
            photos,
            coverage: Some(coverage),
        }
    }

    fn evidence(pixels: u64, detail: u64, coverage: f64) -> Evidence {
        Evidence {
            seen: seen(100, coverage),
            pixels,
            detail,
        }
    }

    /// Squares of `size` pixels, alternately 100 - contrast and 100 + contrast.
    fn board(width: u32, size: u32, contrast: u8) -> Photo {
        let value = |i: u32| match (i % width / size + i / width / size) % 2 {
            0 => 100 - contrast,
            _ => 100 + contrast,
        };
        let rgb = (0..width * width).flat_map(|i| [value(i); 3]).collect();
        Photo::from_rgb(width, width, rgb)
    }

    #[test]
    fn details_are_what_stands_out_at_two_pixels_and_more() {
        assert_eq!(details(&board(64, 64, 50)), 0);
        // A board of single pixels is noise: the finest level is left out.
        assert_eq!(details(&board(64, 1, 50)), 0);
        // One diagonal coefficient for each four squares.
        assert_eq!(details(&board(64, 2, 50)), 16 * 16);
        assert_eq!(details(&board(64, 4, 50)), 8 * 8);
        assert_eq!(details(&board(64, 2, 4)), 0);
        assert_eq!(details(&board(64, 2, 5)), 16 * 16);
        // Smaller than a block, and odd sizes.
        assert_eq!(details(&board(1, 1, 50)), 0);
        assert_eq!(details(&board(9, 2, 50)), 4);
    }

    #[test]
    fn what_a_mask_hides_or_alpha_leaves_out_is_no_detail() {
        let mut photo = board(64, 2, 50);
        photo.mask = Some(
            (0..64 * 64)
                .map(|i| if i % 64 < 32 { 255 } else { 0 })
                .collect(),
        );
        assert_eq!(details(&photo), 16 * 8);
        photo.alpha = Some(
            (0..64 * 64)
                .map(|i| if i / 64 < 32 { 255 } else { 0 })
                .collect(),
        );
        assert_eq!(details(&photo), 8 * 8);
    }

    #[test]
    fn coverage_is_the_mean_number_of_frames_that_hold_a_point() {
        let camera = |x: f64| {
            let pose = Pose::look_at(DVec3::new(x, 0.0, -2.0), DVec3::new(x, 0.0, 0.0), DVec3::Y);
            Camera::pinhole(100, 100, 100.0, pose)
        };
        let cameras = [camera(0.0), camera(0.5), camera(10.0)];
        let point = |x: f32, z: f32| Point {
            position: [x, 0.0, z],
            rgb: [0; 3],
        };
        // In two frames, in one, behind all, in none.
        let points = [
            point(0.2, 0.0),
            point(10.0, 0.0),
            point(0.0, -9.0),
            point(50.0, 0.0),
        ];
        let seen = Seen::of(&cameras, &points);
        assert_eq!(
            seen,
            Seen {
                photos: 3,
                coverage: Some(1.5)
            }
        );
        assert_eq!(Seen::of(&cameras, &[]).coverage, None);
        assert_eq!(Seen::of(&cameras, &points[2..]).coverage, None);
    }

    #[test]
    fn steps_suit_photos_and_places() {
        assert_eq!(seen(14, 11.0).steps(), 7000);
        assert_eq!(seen(161, 157.0).steps(), 20_930);
        // A drone's: a place is in 14 of 45 photos.
        assert_eq!(seen(45, 14.0).steps(), 9640);
        assert_eq!(seen(65, 1.0).steps(), 30_000);
        assert_eq!(seen(500, 400.0).steps(), 30_000);
        let quick = [14, 84, 161].map(|photos| seen(photos, 10.0).quick_steps());
        assert_eq!(quick, [3500, 6720, 7000]);
        let unknown = Seen {
            photos: 100,
            coverage: None,
        };
        assert_eq!(unknown.steps(), 13_000);
        assert_eq!(
            Seen {
                photos: 0,
                coverage: None
            }
            .steps(),
            7000
        );
    }

    #[test]
    fn a_budget_goes_by_detail_within_its_bounds() {
        let found = |evidence: Evidence, first, fit| {
            let budget = evidence.budget(first, fit);
            (budget.gaussians, budget.bound)
        };
        let some = evidence(100_000_000, 1_000_000, 25.0);
        assert_eq!(found(some, 10, None), (537_000, Bound::Detail));
        assert_eq!(found(some, 600_000, None), (600_000, Bound::First));
        assert_eq!(found(some, 600_000, Some(50_000)), (50_000, Bound::Device));
        assert_eq!(found(some, 10, Some(550_000)), (537_000, Bound::Detail));
        let small = evidence(4_000_000, 1_000_000, 25.0);
        assert_eq!(found(small, 10, None), (133_333, Bound::Pixels));
        let rich = evidence(1_000_000_000, 100_000_000, 25.0);
        assert_eq!(found(rich, 10, None), (MOST, Bound::Most));
        // Twice the photos of all: what they repeat of each other is no detail.
        let twice = evidence(200_000_000, 2_000_000, 50.0);
        assert_eq!(found(twice, 10, None), (638_000, Bound::Detail));
        assert_eq!(found(evidence(0, 0, 1.0), 0, None), (1, Bound::Detail));
        let blind = Evidence {
            seen: Seen {
                photos: 25,
                coverage: None,
            },
            ..some
        };
        assert_eq!(found(blind, 10, None), (537_000, Bound::Detail));
    }

    #[test]
    fn an_extended_budget_is_twice_as_large_within_its_bounds() {
        let budget = evidence(12_000_000, 1_000_000, 25.0).budget(10, None);
        assert_eq!(budget.gaussians, 400_000);
        assert_eq!(budget.extended(300_000, None), 600_000);
        assert_eq!(budget.extended(500_000, None), 800_000, "pixels");
        assert_eq!(budget.extended(400_000, Some(500_000)), 500_000);
        assert_eq!(budget.extended(400_000, Some(300_000)), 400_000);
        let rich = evidence(1_000_000_000, 100_000_000, 25.0).budget(10, None);
        assert_eq!(rich.extended(1_500_000, None), MOST_EXTENDED);
    }

    #[test]
    fn a_budget_says_why() {
        let budget = evidence(1_000_000_000, 7_640_000, 44.0).budget(10, None);
        assert_eq!(
            budget.to_string(),
            "1.00 M Gaussians at most (more are taken only when named): the photos show 7.64 M details, \
             each place in 44 of 100 photos"
        );
    }

    #[test]
    fn evidence_is_of_the_photos_trained_on() {
        let view = |size: u32| View {
            name: String::new(),
            camera: Camera::pinhole(64, 64, 64.0, Pose::IDENTITY),
            source_model: String::new(),
            photo: board(64, size, 50).into(),
            depth: None,
        };
        let dataset = Dataset {
            views: (0..40).map(|i| view(if i == 0 { 64 } else { 2 })).collect(),
            ..Dataset::default()
        };
        let train: Vec<usize> = (1..40).collect();
        let found = Evidence::of(&dataset, &train).unwrap();
        assert_eq!(found.pixels, 39 * 64 * 64);
        // Not all are looked at, all are counted.
        assert_eq!(found.detail, 39 * 256);
        assert_eq!(Evidence::of(&dataset, &[0]).unwrap().detail, 0);
        assert_eq!(Evidence::of(&dataset, &[]).unwrap().detail, 0);
    }
}
