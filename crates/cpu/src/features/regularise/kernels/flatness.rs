//! Term `flatness`: the mean of each Gaussian's smallest standard deviation.

use crate::blocks::{MAX_COMPONENTS, component};
use crate::projection::at_thinnest;
use crate::simd::{Row, Splat, V};
use pulp::Simd;

/// Numbers per Gaussian in the mean.
pub(super) const NUMBERS: f32 = 1.0;

/// Adds `each s` to the derivative by the logarithm of the smallest scale, the first of equal ones.
#[inline(always)]
pub(super) fn add<S: Simd>(
    s: S,
    each: f32,
    block: &[Row],
    part: usize,
    gradients: &mut [V<S>; MAX_COMPONENTS],
) {
    let [a, b, c] = [0, 1, 2].map(|k| V::load(s, &block[component::SCALE + k], part));
    let slope = a.min(b).min(c).exp() * s.k(each);
    for (k, slope) in at_thinnest(s, [a, b, c], slope).into_iter().enumerate() {
        let gradient = &mut gradients[component::SCALE + k];
        *gradient += slope;
    }
}
