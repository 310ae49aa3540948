//! Small CPU rasterizer: nearest triangle and depth of each pixel.

use crate::mesh::Mesh;
use crate::view::Pinhole;
use glam::{Vec2, Vec3};
use rayon::prelude::*;

/// Triangle of a pixel without one.
pub const NOTHING: u32 = u32::MAX;

/// Rows of one task.
const BAND: usize = 32;

/// Triangles that are sorted into bands at once.
const PART: usize = 1 << 16;

/// Least depth of a triangle, relative to the largest coordinate of its corners.
const NEAR: f32 = 1e-4;

/// Nearest triangle of each pixel.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Raster {
    /// Depth along +z, world units; infinite without a triangle, `[height, width]`.
    pub depth: Vec<f32>,
    /// Triangle, or [`NOTHING`], `[height, width]`.
    pub triangle: Vec<u32>,
}

/// Cameras that count triangles at the same time: each takes 20 bytes of memory a triangle.
const COUNTED_AT_ONCE: usize = 8;

/// Corner of a triangle in the image, with one over its depth.
type Corner = (Vec2, f32);

/// Draws a mesh. Both sides of a triangle are drawn. A triangle that reaches behind the camera is omitted.
pub fn rasterize(mesh: &Mesh, camera: &Pinhole) -> Raster {
    let [width, height] = camera.size;
    if width == 0 || height == 0 {
        return Raster::default();
    }
    let corners: Vec<Corner> = mesh
        .positions
        .par_iter()
        .map(|&p| {
            let p = camera.to_camera(p);
            match p.z > NEAR * p.abs().max_element() {
                true => (camera.project(p), 1.0 / p.z),
                false => (Vec2::NAN, 0.0),
            }
        })
        .collect();
    let bands = height.div_ceil(BAND);
    let rows = |t: &[u32; 3]| {
        let [a, b, c] = t.map(|i| corners[i as usize].0);
        let (low, high) = (a.min(b).min(c), a.max(b).max(c));
        let is_inside = low.is_finite()
            && high.is_finite()
            && (a + b + c).is_finite()
            && high.x >= 0.0
            && high.y >= 0.0
            && low.x < width as f32
            && low.y < height as f32;
        is_inside.then(|| {
            let band = |y: f32| ((y.max(0.0) as usize) / BAND).min(bands - 1);
            (band(low.y), band(high.y))
        })
    };
    // By part of the mesh, then by band: the order of the triangles stays.
    let parts = mesh.triangles.par_chunks(PART).enumerate();
    let parts: Vec<Vec<Vec<u32>>> = parts
        .map(|(part, triangles)| {
            let mut lists = vec![Vec::new(); bands];
            for (i, triangle) in triangles.iter().enumerate() {
                if let Some((first, last)) = rows(triangle) {
                    for list in &mut lists[first..=last] {
                        list.push((part * PART + i) as u32);
                    }
                }
            }
            lists
        })
        .collect();
    let mut raster = Raster {
        depth: vec![0.0; width * height],
        triangle: vec![NOTHING; width * height],
    };
    let depths = raster.depth.par_chunks_mut(BAND * width);
    let triangles = raster.triangle.par_chunks_mut(BAND * width);
    let targets = depths.zip(triangles).enumerate();
    targets.for_each(|(band, (inverse, triangle))| {
        for &t in parts.iter().flat_map(|lists| &lists[band]) {
            let corners = mesh.triangles[t as usize].map(|i| corners[i as usize]);
            draw(corners, t, (width, band * BAND), inverse, triangle);
        }
        for value in inverse {
            *value = 1.0 / *value;
        }
    });
    raster
}

/// Draws a triangle into rows from `top` on. `inverse` holds one over the depth, 0 without a triangle.
fn draw(
    corners: [Corner; 3],
    index: u32,
    (width, top): (usize, usize),
    inverse: &mut [f32],
    triangle: &mut [u32],
) {
    let [(a, za), (b, zb), (c, zc)] = corners;
    let area = (b - a).perp_dot(c - a);
    if area == 0.0 || !area.is_finite() {
        return;
    }
    let rows = inverse.len() / width;
    let range = |k: usize, low: usize, count: usize| {
        let (least, most) = (a[k].min(b[k]).min(c[k]), a[k].max(b[k]).max(c[k]));
        let start = (least - 0.5).ceil().max(low as f32) as usize;
        let end = (most - 0.5).floor().min((low + count) as f32 - 1.0);
        start..(end + 1.0).max(0.0) as usize
    };
    for y in range(1, top, rows) {
        for x in range(0, 0, width) {
            let p = Vec2::new(x as f32 + 0.5, y as f32 + 0.5);
            let u = (c - b).perp_dot(p - b) / area;
            let v = (a - c).perp_dot(p - c) / area;
            let w = 1.0 - u - v;
            if u < 0.0 || v < 0.0 || w < 0.0 {
                continue;
            }
            let value = u * za + v * zb + w * zc;
            let i = (y - top) * width + x;
            if value > inverse[i] {
                inverse[i] = value;
                triangle[i] = index;
            }
        }
    }
}

/// Returns the number of pixels of all cameras in which each triangle is the nearest, with its front to the camera.
pub fn seen_pixels(mesh: &Mesh, cameras: &[Pinhole]) -> Vec<u32> {
    let none = || vec![0u32; mesh.triangles.len()];
    let parts = cameras.par_chunks(cameras.len().div_ceil(COUNTED_AT_ONCE).max(1));
    let counts = parts.map(|cameras| {
        let mut counts = none();
        for camera in cameras {
            count_seen(mesh, camera, &mut counts);
        }
        counts
    });
    counts.reduce(none, |mut sum, part| {
        for (sum, count) in sum.iter_mut().zip(part) {
            *sum = sum.saturating_add(count);
        }
        sum
    })
}

/// Adds the pixels of a camera to `counts`.
fn count_seen(mesh: &Mesh, camera: &Pinhole, counts: &mut [u32]) {
    let raster = rasterize(mesh, camera);
    for &t in raster.triangle.iter().filter(|&&t| t != NOTHING) {
        let to_camera: Vec3 = camera.centre - mesh.corners(t as usize)[0];
        if mesh.cross(t as usize).dot(to_camera) > 0.0 {
            counts[t as usize] = counts[t as usize].saturating_add(1);
        }
    }
}
