//! `ranges`: computes the first and last gradient slot of each tile, and applies the per-tile
//! limit.
//!
//! A prefix sum over (tile, chunk) of the histograms from `emit` gives both the tiles' ranges and
//! the place of each chunk's instances of a tile. A counting sort needs its ranges before its
//! scatter, so this stage runs before `sort` in this engine.

use crate::frame::{CameraF32, Frame, grow};

/// Fills `tile_starts`, turns `histograms` into places, and counts the instances beyond the
/// per-tile limit.
pub fn run(camera: &CameraF32, cap: u32, frame: &mut Frame) {
    let tiles = camera.tile_count();
    let chunks = frame.emit_starts.len();
    grow(&mut frame.tile_starts, tiles + 1, 0);
    let histograms = &mut frame.histograms[..chunks * tiles];
    let mut sum = 0u32;
    let (mut most, mut cut) = (0, 0);
    for tile in 0..tiles {
        frame.tile_starts[tile] = sum;
        for chunk in 0..chunks {
            let cell = &mut histograms[chunk * tiles + tile];
            sum += std::mem::replace(cell, sum);
        }
        let count = u64::from(sum - frame.tile_starts[tile]);
        most = count.max(most);
        if cap > 0 {
            cut += count.saturating_sub(u64::from(cap));
        }
    }
    frame.tile_starts[tiles] = sum;
    frame.counts.max_instances_per_tile = most;
    frame.counts.cut_instances = cut;
}
