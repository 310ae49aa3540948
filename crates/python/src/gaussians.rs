//! Gaussians from arrays in gsplat's parametrisation, and gradients by it.
//!
//! gsplat has standard deviations and opacities in 0..1, Dapple stores logarithms and logits. Colours are harmonics, or
//! plain values.

use dapple::scene::{SH_C0, sh_coefficient_count};
use dapple::{Error, Gradients, Result, Splats};
use rayon::prelude::*;

/// Distance of opacities from 0 and 1, so that logits are finite.
const OPACITY_MARGIN: f32 = 1e-7;

/// Smallest standard deviation, so that logarithms are finite.
const LEAST_SCALE: f32 = 1e-30;

/// Arrays of one call, row by row.
pub struct Arrays<'a> {
    /// Centres, `[N, 3]`.
    pub means: &'a [f32],
    /// Rotations, `[N, 4]`, w first.
    pub quats: &'a [f32],
    /// Standard deviations, `[N, 3]`.
    pub scales: &'a [f32],
    /// Opacities in 0..1, `[N]`.
    pub opacities: &'a [f32],
    /// Values, `[N, 3]`, or harmonics, `[N, K, 3]`.
    pub colors: &'a [f32],
}

/// Meaning of the array of colours.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Colours {
    /// Plain values. The number is added before the render, which clamps at 0.
    Values(f32),
    /// Harmonics with this number of coefficients, of which this degree is evaluated.
    Harmonics(usize, u8),
}

impl Colours {
    /// Returns the degree of the splats.
    pub fn degree(self) -> u8 {
        match self {
            Self::Values(_) => 0,
            Self::Harmonics(_, degree) => degree,
        }
    }

    fn stride(self) -> usize {
        match self {
            Self::Values(_) => 3,
            Self::Harmonics(coefficients, _) => 3 * coefficients,
        }
    }
}

/// Uploaded numbers that gradients by gsplat's parameters need.
pub struct Uploaded {
    scales: Vec<[f32; 3]>,
    opacities: Vec<f32>,
    colours: Colours,
}

impl Uploaded {
    /// Returns the degree of harmonics that renders evaluate.
    pub fn degree(&self) -> u8 {
        self.colours.degree()
    }
}

fn rows<'a, const K: usize>(name: &str, values: &'a [f32], n: usize) -> Result<&'a [[f32; K]]> {
    let (rows, rest) = values.as_chunks::<K>();
    if rest.is_empty() && rows.len() == n {
        return Ok(rows);
    }
    Err(Error::input(format!(
        "{name} has {} numbers, and {n} Gaussians need {}",
        values.len(),
        n * K
    ))
    .at(name))
}

/// Converts arrays to splats.
pub fn splats(arrays: &Arrays<'_>, colours: Colours) -> Result<(Splats, Uploaded)> {
    let n = arrays.opacities.len();
    let means = rows::<3>("means", arrays.means, n)?.to_vec();
    let quats = rows::<4>("quats", arrays.quats, n)?.to_vec();
    let scales = rows::<3>("scales", arrays.scales, n)?.to_vec();
    let stride = colours.stride();
    if arrays.colors.len() != n * stride {
        return Err(Error::input(format!(
            "colors has {} numbers, and {n} Gaussians need {}",
            arrays.colors.len(),
            n * stride
        ))
        .at("colors"));
    }
    // NaN stays NaN: such a Gaussian is not rendered. `max` would drop it.
    let log = |s: f32| s.abs().clamp(LEAST_SCALE, f32::INFINITY).ln();
    let logit = |o: f32| {
        let o = o.clamp(OPACITY_MARGIN, 1.0 - OPACITY_MARGIN);
        (o / (1.0 - o)).ln()
    };
    let degree = colours.degree();
    let rest = 3 * (sh_coefficient_count(degree) - 1);
    let first = |i: usize| {
        let [r, g, b] = [0, 1, 2].map(|c| arrays.colors[i * stride + c]);
        match colours {
            Colours::Values(shift) => [r, g, b].map(|v| (v + shift - 0.5) / SH_C0),
            Colours::Harmonics(..) => [r, g, b],
        }
    };
    let splats = Splats {
        means,
        scales: scales.par_iter().map(|s| s.map(log)).collect(),
        quats,
        opacities: arrays.opacities.par_iter().map(|&o| logit(o)).collect(),
        sh0: (0..n).into_par_iter().map(first).collect(),
        sh_rest: (0..n)
            .into_par_iter()
            .flat_map_iter(|i| &arrays.colors[i * stride + 3..][..rest])
            .copied()
            .collect(),
        sh_degree: degree,
    };
    let uploaded = Uploaded {
        scales,
        opacities: arrays.opacities.to_vec(),
        colours,
    };
    Ok((splats, uploaded))
}

/// Gradients by gsplat's parameters, row by row.
pub struct ByParameters {
    /// `[N, 3]`.
    pub means: Vec<f32>,
    /// `[N, 4]`.
    pub quats: Vec<f32>,
    /// By standard deviations, `[N, 3]`.
    pub scales: Vec<f32>,
    /// By opacities in 0..1, `[N]`.
    pub opacities: Vec<f32>,
    /// Shape of the colours.
    pub colors: Vec<f32>,
    /// By projected centres, pixels, `[N, 2]`.
    pub means2d: Vec<f32>,
    /// Sums of absolute values of pixels, `[N, 2]`, or empty.
    pub absolute2d: Vec<f32>,
}

/// Converts gradients by stored parameters to gradients by gsplat's.
pub fn by_parameters(gradients: Gradients<f32>, of: &Uploaded) -> ByParameters {
    let n = of.opacities.len();
    // d log |s| / ds = 1 / s, and 0 where the logarithm is bounded.
    let by_scale = |(g, s): (&[f32; 3], &[f32; 3])| -> [f32; 3] {
        std::array::from_fn(|k| {
            if s[k].abs() > LEAST_SCALE {
                g[k] / s[k]
            } else {
                0.0
            }
        })
    };
    let by_opacity = |(g, o): (&f32, &f32)| {
        let o = o.clamp(OPACITY_MARGIN, 1.0 - OPACITY_MARGIN);
        g / (o * (1.0 - o))
    };
    let scales: Vec<[f32; 3]> = gradients
        .scales
        .par_iter()
        .zip(&of.scales)
        .map(by_scale)
        .collect();
    let opacities = gradients
        .opacities
        .par_iter()
        .zip(&of.opacities)
        .map(by_opacity)
        .collect();
    let colors = match of.colours {
        Colours::Values(_) => gradients
            .sh0
            .into_iter()
            .flatten()
            .map(|g| g / SH_C0)
            .collect(),
        Colours::Harmonics(coefficients, degree) => {
            let stride = 3 * coefficients;
            let rest = 3 * (sh_coefficient_count(degree) - 1);
            let mut colors = vec![0.0; n * stride];
            colors
                .par_chunks_mut(stride)
                .enumerate()
                .for_each(|(i, row)| {
                    row[..3].copy_from_slice(&gradients.sh0[i]);
                    row[3..3 + rest].copy_from_slice(&gradients.sh_rest[i * rest..][..rest]);
                });
            colors
        }
    };
    ByParameters {
        means: gradients.means.into_flattened(),
        quats: gradients.quats.into_flattened(),
        scales: scales.into_flattened(),
        opacities,
        colors,
        means2d: gradients.means2d.into_flattened(),
        absolute2d: gradients.absolute2d.into_flattened(),
    }
}
