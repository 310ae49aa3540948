//! The Z curve: Gaussians that are close in space come close in the file.
//!
//! 1. The box around all finite centres is cut into 2^21 cells along each axis.
//! 2. A centre's code takes bits of x, y and z in turn (Morton 1966); those that are not finite come last.
//! 3. Gaussians are sorted by code, those of one cell stay in their order.

use crate::Splats;
use rayon::prelude::*;

/// Bits of a cell along an axis: three of them fit 64 bits.
const BITS: u32 = 21;

/// The order of the centres along the curve: indices, stable.
pub fn morton_order(means: &[[f32; 3]]) -> Vec<usize> {
    let finite = |mean: &&[f32; 3]| mean.iter().all(|v| v.is_finite());
    let mut low = [f32::INFINITY; 3];
    let mut high = [f32::NEG_INFINITY; 3];
    for mean in means.iter().filter(finite) {
        for axis in 0..3 {
            low[axis] = low[axis].min(mean[axis]);
            high[axis] = high[axis].max(mean[axis]);
        }
    }
    let cells = f64::from((1u32 << BITS) - 1);
    let cell = |value: f32, axis: usize| {
        let (low, high) = (f64::from(low[axis]), f64::from(high[axis]));
        match high > low {
            true => ((f64::from(value) - low) / (high - low) * cells) as u64,
            false => 0,
        }
    };
    let code = |mean: &[f32; 3]| match finite(&mean) {
        true => (0..3).fold(0, |code, axis| {
            code | spread(cell(mean[axis], axis)) << axis
        }),
        false => u64::MAX,
    };
    let mut keyed: Vec<(u64, usize)> = means
        .par_iter()
        .map(code)
        .collect::<Vec<_>>()
        .into_iter()
        .zip(0..)
        .collect();
    keyed.par_sort_unstable();
    keyed.into_iter().map(|(_, i)| i).collect()
}

/// The lowest 21 bits, each followed by two zeros.
fn spread(mut v: u64) -> u64 {
    v &= 0x1f_ffff;
    v = (v | v << 32) & 0x001f_0000_0000_ffff;
    v = (v | v << 16) & 0x001f_0000_ff00_00ff;
    v = (v | v << 8) & 0x100f_00f0_0f00_f00f;
    v = (v | v << 4) & 0x10c3_0c30_c30c_30c3;
    (v | v << 2) & 0x1249_2492_4924_9249
}

/// By what Gaussians cover ([`Splats::coverage`]), most first; of equals the first.
pub fn largest_first(splats: &Splats) -> Vec<usize> {
    let covered = |i: usize| (splats.coverage(i), i);
    let mut ranked: Vec<(f32, usize)> = (0..splats.len()).into_par_iter().map(covered).collect();
    ranked.par_sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    ranked.into_iter().map(|(_, i)| i).collect()
}

/// The Gaussians `order`, in that order.
pub fn gather(splats: &Splats, order: &[usize]) -> Splats {
    let stride = splats.sh_rest_stride();
    let mut sh_rest = Vec::with_capacity(order.len() * stride);
    for &i in order {
        sh_rest.extend_from_slice(&splats.sh_rest[i * stride..(i + 1) * stride]);
    }
    Splats {
        means: order.iter().map(|&i| splats.means[i]).collect(),
        scales: order.iter().map(|&i| splats.scales[i]).collect(),
        quats: order.iter().map(|&i| splats.quats[i]).collect(),
        opacities: order.iter().map(|&i| splats.opacities[i]).collect(),
        sh0: order.iter().map(|&i| splats.sh0[i]).collect(),
        sh_rest,
        sh_degree: splats.sh_degree,
    }
}

/// Puts `some` back where [`gather`] took them from.
pub(crate) fn scatter(splats: &mut Splats, some: &Splats, order: &[usize]) {
    let stride = splats.sh_rest_stride();
    for (from, &to) in order.iter().enumerate() {
        splats.means[to] = some.means[from];
        splats.scales[to] = some.scales[from];
        splats.quats[to] = some.quats[from];
        splats.opacities[to] = some.opacities[from];
        splats.sh0[to] = some.sh0[from];
        splats.sh_rest[to * stride..(to + 1) * stride]
            .copy_from_slice(&some.sh_rest[from * stride..(from + 1) * stride]);
    }
}

/// `more` behind `splats`, both with the higher of their degrees of spherical harmonics.
pub fn append(splats: &mut Splats, more: Splats) {
    let degree = splats.sh_degree.max(more.sh_degree);
    let more = more.with_sh_degree(degree);
    *splats = std::mem::take(splats).with_sh_degree(degree);
    splats.means.extend(more.means);
    splats.scales.extend(more.scales);
    splats.quats.extend(more.quats);
    splats.opacities.extend(more.opacities);
    splats.sh0.extend(more.sh0);
    splats.sh_rest.extend(more.sh_rest);
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn merged_files_have_the_higher_degree_and_zeros_where_there_was_none() {
        let one = |degree: u8, value: f32| Splats {
            means: vec![[value; 3]],
            scales: vec![[value; 3]],
            quats: vec![[1.0, 0.0, 0.0, 0.0]],
            opacities: vec![value],
            sh0: vec![[value; 3]],
            sh_rest: vec![value; [0, 9, 24, 45][usize::from(degree)]],
            sh_degree: degree,
        };
        for (a, b) in [(0, 2), (2, 0)] {
            let mut merged = one(a, 1.0);
            append(&mut merged, one(b, 2.0));
            assert!(merged.check_lengths().is_ok());
            assert_eq!((merged.len(), merged.sh_degree), (2, 2));
            assert_eq!(merged.opacities, [1.0, 2.0]);
            let full = if a == 2 { 0 } else { 1 };
            let rest: Vec<f32> = merged.sh_rest[full * 24..(full + 1) * 24].to_vec();
            assert_eq!(rest, vec![if a == 2 { 1.0 } else { 2.0 }; 24]);
            assert_eq!(merged.sh_rest.iter().filter(|v| **v == 0.0).count(), 24);
        }
        let turned = gather(
            &{
                let mut s = one(1, 1.0);
                append(&mut s, one(1, 2.0));
                s
            },
            &[1, 0],
        );
        assert_eq!((turned.opacities, turned.sh_rest[0]), (vec![2.0, 1.0], 2.0));
    }
}
