//! Missing photos: the files found instead.

use super::finder::{FOREIGN, Finder, Listing, fold, split_ending};
use crate::photo_faults::conversion;
use crate::{Capture, Error, PosedImage, Result};
use std::path::{Path, PathBuf};

/// Hint of the error for missing photos.
const MISSING_HINT: &str = "check the image folder, name another folder with --images, or use the photos \
                            that exist with --skip-missing";

impl PosedImage {
    /// Returns the photo's path.
    pub fn path(&self) -> Result<PathBuf> {
        self.existing().ok_or_else(|| {
            let (seen, hint) = seen_instead(self);
            Error::input(format!("the photo \"{}\" is missing: {seen}", self.name))
                .at_path(self.folder.join(&self.file))
                .hint(hint.unwrap_or_else(|| MISSING_HINT.to_owned()))
        })
    }
}

impl Capture {
    /// Refuses a capture with missing photos, and names the first of them.
    ///
    /// # Errors
    /// Missing photos, with their number.
    pub fn check_files(&self) -> Result<()> {
        let missing: Vec<&PosedImage> = self
            .images
            .iter()
            .filter(|image| image.existing().is_none())
            .collect();
        let Some(first) = missing.first() else {
            return Ok(());
        };
        let (seen, hint) = seen_instead(first);
        let what = if missing.len() == 1 {
            format!("the photo \"{}\" is missing: {seen}", first.name)
        } else {
            format!(
                "{} of {} photos are missing, the first is \"{}\": {seen}",
                missing.len(),
                self.images.len(),
                first.name
            )
        };
        Err(Error::input(what)
            .at_path(first.folder.join(&first.file))
            .hint(hint.unwrap_or_else(|| MISSING_HINT.to_owned())))
    }
}

/// Describes the files found instead of a missing photo, as the end of a sentence, and returns a hint.
pub(crate) fn seen_instead(image: &PosedImage) -> (String, Option<String>) {
    let mut finder = Finder::default();
    let wanted = image.folder.join(&image.file);
    let folder = wanted.parent().unwrap_or(&image.folder).to_owned();
    let shown = |folder: &Path| {
        folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    let name = wanted
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let stem = fold(split_ending(&name).0);
    let listing = finder.list(&folder);
    let same = listing.files.iter().find(|file| {
        let file = file.to_string_lossy();
        let (of_file, ending) = split_ending(file.trim_start_matches('.'));
        let is_foreign = ending.is_some_and(|ending| FOREIGN.contains(&&*ending));
        is_foreign && [fold(of_file), fold(split_ending(of_file).0)].contains(&stem)
    });
    if let Some(same) = same {
        let same = same.to_string_lossy();
        let hint = split_ending(&same).1.map(|ending| conversion(&ending));
        return (format!("{}/{same} is there", shown(&folder)), hint);
    }
    let photos = |listing: &Listing| {
        let is_photo = |file: &&std::ffi::OsString| {
            split_ending(&file.to_string_lossy()).1.is_some()
                && !file.to_string_lossy().starts_with("._")
        };
        let mut photos = listing.files.iter().filter(is_photo);
        let first = photos.next()?.to_string_lossy().into_owned();
        Some((1 + photos.count(), first))
    };
    if let Some((count, first)) = photos(listing) {
        let what = format!(
            "{}/ holds {count} photos, such as \"{first}\"",
            shown(&folder)
        );
        return (what, None);
    }
    let exists = if folder.is_dir() {
        "holds no photo"
    } else {
        "does not exist"
    };
    let mut what = format!("{}/ {exists}", shown(&folder));
    let root = image.folder.parent().unwrap_or(&image.folder).to_owned();
    for other in finder.below(&root) {
        if let Some((count, first)) = photos(finder.list(&other)) {
            let other = other
                .strip_prefix(&root)
                .unwrap_or(&other)
                .display()
                .to_string();
            what = format!("{what}, {other}/ holds {count} photos, such as \"{first}\"");
            break;
        }
    }
    (what, None)
}
