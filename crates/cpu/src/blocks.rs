//! Parameters and moments as the engine keeps them: blocks of 16 Gaussians.
//!
//! A block holds one [`Row`] per component (mean x, mean y, ...), and the blocks follow each
//! other. A kernel that handles 16 Gaussians therefore reads one contiguous stretch of memory with
//! whole vectors, which streams through caches and TLB as well as it gets. Lanes past the last
//! Gaussian hold zeros, whose zero quaternion makes them absent.

use crate::simd::{ROW, Row};
use dapple_engine::look::FEATURES;
use dapple_engine::{PARAM_GROUPS, groups};
use dapple_scene::{Splats, sh_coefficient_count};

/// Where each parameter begins among the components of a block.
pub mod component {
    /// x, y, z.
    pub const MEAN: usize = 0;
    /// Three logarithms.
    pub const SCALE: usize = 3;
    /// w, x, y, z.
    pub const QUAT: usize = 6;
    /// A logit.
    pub const OPACITY: usize = 10;
    /// Coefficient k of channel c at `SH + 3 k + c`.
    pub const SH: usize = 11;
}

/// One value per component for every Gaussian, 16 Gaussians to a block.
#[derive(Debug, Clone, Default)]
pub struct Blocks {
    /// `[blocks, components]`.
    pub rows: Vec<Row>,
    /// Components of a Gaussian: 11 + 3 per SH coefficient; behind them, where looks are learnt, its features.
    pub components: usize,
    /// How many of them are features: the last ones.
    pub features: usize,
    /// Gaussians, not counting padding lanes.
    pub len: usize,
}

impl Blocks {
    /// Zeros for `len` Gaussians with room for a degree of SH.
    pub fn zeros(len: usize, sh_degree: u8) -> Self {
        let components = component::SH + 3 * sh_coefficient_count(sh_degree);
        Self {
            rows: vec![Row::ZERO; len.div_ceil(ROW) * components],
            components,
            features: 0,
            len,
        }
    }

    /// Number of blocks.
    pub fn count(&self) -> usize {
        self.len.div_ceil(ROW)
    }

    /// One value.
    pub fn get(&self, gaussian: usize, component: usize) -> f32 {
        self.rows[gaussian / ROW * self.components + component].0[gaussian % ROW]
    }

    /// Sets one value.
    pub fn set(&mut self, gaussian: usize, component: usize, value: f32) {
        self.rows[gaussian / ROW * self.components + component].0[gaussian % ROW] = value;
    }

    /// Copies Gaussian `from` of `source` into place `to`.
    pub fn copy_from(&mut self, to: usize, source: &Self, from: usize) {
        for c in 0..self.components {
            self.set(to, c, source.get(from, c));
        }
    }

    /// Copies Gaussian `from` into place `to`.
    pub fn copy_within(&mut self, to: usize, from: usize) {
        for c in 0..self.components {
            self.set(to, c, self.get(from, c));
        }
    }

    /// Sets all of a Gaussian's values to zero.
    pub fn clear(&mut self, gaussian: usize) {
        for c in 0..self.components {
            self.set(gaussian, c, 0.0);
        }
    }

    /// Makes room for `len` Gaussians; new ones hold zeros.
    pub fn extend_to(&mut self, len: usize) {
        // Padding lanes may hold what `update` made of them.
        for lane in self.len..len.min(self.count() * ROW) {
            self.clear(lane);
        }
        self.len = len;
        self.rows.resize(self.count() * self.components, Row::ZERO);
    }

    /// From the exchange form: groups of parameters follow each other in the order of their list.
    pub fn from_splats(splats: &Splats) -> Self {
        let mut blocks = Self::zeros(splats.len(), splats.sh_degree);
        let mut first = 0;
        for group in PARAM_GROUPS {
            let width = group.width(splats.sh_degree);
            let values = group.values(splats);
            for i in 0..splats.len() {
                let own = &values[i * width..(i + 1) * width];
                for (c, &value) in own.iter().enumerate() {
                    blocks.set(i, first + c, value);
                }
            }
            first += width;
        }
        blocks
    }

    /// With features, or moments of them, behind what is there: one row of `own` for each Gaussian.
    #[must_use]
    pub fn with_features<'a>(self, own: impl Iterator<Item = &'a [f32; FEATURES]>) -> Self {
        let (from, to) = (self.components, self.components + FEATURES);
        let mut rows = vec![Row::ZERO; self.count() * to];
        for (row, old) in rows.chunks_mut(to).zip(self.rows.chunks(from)) {
            row[..from].copy_from_slice(old);
        }
        let mut blocks = Self {
            rows,
            components: to,
            features: FEATURES,
            len: self.len,
        };
        for (i, own) in own.take(self.len).enumerate() {
            for (c, &value) in own.iter().enumerate() {
                blocks.set(i, from + c, value);
            }
        }
        blocks
    }

    /// A Gaussian's features, of blocks that have some.
    pub fn features_of(&self, gaussian: usize) -> [f32; FEATURES] {
        std::array::from_fn(|f| self.get(gaussian, self.components - FEATURES + f))
    }

    /// To the exchange form.
    pub fn to_splats(&self, sh_degree: u8) -> Splats {
        let mut splats = groups::zeros(self.len, sh_degree);
        let mut first = 0;
        for group in PARAM_GROUPS {
            let width = group.width(sh_degree);
            let values = group.values_mut(&mut splats);
            for i in 0..self.len {
                let own = &mut values[i * width..(i + 1) * width];
                for (c, value) in own.iter_mut().enumerate() {
                    *value = self.get(i, first + c);
                }
            }
            first += width;
        }
        splats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stages find components by number.
    #[test]
    fn components_are_the_groups_in_their_order() {
        let mut first = 0;
        let firsts = PARAM_GROUPS.map(|group| {
            first += group.width(0);
            (group.name, first - group.width(0))
        });
        let expected = [
            ("means", component::MEAN),
            ("scales", component::SCALE),
            ("quats", component::QUAT),
            ("opacities", component::OPACITY),
            ("sh0", component::SH),
            ("sh_rest", component::SH + 3),
        ];
        assert_eq!(firsts, expected);
    }

    #[test]
    fn splats_come_back() {
        for degree in 0..=dapple_scene::MAX_SH_DEGREE {
            let mut splats = groups::zeros(19, degree);
            let mut next = 0.0;
            for group in PARAM_GROUPS {
                for value in group.values_mut(&mut splats) {
                    next += 1.0;
                    *value = next;
                }
            }
            let blocks = Blocks::from_splats(&splats);
            assert_eq!(blocks.to_splats(degree), splats);
            assert_eq!(blocks.get(18, component::QUAT), splats.quats[18][0]);
            let own: [[f32; FEATURES]; 19] =
                std::array::from_fn(|i| std::array::from_fn(|f| (8 * i + f) as f32));
            let blocks = blocks.with_features(own.iter());
            assert_eq!(blocks.to_splats(degree), splats);
            assert_eq!(own, std::array::from_fn(|i| blocks.features_of(i)));
        }
    }
}
