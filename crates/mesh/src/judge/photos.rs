//! A mesh against photos: PSNR of its renders, and its distance to sparse points in pixels.

use super::samples::samples;
use crate::colour::{sampled, to_bytes};
use crate::mesh::Mesh;
use crate::nearest::Nearest;
use crate::raster::{NOTHING, rasterize};
use crate::view::{PhotoSource, Pinhole};
use crate::volume::{is_in_box, median};
use dapple_base::Result;
use dapple_scene::Photo;
use glam::{Vec2, Vec3};
use rayon::prelude::*;

/// Points on a mesh per square of the median pixel, and their least and largest number.
const POINTS: [usize; 2] = [200_000, 4_000_000];

/// Renders the colours of a mesh; `background` where there is no triangle. Returns the picture, and true for each pixel
/// with a triangle.
pub fn picture(mesh: &Mesh, camera: &Pinhole, background: [u8; 3]) -> (Photo, Vec<bool>) {
    let raster = rasterize(mesh, camera);
    let width = camera.size[0];
    let page = mesh.texture.as_ref().map(|texture| {
        let [w, h] = texture.size;
        Photo::from_rgb(w, h, texture.rgb.clone())
    });
    let colour = |i: usize| {
        let t = raster.triangle[i];
        if t == NOTHING {
            return background;
        }
        let t = t as usize;
        let middle = Vec2::new((i % width) as f32 + 0.5, (i / width) as f32 + 0.5);
        let point = camera.to_world(camera.ray(middle) * raster.depth[i]);
        let shares = barycentric(mesh.corners(t), point);
        if let (Some(page), Some(texture)) = (&page, &mesh.texture) {
            let [a, b, c] = texture.corners[t];
            let place = a * shares.x + b * shares.y + c * shares.z;
            let size = Vec2::new(page.width as f32, page.height as f32);
            return to_bytes(sampled(page, place * size));
        }
        if mesh.colours.len() == mesh.positions.len() {
            let [a, b, c] =
                mesh.triangles[t].map(|v| Vec3::from(mesh.colours[v as usize].map(f32::from)));
            return to_bytes(a * shares.x + b * shares.y + c * shares.z);
        }
        let facing = mesh
            .cross(t)
            .normalize_or_zero()
            .dot((camera.centre - point).normalize_or_zero());
        to_bytes(Vec3::splat(40.0 + 200.0 * facing.abs()))
    };
    let rgb: Vec<[u8; 3]> = (0..raster.triangle.len())
        .into_par_iter()
        .map(colour)
        .collect();
    let covered = raster.triangle.iter().map(|&t| t != NOTHING).collect();
    let photo = Photo::from_rgb(
        camera.size[0] as u32,
        camera.size[1] as u32,
        rgb.into_flattened(),
    );
    (photo, covered)
}

/// Returns the barycentric coordinates of a point in the plane of a triangle.
fn barycentric([a, b, c]: [Vec3; 3], p: Vec3) -> Vec3 {
    let cross = (b - a).cross(c - a);
    let square = cross.length_squared().max(f32::MIN_POSITIVE);
    let u = (c - b).cross(p - b).dot(cross) / square;
    let v = (a - c).cross(p - c).dot(cross) / square;
    Vec3::new(u, v, 1.0 - u - v).clamp(Vec3::ZERO, Vec3::ONE)
}

/// Score of a mesh at one photo.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PhotoScore {
    /// PSNR over all pixels, dB; pixels without a triangle are black.
    pub psnr: f64,
    /// PSNR over the pixels with a triangle, dB.
    pub psnr_covered: f64,
    /// Share of the pixels with a triangle.
    pub covered: f64,
}

/// Scores renders of a mesh against some of the photos.
///
/// # Errors
/// A photo that cannot be read.
pub fn score_photos(
    mesh: &Mesh,
    photos: &dyn PhotoSource,
    indices: &[usize],
) -> Result<Vec<PhotoScore>> {
    let score = |&index: &usize| {
        let (camera, photo) = photos.photo(index)?;
        let (render, covered) = picture(mesh, &Pinhole::new(&camera), [0; 3]);
        let (mut all, mut inside, mut count) = (0.0, 0.0, 0usize);
        for (i, &is_covered) in covered.iter().enumerate() {
            let error: f64 = (0..3)
                .map(|k| {
                    (f64::from(render.rgb[3 * i + k]) - f64::from(photo.rgb[3 * i + k])).powi(2)
                })
                .sum();
            all += error;
            if is_covered {
                inside += error;
                count += 1;
            }
        }
        let psnr = |sum: f64, pixels: usize| {
            let mean = sum / (3 * pixels.max(1)) as f64 / (255.0 * 255.0);
            -10.0 * mean.max(1e-10).log10()
        };
        Ok(PhotoScore {
            psnr: psnr(all, covered.len()),
            psnr_covered: psnr(inside, count),
            covered: count as f64 / covered.len().max(1) as f64,
        })
    };
    indices.iter().map(score).collect()
}

/// Sparse point with the cameras that observe it.
#[derive(Debug, Clone, PartialEq)]
pub struct SparsePoint {
    /// Position, world units.
    pub position: Vec3,
    /// Indices of cameras; without any, all cameras that face the point count.
    pub cameras: Vec<u32>,
}

/// Returns the median distance of sparse points to the mesh in pixels of the nearest camera that observes them, and the
/// number of points in the box of the mesh; `None` without points there.
pub fn sparse_distance(
    mesh: &Mesh,
    points: &[SparsePoint],
    cameras: &[Pinhole],
) -> Option<(f32, usize)> {
    let bounds = mesh.bounds()?;
    let inside: Vec<&SparsePoint> = points
        .iter()
        .filter(|p| is_in_box(p.position, bounds))
        .collect();
    let spots = samples(mesh, (4 * mesh.triangles.len()).clamp(POINTS[0], POINTS[1]));
    let places: Vec<Vec3> = spots.iter().map(|s| s.0).collect();
    let nearest = Nearest::new(&places);
    let pixels = |point: &&SparsePoint| {
        let (i, _) = nearest.find(point.position)?;
        let distance = to_triangle(mesh.corners(spots[i].1 as usize), point.position);
        let depth = |camera: &Pinhole| camera.to_camera(point.position).z / camera.mean_focal();
        let own = point
            .cameras
            .iter()
            .filter_map(|&c| cameras.get(c as usize))
            .map(depth);
        let all = cameras.iter().map(depth);
        let footprint = match point.cameras.is_empty() {
            true => all.filter(|&d| d > 0.0).min_by(f32::total_cmp),
            false => own.filter(|&d| d > 0.0).min_by(f32::total_cmp),
        };
        footprint.map(|footprint| distance / footprint)
    };
    let found: Vec<f32> = inside.par_iter().filter_map(pixels).collect();
    let count = found.len();
    (count > 0).then(|| (median(found), count))
}

/// Returns the distance of a point to a triangle.
pub fn to_triangle([a, b, c]: [Vec3; 3], p: Vec3) -> f32 {
    let normal = (b - a).cross(c - a);
    let is_inside = [(a, b), (b, c), (c, a)]
        .into_iter()
        .all(|(from, to)| (to - from).cross(p - from).dot(normal) >= 0.0);
    if is_inside && normal.length_squared() > 0.0 {
        return (p - a).dot(normal.normalize()).abs();
    }
    let to_edge = |from: Vec3, to: Vec3| {
        let along = to - from;
        let share = (p - from).dot(along) / along.length_squared().max(f32::MIN_POSITIVE);
        p.distance(from + along * share.clamp(0.0, 1.0))
    };
    to_edge(a, b).min(to_edge(b, c)).min(to_edge(c, a))
}
