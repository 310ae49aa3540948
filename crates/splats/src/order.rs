//! Orders of Gaussians: along a Z curve, by what they cover; and the Gaussians in an order.

mod morton;

pub use morton::morton_order;
pub(crate) use morton::order_by_shells;

use crate::Splats;
use rayon::prelude::*;

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
