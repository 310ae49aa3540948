//! Gaussians of the sky in `update`: their centres, scales and quaternions have gradients of zero, and regularisers do
//! not apply to them.

use crate::blocks::{MAX_COMPONENTS, component};
use crate::features::regularise::kernels::Regularisers;
use crate::simd::{ROW, Row, Splat, V};
use pulp::Simd;

/// Where the Gaussians of the sky begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sky {
    /// Number of Gaussians before them.
    active: usize,
}

impl Sky {
    /// The Gaussians from `active` on are of the sky, or frozen.
    pub(super) fn new(active: usize) -> Self {
        Self { active }
    }

    /// Returns 1 for the lanes of a block that are of the sky and 0 for the others; `None` if all are 0.
    #[inline(always)]
    pub(super) fn lanes(&self, block: usize) -> Option<Row> {
        let first = block * ROW;
        if first + ROW <= self.active {
            return None;
        }
        let lane = |lane: usize| if first + lane < self.active { 0.0 } else { 1.0 };
        Some(Row(std::array::from_fn(lane)))
    }
}

/// Adds the derivatives of regularisers to those of part `part` of a block, and corrects the lanes of the sky.
/// `first`: the block's first moments.
#[inline(always)]
pub(super) fn finish<S: Simd>(
    s: S,
    (regularisers, sky): (Option<&Regularisers>, Option<Row>),
    (block, first): (&[Row], &[Row]),
    part: usize,
    gradients: &mut [V<S>; MAX_COMPONENTS],
) {
    let before = sky.map(|sky| (sky, *gradients));
    if let Some(regularisers) = regularisers {
        regularisers.add(s, (block, first), part, gradients);
    }
    let Some((sky, before)) = before else {
        return;
    };
    let (zero, half) = (s.k(0.0), s.k(0.5));
    let is_active = V::load(s, &sky, part).lt(half);
    for (c, gradient) in gradients[..component::SH].iter_mut().enumerate() {
        let of_sky = if c < component::OPACITY {
            zero
        } else {
            before[c]
        };
        *gradient = is_active.select(*gradient, of_sky);
    }
}
