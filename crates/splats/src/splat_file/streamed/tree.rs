//! Halves space until each part has few Gaussians and is small.

use super::meta::Bound;
use crate::{Splats, unit_rotation};

/// Maximum number of Gaussians of a leaf, all levels together; the value of the format's first writer.
const MOST: usize = 512 * 1024;

/// Maximum width of a leaf, world units (metres in the format), unless it has less than [`FEW`] Gaussians.
const WIDEST: f32 = 16.0;
const FEW: usize = 8 * 1024;

/// A part of space.
pub(super) enum Part {
    Halves(Box<[Part; 2]>),
    /// Gaussians, as indices.
    Leaf(Vec<u32>),
}

impl Part {
    /// Computes the box of these centres; non-finite ones count as the origin.
    pub(super) fn from_means(means: &[[f32; 3]]) -> Self {
        Self::halve(means, (0..means.len() as u32).collect(), (MOST, FEW))
    }

    fn halve(means: &[[f32; 3]], mut indices: Vec<u32>, (most, few): (usize, usize)) -> Self {
        let at = |i: u32, axis: usize| {
            let value = means[i as usize][axis];
            if value.is_finite() { value } else { 0.0 }
        };
        let width = |axis: usize| {
            let ends = indices
                .iter()
                .fold([f32::MAX, f32::MIN], |[low, high], &i| {
                    [low.min(at(i, axis)), high.max(at(i, axis))]
                });
            ends[1] - ends[0]
        };
        let widths = [0, 1, 2].map(width);
        let axis = (1..3).fold(0, |best, k| if widths[k] > widths[best] { k } else { best });
        let is_large = widths[axis] > WIDEST && indices.len() > few;
        // A part whose centres coincide cannot be halved.
        if indices.len() < 2 || (indices.len() <= most && !is_large) || widths[axis] == 0.0 {
            return Self::Leaf(indices);
        }
        let middle = indices.len() / 2;
        // For equal positions the lower index: the result depends only on the input.
        indices.select_nth_unstable_by(middle, |&a, &b| {
            at(a, axis).total_cmp(&at(b, axis)).then(a.cmp(&b))
        });
        let after = indices.split_off(middle);
        let limits = (most, few);
        let (before, after) = rayon::join(
            || Self::halve(means, indices, limits),
            || Self::halve(means, after, limits),
        );
        Self::Halves(Box::new([before, after]))
    }
}

impl Bound {
    /// Empty box.
    pub(super) const NOTHING: Self = Self {
        min: [f32::INFINITY; 3],
        max: [f32::NEG_INFINITY; 3],
    };

    pub(super) fn and(self, other: Self) -> Self {
        Self {
            min: [0, 1, 2].map(|k| self.min[k].min(other.min[k])),
            max: [0, 1, 2].map(|k| self.max[k].max(other.max[k])),
        }
    }

    /// Returns the bounds to write: the origin if there was nothing with an extent.
    pub(super) fn or_origin(self) -> Self {
        match (0..3).all(|k| self.min[k] <= self.max[k]) {
            true => self,
            false => Self {
                min: [0.0; 3],
                max: [0.0; 3],
            },
        }
    }

    /// Computes the box around the oriented box that touches the ellipsoid at one standard deviation. Empty if that is
    /// not finite.
    pub(super) fn from_splat(splats: &Splats, i: usize) -> Self {
        let rows = unit_rotation(crate::splat_file::unit(splats.quats[i]));
        let s = splats.scales[i].map(f32::exp);
        let mean = splats.means[i];
        let half = rows.map(|row| (0..3).map(|k| row[k].abs() * s[k]).sum::<f32>());
        let bound = Self {
            min: [0, 1, 2].map(|k| mean[k] - half[k]),
            max: [0, 1, 2].map(|k| mean[k] + half[k]),
        };
        let ends = bound.min.iter().chain(&bound.max);
        match ends.clone().all(|v| v.is_finite()) {
            true => bound,
            false => Self::NOTHING,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(part: &Part, into: &mut Vec<Vec<u32>>) {
        match part {
            Part::Leaf(indices) => into.push(indices.clone()),
            Part::Halves(halves) => halves.iter().for_each(|half| leaves(half, into)),
        }
    }

    #[test]
    fn parts_are_halved_along_their_longest_side_until_they_are_small() {
        // A row of 100 along y, 1 apart: 50, 25, then at most 12 of them have a width but are few.
        let means: Vec<[f32; 3]> = (0..100)
            .map(|i| [0.1 * (i % 7) as f32, i as f32, 0.0])
            .collect();
        let part = Part::halve(&means, (0..100).collect(), (1000, 10));
        let mut found = Vec::new();
        leaves(&part, &mut found);
        // 17 positions have a width of 16, which does not exceed 16.
        assert_eq!(
            found.iter().map(Vec::len).collect::<Vec<_>>(),
            [12, 13, 12, 13, 12, 13, 12, 13]
        );
        for (k, leaf) in found.iter().enumerate() {
            let mut sorted = leaf.clone();
            sorted.sort_unstable();
            let first = [0, 12, 25, 37, 50, 62, 75, 87][k];
            assert_eq!(
                sorted,
                (first..first + leaf.len() as u32).collect::<Vec<_>>()
            );
        }
        // Only by count, and a part that cannot be halved.
        let mut found = Vec::new();
        leaves(
            &Part::halve(&means[..16], (0..16).collect(), (5, 1)),
            &mut found,
        );
        assert!(found.iter().all(|leaf| leaf.len() == 4));
        let same = vec![[1.0, f32::NAN, 2.0]; 30];
        assert!(
            matches!(Part::halve(&same, (0..30).collect(), (5, 1)), Part::Leaf(all) if all.len() == 30)
        );
    }

    #[test]
    fn bounds_are_those_of_the_turned_box() {
        let mut splats = Splats::empty(0);
        for quat in [
            [1.0, 0.0, 0.0, 0.0],
            [0.5f32.sqrt(), 0.0, 0.0, 0.5f32.sqrt()],
        ] {
            splats.means.push([1.0, 2.0, 3.0]);
            splats.scales.push([1.0f32.ln(), 2.0f32.ln(), 4.0f32.ln()]);
            splats.quats.push(quat);
        }
        let near = |a: [f32; 3], b: [f32; 3]| (0..3).all(|k| (a[k] - b[k]).abs() < 1e-5);
        let (plain, turned) = (Bound::from_splat(&splats, 0), Bound::from_splat(&splats, 1));
        assert!(near(plain.min, [0.0, 0.0, -1.0]) && near(plain.max, [2.0, 4.0, 7.0]));
        // A quarter turn about z: x and y change places.
        assert!(near(turned.min, [-1.0, 1.0, -1.0]) && near(turned.max, [3.0, 3.0, 7.0]));
        splats.scales[0][1] = f32::INFINITY;
        assert_eq!(Bound::from_splat(&splats, 0), Bound::NOTHING);
        assert_eq!(Bound::NOTHING.or_origin().max, [0.0; 3]);
    }
}
