//! `project`: computes ellipses, colours and touched tiles from Gaussians.
//!
//! Each task takes a fixed chunk of Gaussians. For each block of 16:
//! 1. Project (see the module `projection`) and evaluate the colour from SH; a step may drop some
//!    Gaussians ([`dapple_engine::Dropout`]).
//! 2. Compute the ellipse where alpha falls to 1/255: |d|^2 in the conic's metric = 2 ln(255 opacity).
//!    Its half width is sqrt(that * variance), tighter than three sigma for all but opaque Gaussians.
//! 3. For each tile row that the ellipse crosses, compute the exact range of tile columns. The part of
//!    the ellipse in the row's band of pixel centres is convex, so its projection on x is an interval.
//!    In a render of chosen tiles, a Gaussian that touches none of them is invisible.

use crate::blocks::Blocks;
use crate::blocks::component;
use crate::cameras::{CameraV, Projector, for_model};
use crate::context::KernelSlots;
use crate::frame::{CameraF32, Frame, PROJECT_CHUNK, Span, Splat2d, TileSpans, grow};
use crate::projection;
use crate::sh;
use crate::simd::{M, ROW, Row, Splat, V, V3, dot, each, parts};
use dapple_engine::camera_model::copies;
use dapple_engine::constants::{ALPHA_MIN, TILE_SIZE};
use dapple_engine::{Dropout, Part, TileMask};
use pulp::Simd;
use rayon::prelude::*;
use std::marker::PhantomData;

/// Fills `splats2d`, `spans_of` and `spans`. Anti-aliased if `filter_3d`, a row for each block, is
/// given.
pub fn run(
    params: &Blocks,
    filter_3d: Option<&[Row]>,
    camera: &CameraF32,
    sh_degree: u8,
    slots: &KernelSlots,
    frame: &mut Frame,
) {
    let filters = filter_3d.unwrap_or_default();
    for_model!(camera, filter_3d.is_some(), |C, ANTIALIAS| {
        run_with::<C, ANTIALIAS>(params, filters, camera, sh_degree, slots, frame);
    });
}

/// Implements [`run`] for a camera model, with anti-aliasing (`ANTIALIAS`) or without.
fn run_with<C: Projector, const ANTIALIAS: bool>(
    params: &Blocks,
    filter_3d: &[Row],
    camera: &CameraF32,
    sh_degree: u8,
    slots: &KernelSlots,
    frame: &mut Frame,
) {
    let padded = params.count() * ROW;
    grow(&mut frame.splats2d, padded, Splat2d::default());
    grow(&mut frame.spans_of, padded, TileSpans::default());
    let chunks = padded.div_ceil(PROJECT_CHUNK);
    frame.spans.resize_with(chunks, Vec::new);
    let rows_per_chunk = PROJECT_CHUNK / ROW * params.components;
    params
        .rows
        .par_chunks(rows_per_chunk)
        .zip(frame.splats2d[..padded].par_chunks_mut(PROJECT_CHUNK))
        .zip(frame.spans_of[..padded].par_chunks_mut(PROJECT_CHUNK))
        .zip(&mut frame.spans)
        .enumerate()
        .for_each(|(chunk, (((rows, splats2d), spans_of), spans))| {
            spans.clear();
            let first = chunk * (PROJECT_CHUNK / ROW);
            pulp::Arch::new().dispatch(Chunk::<C, ANTIALIAS> {
                model: PhantomData,
                rows,
                filter_3d: filter_3d.get(first..).unwrap_or_default(),
                components: params.components,
                camera,
                sh_degree,
                dropout: slots.opacity,
                tiles: slots.tiles.as_ref(),
                part: slots.part,
                first: chunk * PROJECT_CHUNK,
                splats2d,
                spans_of,
                spans,
            });
        });
}

struct Chunk<'a, C: Projector, const ANTIALIAS: bool> {
    model: PhantomData<C>,
    rows: &'a [Row],
    /// 3D filters of this chunk's blocks.
    filter_3d: &'a [Row],
    components: usize,
    camera: &'a CameraF32,
    sh_degree: u8,
    dropout: Option<Dropout>,
    /// Tiles of the render; `None` = all.
    tiles: Option<&'a TileMask>,
    /// Indices of the Gaussians in the model.
    part: Part,
    /// First Gaussian of this chunk.
    first: usize,
    splats2d: &'a mut [Splat2d],
    spans_of: &'a mut [TileSpans],
    spans: &'a mut Vec<Span>,
}

/// Camera and settings of all Gaussians.
struct Seen<S: Simd, C: Projector> {
    camera: CameraV<S, C>,
    sh_degree: u8,
    /// Factor and limit of the opacity: [`Dropout::shown`].
    shown: Option<(f32, f32)>,
}

/// Results of 16 Gaussians before they are stored one by one.
struct Lanes {
    /// Fields of [`Splat2d`], in order.
    splat: [Row; 12],
    /// Conic xx, xy, yy, and its determinant.
    conic: [Row; 4],
    /// 2 ln(255 opacity); negative or NaN = invisible.
    level: Row,
}

impl<C: Projector, const ANTIALIAS: bool> pulp::WithSimd for Chunk<'_, C, ANTIALIAS> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        let seen = Seen {
            camera: CameraV::<S, C>::new(s, self.camera),
            sh_degree: self.sh_degree,
            shown: self.dropout.map(|dropout| dropout.shown()),
        };
        let mut lanes = Lanes {
            splat: [Row::ZERO; 12],
            conic: [Row::ZERO; 4],
            level: Row::ZERO,
        };
        let blocks = self.rows.chunks_exact(self.components);
        let outputs = self
            .splats2d
            .chunks_exact_mut(ROW)
            .zip(self.spans_of.chunks_exact_mut(ROW));
        for (i, (block, (splats2d, spans_of))) in blocks.zip(outputs).enumerate() {
            let filter_3d = if ANTIALIAS {
                &self.filter_3d[i]
            } else {
                &Row::ZERO
            };
            for part in 0..parts::<S>() {
                project_part::<S, C, ANTIALIAS>(s, block, part, &seen, filter_3d, &mut lanes);
            }
            if let Some(dropout) = &self.dropout {
                for lane in 0..ROW {
                    let index = self.first + i * ROW + lane;
                    if dropout.drops_gaussian(self.part.index(index) as u32) {
                        lanes.level.0[lane] = -1.0;
                    }
                }
            }
            for lane in 0..ROW {
                let fields: [f32; 12] = std::array::from_fn(|f| lanes.splat[f].0[lane]);
                let splat: Splat2d = bytemuck::cast(fields);
                splats2d[lane] = splat;
                let conic = lanes.conic.map(|row| row.0[lane]);
                let level = lanes.level.0[lane];
                let (camera, tiles) = (self.camera, self.tiles);
                spans_of[lane] = touched_tiles(&splat, (conic, level), camera, tiles, self.spans);
            }
        }
    }
}

/// Returns the direction from the camera's centre to the Gaussians, and its inverse length.
#[inline(always)]
pub fn view_direction<S: Simd>(s: S, mean: V3<S>, centre: V3<S>) -> (V3<S>, V<S>) {
    let offset = each!(3, |i| mean[i] - centre[i]);
    let length2 = dot(offset, offset).max(V::splat(s, f32::MIN_POSITIVE));
    let inverse = V::splat(s, 1.0) / length2.sqrt();
    (each!(3, |i| offset[i] * inverse), inverse)
}

#[inline(always)]
fn project_part<S: Simd, C: Projector, const ANTIALIAS: bool>(
    s: S,
    block: &[Row],
    part: usize,
    seen: &Seen<S, C>,
    filter_3d: &Row,
    lanes: &mut Lanes,
) {
    let camera = &seen.camera;
    let p = projection::project::<S, C, ANTIALIAS>(s, block, part, camera, filter_3d);
    let (direction, _) = view_direction(s, p.mean, camera.centre);
    let (rgb, finite) = colour(s, block, part, seen.sh_degree, direction);

    let opacity = seen.shown.map_or(p.opacity, |(gain, most)| {
        (p.opacity * s.k(gain)).min(s.k(most))
    });
    let log2_opacity = opacity.max(s.k(f32::MIN_POSITIVE)).log2();
    let level = (log2_opacity + s.k(255f32.log2())) * s.k(2.0 * std::f32::consts::LN_2);
    let level = p.valid.and(finite).select(level, s.k(-1.0));
    let radius = each!(2, |a| (p.variance[a] * level.max(s.k(0.0))).sqrt());
    // alpha = 2^(log2_opacity + quadratic form): fold log2(e) and the -1/2 into the conic.
    let half = s.k(-0.5 * std::f32::consts::LOG2_E);
    let fields = [
        p.shape.mean2d[0],
        p.shape.mean2d[1],
        p.conic[0] * half,
        p.conic[1] * (half + half),
        p.conic[2] * half,
        log2_opacity,
        rgb[0],
        rgb[1],
        rgb[2],
        radius[0],
        radius[1],
        C::depth(p.point),
    ];
    for i in 0..fields.len() {
        fields[i].store(&mut lanes.splat[i], part);
    }
    for i in 0..3 {
        p.conic[i].store(&mut lanes.conic[i], part);
    }
    p.inverse_determinant.store(&mut lanes.conic[3], part);
    level.store(&mut lanes.level, part);
}

/// Returns the colours from `direction`, clamped at zero, and the lanes with finite ones.
#[inline(always)]
fn colour<S: Simd>(
    s: S,
    block: &[Row],
    part: usize,
    sh_degree: u8,
    direction: V3<S>,
) -> (V3<S>, M<S>) {
    let basis = sh::basis(s, sh_degree, direction);
    let mut rgb = [V::splat(s, 0.5); 3];
    for k in 0..dapple_scene::sh_coefficient_count(sh_degree) {
        for c in 0..3 {
            let coefficient = V::load(s, &block[component::SH + 3 * k + c], part);
            rgb[c] = basis[k].mul_add(coefficient, rgb[c]);
        }
    }
    let zero = V::splat(s, 0.0);
    let poison = (rgb[0] + rgb[1] + rgb[2]) * zero;
    (each!(3, |c| rgb[c].max(zero)), poison.ge(zero))
}

/// Lists the tiles whose pixel centres the ellipse `d^T conic d <= level` reaches. On a ring a row of tiles has two
/// spans, one for each copy of the ellipse: see [`dapple_engine::camera_model::copies`]. Of `tiles`, only chosen ones are
/// counted, and spans may have others.
#[inline(always)]
fn touched_tiles(
    splat: &Splat2d,
    (conic, level): ([f32; 4], f32),
    camera: &CameraF32,
    tiles: Option<&TileMask>,
    spans: &mut Vec<Span>,
) -> TileSpans {
    // Alpha is compared with 1/255 per pixel anyway. The margin only prevents that rounding here drops
    // a pixel there.
    let level = level * 1.000_01 + 1e-5;
    let [mx, my] = splat.mean;
    let [rx, ry] = splat.radius;
    let [width, height] = camera.size.map(|v| v as f32);
    let is_ring = camera.model.is_ring();
    let visible = level > 0.0
        && splat.log2_opacity >= ALPHA_MIN.log2()
        && (is_ring || mx + rx >= 0.5 && mx - rx <= width - 0.5)
        && my + ry >= 0.5
        && my - ry <= height - 0.5;
    if !visible {
        return TileSpans::default();
    }
    let first_row = first_tile(my - ry);
    let last_row = last_tile(my + ry, camera.tiles[1]);
    let mut list = TileSpans {
        start: spans.len() as u32,
        row: first_row as u16,
        rows: 0,
        tiles: 0,
    };
    let ellipse = Ellipse {
        mean: splat.mean,
        radius: splat.radius,
        conic,
        level,
        size: [width, height],
    };
    let mut push = |row: u32, span: Option<[u32; 2]>| {
        spans.push(match span {
            Some([first, last]) => {
                list.tiles += match tiles {
                    None => last - first + 1,
                    Some(tiles) => {
                        let row = row * camera.tiles[0];
                        tiles.count(row + first, row + last)
                    }
                };
                Span {
                    first: first as u16,
                    last: last as u16,
                }
            }
            None => Span { first: 1, last: 0 },
        });
        list.rows += 1;
    };
    if is_ring {
        let ([left, right], count) = copies(mx, width, camera.tiles[0]);
        for row in first_row..=last_row {
            push(row, ellipse.tiles(left, row, [0, count]));
            push(row, ellipse.tiles(right, row, [count, camera.tiles[0]]));
        }
    } else {
        for row in first_row..=last_row {
            push(row, ellipse.tiles(mx, row, [0, camera.tiles[0]]));
        }
    }
    if list.tiles == 0 {
        spans.truncate(list.start as usize);
        return TileSpans::default();
    }
    list
}

/// Returns the first tile whose last pixel centre is not before `low`: a tile reaches from its first pixel centre to
/// its last, [16 i + 0.5, 16 i + 15.5].
#[inline(always)]
fn first_tile(low: f32) -> u32 {
    ((low - (TILE - 0.5)) / TILE).ceil().max(0.0) as u32
}

/// Returns the last of `count` tiles whose first pixel centre is not beyond `high`.
#[inline(always)]
fn last_tile(high: f32, count: u32) -> u32 {
    (((high - 0.5) / TILE).floor().max(0.0) as u32).min(count - 1)
}

/// Side of a tile, pixels.
const TILE: f32 = TILE_SIZE as f32;

/// Ellipse `d^T conic d <= level`.
struct Ellipse {
    mean: [f32; 2],
    radius: [f32; 2],
    /// Conic xx, xy, yy, and its determinant.
    conic: [f32; 4],
    level: f32,
    /// Size of the image, pixels.
    size: [f32; 2],
}

impl Ellipse {
    /// Returns the first and the last tile of a tile row, among `from..end`, that the ellipse with its centre in column
    /// `mx` reaches.
    #[inline(always)]
    fn tiles(&self, mx: f32, row: u32, [from, end]: [u32; 2]) -> Option<[u32; 2]> {
        let ([_, my], [rx, ry], [width, height]) = (self.mean, self.radius, self.size);
        let [a, b, c, inverse_determinant] = self.conic;
        // The ellipse's rightmost point is at dy = -b/c * rx, its leftmost mirrored.
        let dy_right = -b / c * rx;
        // Half the chord at dy. b^2 - a c is minus the inverse determinant of the covariance, which
        // does not cancel for needles.
        let half_width = |dy: f32| {
            (a * self.level - inverse_determinant * dy * dy)
                .max(0.0)
                .sqrt()
        };
        let top = (row as f32 * TILE + 0.5 - my).max(-ry);
        let bottom = ((row + 1) as f32 * TILE - 0.5)
            .min(height - 0.5)
            .min(my + ry)
            - my;
        let dy_r = dy_right.clamp(top.min(bottom), bottom.max(top));
        let dy_l = (-dy_right).clamp(top.min(bottom), bottom.max(top));
        let right = mx + (-b * dy_r + half_width(dy_r)) / a;
        let left = mx + (-b * dy_l - half_width(dy_l)) / a;
        let is_inside = end > 0 && bottom >= top && right >= 0.5 && left <= width - 0.5;
        if !is_inside {
            return None;
        }
        let (first, last) = (first_tile(left).max(from), last_tile(right, end));
        (first <= last).then_some([first, last])
    }
}
