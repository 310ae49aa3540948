//! Loads a capture from disk: COLMAP, Nerfstudio or Blender.
//!
//! 1. Find out what the path holds ([`open`]): a COLMAP model (`sparse/0`, `sparse`, the largest
//!    of several), a Nerfstudio `transforms.json`, Blender's `transforms_train.json`, or a model
//!    one level down (`colmap/sparse`, `dense/sparse`).
//! 2. Sort the images by name, choose those asked for, check that every photo is there.
//! 3. Per photo, in parallel: compare its size with the camera's, decode, mask, reduce. A
//!    photo whose lens distorts stays as it is and its camera keeps the lens, or both are turned
//!    into those of a pinhole: [`LoadOptions::undistort`]. Photos that exceed a limit of memory are
//!    left in their files: see [`crate::PhotoSource`].

use crate::capture::{Capture, PosedImage, relative_path};
use crate::images::{self, Decoded};
use crate::masks::{self, MaskMode, Masked};
use crate::resize::reduce;
use crate::shown::mask_beyond;
use crate::source::describe;
use crate::undistort::undistort;
use crate::{Camera, Dataset, Error, Photo, Progress, Result, View};
use crate::{blender, colmap, nerfstudio};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What to load of a capture, and how large.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoadOptions {
    /// Divides width and height by this. A folder `images_2`, `images_4`, ... beside the image
    /// folder is used where there is one for this number, as it is.
    pub downscale: Option<u32>,
    /// Longest edge of a photo, pixels; larger photos are reduced. Applied after `downscale`.
    /// Undistortion, if any, comes after it and may change the size a little.
    pub max_resolution: Option<u32>,
    /// Folder that holds the photos, instead of the one the capture names. Relative to the working
    /// directory, or to the capture if that does not exist.
    pub images: Option<PathBuf>,
    /// Loads at most this many views, spread evenly over the names.
    pub max_views: Option<usize>,
    /// Turns photos whose lens distorts into those of a pinhole camera, which loses what lies
    /// outside the largest rectangle in them, instead of leaving them and their cameras' lenses as
    /// they are.
    pub undistort: bool,
    /// What masks and the photos' own alpha channels do.
    pub mask_mode: MaskMode,
    /// Masks are white where the photo is to be left out, not where it is to be used.
    pub invert_masks: bool,
    /// Bytes that decoded photos may take. If they take more, none is held: each is read from its file
    /// whenever it is needed ([`crate::PhotoSource::File`]). `None` = all are held.
    pub photo_memory_bytes: Option<u64>,
}

/// Loads the capture at `path`: its folder, a COLMAP model folder, or the transforms JSON itself.
///
/// Views come sorted by name; their cameras have the photos' sizes. Where a lens distorts, pixels
/// that its model cannot explain are masked (see [`crate::shown`]). EXIF orientation and colour profiles are ignored: poses belong to the pixels
/// as they are stored. 16-bit PNGs are rounded to 8 bits, with a note; CMYK and 12-bit JPEGs are
/// refused, as are formats other than JPEG and PNG.
///
/// # Errors
/// Nothing recognisable at `path`; damaged files; photos missing, undecodable or of another aspect
/// ratio than their camera; impossible cameras or poses; a mask mode where nothing is masked. The
/// error names the file or the image.
pub fn load(path: &Path, options: &LoadOptions, progress: &dyn Progress) -> Result<Dataset> {
    let (dataset, done) = decode_each(open(path, options)?, options, progress)?;
    let mode = options.mask_mode;
    if mode != MaskMode::Auto && done.iter().all(|t| t.masked == Masked::default()) {
        return Err(Error::input(format!(
            "the mask mode is {mode}, but no photo has a mask or transparent pixels"
        ))
        .at_path(path)
        .hint(MASKS_HINT));
    }
    Ok(dataset)
}

const MASKS_HINT: &str = "put masks into masks/ beside the image folder, named as the photos \
                          (photo.png or photo.jpg.png) and white where they are to be used";

/// Finds the capture at `path` and reads everything but the photos.
pub fn open(path: &Path, options: &LoadOptions) -> Result<Capture> {
    check_options(options)?;
    let mut capture = match detect(path)? {
        Found::Colmap { model, base, notes } => open_colmap(&model, &base, options, notes)?,
        Found::Transforms(json) => nerfstudio::open(&json)?,
        Found::Blender(root) => blender::open(&root)?,
    };
    if let Some(folder) = &options.images {
        let folder = image_folder_override(folder, path)?;
        for image in &mut capture.images {
            image.folder.clone_from(&folder);
        }
    }
    if let Some(n) = options.downscale.filter(|&n| n > 1) {
        use_downscaled_folders(&mut capture, n);
    }
    capture.select(options).map_err(|e| e.at_path(path))?;
    check_masks(&mut capture, options).map_err(|e| match e.place() {
        Some(_) => e,
        None => e.at_path(path),
    })?;
    Ok(capture)
}

/// Refuses to invert masks that are not there, and tells of a folder of masks that fit no photo.
fn check_masks(capture: &mut Capture, options: &LoadOptions) -> Result<()> {
    for image in &capture.images {
        if image.mask_path()?.is_some() {
            return Ok(());
        }
    }
    if options.invert_masks {
        return Err(
            Error::input("masks are to be inverted, but no photo has one").hint(MASKS_HINT),
        );
    }
    let masks = capture.images.first().and_then(PosedImage::mask_folder);
    if let Some(masks) = masks.filter(|folder| folder.is_dir()) {
        capture.notes.push(format!(
            "no mask in {} is named as a photo (photo.png or photo.jpg.png): none is used",
            masks.display()
        ));
    }
    Ok(())
}

fn check_options(options: &LoadOptions) -> Result<()> {
    for (name, zero) in [
        ("downscale", options.downscale == Some(0)),
        ("max_resolution", options.max_resolution == Some(0)),
        ("max_views", options.max_views == Some(0)),
    ] {
        if zero {
            return Err(Error::input(format!("{name} is 0"))
                .hint("give a number of at least 1, or leave the option out"));
        }
    }
    Ok(())
}

enum Found {
    Colmap {
        model: PathBuf,
        base: PathBuf,
        notes: Vec<String>,
    },
    Transforms(PathBuf),
    Blender(PathBuf),
}

fn detect(path: &Path) -> Result<Found> {
    let metadata =
        std::fs::metadata(path).map_err(|e| Error::io("cannot open the capture", path, e))?;
    if metadata.is_file() {
        let parent = path.parent().unwrap_or(Path::new(""));
        return match path.file_name() {
            Some(name) if name == blender::TRAIN => Ok(Found::Blender(parent.to_owned())),
            Some(name) if Path::new(name).extension().is_some_and(|e| e == "json") => {
                Ok(Found::Transforms(path.to_owned()))
            }
            _ => Err(Error::input("this file is not a capture")
                .at_path(path)
                .hint("name the capture's folder, or its transforms.json")),
        };
    }
    if colmap::is_model(path) {
        // Photos lie beside the model folder or one or two levels up (`sparse/0`).
        let base = path
            .ancestors()
            .take(3)
            .find(|base| base.join("images").is_dir())
            .unwrap_or(path);
        return Ok(Found::Colmap {
            model: path.to_owned(),
            base: base.to_owned(),
            notes: Vec::new(),
        });
    }
    if let Some((model, mut notes)) = largest_model(&path.join("sparse"))? {
        if path.join("transforms.json").is_file() {
            notes.push(
                "there is a transforms.json too; the COLMAP model is used (name the file to use it)"
                    .to_owned(),
            );
        }
        return Ok(Found::Colmap {
            model,
            base: path.to_owned(),
            notes,
        });
    }
    if path.join("transforms.json").is_file() {
        return Ok(Found::Transforms(path.join("transforms.json")));
    }
    if path.join(blender::TRAIN).is_file() {
        return Ok(Found::Blender(path.to_owned()));
    }
    for inner in ["colmap", "dense"] {
        if let Some((model, notes)) = largest_model(&path.join(inner).join("sparse"))? {
            let own = path.join(inner).join("images").is_dir();
            let base = if own {
                path.join(inner)
            } else {
                path.to_owned()
            };
            return Ok(Found::Colmap { model, base, notes });
        }
    }
    Err(Error::input("no capture found in this folder")
        .at_path(path)
        .hint(
            "looked for a COLMAP model (sparse/0/cameras.bin and images.bin, or .txt), Nerfstudio's \
             transforms.json and Blender's transforms_train.json",
        ))
}

/// The model in `sparse` or its subfolders that has the most registered images, and what to say.
fn largest_model(sparse: &Path) -> Result<Option<(PathBuf, Vec<String>)>> {
    if !sparse.is_dir() {
        return Ok(None);
    }
    let entries =
        std::fs::read_dir(sparse).map_err(|e| Error::io("cannot list the folder", sparse, e))?;
    let mut models: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.is_dir() && colmap::is_model(path))
        .collect();
    models.sort();
    if models.is_empty() {
        return Ok(colmap::is_model(sparse).then(|| (sparse.to_owned(), Vec::new())));
    }
    if models.len() == 1 {
        return Ok(models.pop().map(|model| (model, Vec::new())));
    }
    let mut counted = Vec::new();
    for model in models {
        counted.push((colmap::image_count(&model)?, model));
    }
    // The first of equals: the sort is stable.
    counted.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let name = |path: &Path| {
        path.file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    };
    let all: Vec<String> = counted
        .iter()
        .map(|(count, path)| format!("{} with {count}", name(path)))
        .collect();
    let note = format!(
        "sparse holds {} models (photos: {}); the largest is used",
        counted.len(),
        all.join(", ")
    );
    Ok(counted
        .into_iter()
        .next()
        .map(|(_, model)| (model, vec![note])))
}

fn open_colmap(
    model: &Path,
    base: &Path,
    options: &LoadOptions,
    mut notes: Vec<String>,
) -> Result<Capture> {
    let read = colmap::read_model(model)?;
    notes.extend(read.notes);
    let folder = ["images", "input"]
        .iter()
        .map(|name| base.join(name))
        .find(|folder| folder.is_dir());
    let folder = match (folder, &options.images) {
        (Some(folder), _) => folder,
        // Replaced by the caller.
        (None, Some(_)) => base.join("images"),
        (None, None) => {
            return Err(Error::input("the capture has no image folder")
                .at_path(base.join("images"))
                .hint("put the photos into images/ beside sparse/, or name their folder with --images"));
        }
    };
    let images = read
        .images
        .into_iter()
        .map(|(name, camera, source_model)| {
            Ok(PosedImage {
                file: relative_path(&name)
                    .map_err(|e| e.at(format!("{}, image \"{name}\"", model.display())))?,
                name,
                folder: folder.clone(),
                downscaled: false,
                mask: None,
                camera,
                source_model: source_model.to_owned(),
            })
        })
        .collect::<Result<_>>()?;
    Ok(Capture {
        images,
        points: read.points,
        missing_points: read.missing_points,
        notes,
    })
}

fn image_folder_override(folder: &Path, capture: &Path) -> Result<PathBuf> {
    [folder.to_owned(), capture.join(folder)]
        .into_iter()
        .find(|folder| folder.is_dir())
        .ok_or_else(|| {
            Error::input("the image folder does not exist")
                .at_path(folder)
                .hint("name an existing folder, relative to here or to the capture")
        })
}

/// Points images to `<folder>_<n>` where that exists.
fn use_downscaled_folders(capture: &mut Capture, n: u32) {
    let mut used: Vec<PathBuf> = Vec::new();
    for image in &mut capture.images {
        let mut name = image.folder.clone().into_os_string();
        name.push(format!("_{n}"));
        let folder = PathBuf::from(name);
        if used.last() == Some(&folder) || folder.is_dir() {
            image.folder.clone_from(&folder);
            image.downscaled = true;
            used.push(folder);
            used.dedup();
        }
    }
    for folder in used {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        capture.notes.push(format!("photos are taken from {name}"));
    }
}

/// What was done to a photo, for the notes.
#[derive(Default)]
pub(crate) struct Treatment {
    pub(crate) rescaled: bool,
    pub(crate) deep: bool,
    /// The lens distorts, and the camera keeps it.
    pub(crate) distorted: bool,
    /// Pixels were masked that no ray of the lens reaches.
    pub(crate) beyond: bool,
    pub(crate) undistorted: bool,
    pub(crate) masked: Masked,
}

/// A limit on photos leaves room for so many of the largest: one in use, one on its way to a device,
/// and some that are read ahead.
const LEAST_PHOTOS_HELD: u64 = 4;

/// Decodes the photos of a capture, or describes them alone where they take more memory than they may.
pub fn decode(capture: Capture, options: &LoadOptions, progress: &dyn Progress) -> Result<Dataset> {
    Ok(decode_each(capture, options, progress)?.0)
}

/// Also what was done to each photo.
fn decode_each(
    capture: Capture,
    options: &LoadOptions,
    progress: &dyn Progress,
) -> Result<(Dataset, Vec<Treatment>)> {
    if let Some(limit) = options.photo_memory_bytes
        && may_exceed(&capture, options, limit)
    {
        let (described, done) = describe_each(&capture, options, progress)?;
        let bytes = described.views.iter().map(|view| view.photo.bytes());
        if bytes.sum::<u64>() > limit {
            check_limit(&described.views, limit)?;
            let limited = Dataset {
                photo_memory_bytes: Some(limit),
                ..described
            };
            return Ok((limited, done));
        }
    }
    each_view(capture, "reading photos", progress, |image| {
        let (photo, camera, treatment) = decode_photo(image, options)?;
        let view = View {
            name: image.name.clone(),
            camera,
            source_model: image.source_model.clone(),
            photo: photo.into(),
        };
        Ok((view, treatment))
    })
}

/// Refuses a limit that leaves no room to read ahead.
fn check_limit(views: &[View], limit: u64) -> Result<()> {
    let Some(largest) = views.iter().max_by_key(|view| view.photo.bytes()) else {
        return Ok(());
    };
    let least = LEAST_PHOTOS_HELD * largest.photo.bytes();
    if limit >= least {
        return Ok(());
    }
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    Err(Error::input(format!(
        "{:.2} MiB for photos hold less than {LEAST_PHOTOS_HELD} of the largest",
        mib(limit)
    ))
    .at(largest.name.clone())
    .hint(format!(
        "give them {:.2} MiB or more, or reduce them (--downscale, --max-resolution)",
        mib(least) + 0.005
    )))
}

/// Reads the headers of a capture's photos: views that have everything but pixels, which are read when
/// they are asked for. Finds files that are missing, cut or foreign; not all damage shows without
/// decoding.
///
/// # Errors
/// As [`load`].
pub fn describe_all(
    capture: &Capture,
    options: &LoadOptions,
    progress: &dyn Progress,
) -> Result<Dataset> {
    Ok(describe_each(capture, options, progress)?.0)
}

fn describe_each(
    capture: &Capture,
    options: &LoadOptions,
    progress: &dyn Progress,
) -> Result<(Dataset, Vec<Treatment>)> {
    let what = "reading photos' headers";
    each_view(capture.clone(), what, progress, |image| {
        describe(image, options)
    })
}

/// Whether the photos might take more than `limit` bytes, by what the capture says of their sizes. A
/// photo may be larger than its camera, and have alpha and a mask.
fn may_exceed(capture: &Capture, options: &LoadOptions, limit: u64) -> bool {
    const DOUBT: u64 = 4;
    let bytes = |image: &PosedImage| {
        let size = (image.camera.width, image.camera.height);
        let camera = reduced_camera(image, size, options);
        5 * u64::from(camera.width) * u64::from(camera.height)
    };
    DOUBT * capture.images.iter().map(bytes).sum::<u64>() > limit
}

/// Makes the view of every image, and says what was done to each.
fn each_view(
    capture: Capture,
    what: &str,
    progress: &dyn Progress,
    make: impl Fn(&PosedImage) -> Result<(View, Treatment)> + Sync,
) -> Result<(Dataset, Vec<Treatment>)> {
    capture.check_files()?;
    progress.start(what, capture.images.len() as u64);
    // Photos after the first that failed are not started, so that the error is the first by name
    // whatever the threads do.
    let failed = AtomicUsize::new(usize::MAX);
    let made: Vec<Option<Result<(View, Treatment)>>> = capture
        .images
        .par_iter()
        .enumerate()
        .map(|(index, image)| {
            if index > failed.load(Ordering::Relaxed) {
                return None;
            }
            let view = make(image);
            if view.is_err() {
                failed.fetch_min(index, Ordering::Relaxed);
            }
            progress.advance(1);
            Some(view)
        })
        .collect();
    progress.finish();
    let mut views = Vec::with_capacity(made.len());
    let mut done = Vec::with_capacity(made.len());
    for result in made.into_iter().flatten() {
        let (view, treatment) = result?;
        views.push(view);
        done.push(treatment);
    }
    if !done.is_empty() && done.iter().all(|t| t.masked.nothing_left) {
        return Err(Error::input("masks leave nothing of any photo")
            .at(views
                .first()
                .map_or(String::new(), |view| view.name.clone()))
            .hint("masks are white where photos are used: --invert-masks turns them round"));
    }
    let mut notes = capture.notes;
    note_treatments(&done, &capture.images, &mut notes);
    let dataset = Dataset {
        views,
        points: capture.points,
        missing_points: capture.missing_points,
        photo_memory_bytes: None,
        notes,
    };
    Ok((dataset, done))
}

fn note_treatments(done: &[Treatment], images: &[PosedImage], notes: &mut Vec<String>) {
    let mut say = |what: &str, holds: fn(&Treatment) -> bool| {
        let count = done.iter().filter(|t| holds(t)).count();
        if count > 0 {
            notes.push(format!("{count} of {} photos {what}", done.len()));
        }
    };
    say(
        "differ in size from their camera: intrinsics are rescaled",
        |t| t.rescaled,
    );
    say("have 16 bits a channel: rounded to 8", |t| t.deep);
    say("have a mask", |t| t.masked.ignored);
    say("have transparent pixels", |t| t.masked.transparent);
    say(
        "have nothing left by their masks: are those inverted?",
        |t| t.masked.nothing_left,
    );
    let models = |which: fn(&Treatment) -> bool| {
        let chosen = images.iter().zip(done).filter(|(_, t)| which(t));
        let models: BTreeSet<&str> = chosen
            .map(|(image, _)| image.source_model.as_str())
            .collect();
        models.into_iter().collect::<Vec<_>>().join(", ")
    };
    say(
        &format!(
            "are of a lens that distorts ({}), and kept as they are",
            models(|t| t.distorted)
        ),
        |t| t.distorted,
    );
    say(
        "show more than their lens model reaches: the rest is masked",
        |t| t.beyond,
    );
    say(
        &format!("are undistorted ({})", models(|t| t.undistorted)),
        |t| t.undistorted,
    );
}

/// The camera of a photo of this size once it is reduced, with its lens.
pub(crate) fn reduced_camera(
    image: &PosedImage,
    (width, height): (u32, u32),
    options: &LoadOptions,
) -> Camera {
    let divisor = match options.downscale {
        Some(n) if !image.downscaled => n,
        _ => 1,
    };
    let (width, height) = target_size((width, height), divisor, options.max_resolution);
    image.camera.resized(width, height)
}

/// A photo, masked, reduced and, where asked for, undistorted, with its camera.
pub(crate) fn decode_photo(
    image: &PosedImage,
    options: &LoadOptions,
) -> Result<(Photo, Camera, Treatment)> {
    let path = image.path()?;
    let Decoded { mut photo, deep } = images::decode(&path, |width, height| {
        check_size(image, width, height).map_err(|e| e.at_path(&path))
    })?;
    let mut treatment = Treatment {
        deep,
        ..Treatment::default()
    };
    let as_described = (photo.width, photo.height) == (image.camera.width, image.camera.height);
    treatment.rescaled = !as_described && !image.downscaled;
    let mut camera = reduced_camera(image, (photo.width, photo.height), options);
    let mask = image.mask_path()?;
    let invert = options.invert_masks;
    treatment.masked = masks::apply(&mut photo, mask.as_deref(), options.mask_mode, invert)?;
    if (camera.width, camera.height) != (photo.width, photo.height) {
        photo = reduce(&photo, camera.width, camera.height);
    }
    if camera.lens.is_identity() {
        camera.lens = crate::Lens::Pinhole;
    } else {
        let wanted = photo.mask.as_ref().is_none_or(|mask| mask.contains(&255));
        if options.undistort {
            (photo, camera) = undistort(&photo, &camera);
            treatment.undistorted = true;
        } else {
            treatment.distorted = true;
            treatment.beyond = mask_beyond(&mut photo, &camera);
        }
        if wanted && photo.mask.as_ref().is_some_and(|mask| !mask.contains(&255)) {
            return Err(Error::input(format!(
                "nothing of the photo \"{}\" lies within what its lens shows",
                image.name
            ))
            .at_path(&path)
            .hint("the camera's distortion coefficients make no lens: calibrate again"));
        }
    }
    Ok((photo, camera, treatment))
}

/// Refuses a photo that cannot be what the camera took: another aspect ratio.
pub(crate) fn check_size(image: &PosedImage, width: u32, height: u32) -> Result<()> {
    let Camera {
        width: w,
        height: h,
        ..
    } = image.camera;
    // Each edge of a scaled photo may have been rounded up or down by less than a pixel.
    let crossed = |a: u32, b: u32| i128::from(a) * i128::from(b);
    let off = (crossed(width, h) - crossed(height, w)).unsigned_abs();
    if off <= u128::from(w) + u128::from(h) {
        return Ok(());
    }
    Err(Error::input(format!(
        "the photo \"{}\" has {width}x{height} pixels, but its camera {w}x{h}",
        image.name
    ))
    .hint(if crossed(width, w) == crossed(height, h) {
        "the photo was rotated after the poses were found: restore the original"
    } else {
        "use the photos that the poses were found with, or copies scaled in proportion"
    }))
}

/// Size after dividing by `divisor` and limiting the longest edge.
fn target_size(
    (width, height): (u32, u32),
    divisor: u32,
    max_resolution: Option<u32>,
) -> (u32, u32) {
    let divided = |edge: u32| (f64::from(edge) / f64::from(divisor)).round().max(1.0);
    let (w, h) = (divided(width), divided(height));
    let scale = max_resolution.map_or(1.0, |max| (f64::from(max) / w.max(h)).min(1.0));
    let scaled = |edge: f64| (edge * scale).round().max(1.0) as u32;
    (scaled(w), scaled(h))
}
