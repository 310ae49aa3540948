//! `order`: sorts the visible Gaussians by depth.
//!
//! 1. Compact: each chunk of Gaussians counts its visible ones, a prefix sum gives each chunk its
//!    place.
//! 2. Radix-sort `depth bits << 32 | index` by the depth bits, 11 at a time. Depths are positive,
//!    so the order of their bits is theirs. The sort is stable, so ties are in order of index.
//!
//! Each pass: histograms of fixed chunks, one prefix sum over (digit, chunk), then every chunk
//! scatters. Cells are written through relaxed atomics, which are plain stores; every cell has one
//! writer.

use crate::frame::{Frame, PROJECT_CHUNK, grow, grow_cells, rank_chunk};
use rayon::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const DIGIT_BITS: u32 = 11;
const DIGITS: usize = 1 << DIGIT_BITS;

/// Fills `order` and `counts.visible` for the first `gaussians` Gaussians.
pub fn run(gaussians: usize, frame: &mut Frame) {
    let Frame {
        spans_of,
        splats2d,
        order,
        order_scratch,
        histograms,
        counts,
        ..
    } = frame;
    let spans_of = &spans_of[..gaussians];
    let per_chunk: Vec<usize> = spans_of
        .par_chunks(PROJECT_CHUNK)
        .map(|chunk| chunk.iter().filter(|s| s.tiles > 0).count())
        .collect();
    let visible: usize = per_chunk.iter().sum();
    counts.visible = visible as u64;
    counts.gaussians = gaussians as u64;
    grow_cells(order, visible);
    grow_cells(order_scratch, visible);
    let starts = exclusive_sum(&per_chunk);
    spans_of
        .par_chunks(PROJECT_CHUNK)
        .enumerate()
        .for_each(|(chunk, list)| {
            let visible = list.iter().enumerate().filter(|(_, s)| s.tiles > 0);
            for ((i, _), place) in visible.zip(&order[starts[chunk]..]) {
                let index = chunk * PROJECT_CHUNK + i;
                let key = u64::from(splats2d[index].depth.to_bits()) << 32 | index as u64;
                place.store(key, Relaxed);
            }
        });
    for pass in 0..3 {
        scatter(
            &order[..visible],
            &order_scratch[..visible],
            histograms,
            32 + pass * DIGIT_BITS,
        );
        std::mem::swap(order, order_scratch);
    }
}

fn exclusive_sum(counts: &[usize]) -> Vec<usize> {
    counts
        .iter()
        .scan(0, |sum, &n| {
            *sum += n;
            Some(*sum - n)
        })
        .collect()
}

/// Executes one pass of the radix sort, by the `DIGIT_BITS` bits from `shift` up.
fn scatter(from: &[AtomicU64], to: &[AtomicU64], histograms: &mut Vec<u32>, shift: u32) {
    let digit = |key: u64| (key >> shift) as usize & (DIGITS - 1);
    let size = rank_chunk(from.len());
    let chunks = from.len().div_ceil(size);
    grow(histograms, chunks * DIGITS, 0);
    let histograms = &mut histograms[..chunks * DIGITS];
    histograms
        .par_chunks_mut(DIGITS)
        .zip(from.par_chunks(size))
        .for_each(|(histogram, keys)| {
            histogram.fill(0);
            for key in keys {
                histogram[digit(key.load(Relaxed))] += 1;
            }
        });
    let mut sum = 0;
    for d in 0..DIGITS {
        for chunk in 0..chunks {
            let cell = &mut histograms[chunk * DIGITS + d];
            sum += std::mem::replace(cell, sum);
        }
    }
    histograms
        .par_chunks_mut(DIGITS)
        .zip(from.par_chunks(size))
        .for_each(|(histogram, keys)| {
            for key in keys {
                let key = key.load(Relaxed);
                let place = &mut histogram[digit(key)];
                to[*place as usize].store(key, Relaxed);
                *place += 1;
            }
        });
}
