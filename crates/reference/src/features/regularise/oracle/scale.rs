//! Mean standard deviation, over Gaussians and axes (Kheradmand et al. 2024, arXiv:2404.09591, section 3.4,
//! where it is the root of the covariance's eigenvalues): Gaussians are no larger than the photos require.

use super::{Regulariser, RegulariserGradient};
use crate::oracle::Gaussian;
use dapple_engine::LossTerm;

pub(super) struct Scale;

impl Regulariser for Scale {
    fn term(&self) -> LossTerm {
        LossTerm::Scale
    }

    fn value(&self, gaussians: &[Gaussian]) -> f64 {
        let all = gaussians.iter().flat_map(|g| g.scale.map(f64::exp));
        all.sum::<f64>() / (3.0 * gaussians.len() as f64)
    }

    fn gradient(&self, gaussian: &Gaussian, count: usize) -> RegulariserGradient {
        RegulariserGradient {
            scale: gaussian.scale.map(|s| s.exp() / (3.0 * count as f64)),
            ..RegulariserGradient::default()
        }
    }
}
