//! `blend`: blends instances front to back, tile by tile.
//!
//! A tile is 16 rows of 16 pixels; a row is a whole number of vectors. For each row that an instance
//! visits, nearest instance first (the module `visits` lists them):
//! 1. Per pixel: alpha = 2^x, x = log2_opacity + a dx^2 + b dx dy + c dy^2, clamped to `ALPHA_MAX`. Alpha
//!    below 1/255, which is a condition on x, becomes zero.
//! 2. A pixel whose transmittance would fall below `TRANSMITTANCE_MIN` is finished before blending. Its
//!    transmittance becomes negative and stays below the minimum for any alpha, so that one comparison
//!    serves both tests and no other state is needed.
//!
//! If depths are requested, they are blended like a colour. A pixel's median depth is that of the
//! instance behind which its transmittance is first at most a half. If counts are requested, a pixel
//! counts the instances that it blends. Each variant is compiled separately, so that other renders have
//! no extra cost.
//!
//! `blend_backward` walks the same rows in the same order with the same arithmetic ([`Layer`]). It finds
//! the same alphas and the same ends without storing them.

use super::visits::{BATCH, LiveRows, TileGeometry, Visit, Visits, tile_instances};
use crate::frame::{CameraF32, Frame, PLANES, Splat2d, TILE_ROWS, grow, split_by_lengths};
use crate::simd::{M, ROW, Row, Splat, V, parts};
use dapple_engine::constants::{ALPHA_MAX, ALPHA_MIN, TRANSMITTANCE_MIN};
use dapple_engine::depth::MEDIAN_TRANSMITTANCE;
use pulp::Simd;
use rayon::prelude::*;
use std::sync::atomic::AtomicU32;

/// Extra output of a render.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlendExtra {
    /// No extra output.
    Nothing,
    /// Depth images.
    Depths,
    /// Number of instances that each pixel blends.
    Counts,
}

impl BlendExtra {
    /// Returns `Depths` if requested, else `Nothing`.
    pub fn depths(asked: bool) -> Self {
        if asked { Self::Depths } else { Self::Nothing }
    }

    /// Returns the rows of a tile in the images of output `of`; 0 if it is not requested.
    fn rows(self, of: Self) -> usize {
        if self == of { ROW } else { 0 }
    }
}

/// Fills `image` with colours over the background and the remaining transmittance, and fills the images
/// of `beside`.
pub fn run(
    camera: &CameraF32,
    background: [f32; 3],
    cap: u32,
    beside: BlendExtra,
    frame: &mut Frame,
) {
    let tiles = camera.tile_count();
    let Frame {
        splats2d,
        slot_gaussian,
        tile_starts,
        image,
        row_visits,
        counts,
        depth,
        blended: counted,
        ..
    } = frame;
    grow(image, tiles * TILE_ROWS, Row::ZERO);
    let lengths = |of: BlendExtra| std::iter::repeat_n(beside.rows(of), tiles);
    for (plane, of) in [
        (&mut depth.blended, BlendExtra::Depths),
        (&mut depth.median, BlendExtra::Depths),
        (&mut *counted, BlendExtra::Counts),
    ] {
        grow(plane, tiles * beside.rows(of), Row::ZERO);
    }
    let blended = split_by_lengths(&mut depth.blended, lengths(BlendExtra::Depths));
    let median = split_by_lengths(&mut depth.median, lengths(BlendExtra::Depths));
    let counted = split_by_lengths(counted, lengths(BlendExtra::Counts));
    (*row_visits, counts.lost_transmittance) = image[..tiles * TILE_ROWS]
        .par_chunks_mut(TILE_ROWS)
        .zip(blended)
        .zip(median)
        .zip(counted)
        .enumerate()
        .map(|(tile, (((rows, blended), median), counted))| {
            let instances = tile_instances(slot_gaussian, tile_starts, tile, cap);
            let all = tile_starts[tile + 1] - tile_starts[tile];
            let work = Tile {
                splats2d,
                instances,
                geometry: TileGeometry::new(camera, tile),
                background,
                rows,
                blended,
                median,
                counted,
            };
            let arch = pulp::Arch::new();
            let (visits, left) = match beside {
                BlendExtra::Nothing => arch.dispatch(With::<false, false>(work)),
                BlendExtra::Depths => arch.dispatch(With::<true, false>(work)),
                BlendExtra::Counts => arch.dispatch(With::<false, true>(work)),
            };
            let is_cut = instances.len() < all as usize;
            (visits, if is_cut { left } else { 0.0 })
        })
        .reduce(|| (0, 0.0), |a, b| (a.0 + b.0, a.1.max(b.1)));
}

/// Effect of an instance on a vector of pixels.
pub struct Layer<S: Simd> {
    /// Pixel centres minus the Gaussian's, x.
    pub dx: V<S>,
    /// log2 of the alpha before the clamp.
    pub exponent: V<S>,
    /// Alpha, zero below 1/255.
    pub alpha: V<S>,
    /// Pixels that were not finished before this instance and are not finished by it.
    pub open: M<S>,
    /// Alpha times the transmittance in front; zero if the pixel is not open.
    pub weight: V<S>,
    /// Transmittance behind; negative if the pixel is not open.
    pub behind: V<S>,
}

impl<S: Simd> Layer<S> {
    /// Computes steps 1 and 2 for part `part` of a visited row.
    #[inline(always)]
    pub fn new(
        s: S,
        origin_x: f32,
        part: usize,
        splat: &Splat2d,
        visit: &Visit,
        in_front: V<S>,
    ) -> Self {
        let dx = column_centres(s, origin_x, part) - s.k(splat.mean[0]);
        let along = dx.mul_add(s.k(splat.a), s.k(visit.linear));
        let exponent = along.mul_add(dx, s.k(visit.constant));
        let alpha = exponent.exp2_from_minus_8().min(s.k(ALPHA_MAX));
        let alpha = exponent.ge(s.k(ALPHA_MIN.log2())).select(alpha, s.k(0.0));
        let behind = alpha.neg_mul_add(in_front, in_front);
        let open = behind.ge(s.k(TRANSMITTANCE_MIN));
        Self {
            dx,
            exponent,
            alpha,
            open,
            weight: open.select(alpha * in_front, s.k(0.0)),
            behind: open.select(behind, -in_front.abs()),
        }
    }
}

/// Returns the centres of part `part` of a tile's columns.
#[inline(always)]
pub fn column_centres<S: Simd>(s: S, origin: f32, part: usize) -> V<S> {
    const STEPS: Row = Row([
        0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5, 11.5, 12.5, 13.5, 14.5, 15.5,
    ]);
    s.k(origin) + V::load(s, &STEPS, part)
}

struct Tile<'a> {
    splats2d: &'a [Splat2d],
    instances: &'a [AtomicU32],
    geometry: TileGeometry,
    background: [f32; 3],
    rows: &'a mut [Row],
    /// Empty without depths; so is `median`.
    blended: &'a mut [Row],
    median: &'a mut [Row],
    /// Empty without counts.
    counted: &'a mut [Row],
}

/// Task for a tile, with or without depths and counts.
struct With<'a, const DEPTHS: bool, const COUNTS: bool>(Tile<'a>);

impl<const DEPTHS: bool, const COUNTS: bool> pulp::WithSimd for With<'_, DEPTHS, COUNTS> {
    /// Number of rows of pixels visited, over all instances.
    type Output = (u64, f32);

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) -> (u64, f32) {
        let tile = self.0;
        let mut count = 0;
        let mut rgb = [[Row::ZERO; ROW]; 3];
        let mut transmittance = tile.geometry.transmittance();
        let mut visits = Visits::new();
        if DEPTHS {
            tile.blended.fill(Row::ZERO);
            tile.median.fill(Row::ZERO);
        }
        if COUNTS {
            tile.counted.fill(Row::ZERO);
        }
        for instances in tile.instances.chunks(BATCH) {
            let live = LiveRows::new(s, &transmittance);
            if live.is_empty() {
                break;
            }
            visits.fill(s, &tile.geometry, instances, tile.splats2d, &live);
            count += visits.len() as u64;
            for i in 0..visits.len() {
                let visit = visits.get(i);
                let splat = visits.splat(visit.instance);
                let y = visit.y;
                for part in 0..parts::<S>() {
                    let in_front = V::load(s, &transmittance[y], part);
                    let layer =
                        Layer::new(s, tile.geometry.origin[0], part, splat, &visit, in_front);
                    for c in 0..3 {
                        let row = &mut rgb[c][y];
                        let sum = layer
                            .weight
                            .mul_add(s.k(splat.rgb[c]), V::load(s, row, part));
                        sum.store(row, part);
                    }
                    if DEPTHS {
                        let depth = s.k(splat.depth);
                        let row = &mut tile.blended[y];
                        let sum = layer.weight.mul_add(depth, V::load(s, row, part));
                        sum.store(row, part);
                        // Finished pixels have a negative transmittance behind, and their median depth is
                        // final.
                        let half = s.k(MEDIAN_TRANSMITTANCE);
                        let crosses = half.lt(in_front).and(half.ge(layer.behind));
                        let row = &mut tile.median[y];
                        let median = crosses.and(layer.open).select(depth, V::load(s, row, part));
                        median.store(row, part);
                    }
                    if COUNTS {
                        let row = &mut tile.counted[y];
                        let one = s.k(0.0).lt(layer.weight).select(s.k(1.0), s.k(0.0));
                        (V::load(s, row, part) + one).store(row, part);
                    }
                    layer.behind.store(&mut transmittance[y], part);
                }
            }
        }
        let (planes, last) = tile.rows.split_at_mut(3 * ROW);
        for part in 0..parts::<S>() {
            for y in 0..ROW {
                let rest = V::load(s, &transmittance[y], part).abs();
                rest.store(&mut last[y], part);
                for c in 0..PLANES - 1 {
                    let behind = rest * V::splat(s, tile.background[c]);
                    (V::load(s, &rgb[c][y], part) + behind).store(&mut planes[c * ROW + y], part);
                }
            }
        }
        // Finished pixels, and those outside the image, have negative transmittance.
        let left = transmittance
            .iter()
            .flat_map(|row| row.0)
            .fold(0.0, f32::max);
        (count, left)
    }
}
