//! Detects opacities from 0 to 1 and lengths instead of logits and logarithms. Some programs store the values that they
//! render with.
//!
//! 1. `Found::read`: logits of a trained scene extend below 0 and above 1, and logarithms of its sizes below 0. Numbers
//!    that are all within 0 and 1, or all above 0, are opacities and lengths, unless they are few or equal.
//! 2. Lengths without such opacities need one more sign, because the unit of a scene is free. Most of them are below 1,
//!    and as logarithms they would be sizes as large as the distances between Gaussians.
//! 3. `undo`: computes the logits and logarithms, and returns a note.

use super::splats::DISC;
use crate::Splats;
use crate::splat_file::{linear_scale, logit};
use rayon::prelude::*;

/// Minimum number of Gaussians for a decision.
const LEAST: usize = 32;

/// Opacities that differ by less than this are a constant, of either kind.
const LEAST_SPREAD: f32 = 0.01;

/// Sizes of at least this share of the mean distance between Gaussians, read as logarithms, are lengths.
const LARGE_SHARE: f64 = 0.3;

/// Tolerance for rounding.
const ROUNDING: f32 = 1e-5;

/// Activated values found in a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// True if opacities are 0 to 1.
    opacities: bool,
    /// True if opacities are bytes, 0 to 255.
    bytes: bool,
    /// True if scales are lengths.
    scales: bool,
}

impl Found {
    /// Reads all numbers; of each scale the first `axes`.
    pub(super) fn read(splats: &Splats, axes: usize, is_bytes: bool) -> Self {
        let bytes = Self {
            bytes: is_bytes,
            ..Self::default()
        };
        if splats.len() < LEAST {
            return bytes;
        }
        let ends = |values: &mut dyn Iterator<Item = f32>| {
            values.fold([f32::INFINITY, f32::NEG_INFINITY], |[low, high], v| {
                [low.min(v), high.max(v)]
            })
        };
        let both = |[a, b]: [f32; 2], [c, d]: [f32; 2]| [a.min(c), b.max(d)];
        let none = || [f32::INFINITY, f32::NEG_INFINITY];
        let [faint, opaque] = (splats.opacities.par_chunks(4096))
            .map(|part| ends(&mut part.iter().copied()))
            .reduce(none, both);
        let within = faint >= -ROUNDING && opaque <= 1.0 + ROUNDING;
        let is_spread = opaque - faint > LEAST_SPREAD;
        // Most files return here: a scale below 0 is a logarithm.
        let is_logarithm = |s: &[f32; 3]| s[..axes].iter().any(|&v| v < 0.0);
        let scales = !splats.scales.par_iter().any(is_logarithm)
            && are_lengths(splats, axes, within && is_spread);
        Self {
            opacities: !is_bytes && within && (is_spread || scales),
            scales,
            ..bytes
        }
    }
}

/// Returns true if non-negative scales are lengths.
fn are_lengths(splats: &Splats, axes: usize, are_opacities: bool) -> bool {
    let mut values: Vec<f32> = splats
        .scales
        .iter()
        .flat_map(|s| s[..axes].iter().copied())
        .collect();
    values.sort_unstable_by(f32::total_cmp);
    let (least, most) = (values[0], values[values.len() - 1]);
    if least == most || !most.is_finite() {
        return false;
    }
    if are_opacities {
        return true;
    }
    let median = values[values.len() / 2];
    let side = |k: usize| {
        let mut places: Vec<f32> = splats.means.iter().map(|m| m[k]).collect();
        places.sort_unstable_by(f32::total_cmp);
        let tail = places.len() / 100;
        f64::from(places[places.len() - 1 - tail]) - f64::from(places[tail])
    };
    let extent = [0, 1, 2].map(side).into_iter().fold(0.0, f64::max);
    let distance = extent / (splats.len() as f64).cbrt();
    median < 1.0 && f64::from(median).exp() >= LARGE_SHARE * distance
}

/// Converts the activated values to logits and logarithms, and returns a note.
pub(super) fn undo(splats: &mut Splats, found: Found, axes: usize) -> Option<String> {
    if found.opacities || found.bytes {
        let most = if found.bytes { 255.0 } else { 1.0 };
        for opacity in &mut splats.opacities {
            *opacity = logit(*opacity / most);
        }
    }
    if found.scales {
        for scale in &mut splats.scales {
            *scale = scale.map(linear_scale);
            if axes == 2 {
                scale[2] = scale[0].min(scale[1]) - DISC;
            }
        }
    }
    let opacities = match (found.opacities, found.bytes) {
        (true, _) => {
            Some("opacities that all lie between 0 and 1 are read as opacities, not as logits")
        }
        (_, true) => Some("opacities in bytes are read as opacities from 0 to 255, not as logits"),
        _ => None,
    };
    let scales = "scales of which none is negative are read as lengths, not as logarithms";
    match (opacities, found.scales) {
        (Some(opacities), true) => Some(format!("{opacities}; {scales}")),
        (Some(opacities), false) => Some(opacities.to_owned()),
        (None, true) => Some(scales.to_owned()),
        (None, false) => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// Builds a trained scene: logits on both sides of 0, sizes of a hundredth of its extent, times `unit`.
    fn scene(unit: f32) -> Splats {
        let mut splats = Splats::empty(0);
        let wave = |i: usize, k: usize| ((i * 7 + k * 13) as f32 * 0.618).fract();
        for i in 0..2000 {
            splats
                .means
                .push([0, 1, 2].map(|k| 4.0 * unit * wave(i, k)));
            let scale = |k: usize| unit.ln() - 6.0 + 3.0 * wave(i, 3 + k);
            splats.scales.push([0, 1, 2].map(scale));
            splats.quats.push([1.0, 0.0, 0.0, 0.0]);
            splats.opacities.push(6.0 * wave(i, 7) - 2.0);
            splats.sh0.push([0.0; 3]);
        }
        splats
    }

    fn activated(mut splats: Splats, opacities: bool, scales: bool) -> Splats {
        if opacities {
            for o in &mut splats.opacities {
                *o = 1.0 / (1.0 + (-*o).exp());
            }
        }
        if scales {
            for s in &mut splats.scales {
                *s = s.map(f32::exp);
            }
        }
        splats
    }

    #[test]
    fn activated_numbers_come_back_and_others_stay() {
        for unit in [0.01f32, 1.0, 10.0] {
            let plain = scene(unit);
            for (opacities, scales) in [(false, false), (true, false), (true, true), (false, true)]
            {
                let mut read = activated(plain.clone(), opacities, scales);
                let found = Found::read(&read, 3, false);
                let what = format!("unit {unit}: {opacities} {scales}");
                assert_eq!(
                    (found.opacities, found.scales),
                    (opacities, scales),
                    "{what}"
                );
                let note = undo(&mut read, found, 3);
                assert_eq!(note.is_some(), opacities || scales);
                for i in 0..plain.len() {
                    assert!(
                        (read.opacities[i] - plain.opacities[i]).abs() < 1e-3,
                        "{what}"
                    );
                    for k in 0..3 {
                        assert!(
                            (read.scales[i][k] - plain.scales[i][k]).abs() < 1e-3,
                            "{what}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn large_units_few_gaussians_and_constants_are_no_sign() {
        // Millimetres: no size is below 1, and all are small compared with the scene.
        let mut large = scene(2000.0);
        assert!(large.scales.iter().flatten().all(|&s| s >= 0.0));
        assert_eq!(Found::read(&large, 3, false), Found::default());
        large.opacities.fill(0.5);
        assert_eq!(Found::read(&large, 3, false), Found::default());
        let mut few = activated(scene(1.0), true, true);
        few.retain(|i| i < 20);
        assert_eq!(Found::read(&few, 3, false), Found::default());
        let mut alike = scene(1.0);
        alike.scales.fill([0.0; 3]);
        alike.opacities.fill(0.0);
        assert_eq!(Found::read(&alike, 3, false), Found::default());
    }

    #[test]
    fn bytes_are_opacities() {
        let mut splats = scene(1.0);
        splats.opacities.fill(51.0);
        let found = Found::read(&splats, 3, true);
        assert!(undo(&mut splats, found, 3).unwrap().contains("bytes"));
        assert!((splats.opacities[0] - 0.25f32.ln()).abs() < 1e-5);
    }
}
