//! Dropout: a step drops Gaussians at random (DropGaussian, Park et al. 2025, arXiv:2504.00773, eq. 5), each with
//! probability `rate`. The opacity of the others is multiplied by `1 / (1 - rate)`, with the limit of a pixel
//! (`ALPHA_MAX`), and its derivative is that without the limit. Random numbers are those of
//! [`dapple_engine::noise`], keyed by seed, step and index.

use crate::oracle::Gaussian;
use dapple_engine::{DROPOUT, noise};

/// Sets the opacity factor of each Gaussian for the step.
pub fn leave_out(gaussians: &mut [Gaussian], rate: f32, seed: u64, step: u32) {
    for (i, gaussian) in gaussians.iter_mut().enumerate() {
        gaussian.shown = match noise::uniform(seed, step, i as u32, DROPOUT) < rate {
            true => 0.0,
            false => 1.0 / (1.0 - f64::from(rate)),
        };
    }
}
