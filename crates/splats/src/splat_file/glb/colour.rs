//! Converts linear colours to those of a display.
//!
//! A Gaussian's colour is a function of the direction. A display needs another function of the direction, the sRGB
//! curve of the first. The harmonics of the result are the integrals of that curve times the basis, by the quadrature
//! that also rotates harmonics. For a Gaussian without view dependence that is exactly the curve at its colour.
//! Blending is linear in both spaces and so differs between them: renders of half-transparent Gaussians are similar,
//! not equal.

use crate::harmonics::{basis, quadrature};
use crate::{SH_C0, Splats};
use glam::DVec3;
use rayon::prelude::*;

/// Computes the curve of sRGB; below 0 its straight part is extended.
pub fn srgb(linear: f64) -> f64 {
    match linear <= 0.003_130_8 {
        true => 12.92 * linear,
        false => 1.055 * linear.powf(1.0 / 2.4) - 0.055,
    }
}

/// Converts all colours.
pub(super) fn to_display(splats: &mut Splats) {
    let stride = splats.sh_rest_stride();
    let alone = |dc: f32| {
        let linear = 0.5 + f64::from(SH_C0) * f64::from(dc);
        ((srgb(linear) - 0.5) / f64::from(SH_C0)) as f32
    };
    if stride == 0 {
        splats.sh0.par_iter_mut().for_each(|dc| *dc = dc.map(alone));
        return;
    }
    let directions: Vec<([f64; 16], f64)> = quadrature()
        .into_iter()
        .map(|(direction, weight): (DVec3, f64)| (basis(direction), weight))
        .collect();
    let rows = splats.sh0.par_iter_mut();
    rows.zip(splats.sh_rest.par_chunks_mut(stride))
        .for_each(|(dc, rest)| {
            if rest.iter().all(|&v| v == 0.0) {
                *dc = dc.map(alone);
                return;
            }
            let count = stride / 3;
            for (channel, dc) in dc.iter_mut().enumerate() {
                let mut sums = [0.0f64; 16];
                for (basis, weight) in &directions {
                    let terms = (0..count).map(|k| basis[k + 1] * f64::from(rest[3 * k + channel]));
                    let linear = 0.5 + basis[0] * f64::from(*dc) + terms.sum::<f64>();
                    // Renderers clamp negative colours of a direction at 0.
                    let shown = weight * (srgb(linear.max(0.0)) - 0.5);
                    for (sum, value) in sums.iter_mut().zip(basis) {
                        *sum += shown * value;
                    }
                }
                *dc = sums[0] as f32;
                for k in 0..count {
                    rest[3 * k + channel] = sums[k + 1] as f32;
                }
            }
        });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linear(srgb: f64) -> f64 {
        match srgb <= 0.040_45 {
            true => srgb / 12.92,
            false => ((srgb + 0.055) / 1.055).powf(2.4),
        }
    }

    #[test]
    fn colours_are_those_of_the_curve_in_every_direction() {
        let c0 = f64::from(SH_C0);
        for degree in 0..=3u8 {
            // Display colours, converted to linear and back, are unchanged.
            let mut splats = Splats::empty(degree);
            let wanted = [0.8f64, 0.25, 0.02];
            splats.means.push([0.0; 3]);
            splats
                .sh0
                .push(wanted.map(|v| ((linear(v) - 0.5) / c0) as f32));
            splats.sh_rest = vec![0.0; splats.sh_rest_stride()];
            to_display(&mut splats);
            for (dc, wanted) in splats.sh0[0].iter().zip(wanted) {
                let shown = 0.5 + c0 * f64::from(*dc);
                assert!((shown - wanted).abs() < 1e-5, "{shown} {wanted}");
            }
        }
        // A little view dependence becomes the curve's slope times it.
        let mut splats = Splats::empty(1);
        splats.means.push([0.0; 3]);
        splats.sh0.push([0.0; 3]);
        splats.sh_rest = vec![0.01; 9];
        to_display(&mut splats);
        let slope = 1.055 / 2.4 * 0.5f64.powf(1.0 / 2.4 - 1.0);
        for &value in &splats.sh_rest {
            assert!((f64::from(value) - 0.01 * slope).abs() < 1e-5, "{value}");
        }
        assert!((0.5 + c0 * f64::from(splats.sh0[0][0]) - srgb(0.5)).abs() < 1e-4);
    }
}
