//! Arithmetic of relocation that all engines share: draws in proportion to opacity, and the opacity
//! and scale of copies at one place (Kheradmand et al. 2024, "3D Gaussian Splatting as Markov Chain
//! Monte Carlo", arXiv:2404.09591).
//!
//! Draws use integers, so that every engine draws the same Gaussians:
//! 1. A Gaussian's weight is its opacity in fixed point: [`weight`], from a table of the sigmoid and
//!    linear interpolation between its entries, which is at most 0.8 % above the sigmoid.
//! 2. Exclusive prefix sums of the weights; [`weight_shift`] keeps their total below 2^32.
//! 3. Draw j is the number [`target`]. It selects the Gaussian whose interval of the sums contains
//!    the number.
//!
//! Copies: each of N copies that replace a Gaussian has the opacity `1 - (1 - o)^(1/N)`. The scales
//! are multiplied so that a ray through all copies accumulates as much as before (eq. 9): see
//! [`copy_of`].

use crate::noise;
use std::f64::consts::PI;

/// Entries of [`sigmoid_table`] per unit of the logit, and the logits that the table spans on both
/// sides of zero. Beyond, an opacity counts as 0.0003 or 0.9997.
const TABLE_EACH: f64 = 4.0;
const TABLE_REACH: f32 = 8.0;

/// Entries of [`sigmoid_table`]; the last entry is repeated, for the last interval.
pub const TABLE_LEN: usize = 66;

/// Steps of the logit's fixed point per unit; an entry of the table spans 256 steps.
const LOGIT_STEPS: f32 = 1024.0;

/// Number of the random draw of [`noise`] for relocation: above the draws of splits and of
/// [`NOISE_NORMAL`].
pub const DRAW: u32 = 64;

/// First of the three normal numbers of [`noise`] that move a centre in `update`: above the draws of
/// splits.
pub const NOISE_NORMAL: u32 = 16;

/// Returns the sigmoid at -8, -7.75, ... 8 as fractions of 2^16.
pub fn sigmoid_table() -> [u32; TABLE_LEN] {
    std::array::from_fn(|i| {
        let entry = i.min(TABLE_LEN - 2) as f64;
        let logit = entry / TABLE_EACH - f64::from(TABLE_REACH);
        (65_536.0 / (1.0 + (-logit).exp())) as u32
    })
}

/// Returns the number of low bits to drop from weights, so that those of `count` Gaussians add up to
/// less than 2^32.
pub const fn weight_shift(count: u32) -> u32 {
    16u32.saturating_sub(count.leading_zeros())
}

/// Returns the weight of a Gaussian in the draw: its opacity in fixed point, at least 1. The logit
/// must be finite.
pub fn weight(table: &[u32; TABLE_LEN], logit: f32, shift: u32) -> u32 {
    // Additions and multiplications by a power of two round alike on every device.
    let clamped = logit.clamp(-TABLE_REACH, TABLE_REACH);
    let place = ((clamped + TABLE_REACH) * LOGIT_STEPS) as u32;
    let (entry, part) = ((place >> 8) as usize, place & 255);
    let between = (table[entry] * (256 - part) + table[entry + 1] * part) >> 8;
    (between >> shift).max(1)
}

/// Returns the number that draw `draw` of the round after step `step` selects, below `total`, the sum
/// of all weights.
pub fn target(seed: u64, step: u32, draw: u32, total: u32) -> u32 {
    high_product(noise::hash(seed, step, draw, DRAW), total)
}

/// Returns the high half of a product: the first factor as a fraction of 2^32, times the second.
pub fn high_product(fraction: u32, of: u32) -> u32 {
    ((u64::from(fraction) * u64::from(of)) >> 32) as u32
}

/// Sum nodes of [`copy_of`], and their distance in units of sqrt(2) standard deviations: the sum is
/// within 4e-8 of the integral.
pub const NODES: usize = 16;
const NODE_STEP: f64 = 0.3;

/// Returns the profile of a Gaussian at the nodes: `exp(-(0.3 j)^2)`.
pub fn node_heights() -> [f32; NODES] {
    std::array::from_fn(|j| (-(NODE_STEP * j as f64).powi(2)).exp() as f32)
}

/// Returns the weight of each node: `2 * 0.3 / sqrt(pi)`. The first node counts half.
pub fn node_weight() -> f32 {
    (2.0 * NODE_STEP / PI.sqrt()) as f32
}

/// Returns the logit of each of `copies` that replace a Gaussian of this logit, and the change of the
/// logarithms of its scales.
///
/// 1. `1 - o' = (1 - o)^(1/N)`: with a = softplus(logit) / N, the new logit is ln(e^a - 1).
/// 2. Eq. 9 scales by o over a double sum of binomials, whose terms cancel: in `f32` no digit of it
///    is left at N = 30. But 1 / sqrt(k + 1) is an integral over exp(-(k + 1) t^2), and under it the
///    sums are those of a binomial and of a geometric series:
///    `D = 1/sqrt(pi) * integral of 1 - (1 - o' exp(-t^2))^N dt`.
///    D is the opacity of N copies along a line through their centre. The trapezoidal rule computes
///    it to seven digits with 31 nodes.
/// 3. Powers by squaring, of g = 1 - (1 - x)^n itself: nothing cancels for small x.
pub fn copy_of(logit: f32, copies: u32) -> (f32, f32) {
    let logit = f64::from(logit);
    let softplus = logit.max(0.0) + (-logit.abs()).exp().ln_1p();
    let share = softplus / f64::from(copies.max(1));
    let opacity = -(-share).exp_m1();
    let mut sum = 0.0;
    for (j, height) in node_heights().into_iter().enumerate() {
        let passed = stopped_by(opacity * f64::from(height), copies);
        sum += if j == 0 { 0.5 * passed } else { passed };
    }
    let before = -(-softplus).exp_m1();
    let ratio = before / (sum * f64::from(node_weight()));
    // Far out, the 1 is below the rounding error, and e^a could overflow.
    let copy = if share > 30.0 {
        share
    } else {
        share.exp_m1().ln()
    };
    (copy as f32, ratio.ln() as f32)
}

/// Returns `1 - (1 - x)^n`: the part that n layers of opacity x absorb.
fn stopped_by(x: f64, n: u32) -> f64 {
    let mut stopped = 0.0;
    for bit in (0..u32::BITS - n.leading_zeros()).rev() {
        stopped *= 2.0 - stopped;
        if n >> bit & 1 == 1 {
            stopped += x * (1.0 - stopped);
        }
    }
    stopped
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_reference as reference;

    #[test]
    fn weights_are_opacities() {
        let table = sigmoid_table();
        for i in -600..=600 {
            let logit = i as f32 * 0.01;
            let opacity = 1.0 / (1.0 + (-f64::from(logit)).exp());
            let found = f64::from(weight(&table, logit, 0)) / 65_536.0;
            assert!((found / opacity - 1.0).abs() < 0.015, "{logit}: {found}");
        }
        assert_eq!(weight(&table, f32::MAX, 0), table[TABLE_LEN - 1]);
        assert_eq!(weight(&table, f32::MIN, 16), 1);
    }

    #[test]
    fn totals_fit_into_a_word() {
        for count in [1u32, 65_535, 65_536, 1_000_000, 10_000_000, 1 << 30] {
            let heaviest = 65_535u64 >> weight_shift(count);
            assert!(heaviest.max(1) * u64::from(count) < 1 << 32, "{count}");
        }
        assert_eq!(weight_shift(65_535), 0);
    }

    #[test]
    fn copies_are_those_of_the_paper() {
        for opacity in [0.006f64, 0.05, 0.3, 0.7, 0.95, 0.99, 0.999] {
            for copies in [1, 2, 3, 5, 10, 30] {
                let logit = (opacity / (1.0 - opacity)).ln();
                let (new, scale) = copy_of(logit as f32, copies);
                let (expected, ratio) = reference::relocated(opacity, copies);
                let error = f64::from(new) - (expected / (1.0 - expected)).ln();
                assert!(error.abs() < 2e-6, "{opacity} / {copies}: {error:e}");
                let error = f64::from(scale) - ratio.ln();
                assert!(error.abs() < 1e-6, "{opacity} / {copies}: {error:e}");
            }
        }
    }
}
