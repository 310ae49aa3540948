//! Checks the photos and copies them into the capture.
//!
//! 1. A photo is decoded once: a damaged one is dropped, and sharpness, brightness and thumbnail are measured.
//! 2. JPEG and PNG are copied byte by byte, except for the EXIF orientation, which becomes upright: poses belong to the
//!    stored pixels. Other formats become PNG, because not every COLMAP reads them.
//! 3. Photos with the same pixels are dropped.
//! 4. Photos of one folder, size, camera and focal length share one camera.

use crate::exif_data::{ExifData, reset_orientation};
use crate::files::{copy_mask, remove_others, write_into};
use crate::inputs::{CONVERTED, Source, ending};
use crate::sharpness::{Grey, is_blurred, sharpness, typical};
use crate::tool::Group;
use dapple_base::{Error, ErrorKind, Progress, Result, bounded};
use dapple_scene::Photo;
use image::{ImageFormat, RgbImage};
use rayon::prelude::*;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Longest edge of a thumbnail, pixels.
const THUMBNAIL: u32 = 160;

/// Mean brightness below which a photo is dark, of 1.
const DARK: f32 = 0.06;

/// A photo in the capture.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// Name in the folder of photos.
    pub name: String,
    /// File that it was copied from.
    pub path: PathBuf,
    /// Width, pixels.
    pub width: u32,
    /// Height, pixels.
    pub height: u32,
    /// EXIF data.
    pub exif: ExifData,
    /// See [`sharpness`].
    pub sharpness: f64,
    /// True if it is blurred compared with the other photos.
    pub is_blurred: bool,
    /// True if it is dark.
    pub is_dark: bool,
    /// True for a frame of a video.
    pub is_frame: bool,
    /// True if the photo has a mask.
    pub has_mask: bool,
    /// JPEG of at most 160 pixels.
    pub thumbnail: Vec<u8>,
    /// Checksum of the pixels.
    pub sum: u32,
}

/// Photos in the capture, and notes.
#[derive(Debug, Default)]
pub struct PreparedSet {
    /// Photos, by name.
    pub photos: Vec<Prepared>,
    /// Files and names of photos that are skipped, because another photo has the same pixels.
    pub duplicates: Vec<(PathBuf, String)>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Decodes, checks and copies the photos into `images` and their masks into `masks`.
///
/// # Errors
/// Errors of the operating system, a missing converter, no usable photo, a stop by the caller.
pub fn prepare(
    sources: &[Source],
    images: &Path,
    masks: &Path,
    progress: &dyn Progress,
) -> Result<PreparedSet> {
    let mut set = read_all(sources, images, masks, progress)?;
    note_duplicates(&mut set);
    note_blurred(&mut set);
    note_cameras(&mut set);
    Ok(set)
}

/// Prepares the photos as [`prepare`] does, with notes only on those that cannot be read. If photos have the same pixels,
/// the first source is used.
///
/// # Errors
/// The errors of [`prepare`].
pub fn read_all(
    sources: &[Source],
    images: &Path,
    masks: &Path,
    progress: &dyn Progress,
) -> Result<PreparedSet> {
    progress.start("checking photos", sources.len() as u64);
    let one = |source: &Source| {
        if progress.should_stop() {
            return Err(stopped());
        }
        let prepared = prepare_one(source, images, masks);
        progress.advance(1);
        match prepared {
            // The disk, or a missing converter: no other photo would pass.
            Err(e) if e.kind() == ErrorKind::Io || is_converter_missing(&e) => Err(e),
            other => Ok(other.map_err(|e| (source.name.clone(), e))),
        }
    };
    let all: Result<Vec<_>> = sources.par_iter().map(one).collect();
    progress.finish();
    let mut set = PreparedSet::default();
    let mut damaged: Vec<(String, Error)> = Vec::new();
    for result in all? {
        match result {
            Ok(photo) => set.photos.push(photo),
            Err(failed) => damaged.push(failed),
        }
    }
    if set.photos.is_empty() && damaged.len() == 1 {
        return Err(damaged.remove(0).1);
    }
    if let Some((name, error)) = damaged.first() {
        set.notes.push(format!(
            "{} cannot be read and are skipped, first {name}: {}",
            counted(damaged.len()),
            error.what()
        ));
    }
    drop_duplicates(&mut set, images);
    set.photos.sort_by(|a, b| a.name.cmp(&b.name));
    mark_blurred(&mut set);
    let keep: HashSet<&str> = set.photos.iter().map(|photo| photo.name.as_str()).collect();
    remove_others(images, &keep);
    Ok(set)
}

/// Returns "1 photo" or "7 photos".
pub fn counted(count: usize) -> String {
    format!("{count} photo{}", if count == 1 { "" } else { "s" })
}

/// Returns some names and the number of the others.
pub fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    match names.len() {
        0..=4 => names.join(", "),
        more => format!("{} and {} more", names[..3].join(", "), more - 3),
    }
}

pub(crate) fn stopped() -> Error {
    Error::new(ErrorKind::Interrupted, "stopped while checking photos")
        .hint("the same command continues: finished stages are stored")
}

const CONVERTER: &str = "no installed program reads HEIC photos";

fn is_converter_missing(error: &Error) -> bool {
    error.what().starts_with(CONVERTER)
}

fn prepare_one(source: &Source, images: &Path, masks: &Path) -> Result<Prepared> {
    let end = ending(&source.path);
    let is_converted = CONVERTED.contains(&end.as_str());
    let original = bounded::read("cannot read the photo", &source.path, bounded::IMAGE_BYTES)?;
    let exif = ExifData::read(&original);
    let mut bytes = if is_converted {
        convert(&source.path)?
    } else {
        original
    };
    let photo = Photo::from_bytes(&bytes).map_err(|e| e.at_path(&source.path))?;
    let kind = image::guess_format(&bytes).ok();
    let is_jpeg = kind == Some(ImageFormat::Jpeg);
    let (stem, _) = source.name.rsplit_once('.').unwrap_or((&source.name, ""));
    // HEIC converters apply the orientation.
    let orientation = if is_converted { 1 } else { exif.orientation };
    let name = match is_jpeg {
        true => with_ending(&source.name, stem, &["jpg", "jpeg"], "jpg"),
        false => with_ending(&source.name, stem, &["png"], "png"),
    };
    if is_jpeg {
        reset_orientation(&mut bytes);
    } else if kind != Some(ImageFormat::Png) {
        bytes = encode_png(&photo)?;
    }
    let path = images.join(&name);
    if std::fs::read(&path).ok().as_deref() != Some(&bytes[..]) {
        write_into(&path, &bytes)?;
    }
    let has_mask = match &source.mask {
        Some(mask) => {
            copy_mask(mask, &masks.join(format!("{name}.png")), &photo)?;
            true
        }
        None => false,
    };
    let grey = Grey::from_photo(&photo, 256);
    Ok(Prepared {
        name,
        path: source.path.clone(),
        width: photo.width,
        height: photo.height,
        exif: ExifData {
            orientation,
            ..exif
        },
        sharpness: sharpness(&photo),
        is_blurred: false,
        is_dark: grey.mean() < DARK,
        is_frame: source.is_frame,
        has_mask,
        sum: crc32fast::hash(&photo.rgb),
        thumbnail: thumbnail(&photo)?,
    })
}

/// Keeps an ending that fits the format.
fn with_ending(name: &str, stem: &str, fitting: &[&str], else_this: &str) -> String {
    let fits = fitting.contains(&ending(Path::new(name)).as_str());
    if fits {
        name.to_owned()
    } else {
        format!("{stem}.{else_this}")
    }
}

fn encode_png(photo: &Photo) -> Result<Vec<u8>> {
    let failed =
        |e: image::ImageError| Error::internal(format!("a photo cannot be written as PNG: {e}"));
    let mut bytes = Vec::new();
    let image = RgbImage::from_raw(photo.width, photo.height, photo.rgb.clone())
        .ok_or_else(|| Error::internal("a photo has too few pixels"))?;
    image
        .write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png)
        .map_err(failed)?;
    Ok(bytes)
}

fn thumbnail(photo: &Photo) -> Result<Vec<u8>> {
    let small = Small::from_photo(photo, THUMBNAIL);
    let mut bytes = Vec::new();
    let encoder = jpeg_encoder::Encoder::new(&mut bytes, 70);
    encoder
        .encode(
            &small.rgb,
            small.width,
            small.height,
            jpeg_encoder::ColorType::Rgb,
        )
        .map_err(|e| Error::internal(format!("a thumbnail cannot be written: {e}")))?;
    Ok(bytes)
}

/// Reduced copy of a photo.
struct Small {
    width: u16,
    height: u16,
    rgb: Vec<u8>,
}

impl Small {
    /// Averages squares of whole numbers of pixels.
    fn from_photo(photo: &Photo, edge: u32) -> Self {
        let by = photo.width.max(photo.height).div_ceil(edge).max(1) as usize;
        let (width, height) = (
            (photo.width as usize / by).max(1),
            (photo.height as usize / by).max(1),
        );
        let mut rgb = Vec::with_capacity(width * height * 3);
        for y in 0..height {
            for x in 0..width {
                for channel in 0..3 {
                    let at = |dx: usize, dy: usize| {
                        ((y * by + dy).min(photo.height as usize - 1) * photo.width as usize
                            + (x * by + dx).min(photo.width as usize - 1))
                            * 3
                            + channel
                    };
                    let sum: usize = (0..by)
                        .flat_map(|dy| (0..by).map(move |dx| (dx, dy)))
                        .map(|(dx, dy)| usize::from(photo.rgb[at(dx, dy)]))
                        .sum();
                    rgb.push((sum / (by * by)) as u8);
                }
            }
        }
        Self {
            width: width as u16,
            height: height as u16,
            rgb,
        }
    }
}

/// Converts a HEIC photo to JPEG with an installed program.
fn convert(path: &Path) -> Result<Vec<u8>> {
    let folder = std::env::temp_dir().join(format!(
        "dapple-heic-{}-{:08x}",
        std::process::id(),
        crc32fast::hash(path.as_os_str().as_encoded_bytes())
    ));
    std::fs::create_dir_all(&folder)
        .map_err(|e| Error::io("cannot create the folder", &folder, e))?;
    let out = folder.join("photo.jpg");
    let programs: [(&str, &[&str]); 4] = [
        ("heif-dec", &["-q", "95"]),
        ("heif-convert", &["-q", "95"]),
        ("magick", &["-quality", "95"]),
        (
            "sips",
            &["-s", "format", "jpeg", "-s", "formatOptions", "95"],
        ),
    ];
    let mut result = Err(Error::unsupported(CONVERTER)
        .at_path(path)
        .hint("install libheif (`apt install libheif-examples`, `brew install libheif`) or ImageMagick, or export the photos as JPEG"));
    for (program, options) in programs {
        let mut command = Command::new(program);
        match program {
            "magick" => command.arg(path).args(options).arg(&out),
            "sips" => command.args(options).arg(path).arg("--out").arg(&out),
            _ => command.args(options).arg(path).arg(&out),
        };
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let Ok(status) = command.status() else {
            continue;
        };
        if status.success() && out.is_file() {
            result = bounded::read(
                "cannot read the converted photo",
                &out,
                bounded::IMAGE_BYTES,
            );
            break;
        }
        result = Err(Error::input(format!("{program} cannot convert the photo"))
            .at_path(path)
            .hint("copy the photo again, or export it as JPEG"));
    }
    let _ = std::fs::remove_dir_all(&folder);
    result
}

fn drop_duplicates(set: &mut PreparedSet, images: &Path) {
    let mut first: HashMap<(u32, u32, u32), String> = HashMap::new();
    let mut dropped: Vec<(PathBuf, String)> = Vec::new();
    set.photos.retain(|photo| {
        let key = (photo.sum, photo.width, photo.height);
        match first.get(&key) {
            Some(_) => {
                dropped.push((photo.path.clone(), photo.name.clone()));
                false
            }
            None => {
                first.insert(key, photo.name.clone());
                true
            }
        }
    });
    for (_, name) in &dropped {
        // A copy that stays is not listed anywhere, so the error changes nothing.
        let _ = std::fs::remove_file(images.join(name));
    }
    set.duplicates = dropped;
}

fn note_duplicates(set: &mut PreparedSet) {
    let dropped = &set.duplicates;
    if !dropped.is_empty() {
        set.notes.push(format!(
            "{} with the pixels of another photo {} skipped: {}",
            counted(dropped.len()),
            if dropped.len() == 1 { "is" } else { "are" },
            listed(dropped.iter().map(|(_, name)| name.as_str()))
        ));
    }
}

/// Returns the longest edge of all photos, pixels.
pub fn longest_edge(photos: &[Prepared]) -> f64 {
    let edges = photos.iter().map(|photo| photo.width.max(photo.height));
    f64::from(edges.max().unwrap_or(1600))
}

fn mark_blurred(set: &mut PreparedSet) {
    let usual = typical(set.photos.iter().map(|photo| photo.sharpness));
    for photo in &mut set.photos {
        photo.is_blurred = is_blurred(photo.sharpness, usual);
    }
}

fn note_blurred(set: &mut PreparedSet) {
    let blurred: Vec<&str> = set
        .photos
        .iter()
        .filter(|p| p.is_blurred)
        .map(|p| p.name.as_str())
        .collect();
    if !blurred.is_empty() {
        set.notes.push(format!(
            "{} of {} {} blurred: {}. Shoot them again with a shorter exposure, or remove them",
            blurred.len(),
            counted(set.photos.len()),
            if blurred.len() == 1 { "is" } else { "are" },
            listed(blurred.into_iter())
        ));
    }
}

fn note_cameras(set: &mut PreparedSet) {
    let turned = set
        .photos
        .iter()
        .filter(|p| p.exif.orientation != 1)
        .count();
    if turned > 0 {
        set.notes.push(format!(
            "{} are turned by their EXIF data: the capture holds the stored pixels, upright for the camera",
            counted(turned)
        ));
    }
    let cameras = cameras(&set.photos);
    let largest = cameras.values().map(Vec::len).max().unwrap_or(0);
    let single: Vec<&str> = cameras
        .values()
        .filter(|members| members.len() * 10 <= largest)
        .flatten()
        .map(|&index| set.photos[index].name.as_str())
        .collect();
    if !single.is_empty() {
        set.notes.push(format!(
            "{} of another camera, size or focal length: {}. Each such group gets its own lens; a group of one to three \
             photos has an uncertain focal length",
            counted(single.len()),
            listed(single.into_iter())
        ));
    }
}

/// Key of photos that share a camera: folder, size, camera, focal length in hundredths of a millimetre.
pub(crate) type CameraKey = (String, u32, u32, String, i64);

/// Returns the key of the camera of a photo.
pub(crate) fn camera_key(photo: &Prepared) -> CameraKey {
    let folder = photo.name.rsplit_once('/').map_or("", |(folder, _)| folder);
    let focal = photo.exif.focal_35.or(photo.exif.focal).unwrap_or(0.0);
    (
        folder.to_owned(),
        photo.width,
        photo.height,
        photo.exif.camera.clone(),
        (focal * 100.0).round() as i64,
    )
}

/// Returns the cameras with their photos.
fn cameras(photos: &[Prepared]) -> BTreeMap<CameraKey, Vec<usize>> {
    let mut cameras: BTreeMap<CameraKey, Vec<usize>> = BTreeMap::new();
    for (index, photo) in photos.iter().enumerate() {
        cameras.entry(camera_key(photo)).or_default().push(index);
    }
    cameras
}

/// Returns the cameras of the photos for the tool. By default a lens has one radial coefficient while poses are found:
/// with four, `skull` gets poses of 3 photos instead of 28.
pub fn groups(photos: &[Prepared], model: Option<&'static str>) -> Vec<Group> {
    let group = |members: Vec<usize>| Group {
        model: model.unwrap_or("SIMPLE_RADIAL"),
        parameters: Vec::new(),
        names: members
            .into_iter()
            .map(|index| photos[index].name.clone())
            .collect(),
    };
    cameras(photos).into_values().map(group).collect()
}
