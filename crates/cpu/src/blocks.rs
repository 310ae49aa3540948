//! Storage of parameters and moments: blocks of 16 Gaussians.
//!
//! A block holds one [`Row`] per component (mean x, mean y, ...), and the blocks are contiguous. A kernel for
//! 16 Gaussians therefore reads contiguous memory with whole vectors, the best access pattern for caches and
//! TLB. Lanes after the last Gaussian hold zeros, and their zero quaternion makes them invisible.

use crate::simd::{ROW, Row};
use dapple_engine::appearance_mlp::FEATURES;
use dapple_engine::{PARAM_GROUPS, groups};
use dapple_scene::{Splats, sh_coefficient_count};
use rayon::prelude::*;

/// Index of each parameter's first component in a block.
pub mod component {
    /// Centre: x, y, z.
    pub const MEAN: usize = 0;
    /// Scales: three logarithms.
    pub const SCALE: usize = 3;
    /// Quaternion: w, x, y, z.
    pub const QUAT: usize = 6;
    /// Opacity: a logit.
    pub const OPACITY: usize = 10;
    /// SH: coefficient k of channel c at `SH + 3 k + c`.
    pub const SH: usize = 11;
}

/// Most components a Gaussian can have.
pub const MAX_COMPONENTS: usize = component::SH + 48;

/// Fewest rows that a thread fills.
const ROWS_AT_ONCE: usize = 1 << 14;

/// One value per component and Gaussian, 16 Gaussians per block.
#[derive(Debug, Clone, Default)]
pub struct Blocks {
    /// `[blocks, components]`.
    pub rows: Vec<Row>,
    /// Components of a Gaussian: 11 + 3 per SH coefficient, then its features if the run learns an appearance
    /// MLP.
    pub components: usize,
    /// Number of features, the last components.
    pub features: usize,
    /// Gaussians, without padding lanes.
    pub len: usize,
}

impl Blocks {
    /// Creates zeros for `len` Gaussians with the components of an SH degree.
    pub fn zeros(len: usize, sh_degree: u8) -> Self {
        let components = component::SH + 3 * sh_coefficient_count(sh_degree);
        Self {
            rows: filled(len.div_ceil(ROW) * components, |_| Row::ZERO),
            components,
            features: 0,
            len,
        }
    }

    /// Returns the number of blocks.
    pub fn count(&self) -> usize {
        self.len.div_ceil(ROW)
    }

    /// Returns one value.
    pub fn get(&self, gaussian: usize, component: usize) -> f32 {
        self.rows[gaussian / ROW * self.components + component].0[gaussian % ROW]
    }

    /// Sets one value.
    pub fn set(&mut self, gaussian: usize, component: usize, value: f32) {
        self.rows[gaussian / ROW * self.components + component].0[gaussian % ROW] = value;
    }

    /// Copies Gaussian `from` of `source` to index `to`.
    pub fn copy_from(&mut self, to: usize, source: &Self, from: usize) {
        for c in 0..self.components {
            self.set(to, c, source.get(from, c));
        }
    }

    /// Copies Gaussian `from` to index `to`.
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

    /// Extends the blocks to `len` Gaussians; new ones hold zeros.
    pub fn extend_to(&mut self, len: usize) {
        // Padding lanes may hold results of `update`.
        for lane in self.len..len.min(self.count() * ROW) {
            self.clear(lane);
        }
        self.len = len;
        self.rows.resize(self.count() * self.components, Row::ZERO);
    }

    /// Converts from the exchange form: groups of parameters are in the order of their list.
    pub fn from_splats(splats: &Splats) -> Self {
        // For each component, the values of its group, their number per Gaussian, and its place among these.
        let columns: Vec<(&[f32], usize, usize)> = PARAM_GROUPS
            .iter()
            .flat_map(|group| {
                let (values, width) = (group.values(splats), group.width(splats.sh_degree));
                (0..width).map(move |place| (values, width, place))
            })
            .collect();
        let row = |row: usize| {
            let (values, width, place) = columns[row % columns.len()];
            let first = row / columns.len() * ROW;
            let lane = |lane: usize| values.get((first + lane) * width + place);
            Row(std::array::from_fn(|l| lane(l).copied().unwrap_or(0.0)))
        };
        Self {
            rows: filled(splats.len().div_ceil(ROW) * columns.len(), row),
            components: columns.len(),
            features: 0,
            len: splats.len(),
        }
    }

    /// Appends features, or moments of features, as components: one row of `own` for each Gaussian.
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

    /// Returns a Gaussian's features; the blocks must have some.
    pub fn features_of(&self, gaussian: usize) -> [f32; FEATURES] {
        std::array::from_fn(|f| self.get(gaussian, self.components - FEATURES + f))
    }

    /// Converts to the exchange form.
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

/// Returns `len` rows. All threads fill them: the first access to each page of new memory is slow.
fn filled(len: usize, row: impl Fn(usize) -> Row + Sync + Send) -> Vec<Row> {
    let rows = (0..len).into_par_iter().with_min_len(ROWS_AT_ONCE);
    rows.map(row).collect()
}

/// Screen-space gradient of each Gaussian since the last densification round.
#[derive(Debug, Clone, Default)]
pub struct DensityStats {
    /// Sum of norms, `[N]`.
    pub gradient_sums: Vec<f32>,
    /// Steps in which the Gaussian was visible, `[N]`.
    pub visible_counts: Vec<f32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the component numbers that stages use match the groups.
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
