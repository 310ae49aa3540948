//! Writes a reconstruction in COLMAP's binary format.
//!
//! Source: COLMAP's documentation, "Output Format": little-endian; `cameras.bin`, `images.bin`,
//! `points3D.bin`, each a count and its records.

use super::LensKind;
use super::observations::Observations;
use super::points::SparsePoint;
use dapple_scene::atomic::write_atomically;
use dapple_scene::{Camera, Error, Lens, Result};
use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

/// Id of the only camera; ids of images and points are their index plus one.
const CAMERA_ID: u32 = 1;

/// Folders of a model and of its temporary file.
pub(super) struct Folders<'a> {
    pub(super) model: &'a Path,
    /// Holds the observations while the points are written, as large as `images.bin`.
    pub(super) temporary: &'a Path,
}

/// Numbers of written points and of their observations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) points: usize,
    pub(super) observations: usize,
}

/// Writes the three files of a model; `parts` are its points, of which one part is in memory at a time.
pub(super) fn write(
    folders: &Folders<'_>,
    lens: LensKind,
    (cameras, names): (&[Camera], &[String]),
    parts: impl Iterator<Item = Result<Vec<SparsePoint>>>,
) -> Result<Written> {
    fs::create_dir_all(folders.model)
        .map_err(|source| Error::io("cannot create the folder", folders.model, source))?;
    write_atomically(&folders.model.join("cameras.bin"), |out| {
        cameras
            .first()
            .map_or(Ok(()), |camera| write_camera(out, lens, camera))
    })?;
    let mut observations = Observations::new(folders.temporary, cameras.len())?;
    let path = folders.model.join("points3D.bin");
    let failed = |source| Error::io("cannot write the file", &path, source);
    let mut out = PointsFile::new(&path, cameras.len()).map_err(failed)?;
    for part in parts {
        let part = part?;
        observations.push(out.written.points as u64 + 1, &part)?;
        out.push(&part).map_err(failed)?;
    }
    let written = out.finish().map_err(failed)?;
    write_atomically(&folders.model.join("images.bin"), |out| {
        write_images(out, cameras, names, &mut observations)
    })?;
    Ok(written)
}

/// Returns COLMAP's parameters of a camera.
fn parameters(lens: LensKind, camera: &Camera) -> Vec<f64> {
    let &Camera { fx, fy, cx, cy, .. } = camera;
    let coefficients: &[f64] = match &camera.lens {
        Lens::Radial(k) => k,
        Lens::OpenCv(k) | Lens::Fisheye(k) => k,
        _ => &[],
    };
    let with = |start: &[f64], count: usize| -> Vec<f64> {
        let used = coefficients.iter().take(count);
        start.iter().chain(used).copied().collect()
    };
    match lens {
        LensKind::SimpleRadial => with(&[fx, cx, cy], 1),
        LensKind::Radial => with(&[fx, cx, cy], 2),
        _ if lens.panorama().is_some() => [camera.width, camera.height].map(f64::from).to_vec(),
        _ => with(&[fx, fy, cx, cy], 4),
    }
}

fn write_camera(out: &mut dyn Write, lens: LensKind, camera: &Camera) -> io::Result<()> {
    let number = lens.colmap().ok_or(io::ErrorKind::Unsupported)?;
    out.write_all(&1u64.to_le_bytes())?;
    out.write_all(&CAMERA_ID.to_le_bytes())?;
    out.write_all(&number.to_le_bytes())?;
    out.write_all(&u64::from(camera.width).to_le_bytes())?;
    out.write_all(&u64::from(camera.height).to_le_bytes())?;
    write_f64s(out, &parameters(lens, camera))
}

fn write_images(
    out: &mut dyn Write,
    cameras: &[Camera],
    names: &[String],
    observations: &mut Observations,
) -> io::Result<()> {
    out.write_all(&(cameras.len() as u64).to_le_bytes())?;
    observations.copy_by_photo(out, |out, photo, count| {
        let pose = &cameras[photo].camera_from_world;
        out.write_all(&(photo as u32 + 1).to_le_bytes())?;
        let q = pose.rotation;
        write_f64s(out, &[q.w, q.x, q.y, q.z])?;
        write_f64s(out, &pose.translation.to_array())?;
        out.write_all(&CAMERA_ID.to_le_bytes())?;
        out.write_all(names[photo].as_bytes())?;
        out.write_all(&[0])?;
        out.write_all(&count.to_le_bytes())
    })
}

/// `points3D.bin` under construction. Its first value, the number of points, is known at the end.
struct PointsFile {
    out: BufWriter<File>,
    written: Written,
    /// Number of points that each photo has seen: the next point's index in its list.
    next: Vec<u32>,
}

impl PointsFile {
    fn new(path: &Path, photos: usize) -> io::Result<Self> {
        let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
        out.write_all(&0u64.to_le_bytes())?;
        Ok(Self {
            out,
            written: Written::default(),
            next: vec![0; photos],
        })
    }

    fn push(&mut self, points: &[SparsePoint]) -> io::Result<()> {
        let out = &mut self.out;
        for point in points {
            self.written.points += 1;
            self.written.observations += point.track.len();
            out.write_all(&(self.written.points as u64).to_le_bytes())?;
            write_f64s(out, &point.position.to_array())?;
            out.write_all(&point.rgb)?;
            out.write_all(&point.error.to_le_bytes())?;
            out.write_all(&(point.track.len() as u64).to_le_bytes())?;
            for &(image, _) in &point.track {
                out.write_all(&(image as u32 + 1).to_le_bytes())?;
                out.write_all(&self.next[image].to_le_bytes())?;
                self.next[image] += 1;
            }
        }
        Ok(())
    }

    fn finish(mut self) -> io::Result<Written> {
        self.out.seek(SeekFrom::Start(0))?;
        self.out
            .write_all(&(self.written.points as u64).to_le_bytes())?;
        self.out.flush()?;
        self.out.get_ref().sync_all()?;
        Ok(self.written)
    }
}

fn write_f64s(out: &mut dyn Write, values: &[f64]) -> io::Result<()> {
    values
        .iter()
        .try_for_each(|value| out.write_all(&value.to_le_bytes()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::super::SynthOptions;
    use super::super::cameras;
    use super::*;
    use glam::DVec3;

    /// Points with tracks of none to four of five photos.
    fn points() -> Vec<SparsePoint> {
        let point = |i: usize| SparsePoint {
            position: DVec3::splat(i as f64),
            rgb: [i as u8; 3],
            error: 0.5,
            track: (0..i % 5)
                .map(|k| ((i + k) % 5, [i as f64, k as f64]))
                .collect(),
        };
        (0..23).map(point).collect()
    }

    /// Writes the points in parts of this size; the result holds all files, and the numbers.
    fn written(size: usize) -> (Vec<Vec<u8>>, Written) {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("model");
        std::fs::create_dir(&model).unwrap();
        let folders = Folders {
            model: &model,
            temporary: folder.path(),
        };
        let options = SynthOptions {
            photos: 5,
            ..SynthOptions::default()
        };
        let cameras = cameras::cameras(&options, LensKind::Pinhole);
        let names: Vec<String> = (0..5).map(|i| format!("{i}.png")).collect();
        let all = points();
        let parts = all.chunks(size).map(|part| Ok(part.to_vec()));
        let numbers = write(&folders, LensKind::Pinhole, (&cameras, &names), parts).unwrap();
        let files = ["cameras.bin", "images.bin", "points3D.bin"];
        let read = |name| std::fs::read(model.join(name)).unwrap();
        (files.map(read).to_vec(), numbers)
    }

    #[test]
    fn parts_of_points_do_not_change_the_files() {
        let (files, numbers) = written(23);
        let observations = points().iter().map(|point| point.track.len()).sum();
        let all = Written {
            points: 23,
            observations,
        };
        assert_eq!(numbers, all);
        for size in [1, 7, 22] {
            assert_eq!((files.clone(), all), written(size), "parts of {size}");
        }
    }

    /// Takes a little-endian integer of `N` bytes from the front.
    fn take<const N: usize>(bytes: &mut &[u8]) -> u64 {
        let (front, rest) = bytes.split_at(N);
        *bytes = rest;
        let mut all = [0; 8];
        all[..N].copy_from_slice(front);
        u64::from_le_bytes(all)
    }

    #[test]
    fn tracks_and_lists_of_photos_name_each_other() {
        let (files, _) = written(7);
        let mut images = &files[1][..];
        // Ids of points in the list of each photo.
        let mut lists: Vec<Vec<u64>> = Vec::new();
        for _ in 0..take::<8>(&mut images) {
            // Id, pose, camera, "0.png".
            images = &images[4 + 56 + 4 + 6..];
            let count = take::<8>(&mut images);
            let id = |_| {
                images = &images[16..];
                take::<8>(&mut images)
            };
            lists.push((0..count).map(id).collect());
        }
        let mut points = &files[2][..];
        let mut tracks = 0;
        for _ in 0..take::<8>(&mut points) {
            let id = take::<8>(&mut points);
            points = &points[24 + 3 + 8..];
            for _ in 0..take::<8>(&mut points) {
                let photo = take::<4>(&mut points) as usize - 1;
                let place = take::<4>(&mut points) as usize;
                assert_eq!(lists[photo][place], id, "point {id} in photo {photo}");
                tracks += 1;
            }
        }
        assert_eq!(tracks, lists.iter().map(Vec::len).sum::<usize>());
        assert!(images.is_empty() && points.is_empty() && tracks > 40);
    }
}
