//! Noise on centres (Kheradmand et al. 2024, "3D Gaussian Splatting as Markov Chain Monte Carlo", arXiv:2404.09591,
//! eq. 10).

use crate::oracle::Gaussian;
use dapple_engine::noise;
use dapple_engine::relocation::NOISE_NORMAL;
use glam::{DMat3, DVec3};

/// Returns the random motion of a Gaussian's centre in `update`:
/// `amount * sigmoid(100 (0.005 - opacity)) * Sigma * eta`, eta standard normal, keyed by seed, step and
/// index. By the paper's eq. 10, the noise follows the Gaussian's shape and vanishes for opaque
/// Gaussians.
pub fn perturbation(gaussian: &Gaussian, amount: f64, seed: u64, step: u32, index: u32) -> DVec3 {
    let eta = DVec3::from(
        [0, 1, 2].map(|k| f64::from(noise::normal(seed, step, index, NOISE_NORMAL + k))),
    );
    let opacity = 1.0 / (1.0 + (-gaussian.opacity).exp());
    let still = 1.0 / (1.0 + (-100.0 * (0.005 - opacity)).exp());
    let [w, x, y, z] = gaussian.quat;
    let turn = DMat3::from_quat(glam::DQuat::from_xyzw(x, y, z, w).normalize());
    let squared = DMat3::from_diagonal(DVec3::from(gaussian.scale.map(|s| (2.0 * s).exp())));
    turn * squared * turn.transpose() * eta * (amount * still)
}
