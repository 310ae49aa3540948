//! Floaters: Gaussians that the photos contradict.
//!
//! A pixel's colour is linear in one Gaussian's opacity, the others fixed. So the squared error of the training photos
//! with a part of that Gaussian's opacity follows from two sums over all values of all pixels, with r the render minus
//! the photo and d the part of the render that vanishes with the Gaussian:
//!
//! - the sum of w r d, from one backward pass with the derivative w r;
//! - the sum of w d d, from a backward pass with random signs times the root of w (Hutchinson): the square of what it
//!   gives has this sum as its mean.
//!
//! The weights w are 1 / (s s + r r), with s the scale of the photo's residuals (median): photos that the model does
//! not explain, and what moved in them, count less.
//!
//! # Fit
//! In a trained model the first sum is near 0, in a floater it is near the second. Were r noise, the deviation of the
//! first sum would be at most the root of the second: a floater exceeds it many times. Floaters overlap, hide each other
//! and explain each other's residuals. So the opacities of all Gaussians that exceed the deviation are fitted together:
//! each keeps a part of its opacity, from 1 down to [`LEAST_PART`], and each round moves it by the ratio of the sums
//! (Newton). The length of a Gaussian's step grows while the first sum keeps its sign and shrinks where it changes it
//! (Rprop, Riedmiller and Braun 1993): the former where weights fall with r, the latter where many overlap.
//!
//! # Test
//! A Gaussian that the fit puts below one half is a candidate: a floater, or one behind a floater. The candidates
//! are dimmed to [`LEAST_PART`], all others are restored, and both sums are computed again. They give the change of the
//! squared error if the Gaussian alone came back. It is removed if the error would rise, and neither half of the photos contradicts.

use crate::contributions::stopped;
use crate::evaluate::target;
use dapple_base::quantiles;
use dapple_engine::score::mask_counts;
use dapple_engine::{Engine, EngineExt, RenderSettings};
use dapple_scene::{Photo, Progress, Result, Splats, View};
use rayon::prelude::*;

/// Opacities count as at most this logit, just below the cap of a pixel's alpha: gradients vanish at the cap.
const MOST_LOGIT: f32 = 4.5;

/// The least scale of residuals: photos have 8 bits.
const LEAST_SCALE: f32 = 1.0 / 255.0;

/// The scale of residuals in medians of their size.
const MEDIANS: f32 = 1.4826;

/// Rounds of the fit.
const ROUNDS: usize = 12;

/// By how many deviations a Gaussian must exceed noise before its opacity is fitted.
const DEVIATIONS: f64 = 4.0;

/// The least part of the second sum that the first has in a floater: weights that fall with r make it smaller.
const LEAST: f64 = 0.05;

/// The least part of its opacity that a Gaussian keeps in the fit: sums of a Gaussian that is gone are 0.
const LEAST_PART: f64 = 0.02;

/// The part of its opacity below which a Gaussian is a candidate.
const CANDIDATE: f64 = 0.5;

/// Length of the first step, in steps of Newton's method; what it grows and shrinks by; its bound.
const FIRST_STEP: f64 = 0.6;
const GROWTH: f64 = 2.0;
const SHRINKAGE: f64 = 0.5;
const LONGEST_STEP: f64 = 10.0;

/// Bounds of the change of a part in one step, relative to the part: down and up.
const MOST_DOWN: f64 = 0.7;
const MOST_UP: f64 = 1.0;

/// Part of a gain that one half of the photos may lose.
const CONTRADICTED: f64 = 0.1;

/// Photos that a round compares with, at most.
const MOST_VIEWS: usize = 200;

/// Photos that are decoded at once, at most.
const MOST_PHOTOS: usize = 16;

/// Values of an image that the median is taken from, at most.
const MEDIAN_SAMPLES: usize = 1 << 16;

/// Returns true for each Gaussian that is a floater, `[N]`. The engine holds other splats afterwards.
///
/// # Errors
/// Errors of the engine, a photo that cannot be read, and a request to stop.
pub fn floaters(
    engine: &mut dyn Engine,
    splats: &Splats,
    views: &[View],
    settings: &RenderSettings,
    progress: &dyn Progress,
) -> Result<Vec<bool>> {
    let mut splats = splats.clone();
    for logit in &mut splats.opacities {
        *logit = logit.min(MOST_LOGIT);
    }
    let step = views.len().div_ceil(MOST_VIEWS).max(1);
    let views: Vec<&View> = views.iter().step_by(step).collect();
    let comparison = Comparison {
        splats: &splats,
        views: &views,
        settings: RenderSettings {
            depth: false,
            ..*settings
        },
        progress,
    };
    progress.start("comparing with photos", ((ROUNDS + 1) * views.len()) as u64);
    let are = comparison
        .candidates(engine)
        .and_then(|candidates| comparison.contradicted(engine, &candidates));
    progress.finish();
    are
}

/// A model and the photos that it is compared with.
struct Comparison<'a> {
    splats: &'a Splats,
    views: &'a [&'a View],
    settings: RenderSettings,
    progress: &'a dyn Progress,
}

/// Sums over all values of photos, for each Gaussian `[N]`: of w r d and of w d d. The two entries are those of the
/// photos with even and with odd numbers.
#[derive(Clone, Copy, Default)]
struct Sums {
    against: [f64; 2],
    own: [f64; 2],
}

/// The part of its opacity that a Gaussian keeps, and the state of its fit.
#[derive(Clone, Copy)]
struct Fitted {
    part: f64,
    /// Length of the next step, in steps of Newton's method.
    step: f64,
    /// First sum of the step before; 0 before the first step.
    before: f64,
    /// Sum of w d d at the whole opacity, added over rounds: each has other signs.
    own: f64,
}

impl Fitted {
    const WHOLE: Self = Self {
        part: 1.0,
        step: FIRST_STEP,
        before: 0.0,
        own: 0.0,
    };

    /// Moves the part of a Gaussian by the sums of the round with this number, counted from 1.
    fn advance(&mut self, sums: &Sums, round: usize) {
        let against: f64 = sums.against.iter().sum();
        let square = self.part * self.part;
        self.own += sums.own.iter().sum::<f64>() / square;
        let own = self.own / round as f64 * square;
        let exceeds = against > DEVIATIONS * own.sqrt() && against > LEAST * own;
        if own <= 0.0 || (self.part >= 1.0 && !exceeds) {
            return;
        }
        if self.before * against > 0.0 {
            self.step = (self.step * GROWTH).min(LONGEST_STEP);
        } else if self.before * against < 0.0 {
            self.step *= SHRINKAGE;
        }
        self.before = against;
        let change = (self.step * against / own).clamp(-MOST_UP, MOST_DOWN);
        self.part = (self.part * (1.0 - change)).max(LEAST_PART);
        if self.part >= 1.0 {
            (self.part, self.step, self.before) = (1.0, FIRST_STEP, 0.0);
        }
    }
}

impl Comparison<'_> {
    /// Returns true for each Gaussian that the fit dims to less than half of its opacity.
    fn candidates(&self, engine: &mut dyn Engine) -> Result<Vec<bool>> {
        let mut fitted = vec![Fitted::WHOLE; self.splats.len()];
        for round in 0..ROUNDS {
            let sums = self.compare(engine, |i| fitted[i].part, round as u64)?;
            for (fitted, sums) in fitted.iter_mut().zip(&sums) {
                fitted.advance(sums, round + 1);
            }
        }
        Ok(fitted.iter().map(|of| of.part < CANDIDATE).collect())
    }

    /// Returns true for each candidate whose return would raise the error, with no other candidate in place.
    fn contradicted(&self, engine: &mut dyn Engine, candidates: &[bool]) -> Result<Vec<bool>> {
        let part = |i: usize| if candidates[i] { LEAST_PART } else { 1.0 };
        let sums = self.compare(engine, part, ROUNDS as u64)?;
        let rise = |sums: &Sums, half: usize| {
            2.0 * sums.against[half] / LEAST_PART + sums.own[half] / (LEAST_PART * LEAST_PART)
        };
        let both = sums.iter().zip(candidates);
        Ok(both
            .map(|(sums, is)| *is && is_gain([rise(sums, 0), rise(sums, 1)]))
            .collect())
    }

    /// The sums of all Gaussians where each has this part of its opacity.
    fn compare(
        &self,
        engine: &mut dyn Engine,
        part: impl Fn(usize) -> f64,
        round: u64,
    ) -> Result<Vec<Sums>> {
        let mut splats = self.splats.clone();
        for (i, logit) in splats.opacities.iter_mut().enumerate() {
            *logit = dimmed(*logit, part(i));
        }
        engine.upload(&splats, None)?;
        let mut sums = vec![Sums::default(); splats.len()];
        for_each_photo(self.views, self.progress, |at, view, photo| {
            let settings = &self.settings;
            let shown = engine.render(&view.camera, settings)?.rgb;
            let seed = round << 24 | at as u64;
            let (off, signs) = derivatives(&residual(&shown, photo, settings.background), seed);
            let mut gradients =
                |derivative: &[f32]| engine.blend_gradients(&view.camera, settings, derivative);
            let against = gradients(&off)?.opacities;
            let own = gradients(&signs)?.opacities;
            sums.par_iter_mut().enumerate().for_each(|(i, sums)| {
                sums.against[at % 2] += without_one(&splats, &against, i);
                sums.own[at % 2] += without_one(&splats, &own, i).powi(2);
            });
            Ok(())
        })?;
        Ok(sums)
    }
}

/// The logit of a part of this logit's opacity.
fn dimmed(logit: f32, part: f64) -> f32 {
    if part >= 1.0 {
        return logit;
    }
    let opacity = part / (1.0 + (-f64::from(logit)).exp());
    (opacity / (1.0 - opacity)).ln() as f32
}

/// Calls `work` with each view and its photo, in order. Photos are decoded in parallel, a few at a time.
fn for_each_photo(
    views: &[&View],
    progress: &dyn Progress,
    mut work: impl FnMut(usize, &View, &Photo) -> Result<()>,
) -> Result<()> {
    let at_once = rayon::current_num_threads().clamp(1, MOST_PHOTOS);
    for (chunk, views) in views.chunks(at_once).enumerate() {
        let photos: Vec<Result<_>> = views.par_iter().map(|view| view.photo.read()).collect();
        for (at, (view, photo)) in views.iter().zip(photos).enumerate() {
            if progress.should_stop() {
                return Err(stopped());
            }
            work(chunk * at_once + at, view, &*photo?)?;
            progress.advance(1);
        }
    }
    Ok(())
}

/// w r, and random signs times the root of w; 0 where a mask hides the pixel.
fn derivatives(off: &[Option<f32>], seed: u64) -> (Vec<f32>, Vec<f32>) {
    let every = off.len().div_ceil(MEDIAN_SAMPLES).max(1);
    let sample = off.iter().step_by(every).flatten();
    let median = quantiles::median(sample.map(|r| r.abs()).collect());
    let scale = (MEDIANS * median.unwrap_or_default()).max(LEAST_SCALE);
    let both = off.par_iter().enumerate().map(|(value, off)| match off {
        None => (0.0, 0.0),
        Some(r) => {
            let weight = 1.0 / (scale * scale + r * r);
            (weight * r, weight.sqrt() * sign(seed, value))
        }
    });
    both.unzip()
}

/// Returns true if removal lowers the error by these amounts, and neither half of the photos contradicts.
fn is_gain([even, odd]: [f64; 2]) -> bool {
    let sum = even + odd;
    sum > 0.0 && even.min(odd) >= -CONTRADICTED * sum
}

/// Change of a scalar without Gaussian `i`, to first order; the gradients are by logits of opacities.
fn without_one(splats: &Splats, gradients: &[f32], i: usize) -> f64 {
    f64::from(gradients[i]) * (1.0 + f64::from(splats.opacities[i]).exp())
}

/// The render minus the photo, value by value; `None` where a mask hides the pixel.
fn residual(shown: &[f32], photo: &Photo, background: [f32; 3]) -> Vec<Option<f32>> {
    let mask = photo.mask.as_deref();
    let counts = |value: usize| mask.is_none_or(|mask| mask_counts(mask[value / 3]));
    let wanted = target(photo, background);
    let pairs = shown.par_iter().zip(&wanted).enumerate();
    pairs
        .map(|(value, (shown, wanted))| counts(value).then_some(shown - wanted))
        .collect()
}

/// 1 or -1, by the seed and the place of a value (finalizer of SplitMix64).
fn sign(seed: u64, value: usize) -> f32 {
    let mut bits = (seed << 32 ^ value as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    match bits >> 63 {
        0 => -1.0,
        _ => 1.0,
    }
}
