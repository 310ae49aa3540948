//! COLMAP models with all observations: read, transformed, written.
//!
//! `dapple_scene::colmap` reads models for training and drops most observations. Checks need all of them.

use dapple_base::atomic::write_atomically;
use dapple_base::{Error, Result, bounded};
use dapple_scene::colmap::{ColmapCamera, MODELS, parse_cameras_bin};
use dapple_scene::edit::Similarity;
use dapple_scene::{Camera, Pose};
use glam::{DQuat, DVec2, DVec3};
use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::path::Path;

/// Observation without a point.
pub const NO_POINT: u64 = u64::MAX;

/// Registered photo.
#[derive(Debug, Clone, PartialEq)]
pub struct Image {
    /// Id in the model.
    pub id: u32,
    /// Name in the folder of photos.
    pub name: String,
    /// Id of its camera.
    pub camera: u32,
    /// Pose.
    pub pose: Pose,
    /// Features: pixel, and id of the point or [`NO_POINT`].
    pub observations: Vec<(DVec2, u64)>,
}

/// Sparse point.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Id in the model.
    pub id: u64,
    /// Position, world units.
    pub position: DVec3,
    /// Colour.
    pub rgb: [u8; 3],
    /// Mean reprojection error, pixels.
    pub error: f64,
    /// Observations: id of the image, index of its feature.
    pub track: Vec<(u32, u32)>,
}

/// Model with all observations.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Model {
    /// Cameras.
    pub cameras: Vec<ColmapCamera>,
    /// Registered photos, by name.
    pub images: Vec<Image>,
    /// Sparse points, in file order.
    pub points: Vec<Point>,
}

impl Model {
    /// Reads the binary files of a folder; rotations are normalized.
    ///
    /// # Errors
    /// Missing or damaged files.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut model = Self::read_exact(folder)?;
        for image in &mut model.images {
            image.pose.rotation = image.pose.rotation.normalize();
        }
        Ok(model)
    }

    /// Reads the binary files of a folder with the quaternions of the file.
    ///
    /// # Errors
    /// Missing or damaged files.
    pub fn read_exact(folder: &Path) -> Result<Self> {
        let open = |name: &str| {
            bounded::read(
                "cannot read the model",
                &folder.join(name),
                bounded::MODEL_BYTES,
            )
        };
        let damaged = |name: &str| {
            Error::input("the model that the tool wrote is damaged")
                .at_path(folder.join(name))
                .hint("delete the folder, then run the same command again")
        };
        let label = folder.join("cameras.bin").display().to_string();
        let cameras = parse_cameras_bin(&open("cameras.bin")?, &label)?;
        let mut images = parse_images(&open("images.bin")?).ok_or_else(|| damaged("images.bin"))?;
        images.sort_by(|a, b| a.name.cmp(&b.name));
        let points = parse_points(&open("points3D.bin")?).ok_or_else(|| damaged("points3D.bin"))?;
        Ok(Self {
            cameras,
            images,
            points,
        })
    }

    /// Writes the three binary files into a folder.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn write(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder)
            .map_err(|e| Error::io("cannot create the folder of the model", folder, e))?;
        write_atomically(&folder.join("cameras.bin"), |out| self.write_cameras(out))?;
        write_atomically(&folder.join("images.bin"), |out| self.write_images(out))?;
        write_atomically(&folder.join("points3D.bin"), |out| self.write_points(out))
    }

    /// Returns Dapple's cameras, by the ids in the model.
    ///
    /// # Errors
    /// Cameras with impossible parameters.
    pub fn lenses(&self) -> Result<HashMap<u32, Camera>> {
        let place = Path::new("cameras.bin");
        let camera = |camera: &ColmapCamera| Ok((camera.id, camera.to_camera(place)?));
        self.cameras.iter().map(camera).collect()
    }

    /// Gives cameras with one radial coefficient and at least `photos` photos the lens OPENCV. Returns their number.
    pub fn widen_lenses(&mut self, photos: usize) -> usize {
        let Some(wide) = MODELS.iter().find(|model| model.name == "OPENCV") else {
            return 0;
        };
        let mut widened = 0;
        for camera in &mut self.cameras {
            let used = self
                .images
                .iter()
                .filter(|image| image.camera == camera.id)
                .count();
            if let ("SIMPLE_RADIAL", &[f, cx, cy, k]) = (camera.model.name, &camera.parameters[..])
                && used >= photos
            {
                camera.model = wide;
                camera.parameters = vec![f, f, cx, cy, k, 0.0, 0.0, 0.0];
                widened += 1;
            }
        }
        widened
    }

    /// Returns the mean reprojection error, pixels; `None` without observations or with an impossible camera.
    pub fn error(&self) -> Option<f64> {
        let lenses = self.lenses().ok()?;
        let position: HashMap<u64, DVec3> = self
            .points
            .iter()
            .map(|point| (point.id, point.position))
            .collect();
        let (mut sum, mut count) = (0.0, 0.0);
        for image in &self.images {
            let camera = Camera {
                camera_from_world: image.pose,
                ..*lenses.get(&image.camera)?
            };
            for (pixel, id) in &image.observations {
                if let Some(found) = position.get(id).and_then(|&point| project(&camera, point)) {
                    sum += found.distance(*pixel);
                    count += 1.0;
                }
            }
        }
        (count > 0.0).then_some(sum / count)
    }

    /// Removes photos that observe fewer than `least` points, and points that fewer than two photos still observe.
    pub fn drop_unsupported(&mut self, least: usize) {
        let observed = |image: &Image| {
            let with_point = image.observations.iter().filter(|(_, id)| *id != NO_POINT);
            with_point.count()
        };
        let before = self.images.len();
        self.images.retain(|image| observed(image) >= least);
        if self.images.len() == before {
            return;
        }
        let kept: HashSet<u32> = self.images.iter().map(|image| image.id).collect();
        for point in &mut self.points {
            point.track.retain(|(image, _)| kept.contains(image));
        }
        self.retain_points(|point| point.track.len() >= 2);
    }

    /// Removes points with a mean reprojection error above `most` pixels.
    pub fn drop_far_points(&mut self, most: f64) {
        self.retain_points(|point| point.error <= most);
    }

    fn retain_points(&mut self, keep: impl Fn(&Point) -> bool) {
        self.points.retain(keep);
        let kept: HashSet<u64> = self.points.iter().map(|point| point.id).collect();
        let observations = self
            .images
            .iter_mut()
            .flat_map(|image| &mut image.observations);
        for (_, id) in observations.filter(|(_, id)| !kept.contains(id)) {
            *id = NO_POINT;
        }
    }

    /// Moves cameras and points.
    pub fn transform(&mut self, by: &Similarity) {
        let turn = by.quat();
        for image in &mut self.images {
            let centre = by.point(image.pose.centre());
            let rotation = (image.pose.rotation * turn.inverse()).normalize();
            image.pose = Pose {
                rotation,
                translation: -(rotation * centre),
            };
        }
        for point in &mut self.points {
            point.position = by.point(point.position);
        }
    }

    fn write_cameras(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&(self.cameras.len() as u64).to_le_bytes())?;
        for camera in &self.cameras {
            out.write_all(&camera.id.to_le_bytes())?;
            out.write_all(&camera.model.id.to_le_bytes())?;
            out.write_all(&camera.width.to_le_bytes())?;
            out.write_all(&camera.height.to_le_bytes())?;
            doubles(out, &camera.parameters)?;
        }
        Ok(())
    }

    fn write_images(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&(self.images.len() as u64).to_le_bytes())?;
        for image in &self.images {
            out.write_all(&image.id.to_le_bytes())?;
            let (q, t) = (image.pose.rotation, image.pose.translation);
            doubles(out, &[q.w, q.x, q.y, q.z, t.x, t.y, t.z])?;
            out.write_all(&image.camera.to_le_bytes())?;
            out.write_all(image.name.as_bytes())?;
            out.write_all(&[0])?;
            out.write_all(&(image.observations.len() as u64).to_le_bytes())?;
            for (pixel, point) in &image.observations {
                doubles(out, &[pixel.x, pixel.y])?;
                out.write_all(&point.to_le_bytes())?;
            }
        }
        Ok(())
    }

    fn write_points(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&(self.points.len() as u64).to_le_bytes())?;
        for point in &self.points {
            out.write_all(&point.id.to_le_bytes())?;
            doubles(out, &point.position.to_array())?;
            out.write_all(&point.rgb)?;
            doubles(out, &[point.error])?;
            out.write_all(&(point.track.len() as u64).to_le_bytes())?;
            for (image, feature) in &point.track {
                out.write_all(&image.to_le_bytes())?;
                out.write_all(&feature.to_le_bytes())?;
            }
        }
        Ok(())
    }
}

fn doubles(out: &mut dyn Write, numbers: &[f64]) -> io::Result<()> {
    numbers
        .iter()
        .try_for_each(|n| out.write_all(&n.to_le_bytes()))
}

/// Forward reader of little-endian records.
struct Records<'a>(&'a [u8]);

impl<'a> Records<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(first)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn f64(&mut self) -> Option<f64> {
        self.array()
            .map(f64::from_le_bytes)
            .filter(|n| n.is_finite())
    }

    /// Reads a count of records of at least `smallest` bytes.
    fn count(&mut self, smallest: usize) -> Option<usize> {
        let count = usize::try_from(self.u64()?).ok()?;
        (count.checked_mul(smallest)? <= self.0.len()).then_some(count)
    }
}

fn parse_images(bytes: &[u8]) -> Option<Vec<Image>> {
    let mut from = Records(bytes);
    let count = from.count(74)?;
    let mut images = Vec::with_capacity(count);
    for _ in 0..count {
        let id = from.u32()?;
        let [w, x, y, z] = [from.f64()?, from.f64()?, from.f64()?, from.f64()?];
        let translation = DVec3::new(from.f64()?, from.f64()?, from.f64()?);
        let camera = from.u32()?;
        let length = from.0.iter().position(|&byte| byte == 0)?;
        let name = String::from_utf8_lossy(from.take(length)?).into_owned();
        from.take(1)?;
        let count = from.count(24)?;
        let mut observations = Vec::with_capacity(count);
        for _ in 0..count {
            observations.push((DVec2::new(from.f64()?, from.f64()?), from.u64()?));
        }
        images.push(Image {
            id,
            name,
            camera,
            pose: Pose {
                rotation: DQuat::from_xyzw(x, y, z, w),
                translation,
            },
            observations,
        });
    }
    Some(images)
}

fn parse_points(bytes: &[u8]) -> Option<Vec<Point>> {
    let mut from = Records(bytes);
    let count = from.count(51)?;
    let mut points = Vec::with_capacity(count);
    for _ in 0..count {
        let id = from.u64()?;
        let position = DVec3::new(from.f64()?, from.f64()?, from.f64()?);
        let rgb = from.array()?;
        // Some versions write a negative error for points without one; none writes NaN.
        let error = from.array().map(f64::from_le_bytes)?;
        let count = from.count(8)?;
        let mut track = Vec::with_capacity(count);
        for _ in 0..count {
            track.push((from.u32()?, from.u32()?));
        }
        points.push(Point {
            id,
            position,
            rgb,
            error,
            track,
        });
    }
    Some(points)
}

/// Returns the pixel of a point, through the lens.
pub fn project(camera: &Camera, point: DVec3) -> Option<glam::DVec2> {
    let p = camera.camera_from_world.transform(point);
    if p.z <= 0.0 {
        return None;
    }
    let (x, y) = camera.lens.distort(p.x / p.z, p.y / p.z);
    Some(glam::DVec2::new(
        camera.fx * x + camera.cx,
        camera.fy * y + camera.cy,
    ))
}
