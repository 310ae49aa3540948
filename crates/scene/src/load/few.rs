//! Photos in the capture's folders that have no pose: a reconstruction that placed few of many.

use crate::Capture;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

/// Inverse share of photos without a pose in a folder from which a note is added: 1 of 4.
const SHARE: usize = 4;

/// File extensions of photos, including those that Dapple does not read.
const ENDINGS: [&str; 10] = [
    "png", "jpg", "jpeg", "tif", "tiff", "webp", "bmp", "heic", "heif", "dng",
];

/// Adds a note if many photos next to the named ones have no pose.
pub(super) fn note_few_of_many(capture: &mut Capture) {
    let mut folders: BTreeMap<PathBuf, HashSet<String>> = BTreeMap::new();
    for image in &capture.images {
        let path = image.folder.join(&image.file);
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            continue;
        };
        let name = Path::new(name);
        let posed = folders.entry(folder.to_owned()).or_default();
        // The name may have no extension, or a last part that is not an extension.
        let stems = [name.file_stem(), Some(name.as_os_str())];
        posed.extend(
            stems
                .into_iter()
                .flatten()
                .map(|stem| lower(stem.to_string_lossy())),
        );
    }
    let without: usize = folders
        .iter()
        .map(|(folder, posed)| unposed(folder, posed))
        .sum();
    let total = without + capture.images.len();
    if without < 2 || without * SHARE < total {
        return;
    }
    let place = match folders.keys().next().filter(|_| folders.len() == 1) {
        Some(folder) => folder.display().to_string(),
        None => format!("{} folders", folders.len()),
    };
    capture.notes.push(format!(
        "{without} of the {total} photos in {place} have no pose in the capture and are not used: if they \
         should, reconstruct again (more overlap, or a model that was split in several)"
    ));
}

/// Counts the photos in `folder` that are not in `posed` and are not a mask or a depth image of a posed photo.
fn unposed(folder: &Path, posed: &HashSet<String>) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return 0;
    };
    let names = entries.filter_map(|entry| entry.ok().map(|entry| entry.file_name()));
    let mut stems = HashSet::new();
    for name in names {
        let path = Path::new(&name);
        let ending = path
            .extension()
            .map(|ending| lower(ending.to_string_lossy()));
        let is_photo = ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str()));
        if let Some(stem) = path.file_stem().filter(|_| is_photo) {
            stems.insert(lower(stem.to_string_lossy()));
        }
    }
    let is_other = |stem: &&String| {
        let mut parts = stem.match_indices(['_', '-', '.']);
        let belongs = parts.any(|(at, _)| posed.contains(&stem[..at]));
        !stem.starts_with('.') && !posed.contains(*stem) && !belongs
    };
    stems.iter().filter(is_other).count()
}

fn lower(text: std::borrow::Cow<'_, str>) -> String {
    text.to_lowercase()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::capture::PosedImage;
    use crate::{Camera, Pose};

    fn noted(posed: &[&str], files: &[&str]) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            std::fs::write(root.path().join(file), "").unwrap();
        }
        let image = |(file, id): (&&str, u32)| PosedImage {
            name: (*file).to_owned(),
            folder: root.path().to_owned(),
            file: PathBuf::from(file),
            downscaled: false,
            mask: None,
            id,
            depth: None,
            camera: Camera::pinhole(4, 4, 4.0, Pose::IDENTITY),
            source_model: String::new(),
        };
        let mut capture = Capture {
            images: posed.iter().zip(0..).map(image).collect(),
            ..Capture::default()
        };
        note_few_of_many(&mut capture);
        capture.notes
    }

    #[test]
    fn many_photos_without_a_pose_are_counted() {
        let files = ["1.jpg", "2.JPG", "3.jpg", "4.heic", "a.txt", "._1.jpg"];
        let notes = noted(&["1.jpg", "2.jpg"], &files);
        assert!(notes[0].starts_with("2 of the 4 photos"), "{notes:?}");
        assert!(noted(&["1", "2", "3", "4"], &files).is_empty());
        // Few photos without a pose among many give no note.
        let nine: Vec<String> = (0..9).map(|i| format!("{i}.png")).collect();
        let nine: Vec<&str> = nine.iter().map(String::as_str).collect();
        assert!(noted(&nine[..7], &nine).is_empty());
        assert!(!noted(&nine[..6], &nine).is_empty());
    }

    #[test]
    fn masks_and_depths_beside_photos_are_no_photos() {
        let files = [
            "r_0.png",
            "r_0_depth_0000.png",
            "r_0_normal.png",
            "r_0.png.mask.png",
            "r_1.png",
            "r_1-mask.png",
            "r_1.jpg",
        ];
        assert!(noted(&["r_0", "r_1"], &files).is_empty());
    }
}
