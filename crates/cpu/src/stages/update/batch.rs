//! Sums of gradients over the steps of a batch: see [`dapple_engine::Batch`].

use crate::simd::{Row, Splat, V};
use dapple_engine::Batch;
use pulp::Simd;

/// Sums of the blocks of one task.
pub(super) struct BatchSums<'a> {
    rows: &'a mut [Row],
    /// Factor of the sums in the last step; `None` in the steps before.
    share: Option<f32>,
}

/// Prepares the sums for a step: zeros for the first step of a batch of several.
pub(super) fn begin(batch: Batch, rows: usize, sums: &mut Vec<Row>) {
    if batch.is_single() {
        *sums = Vec::new();
    } else if batch.is_first() {
        sums.clear();
        sums.resize(rows, Row::ZERO);
    }
}

/// Returns the sums of tasks of `rows` rows; `None` without a batch of several steps.
pub(super) fn chunks(
    sums: &mut [Row],
    rows: usize,
    share: Option<f32>,
) -> Option<impl Iterator<Item = BatchSums<'_>>> {
    let chunks = (!sums.is_empty()).then(|| sums.chunks_mut(rows));
    chunks.map(|chunks| chunks.map(move |rows| BatchSums { rows, share }))
}

impl BatchSums<'_> {
    /// Adds the gradients of a vector of Gaussians, whose first row is `row`, to the sums. In the last step, `gradient`
    /// becomes the mean of the batch. Returns true if the Gaussians move; without sums they always do.
    #[inline(always)]
    pub(super) fn take<S: Simd>(
        sums: &mut Option<Self>,
        s: S,
        row: usize,
        part: usize,
        gradient: &mut [V<S>],
    ) -> bool {
        let Some(sums) = sums else {
            return true;
        };
        let rows = &mut sums.rows[row..row + gradient.len()];
        for (sum, own) in rows.iter_mut().zip(gradient) {
            let total = V::load(s, sum, part) + *own;
            match sums.share {
                Some(share) => *own = total * s.k(share),
                None => total.store(sum, part),
            }
        }
        sums.share.is_some()
    }
}
