//! Term `scale`: the mean standard deviation, over Gaussians and axes.

use crate::blocks::{MAX_COMPONENTS, component};
use crate::simd::{Row, Splat, V};
use pulp::Simd;

/// Numbers per Gaussian in the mean: its axes.
pub(super) const NUMBERS: f32 = 3.0;

/// Adds `each s` to the derivative by the logarithm of each scale.
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
