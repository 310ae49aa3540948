//! Gaussians in the parametrisation that is optimised and stored.

use crate::{Error, Result};
use glam::DVec3;

/// Highest degree of spherical harmonics in the files of 3DGS tools.
pub const MAX_SH_DEGREE: u8 = 3;

/// Y_00: colour = 0.5 + `SH_C0` * sh0 for a Gaussian without view dependence.
pub const SH_C0: f32 = 0.282_094_8;

/// Returns the coefficients per channel for a degree: 1, 4, 9, 16.
pub const fn sh_coefficient_count(degree: u8) -> usize {
    (degree as usize + 1) * (degree as usize + 1)
}

/// `N` Gaussians, structure of arrays.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Splats {
    /// Centres, world units, `[N, 3]`.
    pub means: Vec<[f32; 3]>,
    /// Natural logarithm of the standard deviation along each axis, `[N, 3]`.
    pub scales: Vec<[f32; 3]>,
    /// Rotations `[w, x, y, z]`, `[N, 4]`; they need not be normalised, because readers normalise.
    pub quats: Vec<[f32; 4]>,
    /// Logit of the opacity, `[N]`.
    pub opacities: Vec<f32>,
    /// Coefficient 0 of the colour, `[N, 3]`.
    pub sh0: Vec<[f32; 3]>,
    /// Coefficients 1.. of the colour, `[N, sh_coefficient_count(sh_degree) - 1, 3]`.
    pub sh_rest: Vec<f32>,
    /// Degree that `sh_rest` is sized for, 0 to [`MAX_SH_DEGREE`].
    pub sh_degree: u8,
}

impl Splats {
    /// Checks that all arrays have one length.
    ///
    /// # Errors
    /// Lengths that differ: a mistake of the calling program.
    pub fn check_lengths(&self) -> Result<()> {
        let rows = self.means.len();
        let fits = self.scales.len() == rows
            && self.quats.len() == rows
            && self.opacities.len() == rows
            && self.sh0.len() == rows
            && self.sh_degree <= crate::MAX_SH_DEGREE
            && self.sh_rest.len() == rows * self.sh_rest_stride();
        if fits {
            return Ok(());
        }
        Err(Error::internal(format!(
            "splats to write have arrays of different lengths: {rows} means, {} scales, {} quats, \
             {} opacities, {} sh0, {} sh_rest of degree {}",
            self.scales.len(),
            self.quats.len(),
            self.opacities.len(),
            self.sh0.len(),
            self.sh_rest.len(),
            self.sh_degree
        )))
    }

    /// Returns true if all numbers of Gaussian `i` are finite.
    ///
    /// # Panics
    /// If `i` is out of range.
    pub fn has_finite_numbers(&self, i: usize) -> bool {
        let stride = self.sh_rest_stride();
        let all = |values: &[f32]| values.iter().all(|v| v.is_finite());
        all(&self.means[i])
            && all(&self.scales[i])
            && all(&self.quats[i])
            && self.opacities[i].is_finite()
            && all(&self.sh0[i])
            && all(&self.sh_rest[i * stride..(i + 1) * stride])
    }

    /// Creates splats without Gaussians, for an SH degree.
    pub fn empty(sh_degree: u8) -> Self {
        Self {
            sh_degree,
            ..Self::default()
        }
    }

    /// Returns the number of Gaussians.
    pub fn len(&self) -> usize {
        self.means.len()
    }

    /// Returns true if there is no Gaussian.
    pub fn is_empty(&self) -> bool {
        self.means.is_empty()
    }

    /// Returns the floats per Gaussian in `sh_rest`.
    pub fn sh_rest_stride(&self) -> usize {
        (sh_coefficient_count(self.sh_degree) - 1) * 3
    }

    /// Returns these Gaussians with `sh_rest` cut or zero-padded to another degree.
    #[must_use]
    pub fn with_sh_degree(mut self, degree: u8) -> Self {
        let (old, new) = (
            self.sh_rest_stride(),
            (sh_coefficient_count(degree) - 1) * 3,
        );
        if old != new {
            let mut rest = vec![0.0; self.len() * new];
            let keep = old.min(new);
            for i in 0..self.len() {
                rest[i * new..i * new + keep]
                    .copy_from_slice(&self.sh_rest[i * old..i * old + keep]);
            }
            self.sh_rest = rest;
            self.sh_degree = degree;
        }
        self
    }

    /// Moves the origin of the centres to `origin` of the present world. Computed in doubles; bit-identical if `origin`
    /// is zero.
    pub fn count_from(&mut self, origin: DVec3) {
        if origin == DVec3::ZERO {
            return;
        }
        for mean in &mut self.means {
            *mean = (DVec3::from(mean.map(f64::from)) - origin)
                .to_array()
                .map(|v| v as f32);
        }
    }

    /// Keeps the Gaussians whose index satisfies `keep`, in order.
    pub fn retain(&mut self, keep: impl Fn(usize) -> bool) {
        let stride = self.sh_rest_stride();
        let kept: Vec<usize> = (0..self.len()).filter(|&i| keep(i)).collect();
        let pick = |from: &[[f32; 3]]| kept.iter().map(|&i| from[i]).collect();
        *self = Self {
            means: pick(&self.means),
            scales: pick(&self.scales),
            quats: kept.iter().map(|&i| self.quats[i]).collect(),
            opacities: kept.iter().map(|&i| self.opacities[i]).collect(),
            sh0: pick(&self.sh0),
            sh_rest: kept
                .iter()
                .flat_map(|&i| self.sh_rest[i * stride..(i + 1) * stride].iter().copied())
                .collect(),
            sh_degree: self.sh_degree,
        };
    }

    /// Computes the screen coverage measure of a Gaussian: its opacity times its largest cross-section, world units
    /// squared.
    pub fn coverage(&self, i: usize) -> f32 {
        // Scales are logarithms: the largest cross-section is the product of the two largest axes.
        let mut axes = self.scales[i];
        axes.sort_by(f32::total_cmp);
        let opacity = 1.0 / (1.0 + (-self.opacities[i]).exp());
        opacity * (axes[1] + axes[2]).exp()
    }

    /// Returns the bytes of the parameters.
    pub fn size_bytes(&self) -> usize {
        self.len() * (3 + 3 + 4 + 1 + 3 + self.sh_rest_stride()) * size_of::<f32>()
    }
}
/// Returns the rows of the rotation of a unit quaternion (w, x, y, z); the identity for zero.
pub fn unit_rotation([w, x, y, z]: [f32; 4]) -> [[f32; 3]; 3] {
    [
        [
            1.0 - 2.0 * (y * y + z * z),
            2.0 * (x * y - w * z),
            2.0 * (x * z + w * y),
        ],
        [
            2.0 * (x * y + w * z),
            1.0 - 2.0 * (x * x + z * z),
            2.0 * (y * z - w * x),
        ],
        [
            2.0 * (x * z - w * y),
            2.0 * (y * z + w * x),
            1.0 - 2.0 * (x * x + y * y),
        ],
    ]
}
