//! Converts a capture to its views: all photos, in parallel.
//!
//! 1. If photos may exceed the memory limit, read their headers and sum the sizes. If the sum exceeds the limit, decode
//!    nothing.
//! 2. Else decode each photo, and note the operations on it.

use super::describe::describe;
use super::photo::{Treatment, decode_photo, depth_of, depth_sum, reduced_camera};
use super::{LoadOptions, colours};
use crate::capture::{Capture, PosedImage};
use crate::resize::HALF;
use crate::{Dataset, Error, Progress, Result, View, images};
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A memory limit for photos must hold this number of the largest: one in use, one in flight to a device, and some that
/// are read ahead.
const LEAST_PHOTOS_HELD: u64 = 4;

/// Decodes the photos of a capture, or only describes them if they exceed the memory limit.
pub fn decode(capture: Capture, options: &LoadOptions, progress: &dyn Progress) -> Result<Dataset> {
    Ok(decode_each(capture, options, progress)?.0)
}

/// Decodes every photo, as [`decode`], and refuses damaged photos whose missing parts a decoder would fill in. Takes
/// twice as long.
///
/// # Errors
/// The errors of [`super::load`]; a damaged photo.
pub fn check(capture: Capture, options: &LoadOptions, progress: &dyn Progress) -> Result<Dataset> {
    let posed = capture.images.clone();
    let dataset = decode(capture, options, progress)?;
    let damaged: Vec<Error> = posed
        .par_iter()
        .filter_map(|image| image.path().and_then(|path| images::verify(&path)).err())
        .collect();
    let count = damaged.len();
    match damaged.into_iter().next() {
        None => Ok(dataset),
        Some(error) if count == 1 => Err(error),
        Some(first) => {
            let what = format!("{count} of {} photos are damaged", posed.len());
            Err(Error::input(what)
                .at(first.place().unwrap_or("the first").to_owned())
                .hint("copy them again from where they came"))
        }
    }
}

/// Decodes like [`decode`]; also returns the operations on each photo.
pub(super) fn decode_each(
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
        let (photo, camera, mut treatment) = decode_photo(image, options)?;
        treatment.files.depth = depth_sum(image, options)?;
        let view = View {
            name: image.name.clone(),
            camera,
            source_model: image.source_model.clone(),
            photo: photo.into(),
            depth: depth_of(image, &camera, options)?,
        };
        Ok((view, treatment))
    })
}

/// Refuses a limit that is too small to read ahead.
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

/// Reads the headers of a capture's photos: views that have everything but pixels, which are read at each use. Detects
/// missing, truncated and foreign files; some damage is visible only in decoding.
///
/// # Errors
/// See [`super::load`].
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

/// Returns true if the photos might take more than `limit` bytes, by the sizes in the capture. A photo may be larger
/// than its camera, and have alpha and a mask.
fn may_exceed(capture: &Capture, options: &LoadOptions, limit: u64) -> bool {
    const DOUBT: u64 = 4;
    let bytes = |image: &PosedImage| {
        let size = (image.camera.width, image.camera.height);
        let camera = reduced_camera(image, size, options);
        5 * u64::from(camera.width) * u64::from(camera.height)
    };
    DOUBT * capture.images.iter().map(bytes).sum::<u64>() > limit
}

/// Builds the view of every image, and returns the operations on each.
fn each_view(
    capture: Capture,
    what: &str,
    progress: &dyn Progress,
    make: impl Fn(&PosedImage) -> Result<(View, Treatment)> + Sync,
) -> Result<(Dataset, Vec<Treatment>)> {
    capture.check_files()?;
    progress.start(what, capture.images.len() as u64);
    // Photos after the first failed one are not started, so that the error is the first by name for any order of
    // threads.
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
            .hint(nothing_left_hint(&done)));
    }
    let numbers = capture
        .images
        .iter()
        .map(|image| image.id)
        .zip(0..)
        .collect();
    let tracks = capture.tracks.map(|tracks| tracks.renumbered(&numbers));
    let mut notes = capture.notes;
    note_treatments(&done, &capture.images, &mut notes);
    let mut dataset = Dataset {
        views,
        origin: capture.origin,
        points: capture.points,
        tracks,
        own_split: capture.own_split,
        missing_points: capture.missing_points,
        photo_memory_bytes: None,
        skipped: capture.skipped,
        files: done.iter().map(|treatment| treatment.files).collect(),
        notes,
    };
    let contradiction = colours::note(&dataset);
    dataset.notes.extend(contradiction);
    Ok((dataset, done))
}

/// Hint for masks that exclude all pixels.
fn nothing_left_hint(done: &[Treatment]) -> String {
    let white = "masks are white (255) where photos are used";
    match done.iter().filter_map(|t| t.masked.brightest).max() {
        Some(brightest @ 1..HALF) => format!(
            "{white}, and the largest value of these is {brightest} of 255: if they hold labels, write the labels to be \
             used as 255 and all others as 0"
        ),
        _ => format!("{white}: --invert-masks turns them round"),
    }
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
    say(
        "are turned or mirrored by their EXIF orientation, which is not followed: poses are taken to be of the pixels as \
         they are stored; if the poses were found with the photos turned, store them turned (`magick mogrify -auto-orient` \
         on copies)",
        |t| t.turned,
    );
    say("have a mask", |t| t.masked.ignored);
    say(
        "have a mask that excludes nothing: is it white everywhere?",
        |t| t.masked.idle,
    );
    say(
        "have a mask of two values, 0 and a dark one (labels, such as 0 and 1): the second is taken for white",
        |t| t.masked.labels,
    );
    say("have a mask in the alpha channel of its file", |t| {
        t.masked.in_alpha
    });
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
        &format!(
            "are panoramas ({}), and kept as they are",
            models(|t| t.panorama)
        ),
        |t| t.panorama,
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
