//! Mean of each Gaussian's smallest standard deviation (Chen et al. 2023, "NeuSG: Neural Implicit Surface
//! Reconstruction with 3D Gaussian Splatting Guidance", arXiv:2312.00846, section 3.2): Gaussians become discs
//! that lie in surfaces.

use super::{Regulariser, RegulariserGradient};
use crate::oracle::Gaussian;
use dapple_engine::LossTerm;

pub(super) struct Flatness;

/// Returns the axis along which a Gaussian is thinnest: the first of equal ones.
pub(crate) fn thinnest(gaussian: &Gaussian) -> usize {
    let s = gaussian.scale;
    let first = if s[1] < s[0] { 1 } else { 0 };
    if s[2] < s[first] { 2 } else { first }
}

impl Regulariser for Flatness {
    fn term(&self) -> LossTerm {
        LossTerm::Flatness
    }

    fn value(&self, gaussians: &[Gaussian]) -> f64 {
        let each = gaussians.iter().map(|g| g.scale[thinnest(g)].exp());
        each.sum::<f64>() / gaussians.len() as f64
    }

    fn gradient(&self, gaussian: &Gaussian, count: usize) -> RegulariserGradient {
        let axis = thinnest(gaussian);
        let mut gradient = RegulariserGradient::default();
        gradient.scale[axis] = gaussian.scale[axis].exp() / count as f64;
        gradient
    }
}
