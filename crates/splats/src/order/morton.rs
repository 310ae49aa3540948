//! The Z curve (Morton 1966): Gaussians that are close in space come close in a file and in memory.
//!
//! 1. A box around the centres is cut into 2^21 cells along each axis.
//! 2. A centre's code takes bits of the cells of x, y and z in turn.
//! 3. Gaussians are sorted by code, those of one cell stay in their order.

use dapple_base::quantiles;
use rayon::prelude::*;

/// Bits of a cell along an axis: three of them fit 64 bits.
const BITS: u32 = 21;

/// The box ends this many widths of the middle 98 % of the centres before and behind them.
const WIDTHS: f64 = 16.0;

/// Returns the indices of the centres in the order of the curve; equal ones in their own order, those that are not finite
/// last. A few centres far away do not move all others into the same cells: the box ends before them, and they count as
/// at its side.
pub fn morton_order(means: &[[f32; 3]]) -> Vec<usize> {
    let finite = |mean: &&[f32; 3]| mean.iter().all(|v| v.is_finite());
    let sides = (0..3usize).into_par_iter().map(|axis| {
        let values = means.iter().filter(finite).map(|mean| mean[axis]);
        side(values.collect())
    });
    let sides: Vec<[f64; 2]> = sides.collect();
    sorted(means, |mean| match finite(&mean) {
        true => code(mean, &sides),
        false => u64::MAX,
    })
}

/// Like [`morton_order`], but shell by shell: Gaussians within the median distance from the middle first, then those
/// within twice that, four times, and so on. So no run of neighbours contains both central and distant Gaussians, whose
/// common range would reduce the precision.
pub(crate) fn order_by_shells(means: &[[f32; 3]]) -> Vec<usize> {
    let middle = [0, 1, 2].map(|k| median(means.iter().map(|mean| mean[k]).collect()));
    let distance = |mean: &[f32; 3]| {
        let along = |k: usize| (mean[k] - middle[k]).abs();
        along(0).max(along(1)).max(along(2))
    };
    let within = median(means.par_iter().map(distance).collect());
    // If half of the centres coincide, there are no shells.
    if !(within > 0.0 && within.is_finite()) {
        return morton_order(means);
    }
    sorted(means, |mean| {
        let (mut shell, mut radius) = (0u32, within);
        // Powers of two are exact.
        while radius < distance(mean) && radius.is_finite() {
            (shell, radius) = (shell + 1, 2.0 * radius);
        }
        let sides = middle.map(|m| [m - radius, m + radius].map(f64::from));
        (shell, code(mean, &sides))
    })
}

/// Sorts indices by their keys; equal ones in their own order.
fn sorted<K: Ord + Send>(
    means: &[[f32; 3]],
    key: impl Fn(&[f32; 3]) -> K + Sync + Send,
) -> Vec<usize> {
    let mut keyed: Vec<(K, usize)> = means.par_iter().map(key).zip(0..means.len()).collect();
    keyed.par_sort_unstable();
    keyed.into_iter().map(|(_, i)| i).collect()
}

/// Returns the median; 0 for an empty list.
fn median(values: Vec<f32>) -> f32 {
    quantiles::median(values).unwrap_or_default()
}

/// Returns where the box begins and ends along an axis.
fn side(values: Vec<f32>) -> [f64; 2] {
    let all = [f32::min, f32::max].map(|end| values.iter().copied().reduce(end));
    let from = quantiles::quantile(values.clone(), 0.01);
    let to = quantiles::quantile(values, 0.99);
    let ([Some(low), Some(high)], Some(from), Some(to)) = (all, from, to) else {
        return [0.0; 2];
    };
    let [low, high, from, to] = [low, high, from, to].map(f64::from);
    let beyond = WIDTHS * (to - from);
    match beyond > 0.0 {
        true => [low.max(from - beyond), high.min(to + beyond)],
        false => [low, high],
    }
}

/// Returns the code of a position in a box, given by its sides.
fn code(mean: &[f32; 3], sides: &[[f64; 2]]) -> u64 {
    let cells = f64::from((1u32 << BITS) - 1);
    (0..3).fold(0, |code, axis| {
        let [low, high] = sides[axis];
        let cell = match high > low {
            // `as` converts NaN to 0.
            true => ((f64::from(mean[axis]).clamp(low, high) - low) / (high - low) * cells) as u64,
            false => 0,
        };
        code | spread(cell) << axis
    })
}

/// Inserts two zeros between bits.
fn spread(bits: u64) -> u64 {
    let mut b = bits;
    b = (b | b << 32) & 0x001f_0000_0000_ffff;
    b = (b | b << 16) & 0x001f_0000_ff00_00ff;
    b = (b | b << 8) & 0x100f_00f0_0f00_f00f;
    b = (b | b << 4) & 0x10c3_0c30_c30c_30c3;
    (b | b << 2) & 0x1249_2492_4924_9249
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_goes_through_halves_first() {
        assert_eq!(spread(0b1011), 0b001_000_001_001);
        assert_eq!(spread((1 << BITS) - 1).count_ones(), BITS);
        let at = [
            [0.0, 0.0, 0.0],
            [9.0, 9.0, 9.0],
            [1.0, 0.0, 0.0],
            [0.0, 0.0, 8.0],
            [0.0, 7.0, 0.0],
        ];
        assert_eq!(morton_order(&at), [0, 2, 4, 3, 1]);
        assert_eq!(morton_order(&[[1.0; 3]; 3]), [0, 1, 2]);
    }

    #[test]
    fn the_eight_corners_of_a_cube_come_in_the_order_of_the_letter_z() {
        // Backwards, so that sorting has work to do; x is the lowest bit.
        let corner = |i: usize| [i & 1, i >> 1 & 1, i >> 2 & 1].map(|v| v as f32 * 5.0 - 1.0);
        let means: Vec<[f32; 3]> = (0..8).rev().map(corner).collect();
        assert_eq!(morton_order(&means), (0..8).rev().collect::<Vec<_>>());
        // Equal ones stay in order, NaN comes last.
        let means = [[f32::NAN, 0.0, 0.0], [1.0; 3], [0.0; 3], [1.0; 3]];
        assert_eq!(morton_order(&means), [2, 1, 3, 0]);
        assert_eq!(morton_order(&[]), [0usize; 0]);
    }

    #[test]
    fn a_few_centres_far_away_leave_the_others_their_order() {
        let cube = |i: usize| [i % 16, i / 16 % 16, i / 256].map(|v| v as f32);
        let near: Vec<[f32; 3]> = (0..4096).map(cube).collect();
        let expected = morton_order(&near);
        for far in [1e9, -1e9, f32::MAX] {
            let mut means = near.clone();
            means.extend([[far, 0.0, 5.0], [3.0, far, far]]);
            let mut order = morton_order(&means);
            order.retain(|i| *i < near.len());
            assert_eq!(order, expected, "{far}");
        }
    }

    #[test]
    fn shells_keep_the_far_from_the_near() {
        // On a single curve, the cells of the distant Gaussians are between those of the central ones.
        let far = [[-1000.0, 0.0, 0.0], [0.0, 900.0, 0.0], [0.0, 0.0, -3000.0]];
        let near: Vec<[f32; 3]> = (0..27u8)
            .map(|i| [i % 3, i / 3 % 3, i / 9].map(|v| f32::from(v) - 1.0))
            .collect();
        let all: Vec<[f32; 3]> = [&far[..], &near].concat();
        let found = order_by_shells(&all);
        assert_eq!(found[27..], [0, 1, 2]);
        assert!(
            morton_order(&all)[..27].iter().any(|&i| i < 3),
            "or nothing was shown"
        );
        let mut sorted = found;
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..30));
        assert_eq!(order_by_shells(&[]), [0usize; 0]);
        // Half of all at one position.
        let heap = [&all[..], &[[0.0; 3]; 40]].concat();
        assert_eq!(order_by_shells(&heap), morton_order(&heap));
        let strange = [[f32::INFINITY; 3], [f32::NAN; 3], [0.0; 3], [1.0; 3]];
        assert_eq!(order_by_shells(&strange).len(), 4);
    }
}
