//! Gaussians that each pixel shows most, after `blend`, in renders that ask for them only. Reference:
//! `dapple_reference::contributions`.
//!
//! A tile is walked as in `blend`, with the same weights. Each pixel keeps its largest weights in order.

use super::blend::Layer;
use super::visits::{BATCH, LiveRows, TileGeometry, Visits, tile_instances};
use crate::frame::{CameraF32, Contribution, Frame, Splat2d, grow};
use crate::simd::{ROW, Row, V, parts};
use dapple_engine::shown::NO_CONTRIBUTOR;
use pulp::Simd;
use rayon::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Contribution that a pixel lacks.
const NOTHING: Contribution = Contribution {
    gaussian: NO_CONTRIBUTOR,
    weight: 0.0,
};

/// Fills `contributions` with the `most` of each pixel, after the stages up to `sort`.
pub fn run(camera: &CameraF32, cap: u32, most: usize, frame: &mut Frame) {
    let each = ROW * ROW * most;
    let tiles = camera.tile_count();
    grow(&mut frame.contributions, tiles * each, NOTHING);
    let splats2d = &frame.splats2d;
    let found = frame.contributions[..tiles * each].par_chunks_mut(each);
    found.enumerate().for_each(|(tile, found)| {
        pulp::Arch::new().dispatch(Tile {
            splats2d,
            instances: tile_instances(&frame.slot_gaussian, &frame.tile_starts, tile, cap),
            geometry: TileGeometry::new(camera, tile),
            most,
            found,
        });
    });
}

struct Tile<'a> {
    splats2d: &'a [Splat2d],
    instances: &'a [AtomicU32],
    geometry: TileGeometry,
    most: usize,
    /// `[16, 16, most]`.
    found: &'a mut [Contribution],
}

impl pulp::WithSimd for Tile<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        self.found.fill(NOTHING);
        let mut transmittance = self.geometry.transmittance();
        let mut visits = Visits::new();
        for instances in self.instances.chunks(BATCH) {
            let live = LiveRows::new(s, &transmittance);
            if live.is_empty() {
                break;
            }
            visits.fill(s, &self.geometry, instances, self.splats2d, &live);
            for i in 0..visits.len() {
                let visit = visits.get(i);
                let splat = visits.splat(visit.instance);
                let mut weights = Row::ZERO;
                for part in 0..parts::<S>() {
                    let row = &mut transmittance[visit.y];
                    let in_front = V::load(s, row, part);
                    let origin = self.geometry.origin[0];
                    let layer = Layer::new(s, origin, part, splat, &visit, in_front);
                    layer.weight.store(&mut weights, part);
                    layer.behind.store(row, part);
                }
                let gaussian = instances[visit.instance].load(Relaxed);
                let row = self.found[visit.y * ROW * self.most..].chunks_exact_mut(self.most);
                for (pixel, weight) in row.zip(weights.0) {
                    insert(pixel, Contribution { gaussian, weight });
                }
            }
        }
    }
}

/// Inserts a contribution behind those of at least its weight; the last one is dropped.
#[inline(always)]
fn insert(pixel: &mut [Contribution], new: Contribution) {
    let mut place = pixel.len();
    while place > 0 && pixel[place - 1].weight < new.weight {
        place -= 1;
    }
    if place < pixel.len() {
        pixel[place..].rotate_right(1);
        pixel[place] = new;
    }
}
