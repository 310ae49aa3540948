//! A mesh against photos: PSNR of its renders.

use crate::colour::{ColourMap, Reduced, sampled, to_bytes};
use crate::mesh::Mesh;
use crate::raster::{Clusters, NOTHING};
use crate::view::{PhotoSource, Pinhole};
use dapple_base::Result;
use dapple_scene::{Camera, Photo};
use glam::{Vec2, Vec3};
use rayon::prelude::*;

/// Samples along each side of a pixel.
const SAMPLES: usize = 3;

/// Renders the colours of a mesh, `[height, width]`, and returns the picture and whether a pixel shows the mesh. A pixel has
/// nine samples, because a pixel of a photo is a mean over its area. If half of the samples or more are on
/// triangles, the pixel is the mean of these; otherwise it is `background`.
pub fn picture(mesh: &Mesh, camera: &Pinhole, background: [u8; 3]) -> (Photo, Vec<bool>) {
    let page = mesh.texture.as_ref().map(|texture| {
        let [w, h] = texture.size;
        Photo::from_rgb(w, h, texture.rgb.clone())
    });
    let clusters = Clusters::of(mesh);
    let [width, height] = camera.size;
    let mut sums = vec![(Vec3::ZERO, 0); width * height];
    // A sample of all pixels at a time, so that memory is that of one image.
    for sample in 0..SAMPLES * SAMPLES {
        let place = Vec2::new((sample % SAMPLES) as f32, (sample / SAMPLES) as f32);
        let shifted = Pinhole {
            principal: camera.principal + 0.5 - (place + 0.5) / SAMPLES as f32,
            ..*camera
        };
        let colours = colours((mesh, &clusters), page.as_ref(), &shifted);
        for ((sum, count), colour) in sums.iter_mut().zip(colours) {
            *sum += colour.unwrap_or_default();
            *count += usize::from(colour.is_some());
        }
    }
    let pixel = |(sum, count): (Vec3, usize)| match 2 * count >= SAMPLES * SAMPLES {
        true => (to_bytes(sum / count as f32), true),
        false => (background, false),
    };
    let (rgb, covered): (Vec<[u8; 3]>, Vec<bool>) = sums.into_iter().map(pixel).unzip();
    let photo = Photo::from_rgb(width as u32, height as u32, rgb.into_flattened());
    (photo, covered)
}

/// Returns the colour of a mesh with this texture in the middle of each pixel, 0 to 255, `[height, width]`; `None` without
/// a triangle.
fn colours(
    (mesh, clusters): (&Mesh, &Clusters),
    page: Option<&Photo>,
    camera: &Pinhole,
) -> Vec<Option<Vec3>> {
    let raster = clusters.rasterize(camera);
    let width = camera.size[0];
    let colour = |i: usize| {
        let t = raster.triangle[i];
        if t == NOTHING {
            return None;
        }
        let t = t as usize;
        let middle = Vec2::new((i % width) as f32 + 0.5, (i / width) as f32 + 0.5);
        let point = camera.to_world(camera.ray(middle) * raster.depth[i]);
        let shares = barycentric(mesh.corners(t), point);
        if let (Some(page), Some(texture)) = (page, &mesh.texture) {
            let [a, b, c] = texture.corners[t];
            let place = a * shares.x + b * shares.y + c * shares.z;
            let size = Vec2::new(page.width as f32, page.height as f32);
            return Some(sampled(page, place * size));
        }
        if mesh.colours.len() == mesh.positions.len() {
            let [a, b, c] =
                mesh.triangles[t].map(|v| Vec3::from(mesh.colours[v as usize].map(f32::from)));
            return Some(a * shares.x + b * shares.y + c * shares.z);
        }
        let facing = mesh
            .cross(t)
            .normalize_or_zero()
            .dot((camera.centre - point).normalize_or_zero());
        Some(Vec3::splat(40.0 + 200.0 * facing.abs()))
    };
    (0..raster.triangle.len())
        .into_par_iter()
        .map(colour)
        .collect()
}

/// Returns the barycentric coordinates of a point in the plane of a triangle.
fn barycentric([a, b, c]: [Vec3; 3], p: Vec3) -> Vec3 {
    let cross = (b - a).cross(c - a);
    let square = cross.length_squared().max(f32::MIN_POSITIVE);
    let u = (c - b).cross(p - b).dot(cross) / square;
    let v = (a - c).cross(p - c).dot(cross) / square;
    Vec3::new(u, v, 1.0 - u - v).clamp(Vec3::ZERO, Vec3::ONE)
}

/// PSNR of a picture at a photo, over the pixels with a triangle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fidelity {
    /// PSNR, dB.
    pub psnr: f64,
    /// PSNR after the picture is brought to the exposure of the photo by a [`ColourMap`], dB. A texture has one exposure,
    /// photos have several.
    pub matched: f64,
}

/// Score of a mesh at one photo.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PhotoScore {
    /// PSNR of the mesh over all pixels, dB; pixels without a triangle are black.
    pub psnr: f64,
    /// Share of the pixels with a triangle.
    pub covered: f64,
    /// The mesh.
    pub mesh: Fidelity,
    /// The splats.
    pub splats: Option<Fidelity>,
}

/// Scores renders of a mesh against some of the photos, and beside them the renders that `splats` returns.
///
/// # Errors
/// A photo that cannot be read; an error of `splats`.
pub fn score_photos(
    mesh: &Mesh,
    photos: &dyn PhotoSource,
    splats: &mut dyn FnMut(&Camera) -> Result<Option<Photo>>,
    indices: &[usize],
) -> Result<Vec<PhotoScore>> {
    let score = |&index: &usize| {
        let (camera, photo) = photos.photo(index)?;
        let (render, covered) = picture(mesh, &Pinhole::new(&camera), [0; 3]);
        let count = covered.iter().filter(|&&is_covered| is_covered).count();
        Ok(PhotoScore {
            psnr: psnr(&render, &photo, |_| true),
            covered: count as f64 / covered.len().max(1) as f64,
            mesh: fidelity(render, &photo, &covered),
            splats: splats(&camera)?.map(|render| fidelity(render, &photo, &covered)),
        })
    };
    indices.iter().map(score).collect()
}

/// Scores a picture at a photo where `covered` is true.
fn fidelity(picture: Photo, photo: &Photo, covered: &[bool]) -> Fidelity {
    let mask = covered.iter().map(|&is_covered| 255 * u8::from(is_covered));
    let picture = Photo {
        mask: Some(mask.collect()),
        ..picture
    };
    let map = ColourMap::between(&Reduced::of_photo(&picture), &Reduced::of_photo(photo));
    Fidelity {
        psnr: psnr(&picture, photo, |i| covered[i]),
        matched: psnr(&map.photo(&picture), photo, |i| covered[i]),
    }
}

/// Returns the PSNR of a picture over some pixels, dB.
fn psnr(picture: &Photo, photo: &Photo, counts: impl Fn(usize) -> bool) -> f64 {
    let square = |(a, b): (&u8, &u8)| (f64::from(*a) - f64::from(*b)).powi(2);
    let pixels = picture.rgb.chunks_exact(3).zip(photo.rgb.chunks_exact(3));
    let pixels = pixels.enumerate().filter(|&(i, _)| counts(i));
    let (sum, count) = pixels.fold((0.0, 0usize), |(sum, count), (_, (a, b))| {
        (sum + a.iter().zip(b).map(square).sum::<f64>(), count + 1)
    });
    let mean = sum / (3 * count.max(1)) as f64 / (255.0 * 255.0);
    -10.0 * mean.max(1e-10).log10()
}
