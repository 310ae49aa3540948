//! A map of the light on a level surface, computed once. Most rays of a photo end on the table or the floor, and
//! computing the shadows there for each ray would take most of the time.

use rayon::prelude::*;

/// Texels along each side.
const SIZE: usize = 384;

/// Light on a square about the origin; outside it counts as its border.
#[derive(Debug)]
pub(super) struct LightMap {
    /// Half the side of the square, units.
    half: f32,
    /// Share of the sun, openness to the sky; `[SIZE, SIZE]`, z by x.
    texels: Vec<[f32; 2]>,
}

impl LightMap {
    /// Calls `light(x, z)` for every texel's centre.
    pub(super) fn new(half: f32, light: impl Fn(f32, f32) -> [f32; 2] + Sync) -> Self {
        let place = |i: usize| ((i as f32 + 0.5) / SIZE as f32 * 2.0 - 1.0) * half;
        let texels = (0..SIZE * SIZE)
            .into_par_iter()
            .map(|at| light(place(at % SIZE), place(at / SIZE)))
            .collect();
        Self { half, texels }
    }

    /// Returns the share of the sun and the openness at a place, interpolated.
    pub(super) fn at(&self, x: f32, z: f32) -> [f32; 2] {
        let texel = |c: f32| {
            let t = ((c / self.half + 1.0) * 0.5 * SIZE as f32 - 0.5).clamp(0.0, (SIZE - 1) as f32);
            let first = (t as usize).min(SIZE - 2);
            (first, t - first as f32)
        };
        let ((column, tx), (row, tz)) = (texel(x), texel(z));
        let at = row * SIZE + column;
        let (Some([a, b, ..]), Some([c, d, ..])) = (
            self.texels.get(at..at + 2),
            self.texels.get(at + SIZE..at + SIZE + 2),
        ) else {
            return [1.0; 2];
        };
        [0, 1].map(|k| {
            let (near, far) = (a[k] + (b[k] - a[k]) * tx, c[k] + (d[k] - c[k]) * tx);
            near + (far - near) * tz
        })
    }
}
