//! Finds the masks of photos by their names.
//!
//! 1. Masks are in `masks/` or `mask/` next to the folder of the photos, inside it, or in the capture's folder, or they
//!    are next to the photos themselves.
//! 2. In a folder of masks, the mask of `sub/a.jpg` is `sub/a.jpg.png` (COLMAP), `sub/a.png`, `sub/a.jpg`, or one of
//!    the marked names: `a.jpg.mask.png`, `a.mask.png` (RealityCapture), `a_mask.png`. Next to the photos, only marked
//!    names are masks.
//! 3. The first place that holds a mask of any photo is used for all photos. Notes list a place that is not `masks/`,
//!    and masks that are not used.

use super::finder::{Finder, fold, split_ending};
use crate::capture::PosedImage;
use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Finds the masks of photos whose capture names none, and returns notes.
pub(super) fn find_masks(
    finder: &mut Finder,
    root: &Path,
    images: &mut [PosedImage],
) -> Vec<String> {
    let mut notes = Vec::new();
    let mut used = images.iter().any(|image| image.mask.is_some());
    let photos: HashSet<PathBuf> = images.iter().map(|i| i.folder.join(&i.file)).collect();
    let folders = mask_folders(finder, root, images);
    for folder in &folders {
        let found = masks_in(finder, images, |_| folder.clone(), &Rule::Folder);
        let count = found.iter().flatten().count();
        let shown = shown_from(root, folder);
        match count {
            0 => {}
            _ if used => notes.push(format!(
                "{shown}/ holds masks of {count} photos too: they are not used"
            )),
            _ => {
                used = true;
                if !folder.ends_with("masks") {
                    notes.push(told(&format!("in {shown}/"), count, images.len()));
                }
                assign(images, found);
            }
        }
    }
    let mut beside = masks_in(finder, images, |image| image.folder.clone(), &Rule::Beside);
    for mask in &mut beside {
        *mask = mask.take().filter(|path| !photos.contains(path));
    }
    let count = beside.iter().flatten().count();
    if count > 0 {
        match used {
            true => notes.push(format!("{count} masks next to the photos are not used")),
            false => {
                used = true;
                notes.push(told("next to the photos", count, images.len()));
                assign(images, beside);
            }
        }
    }
    if !used {
        notes.extend(unused(finder, root, images, &folders));
    }
    notes
}

fn told(place: &str, count: usize, total: usize) -> String {
    format!(
        "masks of {count} of {total} photos are taken from files {place}: white is used, black is excluded"
    )
}

fn assign(images: &mut [PosedImage], found: Vec<Option<PathBuf>>) {
    for (image, mask) in images.iter_mut().zip(found) {
        image.mask = mask.or_else(|| image.mask.take());
    }
}

fn shown_from(root: &Path, folder: &Path) -> String {
    folder
        .strip_prefix(root)
        .unwrap_or(folder)
        .display()
        .to_string()
}

/// Returns the folders next to the photos, without those that contain the capture's own folder.
fn around(root: &Path, images: &[PosedImage]) -> BTreeSet<PathBuf> {
    let folders: BTreeSet<&PathBuf> = images.iter().map(|image| &image.folder).collect();
    let mut around = BTreeSet::from([root.to_owned()]);
    for folder in folders {
        around.insert(folder.clone());
        // Photos in the capture's own folder: folders above it belong to other data.
        if folder != root {
            around.extend(folder.parent().map(Path::to_owned));
        }
    }
    around
}

/// Returns the folders of masks (step 1): `masks` before `mask`.
fn mask_folders(finder: &mut Finder, root: &Path, images: &[PosedImage]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for usual in ["masks", "mask"] {
        for place in around(root, images) {
            found.extend(finder.folders(&place, Path::new(usual)));
        }
    }
    let mut seen = HashSet::new();
    found.retain(|folder| seen.insert(folder.clone()));
    found
}

/// Rule for the names of masks.
enum Rule {
    /// In a folder of masks.
    Folder,
    /// Next to the photos.
    Beside,
}

fn masks_in(
    finder: &mut Finder,
    images: &[PosedImage],
    place: impl Fn(&PosedImage) -> PathBuf,
    rule: &Rule,
) -> Vec<Option<PathBuf>> {
    let mut out = Vec::with_capacity(images.len());
    let mut folder: Option<(PathBuf, Vec<PathBuf>)> = None;
    for image in images {
        let parent = image.file.parent().unwrap_or(Path::new(""));
        let wanted = place(image).join(parent);
        if folder.as_ref().is_none_or(|(path, _)| *path != wanted) {
            // Masks of subfolders may also share one folder.
            let mut all = finder.folders(&place(image), parent);
            if matches!(rule, Rule::Folder) && !parent.as_os_str().is_empty() {
                all.push(place(image));
            }
            folder = Some((wanted, all));
        }
        let name = image.file.file_name().unwrap_or_default().to_string_lossy();
        let stem = split_ending(&name).0;
        let mut keys = vec![
            format!("{name}.mask"),
            format!("{stem}.mask"),
            format!("{stem}_mask"),
            format!("{stem}-mask"),
            format!("{name}_mask"),
            format!("mask_{stem}"),
        ];
        if matches!(rule, Rule::Folder) {
            keys.splice(0..0, [name.to_string(), stem.to_owned()]);
        }
        let mut mask = None;
        for folder in folder.iter().flat_map(|(_, all)| all) {
            let listing = finder.list(folder);
            let found = keys.iter().find_map(|key| best(&listing.with_stem(key)));
            if let Some(name) = found {
                mask = Some(folder.join(name));
                break;
            }
        }
        out.push(mask);
    }
    out
}

/// Chooses a PNG before other formats, because lossy formats change mask values.
fn best(found: &[&OsString]) -> Option<OsString> {
    let is_png = |name: &&&OsString| fold(&name.to_string_lossy()).ends_with(".png");
    let png = found.iter().find(is_png).or_else(|| found.first());
    png.map(|name| (*name).clone())
}

/// Finds files that resemble masks and are not used.
fn unused(
    finder: &mut Finder,
    root: &Path,
    images: &[PosedImage],
    looked_in: &[PathBuf],
) -> Option<String> {
    const SHARED: &str = "to use them, put them into masks/ next to the image folder, named as the photos \
                          (photo.png or photo.jpg.png) and white where the photos are to be used";
    if let Some(folder) = looked_in.first() {
        return Some(format!(
            "no mask in {}/ is named as a photo (photo.png or photo.jpg.png): none is used",
            shown_from(root, folder)
        ));
    }
    let stems: HashSet<String> = images
        .iter()
        .filter_map(|image| Some(image.file.file_name()?.to_string_lossy().into_owned()))
        .map(|name| fold(split_ending(&name).0))
        .collect();
    let words = ["mask", "alpha", "matte", "segment", "silhouette"];
    for place in around(root, images) {
        let folders = finder.list(&place).folders.clone();
        let is_named = |name: &&OsString| {
            let name = fold(&name.to_string_lossy());
            words.iter().any(|word| name.contains(word))
        };
        for name in folders.iter().filter(is_named) {
            let folder = place.join(name);
            if images.iter().any(|image| image.folder.starts_with(&folder)) {
                continue;
            }
            let listing = finder.list(&folder);
            let of_photo = |file: &&OsString| {
                let file = fold(&file.to_string_lossy());
                let stem = split_ending(split_ending(&file).0).0;
                stems.contains(stem)
            };
            let count = listing.files.iter().filter(of_photo).count();
            if count > 0 {
                let shown = shown_from(root, &folder);
                return Some(format!(
                    "{shown}/ may hold masks of {count} photos, and they are not used: {SHARED}"
                ));
            }
        }
    }
    let mut count = 0;
    let parents: BTreeSet<PathBuf> = images
        .iter()
        .filter_map(|image| Some(image.folder.join(&image.file).parent()?.to_owned()))
        .collect();
    for folder in parents {
        let is_dynamic =
            |file: &&OsString| fold(&file.to_string_lossy()).starts_with("dynamic_mask_");
        count += finder.list(&folder).files.iter().filter(is_dynamic).count();
    }
    (count > 0).then(|| {
        format!(
            "{count} masks of instant-ngp (dynamic_mask_*.png) are not used: {SHARED}; these are white where the photos \
             are to be excluded: --invert-masks"
        )
    })
}
