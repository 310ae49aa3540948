//! Check for non-finite parameters. GPU version: `finite.wgsl`.

use crate::blocks::Blocks;
use crate::simd::ROW;
use dapple_engine::{NonFiniteReport, PARAM_GROUPS};
use rayon::prelude::*;

/// Blocks of one task.
const CHUNK_BLOCKS: usize = 256;

/// Returns the first component of each of [`NonFiniteReport::TENSORS`]; each ends at the next one's first.
fn firsts() -> [usize; PARAM_GROUPS.len()] {
    let mut next = 0;
    // Only the last group's width depends on the SH degree.
    PARAM_GROUPS.map(|group| {
        next += group.width(0);
        next - group.width(0)
    })
}

/// Counts the non-finite Gaussians.
pub fn run(params: &Blocks) -> Option<NonFiniteReport> {
    let components = params.components.max(1);
    let firsts = firsts();
    let tensor_bit = |component: usize| {
        let which = firsts.partition_point(|&first| first <= component) - 1;
        1 << which
    };
    let chunks = params.rows.par_chunks(CHUNK_BLOCKS * components);
    let found = chunks.enumerate().map(|(chunk, rows)| {
        let blocks = rows.chunks_exact(components).enumerate();
        blocks.fold((0, 0), |(count, tensors), (block, rows)| {
            // 0 * x is NaN for NaN and infinities, and a sum with a NaN is NaN: one test per block.
            let poison: f32 = rows.iter().flat_map(|row| row.0).map(|v| 0.0 * v).sum();
            if poison == 0.0 {
                return (count, tensors);
            }
            let first = (chunk * CHUNK_BLOCKS + block) * ROW;
            let lanes = params.len.saturating_sub(first).min(ROW);
            let of_lane = |lane: usize| {
                let broken = |(c, row): (usize, &crate::simd::Row)| {
                    (!row.0[lane].is_finite()).then(|| tensor_bit(c))
                };
                let bits = rows.iter().enumerate().filter_map(broken);
                bits.fold(0, |all, bit| all | bit)
            };
            (0..lanes)
                .map(of_lane)
                .fold((count, tensors), |(count, tensors), bits| {
                    (count + u64::from(bits != 0), tensors | bits)
                })
        })
    });
    let (gaussians, tensors) = found.reduce(|| (0, 0), |a, b| (a.0 + b.0, a.1 | b.1));
    NonFiniteReport::new(gaussians, tensors)
}
