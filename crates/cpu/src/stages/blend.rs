//! `blend`: front to back, tile by tile.
//!
//! A tile is 16 rows of 16 pixels; a row is a whole number of vectors. For each instance of the
//! tile, nearest first:
//! 1. Take only the rows that its ellipse's height reaches and that still have a live pixel.
//! 2. Per row: alpha = 2^(log2_opacity + a dx^2 + b dx dy + c dy^2), clamped to `ALPHA_MAX`.
//! 3. Pixels with alpha below their floor are left alone. The floor is 1/255 for a live pixel and
//!    infinite for a finished one, so that one comparison does for both.
//! 4. A pixel whose transmittance would fall below `TRANSMITTANCE_MIN` is finished before blending.
//!
//! `blend_backward` walks the same instances in the same order with the same arithmetic
//! ([`Pixels::alpha`]), so it meets the same alphas and the same ends without having them stored.

use crate::frame::{CameraF32, Frame, PLANES, Splat2d, TILE_ROWS, grow};
use crate::simd::{M, ROW, Row, Splat, V, each, parts};
use dapple_engine::constants::{ALPHA_MAX, ALPHA_MIN, TRANSMITTANCE_MIN};
use pulp::Simd;
use rayon::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Fills `image`: colours over the background, and the remaining transmittance.
pub fn run(camera: &CameraF32, background: [f32; 3], cap: u32, frame: &mut Frame) {
    let tiles = camera.tile_count();
    let Frame {
        splats2d,
        slot_gaussian,
        tile_starts,
        image,
        row_visits,
        ..
    } = frame;
    grow(image, tiles * TILE_ROWS, Row::ZERO);
    *row_visits = image[..tiles * TILE_ROWS]
        .par_chunks_mut(TILE_ROWS)
        .enumerate()
        .map(|(tile, rows)| {
            pulp::Arch::new().dispatch(Tile {
                splats2d,
                instances: tile_instances(slot_gaussian, tile_starts, tile, cap),
                geometry: TileGeometry::new(camera, tile),
                background,
                rows,
            })
        })
        .sum();
}

/// The instances of a tile that are blended: its nearest `cap` (0 = all).
pub fn tile_instances<'a>(
    slot_gaussian: &'a [AtomicU32],
    tile_starts: &[u32],
    tile: usize,
    cap: u32,
) -> &'a [AtomicU32] {
    let all = &slot_gaussian[tile_starts[tile] as usize..tile_starts[tile + 1] as usize];
    match cap {
        0 => all,
        cap => &all[..all.len().min(cap as usize)],
    }
}

/// Where a tile lies and which of its pixels exist.
#[derive(Clone, Copy)]
pub struct TileGeometry {
    /// First pixel.
    pub origin: [f32; 2],
    /// Pixels across and down that lie inside the image.
    pub size: [u32; 2],
}

impl TileGeometry {
    /// Of tile number `tile`, row by row.
    pub fn new(camera: &CameraF32, tile: usize) -> Self {
        let [x, y] = [
            tile as u32 % camera.tiles[0] * ROW as u32,
            tile as u32 / camera.tiles[0] * ROW as u32,
        ];
        Self {
            origin: [x as f32, y as f32],
            size: [
                (camera.size[0] - x).min(ROW as u32),
                (camera.size[1] - y).min(ROW as u32),
            ],
        }
    }

    /// The rows of the tile that a Gaussian's ellipse can reach, one bit each.
    #[inline(always)]
    pub fn reached_rows(&self, splat: &Splat2d) -> u32 {
        // A hair of margin for the rounding of the radius; the test per pixel is exact.
        let radius = splat.radius[1] * 1.000_01 + 1e-3;
        let centre = splat.mean[1] - self.origin[1] - 0.5;
        let first = (centre - radius).ceil().clamp(0.0, 16.0) as u32;
        let end = ((centre + radius).floor() + 1.0).clamp(0.0, 16.0) as u32;
        (1 << end) - (1 << first.min(end))
    }

    /// The floor of alpha for each pixel at the start: infinite outside the image.
    pub fn alpha_floor(&self) -> [Row; ROW] {
        std::array::from_fn(|y| {
            Row(std::array::from_fn(|x| {
                if x < self.size[0] as usize && y < self.size[1] as usize {
                    ALPHA_MIN
                } else {
                    f32::INFINITY
                }
            }))
        })
    }

    /// One bit per row that lies inside the image.
    pub fn live_rows(&self) -> u32 {
        (1u32 << self.size[1]) - 1
    }
}

/// One instance seen from the rows of a tile: what is the same for all pixels of a row.
pub struct TileRows {
    /// Pixel centres minus the Gaussian's, y.
    pub dy: Row,
    /// `b dy`.
    linear: Row,
    /// `c dy^2 + log2_opacity`.
    constant: Row,
}

impl TileRows {
    /// For the 16 rows of a tile.
    #[inline(always)]
    pub fn new<S: Simd>(s: S, origin_y: f32, splat: &Splat2d) -> Self {
        let mut rows = Self {
            dy: Row::ZERO,
            linear: Row::ZERO,
            constant: Row::ZERO,
        };
        for part in 0..parts::<S>() {
            let dy = centres(s, origin_y, part) - s.k(splat.mean[1]);
            dy.store(&mut rows.dy, part);
            (dy * s.k(splat.b)).store(&mut rows.linear, part);
            let constant = (dy * s.k(splat.c)).mul_add(dy, s.k(splat.log2_opacity));
            constant.store(&mut rows.constant, part);
        }
        rows
    }
}

/// One instance seen from one vector of a tile's columns: what does not change from row to row.
#[derive(Clone, Copy)]
pub struct Pixels<S: Simd> {
    /// Pixel centres minus the Gaussian's, x.
    pub dx: V<S>,
    a_dx: V<S>,
}

impl<S: Simd> Pixels<S> {
    /// For columns `part` of a tile.
    #[inline(always)]
    pub fn new(s: S, origin_x: f32, part: usize, splat: &Splat2d) -> Self {
        let dx = centres(s, origin_x, part) - s.k(splat.mean[0]);
        Self {
            dx,
            a_dx: dx * s.k(splat.a),
        }
    }

    /// Unclamped alphas of row `y` of the tile.
    #[inline(always)]
    pub fn alpha(&self, rows: &TileRows, y: usize) -> V<S> {
        let s = self.dx.0;
        let linear = s.k(rows.linear.0[y]);
        let constant = s.k(rows.constant.0[y]);
        // The exponent is at most log2(opacity) <= 0, up to rounding.
        (self.a_dx + linear)
            .mul_add(self.dx, constant)
            .exp2_below_126()
    }
}

/// What an instance does to a row of pixels.
pub struct Layer<S: Simd> {
    /// Alpha, zero where nothing is blended.
    pub alpha: V<S>,
    /// Alpha times the transmittance in front.
    pub weight: V<S>,
    /// Transmittance behind.
    pub behind: V<S>,
    /// Pixels that this instance finished.
    pub finished: M<S>,
}

/// Steps 3 and 4 for one row.
#[inline(always)]
pub fn layer<S: Simd>(s: S, alpha: V<S>, floor: V<S>, transmittance: V<S>) -> Layer<S> {
    let zero = V::splat(s, 0.0);
    let alpha = alpha.min(V::splat(s, ALPHA_MAX));
    let alpha = alpha.ge(floor).select(alpha, zero);
    let behind = alpha.neg_mul_add(transmittance, transmittance);
    let finished = behind.lt(V::splat(s, TRANSMITTANCE_MIN));
    let alpha = finished.select(zero, alpha);
    Layer {
        alpha,
        weight: alpha * transmittance,
        behind: finished.select(transmittance, behind),
        finished,
    }
}

/// Centres of the columns, or rows, `part` of a tile.
#[inline(always)]
fn centres<S: Simd>(s: S, origin: f32, part: usize) -> V<S> {
    const STEPS: Row = Row([
        0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5, 11.5, 12.5, 13.5, 14.5, 15.5,
    ]);
    s.k(origin) + V::load(s, &STEPS, part)
}

/// `live` without those rows of `changed` in which every pixel's floor is infinite.
#[inline(always)]
pub fn still_live<S: Simd>(s: S, mut live: u32, mut changed: u32, floor: &[Row; ROW]) -> u32 {
    let infinite = s.k(f32::INFINITY);
    while changed != 0 {
        let y = changed.trailing_zeros() as usize % ROW;
        changed &= changed - 1;
        let mut alive = false;
        for part in 0..parts::<S>() {
            alive |= V::load(s, &floor[y], part).lt(infinite).any();
        }
        if !alive {
            live &= !(1 << y);
        }
    }
    live
}

/// Instances fetched at a time.
pub const BATCH: usize = 32;

/// Copies the splats of some instances together. They lie anywhere in memory, and a core waits for
/// many cache misses at once as long as nothing depends on them: fetched one by one, between
/// pixels, they cost a quarter of the time of `blend`.
#[inline(always)]
pub fn gather<'a>(
    instances: &[AtomicU32],
    splats2d: &[Splat2d],
    batch: &'a mut [Splat2d; BATCH],
) -> &'a [Splat2d] {
    for (place, instance) in batch.iter_mut().zip(instances) {
        *place = splats2d[instance.load(Relaxed) as usize];
    }
    &batch[..instances.len()]
}

struct Tile<'a> {
    splats2d: &'a [Splat2d],
    instances: &'a [AtomicU32],
    geometry: TileGeometry,
    background: [f32; 3],
    rows: &'a mut [Row],
}

impl pulp::WithSimd for Tile<'_> {
    /// Rows of pixels visited, over all instances.
    type Output = u64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) -> u64 {
        let mut visits = 0;
        let mut rgb = [[Row::ZERO; ROW]; 3];
        let mut transmittance = [Row::splat(1.0); ROW];
        let mut floor = self.geometry.alpha_floor();
        let mut live = self.geometry.live_rows();
        let infinite = V::splat(s, f32::INFINITY);
        let mut batch = [Splat2d::default(); BATCH];
        'tile: for instances in self.instances.chunks(BATCH) {
            for splat in gather(instances, self.splats2d, &mut batch) {
                let reached = live & self.geometry.reached_rows(splat);
                visits += u64::from(reached.count_ones());
                let rows = TileRows::new(s, self.geometry.origin[1], splat);
                let colour = each!(3, |c| s.k(splat.rgb[c]));
                let mut finished = 0;
                for part in 0..parts::<S>() {
                    let pixels = Pixels::new(s, self.geometry.origin[0], part, splat);
                    let mut left = reached;
                    while left != 0 {
                        let y = left.trailing_zeros() as usize % ROW;
                        left &= left - 1;
                        let alpha = pixels.alpha(&rows, y);
                        let floors = V::load(s, &floor[y], part);
                        let in_front = V::load(s, &transmittance[y], part);
                        let layer = layer(s, alpha, floors, in_front);
                        for c in 0..3 {
                            let row = &mut rgb[c][y];
                            let sum = layer.weight.mul_add(colour[c], V::load(s, row, part));
                            sum.store(row, part);
                        }
                        layer.behind.store(&mut transmittance[y], part);
                        if layer.finished.any() {
                            let floors = layer.finished.select(infinite, floors);
                            floors.store(&mut floor[y], part);
                            finished |= 1 << y;
                        }
                    }
                }
                if finished != 0 {
                    live = still_live(s, live, finished, &floor);
                    if live == 0 {
                        break 'tile;
                    }
                }
            }
        }
        let (planes, last) = self.rows.split_at_mut(3 * ROW);
        for part in 0..parts::<S>() {
            for y in 0..ROW {
                let rest = V::load(s, &transmittance[y], part);
                rest.store(&mut last[y], part);
                for c in 0..PLANES - 1 {
                    let behind = rest * V::splat(s, self.background[c]);
                    (V::load(s, &rgb[c][y], part) + behind).store(&mut planes[c * ROW + y], part);
                }
            }
        }
        visits
    }
}
