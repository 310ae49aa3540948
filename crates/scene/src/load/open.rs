//! Opens a capture: finds the photos and reads all other files.

use super::few::note_few_of_many;
use super::finder::Finder;
use super::layouts::{Found, detect, use_points_beside};
use super::mask_files::find_masks;
use super::places::{photo_folders, place_photos, use_reduced};
use super::{LoadOptions, MASKS_HINT, check_options, geometry, plausible};
use crate::capture::{Capture, NamedPath, PosedImage, named_path};
use crate::code_pages::Matched;
use crate::own_split::{Lists, OwnSplit};
use crate::{Error, Result, blender, colmap, nerfstudio};
use std::path::{Path, PathBuf};

/// Finds the capture at `path` and reads everything but the photos.
pub fn open(path: &Path, options: &LoadOptions) -> Result<Capture> {
    check_options(options)?;
    let chosen = options.images.as_deref();
    let chosen = chosen
        .map(|folder| image_folder_override(folder, path))
        .transpose()?;
    let chosen = chosen.as_deref();
    let (mut capture, root) = match detect(path)? {
        Found::Colmap { model, base, notes } => {
            let mut capture = open_colmap(&model, &base, chosen, notes)?;
            if capture.missing_points.is_some() {
                let above = model.parent().unwrap_or(&base);
                use_points_beside(&mut capture, &[above, &base]);
            }
            (capture, base)
        }
        Found::Transforms(json, notes) => {
            let root = json.parent().unwrap_or(Path::new("")).to_owned();
            (
                with_notes(notes, nerfstudio::open(&json, options, chosen)?),
                root,
            )
        }
        Found::Blender(root, notes) => (
            with_notes(notes, blender::open(&root, options, chosen)?),
            root,
        ),
    };
    if capture.points.is_empty() && capture.notes.iter().any(|n| n == nerfstudio::NO_POINTS) {
        use_points_beside(&mut capture, &[&root]);
    }
    capture.choose_origin();
    let mut finder = Finder::default();
    let named = capture.images.iter().any(|image| image.mask.is_some());
    if let Some(n) = options.downscale.filter(|&n| n > 1) {
        let notes = use_reduced(&mut finder, &mut capture.images, n);
        capture.notes.extend(notes);
    }
    if options.skip_missing {
        capture.skip_missing().map_err(|e| e.at_path(path))?;
    }
    note_few_of_many(&mut capture);
    capture.select(options).map_err(|e| e.at_path(path))?;
    settle_split(&mut capture, options);
    let notes = find_masks(&mut finder, &root, &mut capture.images);
    capture.notes.extend(notes.into_iter().filter(|_| !named));
    check_masks(&mut capture, options).map_err(|e| match e.place() {
        Some(_) => e,
        None => e.at_path(path),
    })?;
    plausible::refuse_impossible(&capture)?;
    plausible::refuse_impossible_lenses(&capture)?;
    let notes = plausible::notes(&capture);
    capture.notes.extend(notes);
    capture.notes.extend(geometry::note(&capture));
    Ok(capture)
}

/// Drops the capture's own split if the options ignore it, else adds a note.
fn settle_split(capture: &mut Capture, options: &LoadOptions) {
    if options.ignore_split {
        capture.own_split = Some(OwnSplit::by_number());
    }
    let own = capture.own_split.as_ref().filter(|own| own.is_own());
    if let Some(own) = own {
        capture.notes.push(own.note(&capture.images));
    }
}

fn with_notes(notes: Vec<String>, capture: Capture) -> Capture {
    Capture {
        notes: [notes, capture.notes].concat(),
        ..capture
    }
}

/// Refuses to invert masks of a capture without masks, and refuses missing masks that the capture names.
fn check_masks(capture: &mut Capture, options: &LoadOptions) -> Result<()> {
    for image in &capture.images {
        if image.mask_path()?.is_some() {
            return Ok(());
        }
    }
    match options.invert_masks {
        true => {
            Err(Error::input("masks are to be inverted, but no photo has one").hint(MASKS_HINT))
        }
        false => Ok(()),
    }
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

/// Reads a COLMAP model whose photos are under `base`, or in `chosen`.
fn open_colmap(
    model: &Path,
    base: &Path,
    chosen: Option<&Path>,
    mut notes: Vec<String>,
) -> Result<Capture> {
    let read = colmap::read_model(model)?;
    notes.extend(read.notes);
    let mut finder = Finder::default();
    let folder = colmap_photos(&mut finder, model, base);
    let foreign = read.name_bytes.iter().flatten();
    let foreign: Vec<&[u8]> = foreign.map(Vec::as_slice).collect();
    let matched = Matched::find(chosen.unwrap_or(&folder), &foreign);
    notes.extend(matched.as_ref().map(|matched| matched.note(foreign.len())));
    let named = read.images.into_iter().zip(read.image_ids);
    let named = named.zip(&read.name_bytes);
    let named = named.map(|(((name, camera, source_model), id), bytes)| {
        let (name, path) = name_and_path(name, bytes.as_deref(), matched.as_ref(), model)?;
        Ok((
            PosedImage {
                file: path.path,
                name,
                folder: folder.clone(),
                downscaled: false,
                mask: None,
                id,
                depth: None,
                camera,
                source_model: source_model.to_owned(),
            },
            path.leads_out,
        ))
    });
    let (mut images, outside): (Vec<PosedImage>, Vec<bool>) =
        named.collect::<Result<Vec<_>>>()?.into_iter().unzip();
    notes.extend(place_photos(&mut finder, base, chosen, &mut images)?);
    let mut there = images.iter().filter(|image| image.existing().is_some());
    if there.next().is_none() && chosen.is_none() && !folder.is_dir() {
        return Err(no_image_folder(&mut finder, &folder, &images));
    }
    let mut lost = images
        .iter()
        .zip(outside)
        .filter(|(i, out)| *out && i.existing().is_none());
    if let Some((image, _)) = lost.next() {
        return Err(super::places::outside(&image.name).at(format!(
            "{}, image \"{}\"",
            model.display(),
            image.name
        )));
    }
    let mut own_split = None;
    let above = model.parent().filter(|above| above.starts_with(base));
    let folders: Vec<&Path> = std::iter::once(model).chain(above).chain([base]).collect();
    if let Some(lists) = Lists::in_folders(&folders)? {
        let (own, remarks) = OwnSplit::from_lists(&lists, &images);
        own_split = own;
        notes.extend(remarks);
    }
    let has_tracks = read.tracks.len() == read.points.len();
    Ok(Capture {
        images,
        origin: glam::DVec3::ZERO,
        points: read.points,
        remainders: read.remainders,
        tracks: has_tracks.then_some(read.tracks),
        observations: read.observations,
        own_split,
        missing_points: read.missing_points,
        skipped: 0,
        notes,
    })
}

/// Returns the name and the path of a photo of a COLMAP model: those of `bytes`, the bytes of a name that is not UTF-8,
/// under the code page `matched`, or else those of `name`.
fn name_and_path(
    name: String,
    bytes: Option<&[u8]>,
    matched: Option<&Matched>,
    model: &Path,
) -> Result<(String, NamedPath)> {
    let found = matched.zip(bytes);
    match found.and_then(|(matched, bytes)| matched.name(bytes)) {
        Some((text, path)) => {
            let leads_out = false;
            Ok((text.unwrap_or(name), NamedPath { path, leads_out }))
        }
        None => {
            let path = named_path(&name)
                .map_err(|e| e.at(format!("{}, image \"{name}\"", model.display())))?;
            Ok((name, path))
        }
    }
}

/// Returns the folder that a COLMAP model's names are relative to.
fn colmap_photos(finder: &mut Finder, model: &Path, base: &Path) -> PathBuf {
    let folders = photo_folders(finder, base);
    let is = |name: &str| {
        let named = folders.iter().find(|folder| folder.ends_with(name));
        named.cloned()
    };
    let is_distorted = model.starts_with(base.join("distorted"));
    let input = is_distorted.then(|| is("input")).flatten();
    let found = input.or_else(|| is("images")).or_else(|| is("input"));
    found.unwrap_or_else(|| base.join("images"))
}

/// Builds the error of a model whose photos are in no folder below its own.
fn no_image_folder(finder: &mut Finder, folder: &Path, images: &[PosedImage]) -> Error {
    let base = folder.parent().unwrap_or(folder);
    let reduced = finder.list(base).folders.iter().find_map(|name| {
        let name = name.to_string_lossy();
        let number = name.strip_prefix("images_")?;
        number
            .bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| (name.to_string(), number.to_owned()))
    });
    if let Some((name, number)) = reduced {
        return Error::input(format!(
            "the capture has no image folder, but {name}/ is there"
        ))
        .at_path(folder)
        .hint(format!(
            "use those photos with --downscale {number}, or with --images {name}"
        ));
    }
    let seen = images.first().map(super::places::seen_instead);
    let seen = seen.map_or(String::new(), |(seen, _)| format!(": {seen}"));
    Error::input(format!("the capture has no image folder{seen}"))
        .at_path(folder)
        .hint("put the photos into images/ next to sparse/, or name their folder with --images")
}
