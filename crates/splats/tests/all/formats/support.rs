//! Splats for tests of writers, and tolerances of the comparison.

use dapple_splats::splat_file::Format;
use dapple_splats::{Splats, sh_coefficient_count};

/// Reproducible pseudo-random numbers from -1 to 1.
pub struct Noise(pub u32);

impl Noise {
    pub fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as f32 / (1 << 23) as f32 - 1.0
    }
}

/// Builds clusters of ordinary Gaussians.
pub fn crowd(count: usize, sh_degree: u8) -> Splats {
    let mut noise = Noise(1);
    let mut value = || noise.next();
    let mut splats = Splats::empty(sh_degree);
    for i in 0..count {
        let far = (i % 5) as f32 * 3.0;
        splats.means.push([value() + far, value() * 2.0, value()]);
        splats
            .scales
            .push([value() - 3.0, value() - 4.0, value() - 5.0]);
        let quat = [value(), value(), value(), value()];
        let length = quat.iter().map(|c| c * c).sum::<f32>().sqrt();
        splats.quats.push(quat.map(|c| c / length));
        splats.opacities.push(value() * 5.0);
        splats.sh0.push([value(), value(), value()]);
        let rest = (sh_coefficient_count(sh_degree) - 1) * 3;
        splats.sh_rest.extend((0..rest).map(|_| value() * 0.4));
    }
    splats
}

/// Largest differences between two splats, by property.
#[derive(Debug, Clone, Copy)]
pub struct Steps {
    pub mean: f32,
    pub scale: f32,
    pub quat: f32,
    pub alpha: f32,
    pub sh0: f32,
    pub rest: f32,
}

impl Steps {
    pub const NONE: Self = Self {
        mean: 2e-5,
        scale: 2e-5,
        quat: 2e-5,
        alpha: 2e-5,
        sh0: 2e-5,
        rest: 2e-5,
    };

    /// Returns half a step of each, and rounding.
    pub fn for_format(format: Format) -> Self {
        match format {
            Format::Spz => Self {
                mean: 0.5 / 4096.0 + 1e-5,
                scale: 0.5 / 16.0 + 1e-5,
                quat: 0.004,
                alpha: 0.5 / 255.0 + 1e-5,
                sh0: 0.5 / 255.0 / 0.15 + 1e-4,
                rest: 8.6 / 128.0,
            },
            // 16 bits of a range of ln 15 and of ln 3, stretched back by up to 15; rotations to the nearest of 8 bits;
            // codebooks of spread values, and a palette of as many entries as there are vectors.
            Format::Sog | Format::SogFolder | Format::StreamedSog => Self {
                mean: 1.02 * 4.0 / 65_535.0 * 15.0,
                scale: 0.04,
                quat: 0.02,
                // Other writers truncate instead of rounding.
                alpha: 1.0 / 255.0 + 1e-5,
                sh0: 0.02,
                rest: 0.02,
            },
            // Ranges are at most 14 and 2 wide, in 2047 and 1023 steps.
            Format::CompressedPly => Self {
                mean: 0.5 * 14.0 / 2047.0 + 1e-5,
                scale: 0.5 * 2.0 / 1023.0 + 1e-5,
                quat: 3.0 * 0.5 * std::f32::consts::SQRT_2 / 1023.0 + 1e-5,
                alpha: 0.5 / 255.0 + 1e-5,
                sh0: 0.5 * 2.0 / 255.0 + 1e-4,
                rest: 0.5 / 32.0 + 1e-5,
            },
            Format::Splat => Self {
                quat: 1.5 / 128.0,
                alpha: 0.51 / 255.0,
                sh0: 0.51 / 255.0 / 0.282,
                ..Self::NONE
            },
            _ => Self::NONE,
        }
    }
}

fn alpha(logit: f32) -> f32 {
    1.0 / (1.0 + (-logit).exp())
}

/// Returns the nearest of all rotations that give an ellipsoid this shape: after a half turn about one of its own axes
/// or not, and with either sign.
fn same_shape(found: [f32; 4], [w, x, y, z]: [f32; 4]) -> [f32; 4] {
    let dot = |q: &[f32; 4]| -> f32 { q.iter().zip(&found).map(|(a, b)| a * b).sum() };
    let turned = [[w, x, y, z], [-x, w, z, -y], [-y, -z, w, x], [-z, y, -x, w]];
    let near = turned
        .into_iter()
        .max_by(|a, b| dot(a).abs().total_cmp(&dot(b).abs()));
    let near = near.unwrap();
    near.map(|q| q * dot(&near).signum())
}

/// Compares in the order of the files, or by the nearest if one is sorted.
#[track_caller]
pub fn assert_near(found: &Splats, expected: &Splats, steps: Steps, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    assert_eq!(found.sh_degree, expected.sh_degree, "{what}");
    let stride = found.sh_rest_stride();
    let mut used = vec![false; expected.len()];
    for i in 0..found.len() {
        let off = |k: usize| -> f32 {
            let axes = found.means[i].iter().zip(&expected.means[k]);
            axes.map(|(a, b)| (a - b) * (a - b)).sum()
        };
        let k = match off(i) <= 3.0 * steps.mean * steps.mean && !used[i] {
            true => i,
            false => (0..expected.len())
                .min_by(|&a, &b| off(a).total_cmp(&off(b)))
                .unwrap(),
        };
        assert!(!used[k], "{what}: two are nearest to {k}");
        used[k] = true;
        let within = |found: &[f32], expected: &[f32], step: f32, name: &str| {
            for (a, b) in found.iter().zip(expected) {
                assert!((a - b).abs() <= step, "{what}: {name} of {i}: {a}, {b}");
            }
        };
        within(&found.means[i], &expected.means[k], steps.mean, "mean");
        within(&found.scales[i], &expected.scales[k], steps.scale, "scale");
        let quat = same_shape(found.quats[i], expected.quats[k]);
        within(&found.quats[i], &quat, steps.quat, "rotation");
        let (a, b) = (alpha(found.opacities[i]), alpha(expected.opacities[k]));
        within(&[a], &[b], steps.alpha.max(0.51 / 255.0), "opacity");
        within(&found.sh0[i], &expected.sh0[k], steps.sh0, "colour");
        within(
            &found.sh_rest[i * stride..(i + 1) * stride],
            &expected.sh_rest[k * stride..(k + 1) * stride],
            steps.rest,
            "harmonics",
        );
    }
}
