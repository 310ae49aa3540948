//! Mean opacity (Kheradmand et al. 2024, "3D Gaussian Splatting as Markov Chain Monte Carlo",
//! arXiv:2404.09591, section 3.4): Gaussians that no photo needs fade.

use super::{Regulariser, RegulariserGradient};
use crate::oracle::Gaussian;
use dapple_engine::LossTerm;

pub(super) struct Opacity;

fn opacity(gaussian: &Gaussian) -> f64 {
    1.0 / (1.0 + (-gaussian.opacity).exp())
}

impl Regulariser for Opacity {
    fn term(&self) -> LossTerm {
        LossTerm::Opacity
    }

    fn value(&self, gaussians: &[Gaussian]) -> f64 {
        gaussians.iter().map(opacity).sum::<f64>() / gaussians.len() as f64
    }

    fn gradient(&self, gaussian: &Gaussian, count: usize) -> RegulariserGradient {
        let opacity = opacity(gaussian);
        RegulariserGradient {
            opacity: opacity * (1.0 - opacity) / count as f64,
            ..RegulariserGradient::default()
        }
    }
}
