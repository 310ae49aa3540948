//! Gaussians along a curve through space.

use rayon::prelude::*;

/// Bits of each axis.
const BITS: u32 = 21;

/// The places of the Gaussians in the order of the Morton curve of their centres; equal ones in their own.
pub(crate) fn order(means: &[[f32; 3]]) -> Vec<usize> {
    let mut low = [f32::INFINITY; 3];
    let mut high = [f32::NEG_INFINITY; 3];
    for mean in means {
        for k in 0..3 {
            low[k] = low[k].min(mean[k]);
            high[k] = high[k].max(mean[k]);
        }
    }
    let steps = ((1u64 << BITS) - 1) as f32;
    let code = |mean: &[f32; 3]| {
        (0..3).fold(0u64, |code, k| {
            let range = high[k] - low[k];
            let share = if range > 0.0 {
                (mean[k] - low[k]) / range
            } else {
                0.0
            };
            // `as` saturates, and makes 0 of NaN.
            code | spread((share * steps) as u64 & ((1 << BITS) - 1)) << k
        })
    };
    let mut keyed: Vec<(u64, usize)> = means.par_iter().map(code).zip(0..means.len()).collect();
    keyed.par_sort_unstable();
    keyed.into_iter().map(|(_, i)| i).collect()
}

/// Puts two zeros between bits.
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
}
