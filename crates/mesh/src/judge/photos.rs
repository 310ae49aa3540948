//! A mesh against photos: PSNR of its renders.

use crate::colour::{sampled, to_bytes};
use crate::mesh::Mesh;
use crate::raster::{NOTHING, rasterize};
use crate::view::{PhotoSource, Pinhole};
use dapple_base::Result;
use dapple_scene::Photo;
use glam::{Vec2, Vec3};
use rayon::prelude::*;

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
