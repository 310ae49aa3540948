//! Binary COLMAP files: little-endian, a count of records, then the records.

use super::model::{ColmapCamera, by_id};
use super::records::{ColmapImage, ColmapPoints, ImageName, Images, unique};
use crate::{Error, Point, Result, Tracks, origin};
use std::borrow::Cow;
use std::collections::HashSet;

const DAMAGED: &str =
    "the file is damaged or not from COLMAP: copy it again, or export the model again";

/// Forward reader of a file that records its position.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    file: &'a str,
}

impl<'a> Reader<'a> {
    fn place(&self) -> String {
        format!("{}, byte {}", self.file, self.at)
    }

    fn slice(&mut self, length: usize, what: &dyn Fn() -> String) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let Some(slice) = rest.get(..length) else {
            return Err(Error::input(format!(
                "the file ends in the middle of {}: {length} more bytes needed, {} left",
                what(),
                rest.len()
            ))
            .at(self.place())
            .hint(DAMAGED));
        };
        self.at += length;
        Ok(slice)
    }

    fn array<const N: usize>(&mut self, what: &dyn Fn() -> String) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.slice(N, what)?);
        Ok(out)
    }

    fn u32(&mut self, what: &dyn Fn() -> String) -> Result<u32> {
        self.array(what).map(u32::from_le_bytes)
    }

    fn u64(&mut self, what: &dyn Fn() -> String) -> Result<u64> {
        self.array(what).map(u64::from_le_bytes)
    }

    fn f64s<const N: usize>(&mut self, what: &dyn Fn() -> String) -> Result<[f64; N]> {
        let mut out = [0.0; N];
        for value in &mut out {
            *value = f64::from_le_bytes(self.array(what)?);
        }
        Ok(out)
    }

    /// Reads a count of things of at least `smallest` bytes each, which must fit in the remaining bytes.
    fn count(&mut self, smallest: usize, things: &str, what: &dyn Fn() -> String) -> Result<usize> {
        let place = self.place();
        let count = self.u64(what)?;
        let left = self.bytes.len() - self.at;
        usize::try_from(count)
            .ok()
            .filter(|n| n.checked_mul(smallest).is_some_and(|bytes| bytes <= left))
            .ok_or_else(|| {
                Error::input(format!(
                    "the file says it has {count} {things}, but only {left} bytes follow \
                     and each takes at least {smallest}"
                ))
                .at(place)
                .hint(DAMAGED)
            })
    }

    /// Refuses bytes after the last record.
    fn end(&self) -> Result<()> {
        match self.bytes.len() - self.at {
            0 => Ok(()),
            left => Err(Error::input(format!("{left} bytes follow the last record"))
                .at(self.place())
                .hint(DAMAGED)),
        }
    }
}

/// Parses `cameras.bin`. Errors name `file`.
pub fn parse_cameras_bin(bytes: &[u8], file: &str) -> Result<Vec<ColmapCamera>> {
    let mut reader = Reader { bytes, at: 0, file };
    // id, model, width, height and at least two parameters
    let count = reader.count(4 + 4 + 8 + 8 + 2 * 8, "cameras", &|| "the count".into())?;
    let mut cameras = Vec::with_capacity(count);
    let mut seen = HashSet::new();
    for index in 0..count {
        let what = || format!("camera record {index}");
        let place = reader.place();
        let id = reader.u32(&what)?;
        let number = reader.u32(&what)? as i32;
        let Some(model) = by_id(number) else {
            return Err(Error::unsupported(format!(
                "camera {id} has the unknown camera model number {number}"
            ))
            .at(place)
            .hint("undistort the photos first: `colmap image_undistorter`, then load its output"));
        };
        let (width, height) = (reader.u64(&what)?, reader.u64(&what)?);
        let parameters = (0..model.parameter_count)
            .map(|_| reader.f64s::<1>(&what).map(|[p]| p))
            .collect::<Result<_>>()?;
        unique(&mut seen, id, &format!("camera id {id}")).map_err(|e| e.at(place))?;
        cameras.push(ColmapCamera {
            id,
            model,
            width,
            height,
            parameters,
        });
    }
    reader.end()?;
    Ok(cameras)
}

/// Parses `images.bin`; observations are skipped. Errors name `file`.
pub fn parse_images_bin(bytes: &[u8], file: &str) -> Result<Vec<ColmapImage>> {
    read_images_bin(bytes, file, &mut |_, _| {})
}

/// Parses like [`parse_images_bin`]; `observed` receives each image's index and the bytes of its observations.
pub(super) fn read_images_bin(
    bytes: &[u8],
    file: &str,
    observed: &mut dyn FnMut(usize, &[u8]),
) -> Result<Vec<ColmapImage>> {
    let mut reader = Reader { bytes, at: 0, file };
    // id, quaternion, translation, camera, one letter and NUL, number of observations
    let count = reader.count(4 + 32 + 24 + 4 + 2 + 8, "images", &|| "the count".into())?;
    let mut images = Images::default();
    for index in 0..count {
        let what = || format!("image record {index}");
        let place = reader.place();
        let id = reader.u32(&what)?;
        let pose = (reader.f64s(&what)?, reader.f64s(&what)?);
        let camera_id = reader.u32(&what)?;
        let rest = &bytes[reader.at..];
        let Some(length) = rest.iter().position(|&b| b == 0) else {
            return Err(Error::input(format!(
                "the file ends in the middle of the name of image {id}"
            ))
            .at(place)
            .hint(DAMAGED));
        };
        let name = reader.slice(length + 1, &what)?;
        let name = name.strip_suffix(&[0]).unwrap_or(name);
        if name.is_empty() {
            return Err(Error::input(format!("the name of image {id} is empty"))
                .at(place)
                .hint(DAMAGED));
        }
        let name = match std::str::from_utf8(name) {
            Ok(name) => ImageName::new(Cow::Borrowed(name), None),
            Err(_) => {
                let text = name.iter().map(|&byte| char::from(byte)).collect();
                ImageName::new(Cow::Owned(text), Some(name.to_vec()))
            }
        };
        let observations =
            reader.count(8 + 8 + 8, "observations", &|| format!("image \"{name}\""))?;
        let observations = reader.slice(observations * 24, &what)?;
        images
            .push(id, name, camera_id, pose)
            .map_err(|e| e.at(place))?;
        observed(images.list.len() - 1, observations);
    }
    reader.end()?;
    Ok(images.list)
}

/// Reads observations from an image's bytes, at most `count`, evenly spread: pixel and point.
pub(super) fn observations(bytes: &[u8], count: usize) -> Vec<([f64; 2], u64)> {
    let (triples, _) = bytes.as_chunks::<24>();
    let step = triples.len().div_ceil(count.max(1)).max(1);
    let chosen = triples.iter().step_by(step);
    let read = |triple: &[u8; 24]| {
        let (numbers, _) = triple.as_chunks::<8>();
        let &[x, y, point] = numbers else { return None };
        Some((
            [f64::from_le_bytes(x), f64::from_le_bytes(y)],
            u64::from_le_bytes(point),
        ))
    };
    chosen.filter_map(read).collect()
}

/// Parses `points3D.bin`. Errors name `file`.
pub fn parse_points_bin(bytes: &[u8], file: &str) -> Result<ColmapPoints> {
    read_points_bin(bytes, file, &mut |_, _| {})
}

/// Parses like [`parse_points_bin`]; `found` receives each point's id and its index among the stored points.
pub(super) fn read_points_bin(
    bytes: &[u8],
    file: &str,
    found: &mut dyn FnMut(u64, usize),
) -> Result<ColmapPoints> {
    let mut reader = Reader { bytes, at: 0, file };
    // id, position, colour, error, length of the track
    let count = reader.count(8 + 24 + 3 + 8 + 8, "points", &|| "the count".into())?;
    let mut out = ColmapPoints {
        points: Vec::with_capacity(count),
        remainders: Vec::with_capacity(count),
        tracks: Tracks::default(),
        dropped: 0,
    };
    for index in 0..count {
        let what = || format!("point record {index}");
        let id = reader.u64(&what)?;
        let position = reader.f64s::<3>(&what)?;
        let rgb = reader.array::<3>(&what)?;
        let [error] = reader.f64s(&what)?;
        let track = reader.count(4 + 4, "observations", &what)?;
        // Image, and index of its observation.
        let (track, _) = reader.slice(track * 8, &what)?.as_chunks::<8>();
        let images = track
            .iter()
            .map(|&[a, b, c, d, ..]| u32::from_le_bytes([a, b, c, d]));
        let index = out.points.len();
        if out.push(position, rgb, error, images) {
            found(id, index);
        }
    }
    reader.end()?;
    Ok(out)
}

impl ColmapPoints {
    /// Stores a point, or counts it as dropped if its position is not finite as `f32`. Returns true if the point is
    /// stored.
    pub(super) fn push(
        &mut self,
        position: [f64; 3],
        rgb: [u8; 3],
        error: f64,
        images: impl IntoIterator<Item = u32>,
    ) -> bool {
        let rounded = position.map(|v| v as f32);
        if rounded.iter().all(|v| v.is_finite()) {
            self.remainders.push(origin::remainder(position, rounded));
            self.points.push(Point {
                position: rounded,
                rgb,
            });
            self.tracks.push(error, images);
            return true;
        }
        self.dropped += 1;
        false
    }
}
