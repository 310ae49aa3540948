//! Sorts Gaussians along a Morton curve.

use dapple_base::quantiles;
use rayon::prelude::*;

/// Bits of each axis.
const BITS: u32 = 21;

/// Returns the indices of the Gaussians in the order of the Morton curve of their centres; equal ones in their own
/// order.
pub(crate) fn order(means: &[[f32; 3]]) -> Vec<usize> {
    let mut low = [f32::INFINITY; 3];
    let mut high = [f32::NEG_INFINITY; 3];
    for mean in means {
        for k in 0..3 {
            low[k] = low[k].min(mean[k]);
            high[k] = high[k].max(mean[k]);
        }
    }
    sorted(means, |mean| code(mean, low, high))
}

/// Like [`order`], but shell by shell: Gaussians within the median distance from the middle first, then those within
/// twice that, four times, and so on. So no run of neighbours contains both central and distant Gaussians, whose common
/// range would reduce the precision.
pub(crate) fn order_by_shells(means: &[[f32; 3]]) -> Vec<usize> {
    let middle = [0, 1, 2].map(|k| median(means.iter().map(|mean| mean[k]).collect()));
    let distance = |mean: &[f32; 3]| {
        let along = |k: usize| (mean[k] - middle[k]).abs();
        along(0).max(along(1)).max(along(2))
    };
    let within = median(means.par_iter().map(distance).collect());
    // If half of the centres coincide, there are no shells.
    if !(within > 0.0 && within.is_finite()) {
        return order(means);
    }
    sorted(means, |mean| {
        let (mut shell, mut radius) = (0u32, within);
        // Powers of two are exact.
        while radius < distance(mean) && radius.is_finite() {
            (shell, radius) = (shell + 1, 2.0 * radius);
        }
        let [low, high] = [-radius, radius].map(|to| middle.map(|m| m + to));
        (shell, code(mean, low, high))
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

/// Computes the code of a position in a box on the curve.
fn code(mean: &[f32; 3], low: [f32; 3], high: [f32; 3]) -> u64 {
    let steps = ((1u64 << BITS) - 1) as f32;
    (0..3).fold(0u64, |code, k| {
        let range = high[k] - low[k];
        let share = if range > 0.0 {
            (mean[k] - low[k]) / range
        } else {
            0.0
        };
        // `as` saturates, and converts NaN to 0.
        code | spread((share * steps) as u64 & ((1 << BITS) - 1)) << k
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
        assert_eq!(order(&at), [0, 2, 4, 3, 1]);
        assert_eq!(order(&[[1.0; 3]; 3]), [0, 1, 2]);
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
            order(&all)[..27].iter().any(|&i| i < 3),
            "or nothing was shown"
        );
        let mut sorted = found;
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..30));
        assert_eq!(order_by_shells(&[]), [0usize; 0]);
        // Half of all at one position.
        let heap = [&all[..], &[[0.0; 3]; 40]].concat();
        assert_eq!(order_by_shells(&heap), order(&heap));
        let strange = [[f32::INFINITY; 3], [f32::NAN; 3], [0.0; 3], [1.0; 3]];
        assert_eq!(order_by_shells(&strange).len(), 4);
    }
}
