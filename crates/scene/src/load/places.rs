//! Places the photos of a capture: afterwards, folder and file of each photo are those on the disk.
//!
//! 1. The finder locates the files that the capture names below its root, or in the folder that the user names
//!    ([`crate::LoadOptions::images`]).
//! 2. An image's folder is the part of its path up to the last folder with a usual name (`images`, `input`, ...), so
//!    that masks and reduced photos are found next to it.
//! 3. Notes list photos that were not found by their name. Missing photos keep the name that the capture has, and
//!    [`seen_instead`](super::missing::seen_instead) describes the existing files.

use super::finder::{Finder, How, Located, Places, fold, split_ending};
use crate::capture::PosedImage;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Names of folders that hold the photos of a capture, in lower case. The first are COLMAP's and 3DGS'.
pub(crate) const PHOTO_FOLDERS: [&str; 14] = [
    "images",
    "input",
    "image",
    "photos",
    "rgb",
    "color",
    "colour",
    "imgs",
    "img",
    "frames",
    "pictures",
    "undistorted_images",
    "raw",
    "jpg",
];

/// Returns the folders of `root` that have a usual name for photos.
pub(crate) fn photo_folders(finder: &mut Finder, root: &Path) -> Vec<PathBuf> {
    let mut named: Vec<(usize, PathBuf)> = Vec::new();
    for name in &finder.list(root).folders {
        let folded = fold(&name.to_string_lossy());
        if let Some(rank) = PHOTO_FOLDERS.iter().position(|usual| *usual == folded) {
            named.push((rank, root.join(name)));
        }
    }
    named.sort();
    named.into_iter().map(|(_, folder)| folder).collect()
}

/// Finds the photos of a capture at `root`, or in `chosen`.
///
/// # Errors
/// Several files fit a photo.
pub(crate) fn place_photos(
    finder: &mut Finder,
    root: &Path,
    chosen: Option<&Path>,
    images: &mut [PosedImage],
) -> Result<Vec<String>> {
    if let Some(folder) = chosen {
        for image in images.iter_mut() {
            image.folder = folder.to_owned();
        }
    }
    let first = chosen.unwrap_or(root).to_owned();
    let full = |image: &PosedImage| {
        let path = image.folder.join(&image.file);
        path.strip_prefix(&first).map(Path::to_owned)
    };
    let files: Vec<PathBuf> = images
        .iter()
        .map(|image| full(image).unwrap_or_else(|_| image.file.clone()))
        .collect();
    // The usual case: no search needed.
    if files.iter().all(|file| first.join(file).is_file()) {
        return Ok(Vec::new());
    }
    let places = Places {
        others: match chosen {
            Some(_) => Vec::new(),
            None => photo_folders(finder, root),
        },
        below: chosen.is_none().then(|| root.to_owned()),
        first,
    };
    let located = finder.locate(&places, &files)?;
    let notes = notes(images, &located, root);
    for (image, found) in images.iter_mut().zip(located).filter_map(with_found) {
        if let Ok(file) = found.path.strip_prefix(&image.folder) {
            image.file = file.to_owned();
        } else {
            (image.folder, image.file) = split_path(&found.path, &image.file, root);
        }
    }
    Ok(notes)
}

fn with_found<T>((image, found): (T, Option<Located>)) -> Option<(T, Located)> {
    Some((image, found?))
}

/// Returns folder and file of a path that is not at its place in the capture (step 2).
fn split_path(path: &Path, named: &Path, root: &Path) -> (PathBuf, PathBuf) {
    let is_usual = |folder: &&Path| {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        PHOTO_FOLDERS.contains(&&*fold(&name))
    };
    let above = path
        .ancestors()
        .skip(1)
        .take_while(|folder| *folder != root);
    let usual = { above }.find(is_usual);
    let mut folder = path.parent().unwrap_or(root).to_owned();
    match usual {
        Some(usual) => folder = usual.to_owned(),
        // Folders in the capture's name belong to the file.
        None => {
            for part in named.components().rev().skip(1) {
                let part = fold(&part.as_os_str().to_string_lossy());
                let last = folder.file_name().map(|name| fold(&name.to_string_lossy()));
                if folder == root || last != Some(part) {
                    break;
                }
                folder.pop();
            }
        }
    }
    let file = path.strip_prefix(&folder).unwrap_or(path).to_owned();
    (folder, file)
}

/// Step 3: notes on photos that were found under another name. Different letters and omitted extensions give no note.
fn notes(images: &[PosedImage], located: &[Option<Located>], root: &Path) -> Vec<String> {
    let total = images.len();
    let note = |what: &str, holds: fn(&PosedImage, &Located) -> bool| {
        let pairs = images.iter().zip(located);
        let mut found = pairs.filter_map(|(image, found)| Some((image, found.as_ref()?)));
        let (image, first) = found.clone().find(|(image, found)| holds(image, found))?;
        let count = found.by_ref().filter(|(i, f)| holds(i, f)).count();
        let path = first.path.strip_prefix(root).unwrap_or(&first.path);
        Some(format!(
            "{count} of {total} photos {what}: \"{}\" is {}",
            image.name,
            path.display()
        ))
    };
    let moved = |_: &PosedImage, found: &Located| found.moved;
    let ending = |image: &PosedImage, found: &Located| {
        found.how == How::Ending && split_ending(&image.name).1.is_some()
    };
    let moved = note("are in another folder than the capture names", moved);
    let ending = note("have another file ending than the capture names", ending);
    moved.into_iter().chain(ending).collect()
}

/// Redirects images to `<folder>_<n>` if that folder holds them, and returns notes. If the folder holds only a part of
/// them, all photos are taken from the folder of full-size photos, unless that has fewer.
pub(crate) fn use_reduced(finder: &mut Finder, images: &mut [PosedImage], n: u32) -> Vec<String> {
    let mut folders: BTreeMap<PathBuf, Vec<usize>> = BTreeMap::new();
    for (index, image) in images.iter().enumerate() {
        folders.entry(image.folder.clone()).or_default().push(index);
    }
    let mut notes = Vec::new();
    for (whole, members) in folders {
        let mut name = whole.clone().into_os_string();
        name.push(format!("_{n}"));
        let reduced = PathBuf::from(name);
        if !reduced.is_dir() {
            continue;
        }
        let places = Places {
            first: reduced.clone(),
            others: Vec::new(),
            below: None,
        };
        let files: Vec<PathBuf> = members.iter().map(|&i| images[i].file.clone()).collect();
        // Ambiguous files count as missing.
        let found = finder
            .locate(&places, &files)
            .unwrap_or_else(|_| vec![None; files.len()]);
        let there = found.iter().flatten().count();
        let whole_there = members
            .iter()
            .filter(|&&i| images[i].existing().is_some())
            .count();
        let name = reduced.file_name().unwrap_or_default().to_string_lossy();
        if there < members.len() && whole_there > there {
            notes.push(format!(
                "{name}/ holds {there} of {} photos and is not used: all are taken from {}/ and reduced",
                members.len(),
                whole.file_name().unwrap_or_default().to_string_lossy()
            ));
            continue;
        }
        for (&index, found) in members.iter().zip(found) {
            let image = &mut images[index];
            image.folder.clone_from(&reduced);
            image.downscaled = true;
            let file =
                found.and_then(|found| Some(found.path.strip_prefix(&reduced).ok()?.to_owned()));
            image.file = file.unwrap_or_else(|| image.file.clone());
        }
        notes.push(format!("photos are taken from {name}"));
    }
    notes
}

/// Builds the error of a photo whose path leads out of the capture and that is not found inside.
pub(crate) fn outside(name: &str) -> Error {
    Error::input(format!(
        "the path \"{name}\" leads out of the capture's folder, and no file inside has that name"
    ))
    .hint("keep photos inside the capture, or name their folder with --images")
}
