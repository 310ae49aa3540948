//! Depth of renders.
//!
//! A Gaussian's depth is the camera z of its centre (for a panorama its distance), the sort key of `order`. With w_i its
//! share of a pixel (alpha times the transmittance in front), alpha = sum w_i:
//! - *blended* depth is `D = sum w_i z_i`: a fourth channel next to the colours, without a background. Only
//!   this depth is differentiated.
//! - *expected* depth is `D / alpha`, 0 where alpha is 0.
//! - *median* depth is the depth of the Gaussian behind which the transmittance is first at most a half; 0
//!   where that never happens. It is discontinuous and not differentiated.
//!
//! Supervision by known depths: [`crate::features::depth`].

use crate::colour_bytes::to_byte;
use dapple_scene::{Camera, Rays};
use glam::{DVec2, DVec3};
use rayon::prelude::*;

/// Transmittance behind the Gaussian that gives a pixel its median depth.
pub const MEDIAN_TRANSMITTANCE: f32 = 0.5;

/// Minimum alpha of a pixel for which expected depths and normals are shown. With less alpha, they are those of
/// haze.
pub const LEAST_ALPHA: f32 = 0.5;

/// Depths of a rendered view, world units along +z.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DepthImage {
    /// Blended depth `sum w_i z_i`, `[height, width]`.
    pub blended: Vec<f32>,
    /// Depth of the Gaussian behind which the transmittance is first at most a half, or 0, `[height, width]`.
    pub median: Vec<f32>,
}

impl DepthImage {
    /// Returns the expected depth, `[height, width]`, from the same render's `alpha`: 0 where alpha is 0.
    pub fn expected(&self, alpha: &[f32]) -> Vec<f32> {
        let pairs = self.blended.iter().zip(alpha);
        pairs
            .map(|(&d, &a)| if a > 0.0 { d / a } else { 0.0 })
            .collect()
    }

    /// Returns the expected depth where alpha is at least [`LEAST_ALPHA`], elsewhere 0: the values that are
    /// shown. Runs on all cores.
    pub fn covered(&self, alpha: &[f32]) -> Vec<f32> {
        let pairs = self.blended.par_iter().zip(alpha).with_min_len(CHUNK);
        pairs
            .map(|(&d, &a)| if a < LEAST_ALPHA { 0.0 } else { d / a })
            .collect()
    }
}

/// Returns the conventional colour of a normal: red right, green up, blue towards the camera; black without a
/// normal.
pub fn normal_colour([x, y, z]: [f32; 3]) -> [u8; 3] {
    match [x, y, z] {
        [0.0, 0.0, 0.0] => [0; 3],
        _ => [x, -y, -z].map(|v| to_byte(0.5 + 0.5 * v)),
    }
}

/// Pixels of one task of a core.
const CHUNK: usize = 1 << 12;

/// Derivative of a scalar by a rendered view; `T` is `f32` for engines, `f64` for the reference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ImageDerivative<'a, T> {
    /// Derivative by the colours, `[height, width, 3]`.
    pub rgb: &'a [T],
    /// Derivative by alpha, `[height, width]`; zero if `None`.
    pub alpha: Option<&'a [T]>,
    /// Derivative by the blended depth `sum w_i z_i`, `[height, width]`; zero if `None`.
    pub depth: Option<&'a [T]>,
}

/// Computes normals of the surface in a depth image, `[height, width, 3]`: unit vectors in camera coordinates
/// (x right, y down, z forward) that face the camera. Zero where there is no depth or too little depth around
/// the pixel.
///
/// The normals are those of the depth image, not of the Gaussians. No loss determines which axis of a Gaussian
/// is the shortest, while depth is the result of blending all Gaussians. `depth` is along +z, for a
/// panorama the distance, `[height, width]`, 0 where there is none.
///
/// 1. A pixel's point is its ray, through the camera's lens, times its depth.
/// 2. Across and down, the difference to the neighbour of nearer depth is used, because the other may be
///    beyond an edge.
/// 3. The normal is the cross product of both differences.
///
/// Runs on all cores.
pub fn normals(camera: &Camera, depth: &[f32]) -> Vec<[f32; 3]> {
    let (width, height) = (camera.width as usize, camera.height as usize);
    let rays = rays(camera);
    // A pixel that no ray of the lens reaches has no point.
    let at = |x: usize, y: usize| {
        let known = depth.get(y * width + x).zip(rays[y * width + x]);
        known.map_or(0.0, |(&z, _)| f64::from(z))
    };
    let point = |x: usize, y: usize| rays[y * width + x].unwrap_or_default() * at(x, y);
    // The difference along one axis, towards the neighbour of nearer depth.
    let along = |here: (usize, usize), before: Option<(usize, usize)>, after| -> Option<DVec3> {
        let z = at(here.0, here.1);
        let jump = |to: Option<(usize, usize)>| {
            to.map(|(x, y)| at(x, y))
                .filter(|&other| other > 0.0)
                .map_or(f64::INFINITY, |other| (other - z).abs())
        };
        let (back, on): (f64, f64) = (jump(before), jump(after));
        let middle = point(here.0, here.1);
        match (before, after) {
            (Some((x, y)), _) if back.is_finite() && back <= on => Some(middle - point(x, y)),
            (_, Some((x, y))) if on.is_finite() => Some(point(x, y) - middle),
            _ => None,
        }
    };
    let normal = |x: usize, y: usize| {
        let left = x.checked_sub(1).map(|x| (x, y));
        let above = y.checked_sub(1).map(|y| (x, y));
        let right = (x + 1 < width).then_some((x + 1, y));
        let below = (y + 1 < height).then_some((x, y + 1));
        let sides = (at(x, y) > 0.0)
            .then(|| along((x, y), left, right).zip(along((x, y), above, below)))
            .flatten();
        let normal = sides.and_then(|(across, down)| down.cross(across).try_normalize());
        normal.unwrap_or(DVec3::ZERO).as_vec3().to_array()
    };
    let rows = (0..height).into_par_iter();
    rows.flat_map_iter(|y| {
        let normal = &normal;
        (0..width).map(move |x| normal(x, y))
    })
    .collect()
}

/// Returns the ray of depth 1 through each pixel's centre, `[height, width]`; `None` for a pixel that no ray of the lens
/// reaches.
fn rays(camera: &Camera) -> Vec<Option<DVec3>> {
    let through = Rays::new(camera);
    let ray = |x: u32, y: u32| through.ray(DVec2::new(f64::from(x) + 0.5, f64::from(y) + 0.5));
    let rows = (0..camera.height).into_par_iter();
    rows.flat_map_iter(|y| (0..camera.width).map(move |x| ray(x, y)))
        .collect()
}
