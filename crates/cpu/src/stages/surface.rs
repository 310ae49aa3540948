//! Surface depth and normal of each pixel, after `blend`, in renders only. Formulas:
//! [`dapple_engine::surface`]; reference: `dapple_reference::surface`.
//!
//! 1. `Profile`: the extent of each Gaussian along the rays of its pixels, for blocks of 16 Gaussians.
//! 2. A tile is walked as in `blend`, with the same alphas. Each row of 16 pixels lists its instances.
//! 3. Per row, the interval of the depth is halved until it is a rounding error. Transmittances are squared:
//!    the product of `1 - G` and `(1 - alpha)^2 / (1 - G)` needs neither roots nor logarithms, and is at
//!    least the square of `TRANSMITTANCE_MIN`.
//! 4. Instances that reach no depth of the interval are removed from the search (`Search`).

use super::blend::Layer;
use super::visits::{BATCH, LiveRows, TileGeometry, Visit, Visits, tile_instances};
use crate::antialias;
use crate::blocks::Blocks;
use crate::cameras::{CameraV, Projector, for_model};
use crate::frame::{
    CameraF32, Frame, PROJECT_CHUNK, Profile, Splat2d, SurfaceFrame, TileSpans, grow,
};
use crate::projection::{self, Projection};
use crate::simd::{M, ROW, Row, Splat, V, V3, cross, dot, each, parts};
use dapple_engine::depth::MEDIAN_TRANSMITTANCE;
use dapple_engine::surface::{LEAST_DEVIATION, MOST_SLANT, REACH};
use pulp::Simd;
use rayon::prelude::*;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Most halvings of the interval of a depth.
const HALVINGS: usize = 27;

/// Halvings between two removals of instances.
const HALVINGS_EACH: usize = 3;

/// Interval at which halving ends, relative to its end: a rounding error.
const NARROW: f32 = 6e-8;

/// Square of [`MEDIAN_TRANSMITTANCE`].
const HALF2: f32 = MEDIAN_TRANSMITTANCE * MEDIAN_TRANSMITTANCE;

/// Planes of a tile: depth, and x, y and z of the normal.
pub const SURFACE_PLANES: usize = 4;

/// Numbers of a [`Profile`].
const FIELDS: usize = size_of::<Profile>() / 4;

/// Fills `surface` after the stages up to `sort`. Anti-aliased if `filter_3d` is given.
pub fn run(
    params: &Blocks,
    filter_3d: Option<&[Row]>,
    camera: &CameraF32,
    cap: u32,
    frame: &mut Frame,
) {
    let spans = &frame.spans_of;
    let found = &mut frame.surface.profiles;
    let filters = filter_3d.unwrap_or_default();
    for_model!(camera, filter_3d.is_some(), |C, ANTIALIAS| {
        profiles::<C, ANTIALIAS>(params, filters, camera, spans, found);
    });
    let tiles = camera.tile_count();
    grow(
        &mut frame.surface.rows,
        tiles * SURFACE_PLANES * ROW,
        Row::ZERO,
    );
    let SurfaceFrame { profiles, rows } = &mut frame.surface;
    let (splats2d, profiles) = (&frame.splats2d, &*profiles);
    let rows = rows[..tiles * SURFACE_PLANES * ROW].par_chunks_mut(SURFACE_PLANES * ROW);
    rows.enumerate()
        .for_each_init(Lists::default, |lists, (tile, rows)| {
            let instances = tile_instances(&frame.slot_gaussian, &frame.tile_starts, tile, cap);
            pulp::Arch::new().dispatch(Tile {
                splats2d,
                profiles,
                instances,
                geometry: TileGeometry::new(camera, tile),
                lists,
                rows,
            });
        });
}

/// Computes step 1 for the blocks that have a visible Gaussian.
fn profiles<C: Projector, const ANTIALIAS: bool>(
    params: &Blocks,
    filter_3d: &[Row],
    camera: &CameraF32,
    spans: &[TileSpans],
    profiles: &mut Vec<Profile>,
) {
    let padded = params.count() * ROW;
    grow(profiles, padded, Profile::default());
    let rows_per_chunk = PROJECT_CHUNK / ROW * params.components;
    let chunks = params.rows.par_chunks(rows_per_chunk);
    let chunks = chunks.zip(profiles[..padded].par_chunks_mut(PROJECT_CHUNK));
    let chunks = chunks.zip(spans[..padded].par_chunks(PROJECT_CHUNK));
    chunks
        .enumerate()
        .for_each(|(chunk, ((rows, profiles), spans))| {
            let first = chunk * (PROJECT_CHUNK / ROW);
            pulp::Arch::new().dispatch(Chunk::<C, ANTIALIAS> {
                model: PhantomData,
                rows,
                components: params.components,
                filter_3d: filter_3d.get(first..).unwrap_or_default(),
                camera,
                spans,
                profiles,
            });
        });
}

struct Chunk<'a, C: Projector, const ANTIALIAS: bool> {
    model: PhantomData<C>,
    rows: &'a [Row],
    components: usize,
    /// 3D filters of this chunk's blocks.
    filter_3d: &'a [Row],
    camera: &'a CameraF32,
    spans: &'a [TileSpans],
    profiles: &'a mut [Profile],
}

impl<C: Projector, const ANTIALIAS: bool> pulp::WithSimd for Chunk<'_, C, ANTIALIAS> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        let camera = CameraV::<S, C>::new(s, self.camera);
        let blocks = self.rows.chunks_exact(self.components);
        let outputs = self.profiles.chunks_exact_mut(ROW);
        let outputs = outputs.zip(self.spans.chunks_exact(ROW));
        for (i, (block, (profiles, spans))) in blocks.zip(outputs).enumerate() {
            if spans.iter().all(|span| span.tiles == 0) {
                continue;
            }
            let filter_3d = if ANTIALIAS {
                &self.filter_3d[i]
            } else {
                &Row::ZERO
            };
            let mut fields = [Row::ZERO; FIELDS];
            for part in 0..parts::<S>() {
                let p = projection::project::<S, C, ANTIALIAS>(s, block, part, &camera, filter_3d);
                let dilation = s.k(antialias::dilation(ANTIALIAS)) + camera.extra_dilation;
                let found = profile(s, &p, &camera, dilation);
                for k in 0..FIELDS {
                    found[k].store(&mut fields[k], part);
                }
            }
            for lane in 0..ROW {
                let numbers: [f32; FIELDS] = std::array::from_fn(|k| fields[k].0[lane]);
                profiles[lane] = bytemuck::cast(numbers);
            }
        }
    }
}

/// Computes the fields of [`Profile`], in order.
#[inline(always)]
fn profile<S: Simd, C: Projector>(
    s: S,
    p: &Projection<S>,
    camera: &CameraV<S, C>,
    dilation: V<S>,
) -> [V<S>; FIELDS] {
    let (zero, depth) = (s.k(0.0), C::depth(p.point));
    let forward = C::depth_row(camera, p.point);
    // Rows of the map from the unit ball to pixels and depth.
    let [u, v] = p.u;
    let along = each!(3, |k| {
        forward[0].mul_add(
            p.m[0][k],
            forward[1].mul_add(p.m[1][k], forward[2] * p.m[2][k]),
        )
    });
    let (ku, kv) = (dot(u, along), dot(v, along));
    let [a, b, c] = p.conic;
    let inverse_depth = s.k(1.0) / depth;
    let slants = [
        a.mul_add(ku, b * kv) * inverse_depth,
        b.mul_add(ku, c * kv) * inverse_depth,
    ];
    // Numbers beyond f32 are no slant.
    let slants = each!(2, |k| slants[k]
        .abs()
        .lt(s.k(f32::MAX))
        .select(slants[k], zero));
    let volume = dot(cross(u, v), along);
    let (beside_u, beside_v) = (cross(u, along), cross(v, along));
    let sides = dot(beside_u, beside_u) + dot(beside_v, beside_v);
    let dilated = dilation.mul_add(dot(along, along), sides) * dilation;
    let variance = volume.mul_add(volume, dilated) * p.inverse_determinant;
    let is_finite = variance.lt(s.k(f32::MAX));
    let deviation = is_finite.select(variance.max(zero), depth * depth).sqrt();
    let deviation = deviation.max(depth * s.k(LEAST_DEVIATION)).min(depth);
    let normal = normal(s, p, camera);
    [
        slants[0], slants[1], depth, deviation, normal[0], normal[1], normal[2],
    ]
}

/// Computes the normal of the plane of highest density, `-Sigma^-1 p`, in camera coordinates.
#[inline(always)]
fn normal<S: Simd, C: Projector>(s: S, p: &Projection<S>, camera: &CameraV<S, C>) -> V3<S> {
    let shortest = p.scales[0].min(p.scales[1]).min(p.scales[2]);
    let mut sum = [s.k(0.0); 3];
    for k in 0..3 {
        let world = each!(3, |i| p.rotation[i][k]);
        let axis = each!(3, |i| dot(camera.rotation[i], world));
        let share = shortest / p.scales[k];
        let weight = -(share * share * dot(axis, p.point));
        for i in 0..3 {
            sum[i] = axis[i].mul_add(weight, sum[i]);
        }
    }
    unit(s, sum)
}

/// Returns the unit vector, or zero for a zero vector.
#[inline(always)]
fn unit<S: Simd>(s: S, v: V3<S>) -> V3<S> {
    // From the largest component, so that no square underflows.
    let most = v[0].abs().max(v[1].abs()).max(v[2].abs());
    let scale = s.k(1.0) / most.max(s.k(f32::MIN_POSITIVE));
    let v = each!(3, |i| v[i] * scale);
    let inverse = s.k(1.0) / dot(v, v).max(s.k(f32::MIN_POSITIVE)).sqrt();
    each!(3, |i| v[i] * inverse)
}

/// Instance of a tile, at 16 pixels.
#[derive(Clone, Copy)]
struct Entry {
    /// Alpha; 0 in pixels that do not blend the instance.
    alpha: Row,
    /// Depth of the peak.
    peak: Row,
    /// One over the standard deviation.
    inverse_deviation: f32,
    normal: [f32; 3],
}

/// Instances of a tile.
#[derive(Default)]
struct Lists {
    /// Instances of each row.
    rows: [Vec<Entry>; ROW],
    /// Memory of a [`Search`].
    near: Vec<u32>,
}

struct Tile<'a> {
    splats2d: &'a [Splat2d],
    profiles: &'a [Profile],
    instances: &'a [AtomicU32],
    geometry: TileGeometry,
    lists: &'a mut Lists,
    rows: &'a mut [Row],
}

impl pulp::WithSimd for Tile<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        let mut transmittance = self.geometry.transmittance();
        self.lists.rows.iter_mut().for_each(Vec::clear);
        let mut visits = Visits::new();
        for instances in self.instances.chunks(BATCH) {
            let live = LiveRows::new(s, &transmittance);
            if live.is_empty() {
                break;
            }
            visits.fill(s, &self.geometry, instances, self.splats2d, &live);
            for i in 0..visits.len() {
                let visit = visits.get(i);
                let gaussian = instances[visit.instance].load(Relaxed) as usize;
                let (splat, profile) = (visits.splat(visit.instance), &self.profiles[gaussian]);
                let in_front = &mut transmittance[visit.y];
                let origin = self.geometry.origin[0];
                if let Some(entry) = entry(s, origin, splat, profile, &visit, in_front) {
                    self.lists.rows[visit.y].push(entry);
                }
            }
        }
        let Lists { rows, near } = self.lists;
        for y in 0..ROW {
            for part in 0..parts::<S>() {
                // Finished pixels have a negative transmittance; pixels outside the image are -1.
                let behind = V::load(s, &transmittance[y], part).abs();
                let has_surface = s.k(MEDIAN_TRANSMITTANCE).ge(behind);
                let search = Search::new(s, &rows[y], near, part);
                let found = search.surface(has_surface);
                for k in 0..SURFACE_PLANES {
                    found[k].store(&mut self.rows[k * ROW + y], part);
                }
            }
        }
    }
}

/// Computes step 2 for a visit, and reduces the transmittance of its pixels. `None` if no pixel blends the
/// instance.
#[inline(always)]
fn entry<S: Simd>(
    s: S,
    origin_x: f32,
    splat: &Splat2d,
    profile: &Profile,
    visit: &Visit,
    transmittance: &mut Row,
) -> Option<Entry> {
    let mut entry = Entry {
        alpha: Row::ZERO,
        peak: Row::ZERO,
        inverse_deviation: 1.0 / profile.deviation,
        normal: profile.normal,
    };
    let mut any = false;
    for part in 0..parts::<S>() {
        let in_front = V::load(s, transmittance, part);
        let layer = Layer::new(s, origin_x, part, splat, visit, in_front);
        let is_blended = s.k(0.0).lt(layer.weight);
        any |= is_blended.any();
        is_blended
            .select(layer.alpha, s.k(0.0))
            .store(&mut entry.alpha, part);
        let most = s.k(MOST_SLANT);
        let slant = layer
            .dx
            .mul_add(s.k(profile.slant[0]), s.k(profile.slant[1] * visit.dy));
        let slant = slant.min(most).max(-most);
        (s.k(profile.depth) / (s.k(1.0) - slant)).store(&mut entry.peak, part);
        layer.behind.store(transmittance, part);
    }
    any.then_some(entry)
}

/// G of an entry, and the distance from its peak in standard deviations.
#[inline(always)]
fn density<S: Simd>(s: S, entry: &Entry, part: usize, t: V<S>) -> (V<S>, V<S>) {
    let x = (t - V::load(s, &entry.peak, part)) * s.k(entry.inverse_deviation);
    let exponent = x * x * s.k(-0.5 * std::f32::consts::LOG2_E);
    (V::load(s, &entry.alpha, part) * exponent.exp2(), x)
}

/// Search for the surface of a part of a row.
struct Search<'a, S: Simd> {
    s: S,
    entries: &'a [Entry],
    part: usize,
    /// Numbers of the entries that reach a depth of the interval in a pixel.
    near: &'a mut Vec<u32>,
    /// Squared transmittance of the entries in front of the interval.
    passed: V<S>,
}

impl<'a, S: Simd> Search<'a, S> {
    #[inline(always)]
    fn new(s: S, entries: &'a [Entry], near: &'a mut Vec<u32>, part: usize) -> Self {
        Self {
            s,
            entries,
            part,
            near,
            passed: s.k(1.0),
        }
    }

    /// Returns the square of the transmittance in front of `t`, a depth of the interval. It never rises with `t`.
    #[inline(always)]
    fn transmittance2(&self, t: V<S>) -> V<S> {
        let (s, part) = (self.s, self.part);
        let one = s.k(1.0);
        // One division for all entries. Both products are at least the square of the least transmittance.
        let (mut above, mut below) = (self.passed, one);
        for &i in self.near.iter() {
            let entry = &self.entries[i as usize];
            let (density, x) = density(s, entry, part, t);
            let rest = one - density;
            let behind = one - V::load(s, &entry.alpha, part);
            let is_beyond = s.k(0.0).lt(x);
            above = above * is_beyond.select(behind * behind, rest);
            below = is_beyond.select(below * rest, below);
        }
        above / below
    }

    /// Removes entries that reach no depth of the interval in a pixel of `pixels`: see [`REACH`].
    #[inline(always)]
    fn narrow(&mut self, [near, far]: [V<S>; 2], pixels: M<S>) {
        let (s, part, entries) = (self.s, self.part, self.entries);
        let (zero, one) = (s.k(0.0), s.k(1.0));
        let mut kept = 0;
        for k in 0..self.near.len() {
            let i = self.near[k];
            let entry = &entries[i as usize];
            let alpha = V::load(s, &entry.alpha, part);
            let peak = V::load(s, &entry.peak, part);
            let reach = s.k(REACH / entry.inverse_deviation);
            let is_blended = zero.lt(alpha).and(pixels);
            let begins = (peak - reach).lt(far);
            let ends = near.lt(peak + reach);
            if is_blended.and(begins).and(ends).any() {
                self.near[kept] = i;
                kept += 1;
                continue;
            }
            let behind = one - alpha;
            self.passed = ends.select(self.passed, self.passed * (behind * behind));
        }
        self.near.truncate(kept);
    }

    /// Returns the interval of the depth at which the squared transmittance falls to that of the surface, and the pixels
    /// that have a surface in it.
    #[inline(always)]
    fn interval(&mut self, has_surface: M<S>) -> ([V<S>; 2], M<S>) {
        let (s, part) = (self.s, self.part);
        let (zero, one, half2) = (s.k(0.0), s.k(1.0), s.k(HALF2));
        // The first Gaussians that are opaque enough end it.
        let (mut near, mut far) = (s.k(f32::MAX), zero);
        let mut product = one;
        for entry in self.entries {
            let alpha = V::load(s, &entry.alpha, part);
            let is_blended = zero.lt(alpha);
            let peak = V::load(s, &entry.peak, part);
            let reach = s.k(REACH / entry.inverse_deviation);
            near = is_blended.select((peak - reach).max(zero), near).min(near);
            let counts = is_blended.and(half2.lt(product));
            far = counts.select(peak + reach, zero).max(far);
            product = product * (one - alpha) * (one - alpha);
        }
        near = near.min(far);
        self.near.clear();
        self.near.extend(0..self.entries.len() as u32);
        self.narrow([near, far], has_surface);
        let is_open = half2.lt(self.transmittance2(near));
        ([near, far], has_surface.and(is_open))
    }

    /// Computes step 3: depth, and x, y and z of the normal; zeros in pixels without a surface.
    #[inline(always)]
    fn surface(mut self, has_surface: M<S>) -> [V<S>; SURFACE_PLANES] {
        let s = self.s;
        let zero = s.k(0.0);
        if !has_surface.any() {
            return [zero; SURFACE_PLANES];
        }
        let ([mut near, mut far], has_surface) = self.interval(has_surface);
        for halving in 1..=HALVINGS {
            let is_wide = (far * s.k(NARROW)).lt(far - near);
            if !is_wide.and(has_surface).any() {
                break;
            }
            let middle = (near + far) * s.k(0.5);
            let is_in_front = s.k(HALF2).lt(self.transmittance2(middle));
            near = is_in_front.select(middle, near);
            far = is_in_front.select(far, middle);
            if halving % HALVINGS_EACH == 0 {
                self.narrow([near, far], has_surface);
            }
        }
        let depth = (near + far) * s.k(0.5);
        let mut normal = [zero; 3];
        for &i in self.near.iter() {
            let entry = &self.entries[i as usize];
            let (density, x) = density(s, entry, self.part, depth);
            let weight = x.abs() * density / (s.k(1.0) - density) * s.k(entry.inverse_deviation);
            for i in 0..3 {
                normal[i] = weight.mul_add(s.k(entry.normal[i]), normal[i]);
            }
        }
        let normal = unit(s, normal);
        let masked = |v: V<S>| has_surface.select(v, zero);
        [
            masked(depth),
            masked(normal[0]),
            masked(normal[1]),
            masked(normal[2]),
        ]
    }
}
