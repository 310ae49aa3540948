//! Matching photos. Formulas: [`dapple_engine::features::normals::matching`]; reference:
//! `dapple_reference::matching_loss`.
//!
//! A patch takes one pass: the loss and its derivatives follow from sums over the samples. Shades are relative to those
//! at the centre, so that variances do not cancel.

use super::kernels::{Point, blended_at, point_of};
use crate::cameras::place_of;
use crate::features::depth::kernels::depth_row;
use crate::frame::{CameraF32, Frame, tiled};
use crate::simd::ROW;
use dapple_engine::LensForm;
use dapple_engine::features::normals::matching::{GRID, LEAST_MATCH, LEAST_VARIANCE, Pair, SIDE};
use dapple_scene::grey::GreyPhoto;
use glam::{DVec2, Mat3, Vec2, Vec3, Vec4};
use rayon::prelude::*;

/// Patches of one task.
const CHUNK: usize = 64;

/// Photos and cameras of a comparison.
pub struct Compared<'a> {
    /// The comparison.
    pub pair: Pair,
    /// Photo of the step's view.
    pub own: &'a GreyPhoto,
    /// Photo of the neighbour.
    pub other: &'a GreyPhoto,
    /// Lens of the neighbour, if it distorts.
    pub lens: Option<LensForm>,
}

/// Adds the derivatives of the loss to `image_gradient` and `depth.gradient` of the exchanged frame.
pub fn loss(camera: &CameraF32, weight: f32, compared: &Compared<'_>, frame: &mut Frame) {
    let [columns, rows] = camera.size.map(|n| n / GRID);
    let share = weight / (columns * rows).max(1) as f32;
    let [first_x, first_y] = compared.pair.first;
    let pixel = |place: usize| {
        let place = place as u32;
        let (x, y) = (place % columns, place / columns);
        [GRID * x + first_x, GRID * y + first_y]
    };
    let of_patch = |place: usize| -> Option<Vec4> {
        let at = pixel(place);
        let (normal, distance, alpha) = blended_at(camera, frame, at.map(|n| n as usize));
        let index = (at[1] * camera.size[0] + at[0]) as usize;
        let point = point_of(camera, index, normal, distance, alpha)?;
        let plane = (normal, distance);
        patch(camera, compared, at, &point, plane)?.derivatives()
    };
    let places = (columns * rows) as usize;
    let all = (0..places).into_par_iter().with_min_len(CHUNK);
    let found: Vec<Option<Vec4>> = all.map(of_patch).collect();
    for (place, by) in found.into_iter().enumerate() {
        let Some(by) = by else { continue };
        let [x, y] = pixel(place).map(|n| n as usize);
        let (row, lane) = tiled(camera, x, y);
        for k in 0..3 {
            frame.image_gradient[row + k * ROW].0[lane] += share * by[k];
        }
        frame.depth.gradient[depth_row(row)].0[lane] += share * by[3];
    }
}

/// Sums over the samples of a patch: `a` are shades of the step's photo, `b` those of the neighbour, and `by` the
/// derivatives of `b` by the blended normal and distance.
#[derive(Default)]
struct Sums {
    a: f32,
    b: f32,
    aa: f32,
    ab: f32,
    bb: f32,
    by: Vec4,
    a_by: Vec4,
    b_by: Vec4,
}

impl Sums {
    fn add(&mut self, a: f32, b: f32, by: Vec4) {
        self.a += a;
        self.b += b;
        self.aa += a * a;
        self.ab += a * b;
        self.bb += b * b;
        self.by += by;
        self.a_by += a * by;
        self.b_by += b * by;
    }

    /// Returns the derivatives of the loss by the blended normal and distance; `None` for a patch that does not count.
    fn derivatives(&self) -> Option<Vec4> {
        let share = 1.0 / (SIDE * SIDE) as f32;
        let (a, b) = (self.a * share, self.b * share);
        let own = self.aa * share - a * a;
        let other = self.bb * share - b * b;
        if own < LEAST_VARIANCE || other < LEAST_VARIANCE {
            return None;
        }
        let inverse = 1.0 / (own * other).sqrt();
        let correlation = (self.ab * share - a * b) * inverse;
        if correlation < LEAST_MATCH {
            return None;
        }
        let by_own = (self.a_by - a * self.by) * inverse;
        let by_other = (self.b_by - b * self.by) * (correlation / other);
        Some((by_other - by_own) * share)
    }
}

/// Sums the samples around a pixel with a point; `None` if one of them is not in both photos.
fn patch(
    camera: &CameraF32,
    compared: &Compared<'_>,
    pixel: [u32; 2],
    point: &Point,
    (normal, distance): (Vec3, f32),
) -> Option<Sums> {
    let pair = &compared.pair;
    let scale = Vec2::from(pair.scale);
    let centre = Vec2::from(pixel.map(|n| n as f32)) + 0.5;
    let at = centre * scale - 0.5;
    let reach = (SIDE / 2) as f32;
    let most = Vec2::from(compared.own.size.map(|n| (n - 1) as f32));
    if (at - reach).min_element() < 0.0 || (at + reach).cmpgt(most).any() {
        return None;
    }
    let ray_at = |by: DVec2| {
        let centre = DVec2::from(pixel.map(f64::from)) + 0.5;
        camera.rays.ray(centre + by)
    };
    let along = |axis: DVec2| Some((0.5 * (ray_at(axis)? - ray_at(-axis)?)).as_vec3());
    let across = along(DVec2::X)? / scale.x;
    let down = along(DVec2::Y)? / scale.y;
    let [r0, r1, r2] = pair.rows.map(Vec4::from);
    let rotation = Mat3::from_cols(r0.truncate(), r1.truncate(), r2.truncate()).transpose();
    let translation = Vec3::new(r0.w, r1.w, r2.w);
    let (focal, principal) = (Vec2::from(pair.focal), Vec2::from(pair.principal));
    // The shade of the neighbour at a ray, and its derivatives.
    let seen = |ray: Vec3| -> Option<(f32, Vec4)> {
        let slope = normal.dot(ray);
        let factor = distance / slope;
        let point = rotation * (factor * ray) + translation;
        // Also false for what is not a number.
        if !(factor > 0.0 && point.z > 0.0) {
            return None;
        }
        let inverse = 1.0 / point.z;
        let slopes = inverse * point.truncate();
        let (place, by_a, by_b) = place_of(compared.lens.as_ref(), slopes)?;
        let (shade, gradient) = shade(compared.other, place * focal + principal)?;
        let gradient = gradient * focal;
        let by_slopes = Vec2::new(gradient.dot(by_a), gradient.dot(by_b));
        let by_point = inverse * by_slopes.extend(-by_slopes.dot(slopes));
        let by_distance = (rotation.transpose() * by_point).dot(ray) / slope;
        let by_normal = -by_distance * factor * ray;
        Some((shade, by_normal.extend(by_distance)))
    };
    let (own, _) = shade(compared.own, at)?;
    let (other, _) = seen(point.ray)?;
    let mut sums = Sums::default();
    for y in 0..SIDE {
        for x in 0..SIDE {
            let off = Vec2::new(x as f32, y as f32) - reach;
            let (a, _) = shade(compared.own, at + off)?;
            let (b, by) = seen(point.ray + off.x * across + off.y * down)?;
            sums.add(a - own, b - other, by);
        }
    }
    Some(sums)
}

/// Returns the shade at a place, counted from the middle of the first pixel, and its derivative; `None` outside of the
/// photo, and if one of the four pixels does not count.
fn shade(photo: &GreyPhoto, at: Vec2) -> Option<(f32, Vec2)> {
    let [width, height] = photo.size;
    let most = Vec2::new((width - 1) as f32, (height - 1) as f32);
    if !(at.min_element() >= 0.0 && at.cmple(most).all()) {
        return None;
    }
    let first = at.floor().min(most - 1.0);
    let f = at - first;
    let start = first.y as usize * width as usize + first.x as usize;
    let shades = |i: usize| [photo.shades[i], photo.shades[i + 1]];
    let ([a, b], [c, d]) = (shades(start), shades(start + width as usize));
    if [a, b, c, d].contains(&0) {
        return None;
    }
    let [a, b, c, d] = [a, b, c, d].map(|v| f32::from(v) * (1.0 / 255.0));
    let above = a + (b - a) * f.x;
    let below = c + (d - c) * f.x;
    let across = (b - a) * (1.0 - f.y) + (d - c) * f.y;
    Some((
        above + (below - above) * f.y,
        Vec2::new(across, below - above),
    ))
}
