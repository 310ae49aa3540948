//! Floaters: Gaussians that the photos contradict.
//!
//! A pixel's colour is linear in one Gaussian's opacity, the others fixed. So the squared error of the training photos
//! without that Gaussian follows from two sums over all values of all pixels, with r the render minus the photo and d
//! the part of the render that vanishes with the Gaussian:
//!
//! - the sum of w r d, from one backward pass with the derivative w r;
//! - the sum of w d d, from a backward pass with random signs times the root of w (Hutchinson): the square of what it
//!   gives has this sum as its mean.
//!
//! The weights w are 1 / (s s + r r), with s the scale of the photo's residuals (median): photos that the model does
//! not explain, and what moved in them, count less.
//!
//! Removal lowers the error where the first sum exceeds half the second. In a trained model the first sum is near 0, in
//! a floater it is near the second. Were r noise, the deviation of the first sum would be at most the root of the
//! second: a floater exceeds it many times.
//!
//! Floaters hide each other, so they are removed in rounds: what exceeds the deviation most goes first, and the next
//! round renders what is left. Several that overlap may explain one residual, and removal of all of them would
//! overshoot. So each round renders what is left without them, D less, and shares the change of the squared error, the
//! sum of D (2 r - D), among them by their d. Those with a share that is not above 0 stay, and those with a share that
//! one half of the photos contradicts.

use crate::contributions::stopped;
use crate::evaluate::target;
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

/// By how many deviations a floater exceeds noise, round by round.
const ROUNDS: [f64; 4] = [20.0, 8.0, 4.0, 4.0];

/// The least part of the second sum that the first has in a floater: weights that fall with r let it be below half.
const LEAST: f64 = 0.1;

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
    let mut left = splats.clone();
    for logit in &mut left.opacities {
        *logit = logit.min(MOST_LOGIT);
    }
    let mut indices: Vec<usize> = (0..splats.len()).collect();
    // Sums of d d gather over rounds: each has other signs.
    let mut own = vec![0.0; splats.len()];
    let step = views.len().div_ceil(MOST_VIEWS).max(1);
    let views: Vec<&View> = views.iter().step_by(step).collect();
    let settings = RenderSettings {
        depth: false,
        ..*settings
    };
    progress.start(
        "comparing with photos",
        2 * (ROUNDS.len() * views.len()) as u64,
    );
    for (round, deviations) in ROUNDS.into_iter().enumerate() {
        engine.upload(&left, None)?;
        let against = compare(
            engine,
            &left,
            &views,
            &settings,
            (round as u64, &mut own),
            progress,
        );
        let against = against.inspect_err(|_| progress.finish())?;
        let is_floater = |i: usize| {
            let (against, own) = (against[i], own[i] / (round + 1) as f64);
            against > LEAST * own && against > deviations * own.sqrt()
        };
        let marked: Vec<bool> = (0..left.len()).map(is_floater).collect();
        let shares = shares(engine, &left, &marked, &views, &settings, progress);
        let shares = shares.inspect_err(|_| progress.finish())?;
        let is_kept = |i: &usize| !(marked[*i] && is_gain(shares[*i]));
        let kept: Vec<usize> = (0..left.len()).filter(is_kept).collect();
        left.retain(|i| kept.binary_search(&i).is_ok());
        indices = kept.iter().map(|&i| indices[i]).collect();
        own = kept.iter().map(|&i| own[i]).collect();
    }
    progress.finish();
    let mut are = vec![true; splats.len()];
    for i in indices {
        are[i] = false;
    }
    Ok(are)
}

/// The sums of w r d over these views; those of w d d are added to the second of `gathered`.
fn compare(
    engine: &mut dyn Engine,
    splats: &Splats,
    views: &[&View],
    settings: &RenderSettings,
    (round, own): (u64, &mut [f64]),
    progress: &dyn Progress,
) -> Result<Vec<f64>> {
    let mut sums = vec![0.0; splats.len()];
    for_each_photo(views, progress, |at, view, photo| {
        let shown = engine.render(&view.camera, settings)?.rgb;
        let seed = round << 24 | at as u64;
        let (off, signs) = derivatives(&residual(&shown, photo, settings.background), seed);
        let against = engine
            .blend_gradients(&view.camera, settings, &off)?
            .opacities;
        let alone = engine
            .blend_gradients(&view.camera, settings, &signs)?
            .opacities;
        let both = sums.par_iter_mut().zip(own.par_iter_mut()).enumerate();
        both.for_each(|(i, (sum, own))| {
            *sum += without_one(splats, &against, i);
            *own += without_one(splats, &alone, i).powi(2);
        });
        Ok(())
    })?;
    Ok(sums)
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
    let mut sizes: Vec<f32> = sample.map(|r| r.abs()).collect();
    let middle = sizes.len() / 2;
    let median = match sizes.is_empty() {
        true => 0.0,
        false => *sizes.select_nth_unstable_by(middle, f32::total_cmp).1,
    };
    let scale = (MEDIANS * median).max(LEAST_SCALE);
    let both = off.par_iter().enumerate().map(|(value, off)| match off {
        None => (0.0, 0.0),
        Some(r) => {
            let weight = 1.0 / (scale * scale + r * r);
            (weight * r, weight.sqrt() * sign(seed, value))
        }
    });
    both.unzip()
}

/// Returns two shares for each Gaussian, 0 for those that are not marked: the part of the squared error that vanishes
/// with the Gaussian if all marked ones are removed. Each number is from every second photo, weighted by its inverse
/// error.
fn shares(
    engine: &mut dyn Engine,
    splats: &Splats,
    marked: &[bool],
    views: &[&View],
    settings: &RenderSettings,
    progress: &dyn Progress,
) -> Result<Vec<[f64; 2]>> {
    let mut shares = vec![[0.0; 2]; splats.len()];
    if marked.iter().all(|is| *is) || !marked.contains(&true) {
        progress.advance(views.len() as u64);
        return Ok(shares);
    }
    let mut rest = splats.clone();
    rest.retain(|i| !marked[i]);
    engine.upload(&rest, None)?;
    // Bytes: all renders are held.
    let bytes = |engine: &mut dyn Engine, view: &View| {
        let shown = engine.render_bytes(&view.camera, settings)?;
        let rgb = shown.rgba.chunks_exact(4).flat_map(|p| [p[0], p[1], p[2]]);
        Ok(rgb.collect())
    };
    let without: Vec<Vec<u8>> = views
        .iter()
        .map(|view| bytes(engine, view))
        .collect::<Result<_>>()?;
    engine.upload(splats, None)?;
    for_each_photo(views, progress, |at, view, photo| {
        let shown = engine.render(&view.camera, settings)?.rgb;
        let off = residual(&shown, photo, settings.background);
        let sum: f32 = off.iter().flatten().map(|r| r * r).sum();
        let mean = sum / off.iter().flatten().count().max(1) as f32;
        let weight = 1.0 / mean.max(LEAST_SCALE * LEAST_SCALE);
        let derivative: Vec<f32> = off
            .par_iter()
            .zip(&shown)
            .zip(&without[at])
            .map(|((off, shown), without)| {
                let gone = shown.clamp(0.0, 1.0) - f32::from(*without) / 255.0;
                off.map_or(0.0, |r| weight * (2.0 * r - gone))
            })
            .collect();
        let gradients = engine.blend_gradients(&view.camera, settings, &derivative)?;
        for i in (0..splats.len()).filter(|&i| marked[i]) {
            shares[i][at % 2] += without_one(splats, &gradients.opacities, i);
        }
        Ok(())
    })?;
    Ok(shares)
}

/// Returns true if the error falls by these shares, and neither half of the photos contradicts.
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
