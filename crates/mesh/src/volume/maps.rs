//! Depth maps as the fusion uses them: depth, weight and slant of each pixel.

use crate::view::{DepthView, Pinhole};
use glam::{Vec2, Vec3};
use rayon::prelude::*;
use std::cmp::Ordering;

/// Depth of a pixel that shows free space without end.
pub const OPEN: f32 = f32::INFINITY;

/// Least cosine between the ray and the normal; pixels of more grazing rays are dropped.
const LEAST_COSINE: f32 = 0.15;

/// Largest alpha of a pixel that counts as free space.
const OPEN_ALPHA: f32 = 0.1;

/// Steps of the bytes of a map.
const STEPS: f32 = 255.0;

/// Side of a tile with one depth range, pixels.
const TILE: usize = 16;

/// Depth map of one view.
#[derive(Debug, Clone)]
pub struct DepthMap {
    /// Camera.
    pub camera: Pinhole,
    /// Depth along +z, world units; 0 for an unknown pixel, [`OPEN`] for free space, `[height, width]`.
    pub depth: Vec<f32>,
    /// Weight of the surface in steps of 1/255; 0 for a pixel that is dropped.
    weight: Vec<u8>,
    /// Cosine between the ray and the normal in steps of 1/255.
    slant: Vec<u8>,
    /// Largest depth of each tile; [`OPEN`] if a pixel shows free space.
    farthest: Vec<f32>,
    tiles: [usize; 2],
}

/// Bytes of a map per pixel.
pub const BYTES_PER_PIXEL: u64 = 6;

impl DepthMap {
    /// Prepares the depths of a view. A pixel is dropped if its depth differs from that of a neighbour by more than
    /// `jump` pixel footprints, or if its ray grazes the surface.
    pub fn new(camera: Pinhole, view: &DepthView, jump: f32) -> Self {
        let [width, height] = camera.size;
        let known = |i: usize| view.depth[i] > 0.0 && view.depth[i].is_finite();
        let derived;
        let normals = match &view.normals {
            Some(normals) => normals,
            None => {
                derived = normals_of(&camera, &view.depth);
                &derived
            }
        };
        let limit = jump / camera.mean_focal();
        let pixel = |i: usize| {
            if !known(i) {
                let is_open = view.alpha.get(i).is_some_and(|&alpha| alpha < OPEN_ALPHA);
                return (if is_open { OPEN } else { 0.0 }, 0, 0);
            }
            let (x, y, z) = (i % width, i / width, view.depth[i]);
            let ray = camera.ray(Vec2::new(x as f32 + 0.5, y as f32 + 0.5));
            let cosine = -Vec3::from(normals[i]).dot(ray.normalize());
            let sides = [
                (x > 0).then(|| i - 1),
                (x + 1 < width).then_some(i + 1),
                (y > 0).then(|| i - width),
                (y + 1 < height).then_some(i + width),
            ];
            let is_edge = sides.into_iter().flatten().any(|j| {
                let other = view.depth[j];
                !known(j) || (other - z).abs() > limit * z.min(other)
            });
            let alpha = view.alpha.get(i).copied().unwrap_or(1.0).clamp(0.0, 1.0);
            // NaN drops the pixel too.
            let is_kept = cosine >= LEAST_COSINE && !is_edge;
            let weight = if is_kept { alpha * cosine } else { 0.0 };
            let byte = |v: f32| (v.clamp(0.0, 1.0) * STEPS).round() as u8;
            (z, byte(weight), byte(cosine))
        };
        let pixels: Vec<(f32, u8, u8)> = (0..width * height).into_par_iter().map(pixel).collect();
        let tiles = [width.div_ceil(TILE), height.div_ceil(TILE)];
        let mut map = Self {
            camera,
            depth: pixels.par_iter().map(|p| p.0).collect(),
            weight: pixels.par_iter().map(|p| p.1).collect(),
            slant: pixels.par_iter().map(|p| p.2).collect(),
            farthest: vec![0.0; tiles[0] * tiles[1]],
            tiles,
        };
        let rows = map.depth.par_chunks(TILE * width);
        let farthest = map.farthest.par_chunks_mut(tiles[0]);
        rows.zip(farthest).for_each(|(rows, farthest)| {
            for row in rows.chunks_exact(width) {
                for (farthest, depths) in farthest.iter_mut().zip(row.chunks(TILE)) {
                    *farthest = depths
                        .iter()
                        .fold(*farthest, |most, &depth| most.max(depth));
                }
            }
        });
        map
    }

    /// Returns the weight of a pixel, 0 to 1.
    pub fn weight(&self, pixel: usize) -> f32 {
        f32::from(self.weight[pixel]) / STEPS
    }

    /// Drops a pixel.
    pub fn drop_pixel(&mut self, pixel: usize) {
        self.weight[pixel] = 0;
    }

    /// Returns the cosine between the ray of a pixel and its normal.
    pub fn cosine(&self, pixel: usize) -> f32 {
        f32::from(self.slant[pixel]) / STEPS
    }

    /// Returns the depth at a place of the image: between the four pixels around it if their depths are within `jump`
    /// of the depth of the pixel, else the depth of the pixel.
    pub fn depth_at(&self, place: Vec2, pixel: usize, jump: f32) -> f32 {
        let nearest = self.depth[pixel];
        let corner = place - 0.5;
        let [width, height] = self.camera.size;
        if corner.x < 0.0 || corner.y < 0.0 {
            return nearest;
        }
        let (x, y) = (corner.x as usize, corner.y as usize);
        if x + 1 >= width || y + 1 >= height {
            return nearest;
        }
        let i = y * width + x;
        let around = [i, i + 1, i + width, i + width + 1].map(|i| self.depth[i]);
        // Unknown and open pixels fail the comparison.
        if !around.iter().all(|d| (d - nearest).abs() <= jump) {
            return nearest;
        }
        let (u, v) = (corner.x - x as f32, corner.y - y as f32);
        let upper = around[0] + (around[1] - around[0]) * u;
        let lower = around[2] + (around[3] - around[2]) * u;
        upper + (lower - upper) * v
    }

    /// Compares a world point with the depth of its pixel: `Equal` within `tolerance`, `Less` for a point in front of
    /// the depth, which the map sees through, `Greater` for a hidden point. `None` outside the image or without a
    /// depth.
    pub fn compare(&self, point: Vec3, tolerance: f32) -> Option<Ordering> {
        let place = self.camera.to_camera(point);
        if place.z <= 0.0 {
            return None;
        }
        let pixel = self.camera.pixel(self.camera.project(place))?;
        let depth = self.depth[pixel];
        if depth == 0.0 {
            return None;
        }
        Some(match place.z - depth {
            ahead if ahead < -tolerance => Ordering::Less,
            behind if behind > tolerance => Ordering::Greater,
            _ => Ordering::Equal,
        })
    }

    /// Returns false if the map shows no point of a ball, world units: the ball is outside the image, or farther than
    /// `tolerance` behind all depths there.
    pub fn may_show(&self, (middle, radius): (Vec3, f32), tolerance: f32) -> bool {
        let middle = self.camera.to_camera(middle);
        self.farthest_behind(middle, radius)
            .is_some_and(|farthest| farthest > middle.z - radius - tolerance)
    }

    /// Returns the world point of a pixel with a depth.
    pub fn point(&self, pixel: usize) -> Vec3 {
        self.camera.to_world(self.ray(pixel) * self.depth[pixel])
    }

    /// Returns the ray through the centre of a pixel, with z = 1, camera coordinates.
    pub fn ray(&self, pixel: usize) -> Vec3 {
        let (x, y) = (pixel % self.camera.size[0], pixel / self.camera.size[0]);
        self.camera.ray(Vec2::new(x as f32 + 0.5, y as f32 + 0.5))
    }

    /// Returns the largest depth of the pixels that a ball covers, camera coordinates; `None` if the ball is outside the
    /// image.
    fn farthest_behind(&self, centre: Vec3, radius: f32) -> Option<f32> {
        let [low, high] = self.camera.around_ball(centre, radius)?;
        if low == Vec2::NEG_INFINITY {
            return Some(OPEN);
        }
        let range = |k: usize| {
            let last = self.tiles[k] - 1;
            let tile = |v: f32| ((v.max(0.0) as usize) / TILE).min(last);
            (tile(low[k]), tile(high[k]))
        };
        let (columns, rows) = (range(0), range(1));
        let mut farthest: f32 = 0.0;
        for y in rows.0..=rows.1 {
            let row = &self.farthest[y * self.tiles[0]..];
            for depth in &row[columns.0..=columns.1] {
                farthest = farthest.max(*depth);
            }
        }
        Some(farthest)
    }
}

/// Returns the normals of the surface in a depth image, camera coordinates, facing the camera; zero without depths
/// around a pixel.
///
/// A plane is fitted to the inverse depths of the 5x5 pixels around a pixel: the inverse depth of a plane is linear in
/// the image. Pixels beyond an edge are excluded.
pub fn normals_of(camera: &Pinhole, depth: &[f32]) -> Vec<[f32; 3]> {
    const REACH: isize = 2;
    /// Largest relative difference of depth to the middle of the window, per pixel of distance.
    const SLOPE: f32 = 8.0;
    let [width, height] = camera.size;
    let step = SLOPE / camera.mean_focal();
    let normal = |i: usize| -> Option<Vec3> {
        let (x, y) = ((i % width) as isize, (i / width) as isize);
        let z = depth[i];
        if !(z > 0.0 && z.is_finite()) {
            return None;
        }
        // Sums of 1, u, v, uu, uv, vv and of their products with the inverse depth.
        let (mut n, mut s, mut t) = (0.0, [0.0f32; 5], [0.0f32; 3]);
        for dy in -REACH..=REACH {
            for dx in -REACH..=REACH {
                let (px, py) = (x + dx, y + dy);
                if px < 0 || py < 0 || px >= width as isize || py >= height as isize {
                    continue;
                }
                let other = depth[py as usize * width + px as usize];
                let reach = step * (dx.abs().max(dy.abs())) as f32 + 0.002;
                // Also false for NaN, zero and infinity.
                if !(other > 0.0 && (other - z).abs() <= reach * z) {
                    continue;
                }
                let (u, v, w) = (dx as f32, dy as f32, z / other);
                n += 1.0;
                for (sum, term) in s.iter_mut().zip([u, v, u * u, u * v, v * v]) {
                    *sum += term;
                }
                for (sum, term) in t.iter_mut().zip([w, u * w, v * w]) {
                    *sum += term;
                }
            }
        }
        if n < 6.0 {
            return None;
        }
        let matrix =
            glam::Mat3::from_cols_array(&[n, s[0], s[1], s[0], s[2], s[3], s[1], s[3], s[4]]);
        if matrix.determinant() <= 1e-3 {
            return None;
        }
        let fit = matrix.inverse() * Vec3::from(t);
        // 1/z = a + b u + c v, with u = f X/Z + p: the plane's normal is (b fx, c fy, a at the principal point).
        let place = Vec2::new(x as f32 + 0.5, y as f32 + 0.5) - camera.principal;
        let (b, c) = (fit.y, fit.z);
        let a = fit.x - b * place.x - c * place.y;
        let normal = -Vec3::new(b * camera.focal.x, c * camera.focal.y, a);
        normal.try_normalize()
    };
    let pixels = (0..width * height).into_par_iter();
    pixels
        .map(|i| normal(i).unwrap_or(Vec3::ZERO).to_array())
        .collect()
}
