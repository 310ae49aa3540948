//! Term `opacity`: the mean opacity.

use crate::blocks::{MAX_COMPONENTS, component};
use crate::simd::{Row, Splat, V};
use pulp::Simd;

/// Numbers per Gaussian in the mean.
pub(super) const NUMBERS: f32 = 1.0;

/// Adds `each o (1 - o)` to the derivative by the logit.
#[inline(always)]
pub(super) fn add<S: Simd>(
    s: S,
    each: f32,
    block: &[Row],
    part: usize,
    gradients: &mut [V<S>; MAX_COMPONENTS],
) {
    let opacity = V::load(s, &block[component::OPACITY], part).sigmoid();
    let slope = opacity * (s.k(1.0) - opacity);
    gradients[component::OPACITY] = slope.mul_add(s.k(each), gradients[component::OPACITY]);
}
