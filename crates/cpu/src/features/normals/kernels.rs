//! Normal consistency. Formulas: [`dapple_engine::features::normals`]; reference:
//! `dapple_reference::normal_consistency`.
//!
//! 1. [`splats`]: the projected Gaussians again, with the normal of the plane as colour, and its distance as depth.
//! 2. [`loss`], after `blend`: the point of each pixel; the normal of the surface and the derivatives by its sides; from
//!    the neighbours back to the pixel, its normal and its distance.
//! 3. [`normal_backward`], in `update`: from the normal and the distance of a Gaussian to its quaternion and centre.

use crate::blocks::{Blocks, component};
use crate::cameras::{CameraV, Projector};
use crate::features::depth::kernels::depth_row;
use crate::frame::{CameraF32, Frame, PLANES, TILE_ROWS, grow, tiled};
use crate::projection::{GeometryGradient, Projection, at_thinnest, quat_backward};
use crate::simd::{ROW, Row, Splat, V, V3, cross, dot, each};
use dapple_engine::features::normals::{LEAST_ALPHA, LEAST_COSINE, MOST_STEP};
use glam::{DVec2, Mat3, Quat, Vec3};
use pulp::Simd;
use rayon::prelude::*;

/// Gaussians of one task of [`splats`].
const CHUNK: usize = 1 << 12;

/// Buffers of [`loss`], row by row.
#[derive(Debug, Default)]
pub struct Buffers {
    points: Vec<Option<Point>>,
    sides: Vec<Option<Sides>>,
}

/// Point of a pixel: a factor of its ray.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    /// The ray.
    pub ray: Vec3,
    factor: f32,
}

impl Point {
    fn place(&self) -> Vec3 {
        self.ray * self.factor
    }
}

/// Surface at a pixel: its normal, and the derivatives of the loss by the two sides of the cross product.
#[derive(Debug, Clone, Copy)]
struct Sides {
    normal: Vec3,
    by_across: Vec3,
    by_down: Vec3,
}

/// Number of the shortest axis: the first of equal ones.
fn shortest(log_scales: [f32; 3]) -> usize {
    let first = if log_scales[1] < log_scales[0] { 1 } else { 0 };
    if log_scales[2] < log_scales[first] {
        2
    } else {
        first
    }
}

/// Executes step 1.
pub fn splats(params: &Blocks, camera: &CameraF32, frame: &mut Frame) {
    let Frame {
        splats2d,
        spans_of,
        normals,
        ..
    } = frame;
    let rows = camera.rotation.map(Vec3::from);
    let rotation = Mat3::from_cols(rows[0], rows[1], rows[2]).transpose();
    let rest = Vec3::from(camera.centre_rest);
    let centre = Vec3::from(camera.centre);
    normals.splats2d.resize(splats2d.len(), Default::default());
    let outputs = normals.splats2d[..params.len].par_iter_mut();
    outputs
        .with_min_len(CHUNK)
        .enumerate()
        .filter(|(i, _)| spans_of[*i].tiles > 0)
        .for_each(|(i, out)| {
            let at = |c: usize| params.get(i, c);
            let [w, x, y, z] = [0, 1, 2, 3].map(|k| at(component::QUAT + k));
            let turn = Mat3::from_quat(Quat::from_xyzw(x, y, z, w).normalize());
            let axis = shortest([0, 1, 2].map(|k| at(component::SCALE + k)));
            let along = rotation * turn.col(axis);
            let mean = Vec3::from_array([0, 1, 2].map(|k| at(component::MEAN + k)));
            let point = rotation * ((mean - centre) - rest);
            let normal = if along.dot(point) > 0.0 {
                -along
            } else {
                along
            };
            *out = splats2d[i];
            (out.rgb, out.depth) = (normal.to_array(), normal.dot(point));
        });
}

/// Executes step 2 on the exchanged frame: fills `image_gradient` and `depth.gradient`.
pub fn loss(camera: &CameraF32, weight: f32, buffers: &mut Buffers, frame: &mut Frame) {
    let [width, height] = camera.size.map(|v| v as usize);
    let pixels = width * height;
    let blended = |i: usize| blended_at(camera, frame, [i % width, i / width]);
    let (points, sides) = (&mut buffers.points, &mut buffers.sides);
    grow(points, pixels, None);
    grow(sides, pixels, None);
    let each_point = points[..pixels].par_iter_mut().with_min_len(width);
    each_point.enumerate().for_each(|(i, point)| {
        let (normal, distance, alpha) = blended(i);
        *point = point_of(camera, i, normal, distance, alpha);
    });
    let points = &points[..pixels];
    let share = weight / pixels as f32;
    let each_side = sides[..pixels].par_iter_mut().with_min_len(width);
    each_side.enumerate().for_each(|(i, sides)| {
        *sides = around(i, width, height)
            .and_then(|around| sides_of(points, i, around, share * blended(i).0));
    });
    let sides = &sides[..pixels];
    let tiles = camera.tile_count();
    grow(&mut frame.image_gradient, tiles * TILE_ROWS, Row::ZERO);
    grow(&mut frame.depth.gradient, tiles * ROW, Row::ZERO);
    let image = &frame.image;
    let tiles = frame.image_gradient[..tiles * TILE_ROWS]
        .par_chunks_mut(TILE_ROWS)
        .zip(frame.depth.gradient[..tiles * ROW].par_chunks_mut(ROW))
        .enumerate();
    tiles.for_each(|(tile, (by_image, by_distance))| {
        by_image.fill(Row::ZERO);
        by_distance.fill(Row::ZERO);
        let across = camera.tiles[0] as usize;
        let (left, top) = (tile % across * ROW, tile / across * ROW);
        for y in 0..ROW.min(height - top) {
            for x in 0..ROW.min(width - left) {
                let pixel = (top + y) * width + left + x;
                let normal = [0, 1, 2].map(|k| image[(tile * PLANES + k) * ROW + y].0[x]);
                let by = back_to(pixel, width, points, sides, normal.into(), share);
                for k in 0..PLANES {
                    by_image[k * ROW + y].0[x] = by[k];
                }
                by_distance[y].0[x] = by[PLANES];
            }
        }
    });
}

/// Returns the blended normal, distance and alpha of a pixel of the exchanged frame.
pub fn blended_at(camera: &CameraF32, frame: &Frame, [x, y]: [usize; 2]) -> (Vec3, f32, f32) {
    let (row, lane) = tiled(camera, x, y);
    let plane = |k: usize| frame.image[row + k * ROW].0[lane];
    let distance = frame.depth.blended[depth_row(row)].0[lane];
    let normal = Vec3::new(plane(0), plane(1), plane(2));
    (normal, distance, 1.0 - plane(3))
}

/// Returns the point of a pixel from its blended plane.
pub fn point_of(
    camera: &CameraF32,
    pixel: usize,
    normal: Vec3,
    distance: f32,
    alpha: f32,
) -> Option<Point> {
    let width = camera.size[0] as usize;
    if alpha < LEAST_ALPHA {
        return None;
    }
    let centre = DVec2::new((pixel % width) as f64, (pixel / width) as f64) + 0.5;
    let ray = camera.rays.ray(centre)?.as_vec3();
    let slope = normal.dot(ray);
    let factor = distance / slope;
    let is_seen = -slope >= LEAST_COSINE * alpha * ray.length() && factor > 0.0;
    is_seen.then_some(Point { ray, factor })
}

/// Returns the pixels left, right, above and below of a pixel that is not at the edge of the image.
fn around(pixel: usize, width: usize, height: usize) -> Option<[usize; 4]> {
    let (x, y) = (pixel % width, pixel / width);
    let is_inside = x > 0 && y > 0 && x + 1 < width && y + 1 < height;
    is_inside.then(|| [pixel - 1, pixel + 1, pixel - width, pixel + width])
}

/// Returns the surface at a pixel; `blended` is its blended normal times the share of a pixel in the loss.
fn sides_of(
    points: &[Option<Point>],
    pixel: usize,
    around: [usize; 4],
    blended: Vec3,
) -> Option<Sides> {
    let here = points[pixel]?;
    let near =
        |i: usize| points[i].filter(|p| (p.factor - here.factor).abs() <= MOST_STEP * here.factor);
    let [left, right, above, below] = around.map(near);
    let across = right?.place() - left?.place();
    let down = below?.place() - above?.place();
    let area = down.cross(across);
    let inverse = 1.0 / area.length();
    if !inverse.is_finite() {
        return None;
    }
    let normal = area * inverse;
    let by_area = (normal * normal.dot(blended) - blended) * inverse;
    Some(Sides {
        normal,
        by_across: by_area.cross(down),
        by_down: across.cross(by_area),
    })
}

/// Returns the derivatives by a pixel's blended normal, its transmittance, and its blended distance.
fn back_to(
    pixel: usize,
    width: usize,
    points: &[Option<Point>],
    sides: &[Option<Sides>],
    normal: Vec3,
    share: f32,
) -> [f32; PLANES + 1] {
    let (mut by_normal, mut by_transmittance, mut by_distance) = (Vec3::ZERO, 0.0, 0.0);
    if let Some(own) = &sides[pixel] {
        by_normal = -share * own.normal;
        // Alpha is one minus the transmittance.
        by_transmittance = -share;
    }
    if let Some(point) = &points[pixel] {
        let of = |i: Option<usize>| i.and_then(|i| sides.get(i).copied().flatten());
        // Pixels at the edge of the image have no sides, so that neighbours across it do not matter.
        let mut by_place = Vec3::ZERO;
        if let Some(before) = of(pixel.checked_sub(1)) {
            by_place += before.by_across;
        }
        if let Some(after) = of(Some(pixel + 1)) {
            by_place -= after.by_across;
        }
        if let Some(before) = of(pixel.checked_sub(width)) {
            by_place += before.by_down;
        }
        if let Some(after) = of(Some(pixel + width)) {
            by_place -= after.by_down;
        }
        let inverse = by_place.dot(point.ray) / normal.dot(point.ray);
        by_distance = inverse;
        by_normal -= inverse * point.factor * point.ray;
    }
    [
        by_normal.x,
        by_normal.y,
        by_normal.z,
        by_transmittance,
        by_distance,
    ]
}

/// Sums of the slots of normals of a block of Gaussians.
pub struct NormalSums {
    /// Sums of the gradient slots: the last three by the normal.
    pub slots: [Row; 9],
    /// Sums by the distance.
    pub distances: Row,
}

/// Executes step 3 for part `part` of a block.
#[inline(always)]
pub fn normal_backward<S: Simd, C: Projector>(
    s: S,
    block: &[Row],
    part: usize,
    camera: &CameraV<S, C>,
    p: &Projection<S>,
    sums: &NormalSums,
    g: &mut GeometryGradient<S>,
) {
    let (zero, one) = (s.k(0.0), s.k(1.0));
    let log_scales = each!(3, |k| V::load(s, &block[component::SCALE + k], part));
    // 1 for the thinnest axis, 0 for the others.
    let chosen = at_thinnest(s, log_scales, one);
    let axis: V3<S> = each!(3, |i| {
        let [a, b, c] = p.rotation[i];
        a.mul_add(chosen[0], b.mul_add(chosen[1], c * chosen[2]))
    });
    let along: V3<S> = each!(3, |i| dot(camera.rotation[i], axis));
    let sign = zero.lt(dot(along, p.point)).select(-one, one);
    let normal: V3<S> = each!(3, |i| along[i] * sign);
    let by_distance = V::load(s, &sums.distances, part);
    let by_normal: V3<S> = each!(3, |i| p.point[i]
        .mul_add(by_distance, V::load(s, &sums.slots[6 + i], part)));
    let by_point: V3<S> = each!(3, |i| normal[i] * by_distance);
    let to_world = |v: V3<S>| -> V3<S> {
        each!(3, |j| camera.rotation[0][j].mul_add(
            v[0],
            camera.rotation[1][j].mul_add(v[1], camera.rotation[2][j] * v[2]),
        ))
    };
    let (mean, turned) = (to_world(by_point), to_world(by_normal));
    let by_rotation = each!(3, |i| each!(3, |k| turned[i] * sign * chosen[k]));
    let quat = quat_backward(s, p, &by_rotation);
    let omega = cross(normal, by_normal);
    for i in 0..3 {
        g.point[i] += by_point[i];
        g.mean[i] += mean[i];
        g.omega[i] += omega[i];
    }
    for i in 0..4 {
        g.quat[i] += quat[i];
    }
}
