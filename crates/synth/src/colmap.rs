//! Writes a reconstruction in COLMAP's binary format.
//!
//! Source: COLMAP's documentation, "Output Format": little-endian; `cameras.bin`, `images.bin`,
//! `points3D.bin`, each a count and its records.

use super::LensKind;
use super::points::SparsePoint;
use dapple_scene::atomic::write_atomically;
use dapple_scene::{Camera, Lens, Result};
use std::io::{self, Write};
use std::path::Path;

/// Id of the only camera; ids of images and points are their index plus one.
const CAMERA_ID: u32 = 1;

/// Writes the three files into `folder`.
pub(super) fn write(
    folder: &Path,
    lens: LensKind,
    cameras: &[Camera],
    names: &[String],
    points: &[SparsePoint],
) -> Result<()> {
    write_atomically(&folder.join("cameras.bin"), |out| {
        cameras
            .first()
            .map_or(Ok(()), |camera| write_camera(out, lens, camera))
    })?;
    write_atomically(&folder.join("images.bin"), |out| {
        write_images(out, cameras, names, points)
    })?;
    write_atomically(&folder.join("points3D.bin"), |out| {
        write_points(out, points)
    })
}

/// Returns COLMAP's number and parameters of a camera model.
fn model(lens: LensKind, camera: &Camera) -> (i32, Vec<f64>) {
    let &Camera { fx, fy, cx, cy, .. } = camera;
    let coefficients: &[f64] = match &camera.lens {
        Lens::Radial(k) => k,
        Lens::OpenCv(k) | Lens::Fisheye(k) => k,
        _ => &[],
    };
    let with = |start: &[f64], count: usize| {
        let used = coefficients.iter().take(count);
        start.iter().chain(used).copied().collect()
    };
    match lens {
        LensKind::Pinhole => (1, with(&[fx, fy, cx, cy], 0)),
        LensKind::SimpleRadial => (2, with(&[fx, cx, cy], 1)),
        LensKind::Radial => (3, with(&[fx, cx, cy], 2)),
        LensKind::OpenCv => (4, with(&[fx, fy, cx, cy], 4)),
        LensKind::OpenCvFisheye => (5, with(&[fx, fy, cx, cy], 4)),
        LensKind::Equirectangular => {
            let size = [camera.width, camera.height].map(f64::from);
            (17, with(&size, 0))
        }
    }
}

fn write_camera(out: &mut dyn Write, lens: LensKind, camera: &Camera) -> io::Result<()> {
    let (number, parameters) = model(lens, camera);
    out.write_all(&1u64.to_le_bytes())?;
    out.write_all(&CAMERA_ID.to_le_bytes())?;
    out.write_all(&number.to_le_bytes())?;
    out.write_all(&u64::from(camera.width).to_le_bytes())?;
    out.write_all(&u64::from(camera.height).to_le_bytes())?;
    write_f64s(out, &parameters)
}

fn write_images(
    out: &mut dyn Write,
    cameras: &[Camera],
    names: &[String],
    points: &[SparsePoint],
) -> io::Result<()> {
    // The points that each photo sees, in the order of the points: see `write_points`.
    let mut seen: Vec<Vec<([f64; 2], u64)>> = vec![Vec::new(); cameras.len()];
    for (id, point) in (1u64..).zip(points) {
        for &(image, pixel) in &point.track {
            seen[image].push((pixel, id));
        }
    }
    out.write_all(&(cameras.len() as u64).to_le_bytes())?;
    for (((id, camera), name), seen) in (1u32..).zip(cameras).zip(names).zip(&seen) {
        let pose = &camera.camera_from_world;
        out.write_all(&id.to_le_bytes())?;
        let q = pose.rotation;
        write_f64s(out, &[q.w, q.x, q.y, q.z])?;
        write_f64s(out, &pose.translation.to_array())?;
        out.write_all(&CAMERA_ID.to_le_bytes())?;
        out.write_all(name.as_bytes())?;
        out.write_all(&[0])?;
        out.write_all(&(seen.len() as u64).to_le_bytes())?;
        for &(pixel, point) in seen {
            write_f64s(out, &pixel)?;
            out.write_all(&point.to_le_bytes())?;
        }
    }
    Ok(())
}

fn write_points(out: &mut dyn Write, points: &[SparsePoint]) -> io::Result<()> {
    out.write_all(&(points.len() as u64).to_le_bytes())?;
    // Number of points that each photo has seen: the next point's index in its list.
    let mut next: Vec<u32> = Vec::new();
    for (id, point) in (1u64..).zip(points) {
        out.write_all(&id.to_le_bytes())?;
        write_f64s(out, &point.position.to_array())?;
        out.write_all(&point.rgb)?;
        out.write_all(&point.error.to_le_bytes())?;
        out.write_all(&(point.track.len() as u64).to_le_bytes())?;
        for &(image, _) in &point.track {
            if next.len() <= image {
                next.resize(image + 1, 0);
            }
            out.write_all(&(image as u32 + 1).to_le_bytes())?;
            out.write_all(&next[image].to_le_bytes())?;
            next[image] += 1;
        }
    }
    Ok(())
}

fn write_f64s(out: &mut dyn Write, values: &[f64]) -> io::Result<()> {
    values
        .iter()
        .try_for_each(|value| out.write_all(&value.to_le_bytes()))
}
