//! The mean standard deviation, over Gaussians and axes.

use crate::blocks::component;
use crate::simd::{Row, Splat, V};
use crate::stages::update::MAX_COMPONENTS;
use pulp::Simd;

/// An axis's share of the weight.
pub(super) fn each(weight: f32, count: f32) -> f32 {
    weight / (3.0 * count)
}

/// `each s` by the logarithm of each scale.
#[inline(always)]
pub(super) fn add<S: Simd>(
    s: S,
    each: f32,
    block: &[Row],
    part: usize,
    gradients: &mut [V<S>; MAX_COMPONENTS],
) {
    for c in component::SCALE..component::SCALE + 3 {
        let scale = V::load(s, &block[c], part).exp();
        gradients[c] = scale.mul_add(s.k(each), gradients[c]);
    }
}
