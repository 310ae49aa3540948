//! `emit`: writes one instance per (Gaussian, tile), in depth order; in a render of chosen tiles, of these only.
//!
//! 1. Gather the tile lists of each chunk of the depth order and sum their tiles; a prefix sum gives each chunk its place.
//!    Neighbours in depth are far apart in memory: a loop that only gathers has many of these reads in flight.
//! 2. Each chunk writes the tile and the Gaussian of each of its instances, and the first instance of each Gaussian.
//!    It also counts instances per tile for `ranges` and `sort`. The spans of 16 Gaussians are gathered at once.

use crate::frame::{
    CameraF32, Frame, PROJECT_CHUNK, Span, TileSpans, grow, grow_cells, rank_chunk,
    split_by_lengths,
};
use dapple_engine::TileMask;
use rayon::prelude::*;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Gaussians whose spans are gathered together.
const AHEAD: usize = 16;

/// Spans of a Gaussian that are gathered; of longer lists the others are read later.
const GATHERED: usize = 4;

/// Fills `ranked`, `instance_tile`, `instance_gaussian`, `first_instance`, `histograms`, `emit_starts` and
/// `counts.instances`.
pub fn run(camera: &CameraF32, chosen: Option<&TileMask>, frame: &mut Frame) {
    let visible = frame.counts.visible as usize;
    let size = rank_chunk(visible);
    let tiles = camera.tile_count();
    let Frame {
        spans_of,
        spans,
        order,
        ranked,
        histograms,
        emit_starts,
        instance_tile,
        instance_gaussian,
        first_instance,
        counts,
        ..
    } = frame;
    grow(ranked, visible, TileSpans::default());
    let sums: Vec<usize> = order[..visible]
        .par_chunks(size)
        .zip(ranked[..visible].par_chunks_mut(size))
        .map(|(keys, ranked)| {
            for (own, key) in ranked.iter_mut().zip(keys) {
                *own = spans_of[index(key) as usize];
            }
            ranked.iter().map(|list| list.tiles as usize).sum()
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
    grow(instance_gaussian, instances, 0);
    grow_cells(first_instance, counts.gaussians as usize);
    grow(histograms, sums.len() * tiles, 0);

    split_by_lengths(instance_tile, sums.iter().copied())
        .into_par_iter()
        .zip(split_by_lengths(instance_gaussian, sums.iter().copied()))
        .zip(histograms[..sums.len() * tiles].par_chunks_mut(tiles.max(1)))
        .zip(order[..visible].par_chunks(size))
        .zip(ranked[..visible].par_chunks(size))
        .zip(&*emit_starts)
        .for_each(
            |(((((tiles, gaussians), histogram), keys), ranked), &start)| {
                let chunk = Chunk {
                    spans,
                    first_instance,
                    start,
                    tiles_across: camera.tiles[0],
                    is_ring: camera.model.is_ring(),
                    tiles,
                    gaussians,
                    histogram,
                };
                match chosen {
                    None => chunk.write(keys, ranked, |_| true),
                    Some(chosen) => chunk.write(keys, ranked, |tile| chosen.is_chosen(tile)),
                }
            },
        );
}

/// Task of `emit`: a chunk of the depth order.
struct Chunk<'a> {
    spans: &'a [Vec<Span>],
    first_instance: &'a [AtomicU32],
    /// First instance of this chunk.
    start: usize,
    tiles_across: u32,
    is_ring: bool,
    /// Tile of each instance.
    tiles: &'a mut [u32],
    /// Gaussian of each instance.
    gaussians: &'a mut [u32],
    /// Instances of each tile.
    histogram: &'a mut [u32],
}

impl Chunk<'_> {
    fn write(self, keys: &[AtomicU64], lists: &[TileSpans], is_chosen: impl Fn(u32) -> bool) {
        self.histogram.fill(0);
        let mut at = 0;
        for (keys, lists) in keys.chunks(AHEAD).zip(lists.chunks(AHEAD)) {
            let mut gathered = [[Span::default(); GATHERED]; AHEAD];
            for ((first, key), list) in gathered.iter_mut().zip(keys).zip(lists) {
                let spans = &self.spans[index(key) as usize / PROJECT_CHUNK];
                let from_here = &spans[list.start as usize..];
                match from_here.first_chunk() {
                    Some(spans) => *first = *spans,
                    None => first[..from_here.len()].copy_from_slice(from_here),
                }
            }
            for ((first, key), list) in gathered.iter().zip(keys).zip(lists) {
                let gaussian = index(key);
                let place = &self.first_instance[gaussian as usize];
                place.store((self.start + at) as u32, Relaxed);
                let rows = usize::from(list.rows);
                let spans = first.get(..rows).unwrap_or_else(|| {
                    let spans = &self.spans[gaussian as usize / PROJECT_CHUNK];
                    &spans[list.start as usize..][..rows]
                });
                // A row has one span, and two on a ring.
                for (span, row) in spans.iter().zip(0u32..) {
                    let row = u32::from(list.row) + (row >> u32::from(self.is_ring));
                    let row = row * self.tiles_across;
                    let tiles = row + u32::from(span.first)..row + u32::from(span.last) + 1;
                    for tile in tiles.filter(|&tile| is_chosen(tile)) {
                        self.tiles[at] = tile;
                        self.gaussians[at] = gaussian;
                        self.histogram[tile as usize] += 1;
                        at += 1;
                    }
                }
            }
        }
    }
}

/// Returns the Gaussian of a key.
fn index(key: &AtomicU64) -> u32 {
    key.load(Relaxed) as u32
}
