//! `blend_backward`: writes each instance's gradient, summed over its tile's pixels, into its own
//! gradient slot.
//!
//! With w = alpha T the weight of an instance, g = dL/d(pixel) and g.c the product of g with the
//! instance's colour, dL/dalpha = T (g.c) - R / (1 - alpha). R is the product of g with the colour from
//! behind: the sum of w (g.c) over the instances behind, plus the background. The steps are:
//! 1. Each pixel starts with R = g . (rendered colour) + dL/dT_final T_final: the whole pixel.
//! 2. Walk front to back exactly as `blend` does. T is bit-identical, without divisions, and R shrinks by
//!    w (g.c) at each instance. One scalar per pixel replaces four.
//! 3. Per instance, sum over its pixels s = alpha dL/dalpha and its first and second moments about the
//!    Gaussian's centre, and w g for the colour. Moments separate, because a column's dx is equal in all
//!    rows. Rows add up s, s dy, s dy^2, and the columns are weighted once at the end.
//! 4. For absolute density statistics (AbsGS), sum |s d(exponent)/d(x, y)| too, which need each pixel's
//!    dx, into separate slots. This variant is compiled separately, so that other steps have no extra
//!    cost.
//! 5. If the loss depends on depths, depths are a fourth channel in steps 1 and 2, and the sums of w
//!    dL/d(depth) go to separate slots. This variant is compiled separately too.
//!
//! A slot has one writer, and `update` adds a Gaussian's slots in order. There are no atomics, and
//! results depend neither on the number of threads nor on scheduling.

use super::blend::{Layer, column_centres};
use super::visits::{BATCH, LiveRows, TileGeometry, Visits, tile_instances};
use crate::frame::{
    AbsoluteSlot, CameraF32, Frame, PLANES, Slot, Splat2d, TILE_ROWS, grow, split_by_lengths,
};
use crate::simd::{ROW, Row, Splat, V, each, parts};
use dapple_engine::StepSettings;
use dapple_engine::constants::ALPHA_MAX;
use pulp::Simd;
use rayon::prelude::*;
use std::sync::atomic::AtomicU32;

/// Optional outputs in addition to the image's gradient.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mode {
    /// True for step 4.
    pub absolute: bool,
    /// True for step 5, from `depth.blended` and `depth.gradient`.
    pub depths: bool,
    /// True if the slots of `normals` are filled too; `blend_backward` itself does not read it.
    pub normals: bool,
}

impl Mode {
    /// Returns the outputs of a step, without those of features.
    pub fn of_step(settings: &StepSettings) -> Self {
        Self {
            absolute: settings.accumulate_density && settings.absolute_density,
            ..Self::default()
        }
    }
}

/// Fills `slots` from `image` and `image_gradient`.
///
/// A slot holds the sums of s, s dx, s dy, s dx^2, s dx dy, s dy^2, and of w times dL/d(red, green,
/// blue).
pub fn run(camera: &CameraF32, cap: u32, mode: Mode, frame: &mut Frame) {
    let Mode {
        absolute, depths, ..
    } = mode;
    let tiles = camera.tile_count();
    let Frame {
        splats2d,
        slot_gaussian,
        tile_starts,
        image,
        image_gradient,
        slots,
        absolute_slots,
        counts,
        depth,
        ..
    } = frame;
    let instances = counts.instances as usize;
    grow(slots, instances, [0.0; 9]);
    if absolute {
        grow(absolute_slots, instances, [0.0; 2]);
    }
    if depths {
        grow(&mut depth.slots, instances, 0.0);
    }
    let bounds = tile_starts[..=tiles].windows(2);
    let lengths = bounds.map(|b| (b[1] - b[0]) as usize);
    let none = lengths.clone().map(|_| 0);
    let absolute_slots = match absolute {
        true => split_by_lengths(absolute_slots, lengths.clone()),
        false => split_by_lengths(&mut [], none.clone()),
    };
    let depth_slots = match depths {
        true => split_by_lengths(&mut depth.slots, lengths.clone()),
        false => split_by_lengths(&mut [], none),
    };
    let (blended, depth_gradient) = (&depth.blended, &depth.gradient);
    split_by_lengths(slots, lengths)
        .into_par_iter()
        .zip(absolute_slots)
        .zip(depth_slots)
        .zip(image.as_chunks().0[..tiles].par_iter())
        .zip(image_gradient.as_chunks().0[..tiles].par_iter())
        .enumerate()
        .for_each(
            |(tile, ((((slots, absolute_slots), depth_slots), image), gradient))| {
                let work = Tile {
                    splats2d,
                    instances: tile_instances(slot_gaussian, tile_starts, tile, cap),
                    geometry: TileGeometry::new(camera, tile),
                    image,
                    gradient,
                    slots,
                    absolute_slots,
                    depth: tile_rows(blended, tile, depths),
                    depth_gradient: tile_rows(depth_gradient, tile, depths),
                    depth_slots,
                };
                let arch = pulp::Arch::new();
                match (absolute, depths) {
                    (false, false) => arch.dispatch(With::<false, false>(work)),
                    (true, false) => arch.dispatch(With::<true, false>(work)),
                    (false, true) => arch.dispatch(With::<false, true>(work)),
                    (true, true) => arch.dispatch(With::<true, true>(work)),
                }
            },
        );
}

/// Returns a tile's rows of an image of one plane; none unless `wanted`.
fn tile_rows(plane: &[Row], tile: usize, wanted: bool) -> &[Row] {
    match wanted {
        true => &plane[tile * ROW..(tile + 1) * ROW],
        false => &[],
    }
}

struct Tile<'a> {
    splats2d: &'a [Splat2d],
    instances: &'a [AtomicU32],
    geometry: TileGeometry,
    image: &'a [Row; TILE_ROWS],
    gradient: &'a [Row; TILE_ROWS],
    slots: &'a mut [Slot],
    /// Empty without step 4.
    absolute_slots: &'a mut [AbsoluteSlot],
    /// Empty without step 5; so are `depth_gradient` and `depth_slots`.
    depth: &'a [Row],
    depth_gradient: &'a [Row],
    depth_slots: &'a mut [f32],
}

/// Task for a tile, with or without steps 4 and 5.
struct With<'a, const ABSOLUTE: bool, const DEPTHS: bool>(Tile<'a>);

/// Sums of a slot, still column by column. Sums without dx are summed over the rows of a visit; the
/// others follow from them.
type Columns = [Row; 9];

/// Sums over rows among [`Columns`]: s, s dy, s dy^2, and w times dL/d(red, green, blue).
const OVER_ROWS: [usize; 6] = [0, 2, 5, 6, 7, 8];

/// Sums of steps 4 and 5, lane by lane.
struct Extra {
    absolute: [[Row; 2]; BATCH],
    depth: [Row; BATCH],
}

impl<const ABSOLUTE: bool, const DEPTHS: bool> pulp::WithSimd for With<'_, ABSOLUTE, DEPTHS> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        let tile = self.0;
        let mut rays = Rays {
            transmittance: tile.geometry.transmittance(),
            behind: everything(s, tile.image, tile.gradient),
        };
        if DEPTHS {
            add_depths(s, tile.depth, tile.depth_gradient, &mut rays.behind);
        }
        let mut visits = Visits::new();
        let mut columns = [[Row::ZERO; 9]; BATCH];
        let mut extra = Extra {
            absolute: [[Row::ZERO; 2]; BATCH],
            depth: [Row::ZERO; BATCH],
        };
        let mut done = 0;
        for instances in tile.instances.chunks(BATCH) {
            let live = LiveRows::new(s, &rays.transmittance);
            if live.is_empty() {
                break;
            }
            visits.fill(s, &tile.geometry, instances, tile.splats2d, &live);
            let columns = &mut columns[..instances.len()];
            for columns in &mut *columns {
                for i in OVER_ROWS {
                    columns[i] = Row::ZERO;
                }
            }
            if ABSOLUTE {
                extra.absolute.fill([Row::ZERO; 2]);
            }
            if DEPTHS {
                extra.depth.fill(Row::ZERO);
            }
            tile.walk::<S, ABSOLUTE, DEPTHS>(s, &visits, &mut rays, columns, &mut extra);
            for (i, columns) in columns.iter_mut().enumerate() {
                weight_columns(s, tile.geometry.origin[0], visits.splat(i), columns);
            }
            let slots = &mut tile.slots[done..done + instances.len()];
            add_columns(columns, slots);
            if ABSOLUTE {
                let slots = &mut tile.absolute_slots[done..done + instances.len()];
                for (slot, sums) in slots.iter_mut().zip(&extra.absolute) {
                    // Lane by lane, whatever the width of vectors.
                    *slot = [sums[0].0.iter().sum(), sums[1].0.iter().sum()];
                }
            }
            if DEPTHS {
                let slots = &mut tile.depth_slots[done..done + instances.len()];
                for (slot, sums) in slots.iter_mut().zip(&extra.depth) {
                    *slot = sums.0.iter().sum();
                }
            }
            done += instances.len();
        }
        // Instances behind the last blended one, and beyond the per-tile limit, have no gradient.
        tile.slots[done..].fill([0.0; 9]);
        if ABSOLUTE {
            tile.absolute_slots[done..].fill([0.0; 2]);
        }
        if DEPTHS {
            tile.depth_slots[done..].fill(0.0);
        }
    }
}

/// State of the tile's rays between two instances.
struct Rays {
    transmittance: [Row; ROW],
    /// R: the colour from behind, times the gradient.
    behind: [Row; ROW],
}

impl Tile<'_> {
    /// Computes step 2 and the sums over rows of step 3, for the visits of a batch.
    #[inline(always)]
    fn walk<S: Simd, const ABSOLUTE: bool, const DEPTHS: bool>(
        &self,
        s: S,
        visits: &Visits,
        rays: &mut Rays,
        columns: &mut [Columns],
        extra: &mut Extra,
    ) {
        let (zero, one) = (s.k(0.0), s.k(1.0));
        let gradient = self.gradient;
        for i in 0..visits.len() {
            let visit = visits.get(i);
            let splat = visits.splat(visit.instance);
            let sums = &mut columns[visit.instance];
            let y = visit.y;
            for part in 0..parts::<S>() {
                let in_front = V::load(s, &rays.transmittance[y], part);
                let layer = Layer::new(s, self.geometry.origin[0], part, splat, &visit, in_front);
                let g = each!(3, |c| V::load(s, &gradient[c * ROW + y], part));
                let blue = g[2] * s.k(splat.rgb[2]);
                let seen = g[0].mul_add(s.k(splat.rgb[0]), g[1].mul_add(s.k(splat.rgb[1]), blue));
                let seen = if DEPTHS {
                    let by_depth = V::load(s, &self.depth_gradient[y], part);
                    let row = &mut extra.depth[visit.instance];
                    let sum = layer.weight.mul_add(by_depth, V::load(s, row, part));
                    sum.store(row, part);
                    by_depth.mul_add(s.k(splat.depth), seen)
                } else {
                    seen
                };
                let behind = V::load(s, &rays.behind[y], part);
                let behind = layer.weight.neg_mul_add(seen, behind);
                let inverse = (one - layer.alpha).reciprocal();
                let d_alpha = behind.neg_mul_add(inverse, in_front * seen);
                // A clamped alpha has no derivative.
                let moves = layer.open.and(layer.exponent.lt(s.k(ALPHA_MAX.log2())));
                let slope = moves.select(d_alpha * layer.alpha, zero);
                let terms = [
                    slope + V::load(s, &sums[0], part),
                    slope.mul_add(s.k(visit.dy), V::load(s, &sums[2], part)),
                    slope.mul_add(s.k(visit.dy2), V::load(s, &sums[5], part)),
                    layer.weight.mul_add(g[0], V::load(s, &sums[6], part)),
                    layer.weight.mul_add(g[1], V::load(s, &sums[7], part)),
                    layer.weight.mul_add(g[2], V::load(s, &sums[8], part)),
                ];
                for k in 0..6 {
                    terms[k].store(&mut sums[OVER_ROWS[k]], part);
                }
                if ABSOLUTE {
                    let b = splat.b;
                    let along_x = layer.dx.mul_add(s.k(2.0 * splat.a), s.k(b * visit.dy));
                    let along_y = layer.dx.mul_add(s.k(b), s.k(2.0 * splat.c * visit.dy));
                    let sums = &mut extra.absolute[visit.instance];
                    for (row, along) in sums.iter_mut().zip([along_x, along_y]) {
                        (V::load(s, row, part) + (slope * along).abs()).store(row, part);
                    }
                }
                behind.store(&mut rays.behind[y], part);
                layer.behind.store(&mut rays.transmittance[y], part);
            }
        }
    }
}

/// Computes the columns of an instance that contain dx.
#[inline(always)]
fn weight_columns<S: Simd>(s: S, origin_x: f32, splat: &Splat2d, columns: &mut Columns) {
    for part in 0..parts::<S>() {
        let dx = column_centres(s, origin_x, part) - s.k(splat.mean[0]);
        let s_dx = V::load(s, &columns[0], part) * dx;
        s_dx.store(&mut columns[1], part);
        (s_dx * dx).store(&mut columns[3], part);
        (V::load(s, &columns[2], part) * dx).store(&mut columns[4], part);
    }
}

/// Adds up the columns of a batch, four neighbours at a time, twice. Sums of neighbours along an array
/// compile to vectors across sums; a sum over the lanes of one register takes twice as many steps.
#[inline(always)]
fn add_columns(columns: &[Columns], slots: &mut [Slot]) {
    let mut quarters = [[0.0; 4]; 9 * BATCH];
    let rows = bytemuck::cast_slice(columns.as_flattened());
    add_fours(rows, quarters.as_flattened_mut());
    add_fours(&quarters, slots.as_flattened_mut());
}

#[inline(always)]
fn add_fours(fours: &[[f32; 4]], sums: &mut [f32]) {
    for (sum, x) in sums.iter_mut().zip(fours) {
        *sum = (x[0] + x[1]) + (x[2] + x[3]);
    }
}

/// Computes the depth's part of step 1.
#[inline(always)]
fn add_depths<S: Simd>(s: S, depth: &[Row], gradient: &[Row], behind: &mut [Row; ROW]) {
    for part in 0..parts::<S>() {
        for y in 0..ROW {
            let depth = V::load(s, &depth[y], part);
            let gradient = V::load(s, &gradient[y], part);
            let sum = depth.mul_add(gradient, V::load(s, &behind[y], part));
            sum.store(&mut behind[y], part);
        }
    }
}

/// Computes step 1.
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
