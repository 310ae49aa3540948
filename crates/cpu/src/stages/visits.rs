//! Visits: the list of rows that a tile's instances reach, which `blend` and `blend_backward` walk.
//!
//! A row of a tile is 16 pixels; an instance visits the few rows that its ellipse reaches. A loop
//! of a few iterations ends in a branch that is mispredicted about every time, and its set-up is a
//! chain of dependent operations. So instances are processed 16 at a time:
//! 1. Fetch their splats. They are scattered in memory, and a core waits for many cache misses at
//!    once as long as nothing depends on them.
//! 2. For 16 instances at once, compute the rows that each reaches within the tile's columns. The
//!    part of the ellipse in a band of columns is convex, so its projection on y is an interval.
//! 3. Per instance, write a whole vector of visits, one for each of the next 16 live rows, and
//!    advance by the number that it reaches. The next instance overwrites the rest. No branch
//!    depends on the data.
//! 4. The caller walks the list in one loop of many iterations. Each iteration depends on the
//!    instance before it only through the pixels.
//! 5. After the batch, find the rows that still have an unfinished pixel: [`LiveRows`].

use crate::frame::{CameraF32, Splat2d};
use crate::simd::{ROW, Row, Splat, V, parts};
use dapple_engine::camera_model::nearest;
use dapple_engine::constants::ALPHA_MIN;
use pulp::Simd;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Instances per batch.
pub const BATCH: usize = 16;

/// Most visits of a batch, plus space for a vector written at the end.
const CAPACITY: usize = (BATCH + 1) * ROW;

/// Place of a tile, and its pixels inside the image.
#[derive(Clone, Copy)]
pub struct TileGeometry {
    /// First pixel.
    pub origin: [f32; 2],
    /// Pixels across and down that lie inside the image.
    pub size: [u32; 2],
    /// Width of an image that is a ring, whose tiles see the nearest copy of each ellipse; 0 for others.
    pub period: f32,
}

impl TileGeometry {
    /// Creates the geometry of tile number `tile`, row by row.
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
            period: match camera.model.is_ring() {
                true => camera.size[0] as f32,
                false => 0.0,
            },
        }
    }

    /// Returns the transmittance at the start: one, and negative outside the image, where no work
    /// is needed.
    pub fn transmittance(&self) -> [Row; ROW] {
        let mut rows = [Row::splat(-1.0); ROW];
        for row in &mut rows[..self.size[1] as usize] {
            row.0[..self.size[0] as usize].fill(1.0);
        }
        rows
    }
}

/// Returns the blended instances of a tile: its nearest `cap` (0 = all).
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

/// Rows of a tile that have an unfinished pixel.
pub struct LiveRows {
    /// Numbers of the rows, top to bottom; unspecified after the last.
    rows: [u32; 2 * ROW],
    /// Centres of the rows, from the tile's upper edge.
    centres: [f32; 2 * ROW],
    /// For each row, the number of live rows above it.
    above: [u32; 2 * ROW],
}

impl LiveRows {
    /// Computes step 5: a pixel is finished if its transmittance is negative.
    #[inline(always)]
    pub fn new<S: Simd>(s: S, transmittance: &[Row; ROW]) -> Self {
        let mut live = Self {
            rows: [0; 2 * ROW],
            centres: [0.0; 2 * ROW],
            above: [0; 2 * ROW],
        };
        let mut count = 0;
        for y in 0..ROW {
            let mut any = false;
            for part in 0..parts::<S>() {
                any |= s.k(0.0).lt(V::load(s, &transmittance[y], part)).any();
            }
            live.rows[count % ROW] = y as u32;
            live.centres[count % ROW] = y as f32 + 0.5;
            count += usize::from(any);
            live.above[y + 1] = count as u32;
        }
        live
    }

    /// Returns true if no row is live.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.above[ROW] == 0
    }
}

/// Visits of a batch of instances.
pub struct Visits {
    /// Splats of the instances.
    splats: [Splat2d; BATCH],
    /// Number of visits in the lists below.
    len: usize,
    /// `16 instance + row`.
    place: [u32; CAPACITY],
    /// Row's centre minus the Gaussian's, y.
    dy: [f32; CAPACITY],
    /// `dy^2`.
    dy2: [f32; CAPACITY],
    /// `b dy`.
    linear: [f32; CAPACITY],
    /// `c dy^2 + log2_opacity`.
    constant: [f32; CAPACITY],
}

/// Returns half the height of an ellipse at a fraction of its half width, from the square of the
/// half height at the centre.
#[inline(always)]
fn half_chord<S: Simd>(fraction: V<S>, height2: V<S>) -> V<S> {
    let s = fraction.0;
    let inside = fraction.neg_mul_add(fraction, s.k(1.0)).max(s.k(0.0));
    ((inside + s.k(1e-5)) * height2).sqrt()
}

/// Row of pixels that an instance visits.
#[derive(Clone, Copy)]
pub struct Visit {
    /// Row of the tile.
    pub y: usize,
    /// Instance of the batch.
    pub instance: usize,
    /// Row's centre minus the Gaussian's, y.
    pub dy: f32,
    /// `dy^2`.
    pub dy2: f32,
    /// `b dy`.
    pub linear: f32,
    /// `c dy^2 + log2_opacity`.
    pub constant: f32,
}

impl Visits {
    /// Creates an empty list.
    #[inline(always)]
    pub fn new() -> Self {
        Self {
            splats: [Splat2d::default(); BATCH],
            len: 0,
            place: [0; CAPACITY],
            dy: [0.0; CAPACITY],
            dy2: [0.0; CAPACITY],
            linear: [0.0; CAPACITY],
            constant: [0.0; CAPACITY],
        }
    }

    /// Computes steps 1 to 3 for at most [`BATCH`] instances.
    #[inline(always)]
    pub fn fill<S: Simd>(
        &mut self,
        s: S,
        geometry: &TileGeometry,
        instances: &[AtomicU32],
        splats2d: &[Splat2d],
        live: &LiveRows,
    ) {
        let count = instances.len().min(BATCH);
        for (place, instance) in self.splats.iter_mut().zip(instances) {
            *place = splats2d[instance.load(Relaxed) as usize];
        }
        if geometry.period > 0.0 {
            for splat in &mut self.splats[..count] {
                splat.mean[0] = nearest(splat.mean[0], geometry.origin[0], geometry.period);
            }
        }
        let mut len = 0;
        for first in (0..count).step_by(ROW) {
            let (begins, ends) = self.reached(s, geometry, first);
            for lane in 0..ROW.min(count - first) {
                // The low bits of the floats are the integers.
                let begin = live.above[begins.0[lane].to_bits() as usize % (2 * ROW)] as usize;
                let end = live.above[ends.0[lane].to_bits() as usize % (2 * ROW)] as usize;
                self.append(s, geometry, live, first + lane, begin.min(ROW), len);
                len += end.saturating_sub(begin);
            }
        }
        self.len = len;
    }

    /// Computes step 2 for the 16 instances from `first`: first row, and the row after the last,
    /// each plus 2^23. Margins are for rounding; the test per pixel is exact.
    #[inline(always)]
    fn reached<S: Simd>(&self, s: S, geometry: &TileGeometry, first: usize) -> (Row, Row) {
        let mut fields = [Row::ZERO; 8];
        for lane in 0..ROW {
            let splat = &self.splats[first + lane];
            fields[0].0[lane] = splat.mean[0];
            fields[1].0[lane] = splat.mean[1];
            fields[2].0[lane] = splat.a;
            fields[3].0[lane] = splat.b;
            fields[4].0[lane] = splat.c;
            fields[5].0[lane] = splat.log2_opacity;
            fields[6].0[lane] = splat.radius[0];
            fields[7].0[lane] = splat.radius[1];
        }
        let (mut begins, mut ends) = (Row::ZERO, Row::ZERO);
        for part in 0..parts::<S>() {
            let field = |i: usize| V::load(s, &fields[i], part);
            let (zero, half) = (s.k(0.0), s.k(0.5));
            let [a, b, c] = [field(2), field(3), field(4)];
            let [radius_x, radius_y] = [field(6), field(7)];
            // Columns of the tile, from the Gaussian's centre.
            let left = s.k(geometry.origin[0] + (0.5 - 1e-3)) - field(0);
            let right = left + s.k(ROW as f32 - 1.0 + 2e-3);
            let half_b = b * half;
            // dx of the ellipse's highest point, and the middle of its chord at dx, divided by dx.
            let top = half_b * (-a).reciprocal() * radius_y;
            let inverse_c = (-c).reciprocal();
            let middle = half_b * inverse_c;
            let level = (field(5) + s.k(-ALPHA_MIN.log2())).max(zero);
            let height2 = (level * s.k(1.000_01) + s.k(1e-5)) * inverse_c;
            let inverse_radius = radius_x.reciprocal();
            let at_end = top.max(left).min(right);
            let at_begin = (-top).max(left).min(right);
            let down = middle.mul_add(at_end, half_chord(at_end * inverse_radius, height2));
            let up = middle.mul_add(at_begin, -half_chord(at_begin * inverse_radius, height2));
            // Rounded to the nearest integer by adding 2^23: begin = ceil(row of the upper end),
            // end = floor(row of the lower end) + 1.
            let centre = field(1) - s.k(geometry.origin[1]);
            let margin = radius_y.mul_add(s.k(1e-5), s.k(1e-3));
            let begin = (centre + up) - margin;
            let end = (centre + down) + margin;
            let (rows, magic) = (s.k(ROW as f32), s.k(8_388_608.0));
            (begin.max(zero).min(rows) + magic).store(&mut begins, part);
            (end.max(zero).min(rows) + magic).store(&mut ends, part);
        }
        (begins, ends)
    }

    /// Computes step 3 for one instance, from its live row number `begin`, at index `at` of the
    /// lists.
    #[inline(always)]
    fn append<S: Simd>(
        &mut self,
        s: S,
        geometry: &TileGeometry,
        live: &LiveRows,
        instance: usize,
        begin: usize,
        at: usize,
    ) {
        let splat = &self.splats[instance];
        let [b, c, log2_opacity] = [s.k(splat.b), s.k(splat.c), s.k(splat.log2_opacity)];
        let (origin, centre) = (s.k(geometry.origin[1]), s.k(splat.mean[1]));
        let rows = &live.rows[begin..begin + ROW];
        let place = &mut self.place[at..at + ROW];
        for k in 0..ROW {
            place[k] = rows[k] + (ROW * instance) as u32;
        }
        for part in 0..parts::<S>() {
            let skip = part * S::F32_LANES;
            let at = at + skip;
            let dy = (origin + V::from_slice(s, &live.centres[begin + skip..])) - centre;
            let dy2 = dy * dy;
            dy.to_slice(&mut self.dy[at..]);
            dy2.to_slice(&mut self.dy2[at..]);
            (dy * b).to_slice(&mut self.linear[at..]);
            c.mul_add(dy2, log2_opacity)
                .to_slice(&mut self.constant[at..]);
        }
    }

    /// Returns the number of visits.
    #[inline(always)]
    pub fn len(&self) -> usize {
        // The minimum lets the compiler prove that the lists are long enough.
        self.len.min(CAPACITY)
    }

    /// Returns visit number `i`.
    #[inline(always)]
    pub fn get(&self, i: usize) -> Visit {
        let place = self.place[i] as usize;
        Visit {
            y: place % ROW,
            instance: place / ROW % BATCH,
            dy: self.dy[i],
            dy2: self.dy2[i],
            linear: self.linear[i],
            constant: self.constant[i],
        }
    }

    /// Returns the splat of an instance.
    #[inline(always)]
    pub fn splat(&self, instance: usize) -> &Splat2d {
        &self.splats[instance]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_reference::scenes::Random;

    /// Creates an ellipse from the covariance's half axes and angle.
    fn ellipse(mean: [f64; 2], axes: [f64; 2], angle: f64, opacity: f64) -> Splat2d {
        let (sin, cos) = angle.sin_cos();
        let [u, v] = axes.map(|a| a * a);
        let xx = u * cos * cos + v * sin * sin;
        let yy = u * sin * sin + v * cos * cos;
        let xy = (u - v) * sin * cos;
        let scale = -0.5 * std::f64::consts::LOG2_E / (u * v);
        let level = 2.0 * (255.0 * opacity).ln();
        Splat2d {
            mean: mean.map(|m| m as f32),
            a: (yy * scale) as f32,
            b: (-2.0 * xy * scale) as f32,
            c: (xx * scale) as f32,
            log2_opacity: opacity.log2() as f32,
            radius: [(xx * level).sqrt() as f32, (yy * level).sqrt() as f32],
            ..Splat2d::default()
        }
    }

    fn reaches(splat: &Splat2d, geometry: &TileGeometry, y: usize) -> bool {
        (0..ROW).any(|x| {
            let dx = f64::from(geometry.origin[0] + x as f32 + 0.5) - f64::from(splat.mean[0]);
            let dy = f64::from(geometry.origin[1] + y as f32 + 0.5) - f64::from(splat.mean[1]);
            let [a, b, c] = [splat.a, splat.b, splat.c].map(f64::from);
            let exponent = f64::from(splat.log2_opacity) + a * dx * dx + b * dx * dy + c * dy * dy;
            exponent >= f64::from(ALPHA_MIN.log2())
        })
    }

    struct Fill<'a>(
        &'a mut Visits,
        &'a TileGeometry,
        &'a [Splat2d],
        &'a [Row; ROW],
    );
    impl pulp::WithSimd for Fill<'_> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, s: S) {
            let Self(visits, geometry, splats, transmittance) = self;
            let instances: Vec<AtomicU32> = (0..splats.len() as u32).map(AtomicU32::new).collect();
            let live = LiveRows::new(s, transmittance);
            visits.fill(s, geometry, &instances, splats, &live);
        }
    }

    #[test]
    fn every_live_row_with_a_pixel_is_visited_and_few_others() {
        let mut random = Random::new(5);
        let geometry = TileGeometry {
            origin: [160.0, 96.0],
            size: [16, 16],
            period: 0.0,
        };
        let (mut needed, mut visited) = (0, 0);
        for round in 0..2000 {
            let splats: Vec<Splat2d> = (0..=round % BATCH)
                .map(|_| {
                    let mean = [random.uniform(140.0, 196.0), random.uniform(76.0, 132.0)];
                    let axes = [0, 1].map(|_| random.uniform(-1.0, 4.0).exp2());
                    let opacity = random.uniform(0.01, 0.99);
                    ellipse(mean, axes, random.uniform(0.0, 3.2), opacity)
                })
                .collect();
            let mut transmittance = geometry.transmittance();
            let dead = [round % ROW, round / ROW % ROW];
            for y in dead {
                transmittance[y] = Row::splat(-0.5);
            }
            let mut visits = Visits::new();
            let fill = Fill(&mut visits, &geometry, &splats, &transmittance);
            match round % 2 {
                0 => pulp::Arch::new().dispatch(fill),
                _ => pulp::Arch::Scalar.dispatch(fill),
            }
            let mut seen = vec![[false; ROW]; splats.len()];
            for i in 0..visits.len() {
                let visit = visits.get(i);
                assert!(!seen[visit.instance][visit.y], "twice");
                assert!(!dead.contains(&visit.y), "finished");
                seen[visit.instance][visit.y] = true;
                let dy = geometry.origin[1] + visit.y as f32 + 0.5 - splats[visit.instance].mean[1];
                assert_eq!(visit.dy, dy);
            }
            for (splat, seen) in splats.iter().zip(&seen) {
                for y in (0..ROW).filter(|y| !dead.contains(y)) {
                    let reached = reaches(splat, &geometry, y);
                    assert!(seen[y] || !reached, "row {y} of {splat:?}");
                    needed += usize::from(reached);
                    visited += usize::from(seen[y]);
                }
            }
        }
        // A row may be crossed between pixel centres. The instance may also miss the tile, though
        // `project` lists no such tiles.
        println!("{needed} rows needed, {visited} visited");
        assert!(visited < needed + needed / 10);
    }
}
