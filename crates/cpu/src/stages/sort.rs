//! `sort`: sorts instances by tile, stable, so that each tile's instances stay in depth order.
//!
//! The stage is a counting sort. `ranges` has given every (tile, chunk) its place, and each chunk
//! moves its instances there in order. The place of an instance is its gradient slot.

use crate::frame::{CameraF32, Frame, grow, grow_cells, split_by_lengths};
use rayon::prelude::*;
use std::sync::atomic::Ordering::Relaxed;

/// Fills `slot_gaussian` and `instance_slot`.
pub fn run(camera: &CameraF32, frame: &mut Frame) {
    let instances = frame.counts.instances as usize;
    let tiles = camera.tile_count();
    let Frame {
        histograms,
        emit_starts,
        instance_tile,
        instance_gaussian,
        instance_slot,
        slot_gaussian,
        ..
    } = frame;
    grow(instance_slot, instances, 0);
    grow_cells(slot_gaussian, instances);
    let ends = emit_starts.iter().skip(1).copied().chain([instances]);
    let lengths = ends.zip(&*emit_starts).map(|(end, start)| end - start);
    let chunks = emit_starts.len();
    split_by_lengths(instance_slot, lengths)
        .into_par_iter()
        .zip(histograms[..chunks * tiles].par_chunks_mut(tiles.max(1)))
        .zip(&*emit_starts)
        .for_each(|((own, places), &start)| {
            let tiles = &instance_tile[start..][..own.len()];
            let gaussians = &instance_gaussian[start..][..own.len()];
            for ((own, &tile), &gaussian) in own.iter_mut().zip(tiles).zip(gaussians) {
                let place = &mut places[tile as usize];
                slot_gaussian[*place as usize].store(gaussian, Relaxed);
                *own = *place;
                *place += 1;
            }
        });
}
