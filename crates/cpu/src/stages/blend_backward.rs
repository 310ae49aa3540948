//! `blend_backward`: each instance's gradient, summed over its tile's pixels, into its own slot.
//!
//! With w = alpha T the weight of an instance, g = dL/d(pixel) and g.c its colour seen through g,
//! dL/dalpha = T (g.c) - R / (1 - alpha), where R is what lies behind seen through g: the sum of
//! w (g.c) over the instances behind, plus the background. So:
//! 1. Per pixel start with R = g . (rendered colour) + dL/dT_final T_final: everything.
//! 2. Walk front to back exactly as `blend` does. T comes out bit for bit, without divisions, and
//!    R shrinks by w (g.c) at each instance. One scalar a pixel does the work of four.
//! 3. Per instance sum, over its pixels, s = alpha dL/dalpha and its first and second moments about
//!    the Gaussian's centre, and w g for the colour. Moments separate: a column's dx is the same in
//!    all rows, so rows add up s, s dy, s dy^2 and the columns are weighted once at the end.
//!
//! A slot has one writer and `update` adds a Gaussian's slots in order: no atomics, and results
//! that depend neither on threads nor on luck.

use super::blend::{
    BATCH, Pixels, TileGeometry, TileRows, gather, layer, still_live, tile_instances,
};
use crate::frame::{CameraF32, Frame, PLANES, Slot, Splat2d, TILE_ROWS, grow, split_by_lengths};
use crate::simd::{ROW, Row, Splat, V, each, parts};
use dapple_engine::constants::ALPHA_MAX;
use pulp::Simd;
use rayon::prelude::*;
use std::sync::atomic::AtomicU32;

/// Fills `slots` from `image` and `image_gradient`.
///
/// A slot holds the sums of s, s dx, s dy, s dx^2, s dx dy, s dy^2, and of w times dL/d(red, green,
/// blue).
pub fn run(camera: &CameraF32, cap: u32, frame: &mut Frame) {
    let tiles = camera.tile_count();
    let Frame {
        splats2d,
        slot_gaussian,
        tile_starts,
        image,
        image_gradient,
        slots,
        counts,
        ..
    } = frame;
    let instances = counts.instances as usize;
    grow(slots, instances, [0.0; 9]);
    let bounds = tile_starts[..=tiles].windows(2);
    split_by_lengths(slots, bounds.map(|b| (b[1] - b[0]) as usize))
        .into_par_iter()
        .zip(image.as_chunks().0[..tiles].par_iter())
        .zip(image_gradient.as_chunks().0[..tiles].par_iter())
        .enumerate()
        .for_each(|(tile, ((slots, image), gradient))| {
            pulp::Arch::new().dispatch(Tile {
                splats2d,
                instances: tile_instances(slot_gaussian, tile_starts, tile, cap),
                geometry: TileGeometry::new(camera, tile),
                image,
                gradient,
                slots,
            });
        });
}

struct Tile<'a> {
    splats2d: &'a [Splat2d],
    instances: &'a [AtomicU32],
    geometry: TileGeometry,
    image: &'a [Row; TILE_ROWS],
    gradient: &'a [Row; TILE_ROWS],
    slots: &'a mut [Slot],
}

/// What a walk along the tile's rays carries from instance to instance.
struct Rays {
    transmittance: [Row; ROW],
    floor: [Row; ROW],
    /// R: what lies behind, seen through the gradient.
    behind: [Row; ROW],
}

impl pulp::WithSimd for Tile<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        let mut rays = Rays {
            transmittance: [Row::splat(1.0); ROW],
            floor: self.geometry.alpha_floor(),
            behind: everything(s, self.image, self.gradient),
        };
        let mut live = self.geometry.live_rows();
        let mut done = 0;
        let mut batch = [Splat2d::default(); BATCH];
        'tile: for instances in self.instances.chunks(BATCH) {
            for splat in gather(instances, self.splats2d, &mut batch) {
                let slot = &mut self.slots[done];
                let finished =
                    self.geometry
                        .instance_gradient(s, splat, self.gradient, live, &mut rays, slot);
                done += 1;
                if finished != 0 {
                    live = still_live(s, live, finished, &rays.floor);
                    if live == 0 {
                        break 'tile;
                    }
                }
            }
        }
        // Behind the last blended instance, and beyond the cap, nothing has a gradient.
        self.slots[done..].fill([0.0; 9]);
    }
}

/// Step 1.
#[inline(always)]
fn everything<S: Simd>(s: S, image: &[Row; TILE_ROWS], gradient: &[Row; TILE_ROWS]) -> [Row; ROW] {
    let mut sum = [Row::ZERO; ROW];
    for part in 0..parts::<S>() {
        for (y, row) in sum.iter_mut().enumerate() {
            let mut total = V::splat(s, 0.0);
            for plane in 0..PLANES {
                let i = plane * ROW + y;
                total = V::load(s, &image[i], part).mul_add(V::load(s, &gradient[i], part), total);
            }
            total.store(row, part);
        }
    }
    sum
}

impl TileGeometry {
    /// Steps 2 and 3 for one instance; returns the rows in which it finished a pixel.
    #[inline(always)]
    fn instance_gradient<S: Simd>(
        &self,
        s: S,
        splat: &Splat2d,
        gradient: &[Row; TILE_ROWS],
        live: u32,
        rays: &mut Rays,
        slot: &mut Slot,
    ) -> u32 {
        let zero = V::splat(s, 0.0);
        let one = V::splat(s, 1.0);
        let infinite = V::splat(s, f32::INFINITY);
        let alpha_max = V::splat(s, ALPHA_MAX);
        let colour = each!(3, |c| V::splat(s, splat.rgb[c]));
        let reached = live & self.reached_rows(splat);
        let rows = TileRows::new(s, self.origin[1], splat);
        let mut finished = 0;
        // Sums of s dx^i dy^j over the columns of a vector, and of w g.
        let mut moments = [zero; 6];
        let mut colours = [zero; 3];
        for part in 0..parts::<S>() {
            let pixels = Pixels::new(s, self.origin[0], part, splat);
            // Sums of s, s dy, s dy^2 over rows.
            let (mut s0, mut s1, mut s2) = (zero, zero, zero);
            let mut left = reached;
            while left != 0 {
                let y = left.trailing_zeros() as usize % ROW;
                left &= left - 1;
                let raw = pixels.alpha(&rows, y);
                let floors = V::load(s, &rays.floor[y], part);
                let in_front = V::load(s, &rays.transmittance[y], part);
                let layer = layer(s, raw, floors, in_front);
                let g = each!(3, |c| V::load(s, &gradient[c * ROW + y], part));
                let seen = g[0].mul_add(colour[0], g[1].mul_add(colour[1], g[2] * colour[2]));
                let behind = layer
                    .weight
                    .neg_mul_add(seen, V::load(s, &rays.behind[y], part));
                let d_alpha = in_front * seen - behind * (one - layer.alpha).reciprocal();
                // Where alpha is clamped it does not move.
                let slope = raw.lt(alpha_max).select(d_alpha * layer.alpha, zero);
                let dy = s.k(rows.dy.0[y]);
                s0 += slope;
                let along = slope * dy;
                s1 += along;
                s2 = along.mul_add(dy, s2);
                for c in 0..3 {
                    colours[c] = layer.weight.mul_add(g[c], colours[c]);
                }
                behind.store(&mut rays.behind[y], part);
                layer.behind.store(&mut rays.transmittance[y], part);
                if layer.finished.any() {
                    layer
                        .finished
                        .select(infinite, floors)
                        .store(&mut rays.floor[y], part);
                    finished |= 1 << y;
                }
            }
            let dx = pixels.dx;
            let s0_dx = s0 * dx;
            let terms = [s0, s0_dx, s1, s0_dx * dx, s1 * dx, s2];
            for i in 0..6 {
                moments[i] += terms[i];
            }
        }
        for i in 0..6 {
            slot[i] = moments[i].sum();
        }
        for c in 0..3 {
            slot[6 + c] = colours[c].sum();
        }
        finished
    }
}
