//! Anti-aliasing of Mip-Splatting (Yu et al. 2024, arXiv:2311.16493), for up to 16 Gaussians at a time.
//! Reference: `dapple_reference::{with_filter_3d, project}`. GPU version: `shared/antialias.wgsl`.
//!
//! The 3D filter, before projection:
//! 1. Scales become `s' = sqrt(s^2 + deviation^2)`, the opacity is multiplied by the product of the
//!    shares `c = s / s'`.
//! 2. Backward: `dL/dln s = c^2 dL/dln s' + (1 - c^2) dL/dln o'`.
//!
//! The 2D Mip filter, after projection:
//! 3. The area of the undilated ellipse is |N| = |U0 x U1|, with U = T R S. N's component k is
//!    `s0 s1 s2 / s_k` times that of `R^T (T0 x T1)`, so nothing cancels for needles.
//! 4. The opacity is multiplied by `|N| / sqrt(det cov2d)`, cov2d dilated by [`MIP_DILATION`].
//! 5. Backward, with w = dL/dln o and W_k = w N_k (s0 s1 s2 / s_k) / |N|^2. The derivative by the
//!    scales' logarithms is `w (1 - N_k^2 / |N|^2)`, and by column k of R `W_k (T0 x T1)`. By T0 x T1
//!    it is the sum of `W_k R_k`, from which those by T0 and T1 follow. The derivative by cov2d through
//!    det cov2d is `-1/2 w conic`.
//!
//! The rest of the file sets the deviations: `engine::filter_3d`.

use crate::blocks::{Blocks, component};
use crate::frame::CameraF32;
use crate::simd::{ROW, Row, Splat, V, V3, cross, dot, each};
use dapple_engine::constants::{MIP_DILATION, SMOOTHING_MARGIN};
use dapple_engine::filter_3d::deviation_per_interval;
use pulp::Simd;
use rayon::prelude::*;

/// Intermediate results of both filters for a vector of Gaussians, for the backward pass. All zero
/// without filters.
#[derive(Clone, Copy)]
pub struct Filters<S: Simd> {
    /// Squares of the shares.
    shares2: V3<S>,
    /// T0 x T1.
    ray: V3<S>,
    /// N.
    normal: V3<S>,
    /// `s0 s1 s2 / s_k`.
    faces: V3<S>,
    /// 1 / |N|^2, finite.
    inverse_area2: V<S>,
}

impl<S: Simd> Filters<S> {
    /// Creates the values of renders without anti-aliasing.
    #[inline(always)]
    pub fn none(s: S) -> Self {
        let zero = [s.k(0.0); 3];
        Self {
            shares2: zero,
            ray: zero,
            normal: zero,
            faces: zero,
            inverse_area2: s.k(0.0),
        }
    }

    /// Computes step 1: the filtered scales, and the factor of the opacity.
    #[inline(always)]
    pub fn smooth(&mut self, s: S, scales: V3<S>, deviation: V<S>) -> (V3<S>, V<S>) {
        let one = s.k(1.0);
        let is_wider = s.k(0.0).lt(deviation);
        let mut wider = scales;
        let mut factor = one;
        for k in 0..3 {
            // From the larger of the two, because their squares can overflow `f32`.
            let larger = scales[k].max(deviation).max(s.k(f32::MIN_POSITIVE));
            let ratio = scales[k].min(deviation) / larger;
            wider[k] = is_wider.select(larger * ratio.mul_add(ratio, one).sqrt(), scales[k]);
            let share = is_wider.select(scales[k] / wider[k], one);
            self.shares2[k] = share * share;
            factor = factor * share;
        }
        (wider, factor)
    }

    /// Computes step 3: the square of the undilated ellipse's area.
    #[inline(always)]
    pub fn area2(&mut self, s: S, t: [V3<S>; 2], rotation: [V3<S>; 3], scales: V3<S>) -> V<S> {
        self.ray = cross(t[0], t[1]);
        let [x, y, z] = scales;
        self.faces = [y * z, x * z, x * y];
        self.normal = each!(3, |k| {
            let column = [rotation[0][k], rotation[1][k], rotation[2][k]];
            self.faces[k] * dot(column, self.ray)
        });
        let area2 = dot(self.normal, self.normal);
        self.inverse_area2 = s.k(1.0) / area2.max(s.k(f32::MIN_POSITIVE));
        area2
    }

    /// Computes step 5 without det cov2d: adds to the derivatives by the filtered scales' logarithms,
    /// the rotation (by rows) and T. `weight` is dL/dln o.
    #[inline(always)]
    pub fn area_backward(
        &self,
        s: S,
        weight: V<S>,
        rotation: [V3<S>; 3],
        t: [V3<S>; 2],
        (d_scales, d_rotation, d_t): (&mut V3<S>, &mut [V3<S>; 3], &mut [V3<S>; 2]),
    ) {
        // In this order, 0 stays 0 for invisible Gaussians.
        let along = each!(3, |k| weight * self.normal[k] * self.inverse_area2);
        let by_column = each!(3, |k| along[k] * self.faces[k]);
        let mut by_ray = [s.k(0.0); 3];
        for k in 0..3 {
            d_scales[k] += along[k].neg_mul_add(self.normal[k], weight);
            for i in 0..3 {
                d_rotation[i][k] = by_column[k].mul_add(self.ray[i], d_rotation[i][k]);
                by_ray[i] = by_column[k].mul_add(rotation[i][k], by_ray[i]);
            }
        }
        let (to_first, to_second) = (cross(t[1], by_ray), cross(by_ray, t[0]));
        for i in 0..3 {
            d_t[0][i] += to_first[i];
            d_t[1][i] += to_second[i];
        }
    }

    /// Computes step 2: from the filtered scales' logarithms to the Gaussian's own.
    #[inline(always)]
    pub fn smooth_backward(&self, s: S, weight: V<S>, d_scales: V3<S>) -> V3<S> {
        each!(3, |k| {
            let rest = s.k(1.0) - self.shares2[k];
            self.shares2[k].mul_add(d_scales[k], rest * weight)
        })
    }
}

/// Converts deviations to blocks of 16 Gaussians; padding lanes have none.
pub fn rows(values: &[f32]) -> Vec<Row> {
    let row = |chunk: &[f32]| {
        let mut row = Row::ZERO;
        row.0[..chunk.len()].copy_from_slice(chunk);
        row
    };
    values.chunks(ROW).map(row).collect()
}

/// Returns the deviations of the first `n` Gaussians.
pub fn values(rows: &[Row], n: usize) -> Vec<f32> {
    rows.iter().flat_map(|row| row.0).take(n).collect()
}

/// Computes the standard deviation of each Gaussian's 3D filter for photos of these cameras.
pub fn deviations(params: &Blocks, cameras: &[CameraF32], near: f32) -> Vec<Row> {
    let one = |i: usize| {
        let mean = [0, 1, 2].map(|k| params.get(i, component::MEAN + k));
        let rate = cameras
            .iter()
            .map(|camera| sampling_rate(mean, camera, near));
        let rate = rate.fold(0.0, f32::max);
        if rate > 0.0 {
            deviation_per_interval() / rate
        } else {
            0.0
        }
    };
    let block = |block: usize| {
        let first = block * ROW;
        let last = params.len.min(first + ROW);
        let mut row = Row::ZERO;
        for (value, i) in row.0.iter_mut().zip(first..last) {
            *value = one(i);
        }
        row
    };
    (0..params.count()).into_par_iter().map(block).collect()
}

/// Returns the samples per world unit, 0 if the photo does not show the Gaussian.
fn sampling_rate(mean: [f32; 3], camera: &CameraF32, near: f32) -> f32 {
    let from_camera: [f32; 3] =
        std::array::from_fn(|k| (mean[k] - camera.centre[k]) - camera.centre_rest[k]);
    let [x, y, z] = camera.rotation.map(|row| {
        row[0].mul_add(
            from_camera[0],
            row[1].mul_add(from_camera[1], row[2] * from_camera[2]),
        )
    });
    let is_ring = camera.model.is_ring();
    let depth = if is_ring {
        let height = camera.model.depth_height() * y;
        x.mul_add(x, height.mul_add(height, z * z)).sqrt()
    } else {
        z
    };
    let is_inside = |axis: usize, along: f32| {
        let size = camera.size[axis] as f32;
        let pixel = along / depth * camera.focal[axis] + camera.principal[axis];
        pixel >= -SMOOTHING_MARGIN * size && pixel <= (1.0 + SMOOTHING_MARGIN) * size
    };
    // On a ring every column is inside, and so is every sine of a latitude.
    let is_seen = depth >= near && depth > 0.0 && (is_ring || is_inside(0, x)) && is_inside(1, y);
    if is_seen {
        camera.focal[0].max(camera.focal[1]) / depth
    } else {
        0.0
    }
}

/// Returns the usual dilation of cov2d.
pub const fn dilation(antialias: bool) -> f32 {
    if antialias {
        MIP_DILATION
    } else {
        dapple_engine::constants::DILATION
    }
}
