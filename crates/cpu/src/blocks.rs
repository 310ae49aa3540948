//! Parameters and moments as the engine keeps them: blocks of 16 Gaussians.
//!
//! A block holds one [`Row`] per component (mean x, mean y, ...), and the blocks follow each
//! other. A kernel that handles 16 Gaussians therefore reads one contiguous stretch of memory with
//! whole vectors, which streams through caches and TLB as well as it gets. Lanes past the last
//! Gaussian hold zeros, whose zero quaternion makes them absent.

use crate::simd::{ROW, Row};
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
    /// Components of a Gaussian: 11 + 3 per SH coefficient.
    pub components: usize,
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

    /// From the exchange form.
    pub fn from_splats(splats: &Splats) -> Self {
        let mut blocks = Self::zeros(splats.len(), splats.sh_degree);
        let stride = splats.sh_rest_stride();
        for i in 0..splats.len() {
            let rest = &splats.sh_rest[i * stride..(i + 1) * stride];
            let values = splats.means[i]
                .iter()
                .chain(&splats.scales[i])
                .chain(&splats.quats[i])
                .chain(std::iter::once(&splats.opacities[i]))
                .chain(&splats.sh0[i])
                .chain(rest);
            for (c, &value) in values.enumerate() {
                blocks.set(i, c, value);
            }
        }
        blocks
    }

    /// To the exchange form.
    pub fn to_splats(&self, sh_degree: u8) -> Splats {
        let triple = |i: usize, c: usize| [0, 1, 2].map(|k| self.get(i, c + k));
        let all = 0..self.len;
        Splats {
            means: all.clone().map(|i| triple(i, component::MEAN)).collect(),
            scales: all.clone().map(|i| triple(i, component::SCALE)).collect(),
            quats: all
                .clone()
                .map(|i| [0, 1, 2, 3].map(|k| self.get(i, component::QUAT + k)))
                .collect(),
            opacities: all
                .clone()
                .map(|i| self.get(i, component::OPACITY))
                .collect(),
            sh0: all.clone().map(|i| triple(i, component::SH)).collect(),
            sh_rest: all
                .flat_map(|i| (component::SH + 3..self.components).map(move |c| self.get(i, c)))
                .collect(),
            sh_degree,
        }
    }
}
