//! Small CPU rasterizer: nearest triangle and depth of each pixel.
//!
//! A mesh is drawn from many cameras. So its triangles are gathered into clusters once, and each camera draws the nearest
//! clusters first. A cluster outside the image, or behind all that is drawn in its part of the image, costs one test
//! (hierarchical z-buffer, Greene et al. 1993). The picture does not depend on the order.

use crate::corners::{atomics, plain};
use crate::mesh::Mesh;
use crate::view::{Pinhole, ball_around};
use glam::{Vec2, Vec3};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// Triangle of a pixel without one.
pub const NOTHING: u32 = u32::MAX;

/// Triangles of a cluster.
const TRIANGLES: usize = 128;

/// Rows of one task: whole tiles.
const BAND: usize = 16 * TILE;

/// Side of a tile with one farthest depth, pixels.
const TILE: usize = 16;

/// Clusters that are drawn before the farthest depths are computed again.
const AT_ONCE: usize = 64;

/// Least depth of a triangle, relative to the largest coordinate of its corners.
const NEAR: f32 = 1e-4;

/// Relative error of an interpolated depth.
const ROUNDING: f32 = 1e-5;

/// Nearest triangle of each pixel.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Raster {
    /// Depth along +z, world units; infinite without a triangle, `[height, width]`.
    pub depth: Vec<f32>,
    /// Triangle, or [`NOTHING`], `[height, width]`.
    pub triangle: Vec<u32>,
}

/// Corner of a triangle in the image, with one over its depth.
type Corner = (Vec2, f32);

/// Consecutive triangles of a mesh.
struct Cluster {
    /// Middle and radius of a ball around the vertices, world units.
    ball: (Vec3, f32),
    /// Vertices of the triangles, world units.
    positions: Vec<Vec3>,
    /// Corners of each triangle, as indices of `positions`.
    corners: Vec<[u16; 3]>,
}

/// A mesh, prepared to be drawn from many cameras.
pub struct Clusters(Vec<Cluster>);

/// A cluster in an image.
struct Placed {
    /// Index of the cluster.
    index: usize,
    /// One over the least depth of its ball; infinite around the camera.
    nearest: f32,
    /// Columns and rows that it may cover.
    range: [Range<usize>; 2],
}

impl Cluster {
    fn of(triangles: &[[u32; 3]], positions: &[Vec3]) -> Self {
        let mut vertices = triangles.as_flattened().to_vec();
        vertices.sort_unstable();
        vertices.dedup();
        let place = |v: u32| vertices.partition_point(|&other| other < v) as u16;
        let corners = triangles.iter().map(|t| t.map(place)).collect();
        let positions: Vec<Vec3> = vertices.iter().map(|&v| positions[v as usize]).collect();
        // Triangles with other vertices are not drawn.
        let finite = positions.iter().copied().filter(|p| p.is_finite());
        Self {
            ball: ball_around(finite),
            positions,
            corners,
        }
    }

    /// Returns where the cluster is in an image; `None` outside of it.
    fn placed(&self, index: usize, camera: &Pinhole) -> Option<Placed> {
        let (middle, radius) = self.ball;
        let middle = camera.to_camera(middle);
        let [low, high] = camera.around_ball(middle, radius)?;
        let range = |k: usize| {
            let end = (high[k] as usize).saturating_add(1);
            low[k].max(0.0) as usize..end.min(camera.size[k])
        };
        let near = middle.z - radius;
        Some(Placed {
            index,
            nearest: match near > 0.0 {
                true => (1.0 + ROUNDING) / near,
                false => f32::INFINITY,
            },
            range: [range(0), range(1)],
        })
    }
}

impl Clusters {
    /// Gathers the triangles of a mesh.
    pub fn of(mesh: &Mesh) -> Self {
        let chunks = mesh.triangles.par_chunks(TRIANGLES);
        Self(
            chunks
                .map(|triangles| Cluster::of(triangles, &mesh.positions))
                .collect(),
        )
    }

    /// Draws the mesh. Both sides of a triangle are drawn. A triangle that reaches behind the camera is omitted. If triangles
    /// have the same depth, the first in the mesh is drawn.
    pub fn rasterize(&self, camera: &Pinhole) -> Raster {
        let [width, height] = camera.size;
        if width == 0 || height == 0 {
            return Raster::default();
        }
        let placed = self.0.par_iter().enumerate();
        let placed = placed.filter_map(|(i, cluster)| cluster.placed(i, camera));
        let mut placed: Vec<Placed> = placed.collect();
        placed.par_sort_by(|a, b| b.nearest.total_cmp(&a.nearest));
        let mut raster = Raster {
            depth: vec![0.0; width * height],
            triangle: vec![NOTHING; width * height],
        };
        let depths = raster.depth.par_chunks_mut(BAND * width);
        let triangles = raster.triangle.par_chunks_mut(BAND * width);
        let bands = depths.zip(triangles).enumerate();
        bands.for_each(|(band, (inverse, triangle))| {
            let mut band = Band::new(width, band * BAND, inverse, triangle);
            band.draw_clusters(&self.0, &placed, camera);
            for value in band.inverse {
                *value = 1.0 / *value;
            }
        });
        raster
    }
}

/// Depths of a mesh from a camera.
#[derive(Debug, Clone, PartialEq)]
pub struct MeshDepths {
    size: [usize; 2],
    /// See [`Raster::depth`].
    depth: Vec<f32>,
}

impl MeshDepths {
    /// Returns the bytes of the depths.
    pub fn bytes(&self) -> u64 {
        size_of_val(&self.depth[..]) as u64
    }

    /// Returns the depth along +z at a place of the image, world units; infinite without a triangle. Coordinates of places
    /// are 0 to 1, from the upper left corner.
    pub fn at(&self, place: Vec2) -> f32 {
        let [x, y] = [0, 1].map(|k| (place[k] * self.size[k] as f32) as usize);
        let is_inside = x < self.size[0] && y < self.size[1];
        match is_inside {
            true => self.depth[y * self.size[0] + x],
            false => f32::INFINITY,
        }
    }
}

/// Returns the number of pixels of all cameras in which each triangle is the nearest, with its front to the camera, and
/// the depths from each camera.
pub fn seen_from(mesh: &Mesh, cameras: &[Pinhole]) -> (Vec<u32>, Vec<MeshDepths>) {
    let clusters = Clusters::of(mesh);
    let counts = atomics(vec![0; mesh.triangles.len()]);
    let depths = cameras.par_iter().map(|camera| {
        let raster = clusters.rasterize(camera);
        // Neighbouring pixels often show one triangle.
        for same in raster
            .triangle
            .chunk_by(|a, b| a == b)
            .filter(|same| same[0] != NOTHING)
        {
            let t = same[0] as usize;
            if mesh.cross(t).dot(camera.centre - mesh.corners(t)[0]) > 0.0 {
                counts[t].fetch_add(same.len() as u32, Relaxed);
            }
        }
        MeshDepths {
            size: camera.size,
            depth: raster.depth,
        }
    });
    let depths = depths.collect();
    (plain(counts), depths)
}

/// Rows of an image.
struct Band<'a> {
    width: usize,
    rows: Range<usize>,
    /// Least of `inverse` in each tile.
    farthest: Vec<f32>,
    /// One over the depth of each pixel, 0 without a triangle.
    inverse: &'a mut [f32],
    triangle: &'a mut [u32],
}

impl<'a> Band<'a> {
    /// Takes the rows of an image from `top` on, without triangles.
    fn new(width: usize, top: usize, inverse: &'a mut [f32], triangle: &'a mut [u32]) -> Self {
        Self {
            width,
            rows: top..top + inverse.len() / width,
            farthest: Vec::new(),
            inverse,
            triangle,
        }
    }

    /// Draws clusters, the nearest first.
    fn draw_clusters(&mut self, clusters: &[Cluster], placed: &[Placed], camera: &Pinhole) {
        let mut corners = Vec::new();
        let mut drawn = 0;
        for placed in placed {
            let rows = &placed.range[1];
            if rows.start >= self.rows.end || rows.end <= self.rows.start {
                continue;
            }
            if self.hides(placed) {
                continue;
            }
            let cluster = &clusters[placed.index];
            corners.clear();
            corners.extend(cluster.positions.iter().map(|&p| corner(camera, p)));
            for (i, triangle) in cluster.corners.iter().enumerate() {
                let index = (placed.index * TRIANGLES + i) as u32;
                self.draw(triangle.map(|i| corners[usize::from(i)]), index);
            }
            drawn += 1;
            if drawn % AT_ONCE == 0 {
                self.find_farthest();
            }
        }
    }

    /// Computes the farthest depth of each tile.
    fn find_farthest(&mut self) {
        let columns = self.width.div_ceil(TILE);
        self.farthest.clear();
        for rows in self.inverse.chunks(TILE * self.width) {
            let first = self.farthest.len();
            self.farthest.resize(first + columns, f32::INFINITY);
            for row in rows.chunks_exact(self.width) {
                for (least, values) in self.farthest[first..].iter_mut().zip(row.chunks(TILE)) {
                    *least = values.iter().fold(*least, |least, &v| least.min(v));
                }
            }
        }
    }

    /// Returns true if all pixels that a cluster may cover show something nearer.
    fn hides(&self, placed: &Placed) -> bool {
        if self.farthest.is_empty() {
            return false;
        }
        let columns = self.width.div_ceil(TILE);
        let [x, y] = &placed.range;
        let y = y.start.max(self.rows.start) - self.rows.start
            ..y.end.min(self.rows.end) - self.rows.start;
        (y.start / TILE..y.end.div_ceil(TILE)).all(|row| {
            let tiles = &self.farthest[row * columns..][x.start / TILE..x.end.div_ceil(TILE)];
            tiles.iter().all(|&farthest| farthest > placed.nearest)
        })
    }

    /// Draws a triangle.
    fn draw(&mut self, corners: [Corner; 3], index: u32) {
        let [(a, za), (b, zb), (c, zc)] = corners;
        // The pixels with their middle between the corners.
        let range = |k: usize, low: usize, end: usize| {
            let (least, most) = (a[k].min(b[k]).min(c[k]), a[k].max(b[k]).max(c[k]));
            // Conversions to integers round down; `ceil` would be a call.
            let start = (least - 0.5).max(low as f32);
            let whole = start as usize;
            let past = (most + 0.5).max(0.0).min(end as f32);
            whole + usize::from((whole as f32) < start)..past as usize
        };
        let (rows, columns) = (
            range(1, self.rows.start, self.rows.end),
            range(0, 0, self.width),
        );
        if rows.is_empty() || columns.is_empty() {
            return;
        }
        let area = (b - a).perp_dot(c - a);
        if area == 0.0 || !area.is_finite() {
            return;
        }
        let per_area = 1.0 / area;
        for y in rows {
            let start = (y - self.rows.start) * self.width;
            for x in columns.clone() {
                let p = Vec2::new(x as f32 + 0.5, y as f32 + 0.5);
                let u = (c - b).perp_dot(p - b) * per_area;
                let v = (a - c).perp_dot(p - c) * per_area;
                let w = 1.0 - u - v;
                if u.min(v).min(w) < 0.0 {
                    continue;
                }
                let value = u * za + v * zb + w * zc;
                let (nearest, triangle) =
                    (&mut self.inverse[start + x], &mut self.triangle[start + x]);
                if value > *nearest || value == *nearest && index < *triangle {
                    (*nearest, *triangle) = (value, index);
                }
            }
        }
    }
}

/// Returns a vertex in the image; NaN behind the camera.
fn corner(camera: &Pinhole, position: Vec3) -> Corner {
    let p = camera.to_camera(position);
    match p.z > NEAR * p.abs().max_element() {
        true => (camera.project(p), 1.0 / p.z),
        false => (Vec2::NAN, 0.0),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use dapple_scene::{Camera, Pose};

    /// Returns numbers of -1 to 1.
    pub(crate) fn numbers(mut state: u32) -> impl FnMut() -> f32 {
        move || {
            state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
            (state >> 8) as f32 / (1u32 << 23) as f32 - 1.0
        }
    }

    /// Returns strips of triangles in random places, some of them around the camera or behind it.
    fn strips(count: u32) -> Mesh {
        let mut next = numbers(count);
        let mut mesh = Mesh::default();
        for _ in 0..count {
            let middle = Vec3::new(3.0 * next(), 3.0 * next(), 4.0 * next() + 3.0);
            let size = 0.02 + 0.6 * next().abs().powi(3);
            let first = mesh.positions.len() as u32;
            let mut vector = || Vec3::new(next(), next(), next());
            mesh.positions
                .extend((0..40).map(|_| middle + size * vector()));
            mesh.triangles
                .extend((first..first + 38).map(|i| [i, i + 1, i + 2]));
        }
        mesh
    }

    /// Draws all triangles into one band, without clusters.
    fn drawn_in_order(mesh: &Mesh, camera: &Pinhole) -> Raster {
        let [width, height] = camera.size;
        let (mut inverse, mut triangle) =
            (vec![0.0; width * height], vec![NOTHING; width * height]);
        let mut band = Band::new(width, 0, &mut inverse, &mut triangle);
        for t in 0..mesh.triangles.len() {
            band.draw(mesh.corners(t).map(|p| corner(camera, p)), t as u32);
        }
        Raster {
            depth: inverse.iter().map(|v| 1.0 / v).collect(),
            triangle,
        }
    }

    #[test]
    fn what_clusters_skip_is_hidden_or_outside() {
        // More rows than a band, and tiles that the image cuts.
        let camera = Pinhole::new(&Camera::pinhole(
            203,
            BAND as u32 + 90,
            150.0,
            Pose::IDENTITY,
        ));
        let mut covered = 0.0;
        for count in [1, 40, 3000] {
            let mut mesh = strips(count);
            let expected = drawn_in_order(&mesh, &camera);
            let raster = Clusters::of(&mesh).rasterize(&camera);
            assert_eq!(raster, expected, "{count}");
            let drawn = raster.triangle.iter().filter(|&&t| t != NOTHING).count();
            covered = drawn as f64 / raster.triangle.len() as f64;
            // Vertices that are no numbers take only their own triangles with them.
            mesh.positions[3] = Vec3::NAN;
            let expected = drawn_in_order(&mesh, &camera);
            assert_eq!(Clusters::of(&mesh).rasterize(&camera), expected);
        }
        // So there is something to hide.
        assert!(covered > 0.9, "{covered}");
    }

    #[test]
    fn a_wall_hides_what_is_behind_it() {
        let camera = Pinhole::new(&Camera::pinhole(320, 320, 200.0, Pose::IDENTITY));
        let mut mesh = Mesh {
            positions: [[-9.0, -9.0], [9.0, -9.0], [9.0, 9.0], [-9.0, 9.0]]
                .map(|[x, y]| Vec3::new(x, y, 1.5))
                .to_vec(),
            triangles: vec![[0, 1, 2], [0, 2, 3]],
            ..Mesh::default()
        };
        let mut behind = strips(3000);
        behind
            .positions
            .iter_mut()
            .for_each(|p| p.z = p.z.abs() + 2.0);
        // Enough in front of the wall that depths are computed again.
        let mut before = strips(400);
        before
            .positions
            .iter_mut()
            .for_each(|p| *p = p.clamp(Vec3::splat(-0.2), Vec3::splat(0.2)) + Vec3::Z);
        mesh.append(&before);
        mesh.append(&behind);
        let clusters = Clusters::of(&mesh);
        let placed = clusters
            .0
            .iter()
            .enumerate()
            .filter_map(|(i, c)| c.placed(i, &camera));
        let mut placed: Vec<Placed> = placed.collect();
        placed.sort_by(|a, b| b.nearest.total_cmp(&a.nearest));
        let (mut inverse, mut triangle) = (vec![0.0; 320 * 320], vec![NOTHING; 320 * 320]);
        let mut band = Band::new(320, 0, &mut inverse, &mut triangle);
        band.draw_clusters(&clusters.0, &placed, &camera);
        let hidden = placed.iter().filter(|placed| band.hides(placed)).count();
        assert!(hidden > 200, "{hidden} of {}", placed.len());
        assert_eq!(clusters.rasterize(&camera), drawn_in_order(&mesh, &camera));
    }
}
