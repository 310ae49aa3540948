//! `emit`: writes one instance per (Gaussian, tile), in depth order.
//!
//! 1. Sum the tiles of each chunk of the depth order; a prefix sum gives each chunk its place.
//! 2. Each chunk writes the tile of each of its instances and the first instance of each Gaussian.
//!    It also counts instances per tile for `ranges` and `sort`.

use crate::frame::{
    CameraF32, Frame, PROJECT_CHUNK, Span, TileSpans, grow, grow_cells, rank_chunk,
    split_by_lengths,
};
use rayon::prelude::*;
use std::sync::atomic::Ordering::Relaxed;

/// Fills `instance_tile`, `first_instance`, `histograms`, `emit_starts` and `counts.instances`.
pub fn run(camera: &CameraF32, frame: &mut Frame) {
    let visible = frame.counts.visible as usize;
    let size = rank_chunk(visible);
    let tiles = camera.tile_count();
    let Frame {
        spans_of,
        spans,
        order,
        histograms,
        emit_starts,
        instance_tile,
        first_instance,
        counts,
        ..
    } = frame;
    let index = |key: u64| key as u32 as usize;
    let sums: Vec<usize> = order[..visible]
        .par_chunks(size)
        .map(|chunk| {
            chunk
                .iter()
                .map(|key| spans_of[index(key.load(Relaxed))].tiles as usize)
                .sum()
        })
        .collect();
    emit_starts.clear();
    let mut instances = 0;
    for sum in &sums {
        emit_starts.push(instances);
        instances += sum;
    }
    counts.instances = instances as u64;
    counts.tiles = tiles as u64;
    grow(instance_tile, instances, 0);
    grow_cells(first_instance, counts.gaussians as usize);
    grow(histograms, sums.len() * tiles, 0);

    split_by_lengths(instance_tile, sums.iter().copied())
        .into_par_iter()
        .zip(histograms[..sums.len() * tiles].par_chunks_mut(tiles.max(1)))
        .zip(order[..visible].par_chunks(size))
        .zip(&*emit_starts)
        .for_each(|(((own, histogram), keys), &start)| {
            histogram.fill(0);
            let mut at = 0;
            for key in keys {
                let gaussian = index(key.load(Relaxed));
                first_instance[gaussian].store((start + at) as u32, Relaxed);
                let list = spans_of[gaussian];
                for tile in tiles_of(&list, &spans[gaussian / PROJECT_CHUNK], camera) {
                    own[at] = tile;
                    histogram[tile as usize] += 1;
                    at += 1;
                }
            }
        });
}

/// Returns the tiles of a Gaussian, row by row. A row has one span, and two on a ring.
fn tiles_of<'a>(
    list: &TileSpans,
    spans: &'a [Span],
    camera: &CameraF32,
) -> impl Iterator<Item = u32> + 'a {
    let (first_row, tiles_across) = (u32::from(list.row), camera.tiles[0]);
    let shift = u32::from(camera.model.is_ring());
    spans[list.start as usize..][..usize::from(list.rows)]
        .iter()
        .zip(0u32..)
        .flat_map(move |(span, i)| {
            let row = first_row + (i >> shift);
            (u32::from(span.first)..=u32::from(span.last)).map(move |x| row * tiles_across + x)
        })
}
