//! Finds photos, videos and masks among the inputs.
//!
//! 1. A folder is searched with its subfolders. If it holds `images/`, only that folder is used, because captures
//!    hold reduced copies (`images_2`) and renders next to it.
//! 2. Hidden files, folders of masks, and files whose names mark masks are no photos.
//! 3. The name in the capture is the path below the input, without spaces: COLMAP separates names of a pair by a space.
//!    With several inputs, the name of the input is the first folder.

use dapple_base::{Error, Result};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Endings of photos that are read without a converter.
pub const PHOTOS: [&str; 7] = ["jpg", "jpeg", "png", "webp", "tif", "tiff", "bmp"];

/// Endings of photos that an installed converter reads.
pub const CONVERTED: [&str; 2] = ["heic", "heif"];

/// Endings of videos.
pub const VIDEOS: [&str; 7] = ["mp4", "mov", "mkv", "webm", "avi", "m4v", "mts"];

/// Endings of photos that nothing here reads.
const RAW: [&str; 9] = [
    "dng", "cr2", "cr3", "nef", "arw", "orf", "rw2", "raf", "avif",
];

/// A photo among the inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// File.
    pub path: PathBuf,
    /// Path below the folder of photos of the capture, with slashes, with the ending of the file.
    pub name: String,
    /// Mask, if there is one.
    pub mask: Option<PathBuf>,
    /// True for a frame of a video.
    pub is_frame: bool,
}

/// Files among the inputs.
#[derive(Debug, Clone, Default)]
pub struct Inputs {
    /// Photos, by name.
    pub photos: Vec<Source>,
    /// Videos: the file, and the folder of its frames in the capture.
    pub videos: Vec<(PathBuf, String)>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Returns the ending of a name in small letters.
pub fn ending(path: &Path) -> String {
    path.extension()
        .map_or(String::new(), |e| e.to_string_lossy().to_lowercase())
}

/// Finds photos and videos.
///
/// # Errors
/// A missing input, a file of another kind, inputs without photos.
pub fn find(paths: &[PathBuf]) -> Result<Inputs> {
    let mut found = Inputs::default();
    let mut raw = 0;
    for path in paths {
        let prefix = match paths.len() {
            1 => String::new(),
            _ => format!("{}/", stem(path)),
        };
        let kind =
            std::fs::metadata(path).map_err(|e| Error::io("cannot open the photos", path, e))?;
        if kind.is_dir() {
            raw += folder(path, &prefix, &mut found)?;
        } else if VIDEOS.contains(&ending(path).as_str()) {
            found.videos.push((path.clone(), stem(path)));
        } else if is_photo(path) {
            let name = path
                .file_name()
                .map_or(String::new(), |n| n.to_string_lossy().into_owned());
            found.photos.push(source(path.clone(), &name));
        } else {
            return Err(Error::input("the file is neither a photo nor a video")
                .at_path(path)
                .hint(format!(
                    "give a folder of photos ({}) or a video ({})",
                    PHOTOS.join(", "),
                    VIDEOS.join(", ")
                )));
        }
    }
    if raw > 0 {
        found.notes.push(format!(
            "{raw} raw or AVIF photos are not read: convert them to JPEG first, for example with `darktable-cli` or `magick`"
        ));
    }
    if found.photos.is_empty() && found.videos.is_empty() {
        let place = paths.first().map_or_else(PathBuf::new, Clone::clone);
        let hint = match raw {
            0 => format!(
                "give a folder with photos ({}) or a video ({})",
                PHOTOS.join(", "),
                VIDEOS.join(", ")
            ),
            _ => {
                "convert the raw photos to JPEG first, for example with `darktable-cli` or `magick`"
                    .to_owned()
            }
        };
        return Err(Error::input("there are no photos here")
            .at_path(place)
            .hint(hint));
    }
    unique(&mut found);
    find_masks(paths, &mut found);
    Ok(found)
}

fn is_photo(path: &Path) -> bool {
    let ending = ending(path);
    PHOTOS.contains(&ending.as_str()) || CONVERTED.contains(&ending.as_str())
}

fn stem(path: &Path) -> String {
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = if whole.is_dir() {
        whole.file_name()
    } else {
        whole.file_stem()
    };
    clean(&name.map_or("photos".into(), |name| name.to_string_lossy()))
}

/// Replaces characters that lists of names cannot hold.
pub(crate) fn clean(name: &str) -> String {
    let keep = |c: char| {
        if c.is_whitespace() || c.is_control() || c == '\\' {
            '_'
        } else {
            c
        }
    };
    let name: String = name.chars().map(keep).collect();
    // COLMAP's lists skip lines that begin with a number sign.
    name.replace('#', "_")
}

fn source(path: PathBuf, name: &str) -> Source {
    Source {
        name: clean(name),
        path,
        mask: None,
        is_frame: false,
    }
}

/// Returns true for a folder that holds masks, models or results, not photos.
fn is_other_folder(name: &str) -> bool {
    let others = [
        "masks", "mask", "sparse", "dense", "stereo", "depth", "depths", "renders", "errors",
    ];
    let numbered = name.strip_prefix("images_").or(name.strip_prefix("input_"));
    others.contains(&name) || numbered.is_some_and(|n| n.chars().all(|c| c.is_ascii_digit()))
}

/// Returns true for a name that marks a mask: `a.mask.png`, `a_mask.png`, `a-mask.png`.
fn is_mask_name(path: &Path) -> bool {
    let stem = path
        .file_stem()
        .map_or(String::new(), |s| s.to_string_lossy().to_lowercase());
    [".mask", "_mask", "-mask"]
        .iter()
        .any(|mark| stem.ends_with(mark))
}

/// Adds the files of a folder. Returns the number of raw photos.
fn folder(root: &Path, prefix: &str, found: &mut Inputs) -> Result<usize> {
    let images = root.join("images");
    let base = if images.is_dir() {
        images
    } else {
        root.to_owned()
    };
    let (mut open, mut raw) = (vec![base.clone()], 0);
    while let Some(inner) = open.pop() {
        let entries = std::fs::read_dir(&inner)
            .map_err(|e| Error::io("cannot list the folder", &inner, e))?;
        for entry in entries {
            let path = entry
                .map_err(|e| Error::io("cannot list the folder", &inner, e))?
                .path();
            let name = path
                .file_name()
                .map_or(String::new(), |n| n.to_string_lossy().into_owned());
            if name.starts_with('.') || name == super::work::FOLDER {
                continue;
            }
            if path.is_dir() {
                if !is_other_folder(&name.to_lowercase()) {
                    open.push(path);
                }
                continue;
            }
            let below = path.strip_prefix(&base).unwrap_or(&path);
            let parts: Vec<_> = below.iter().map(|part| part.to_string_lossy()).collect();
            let below = format!("{prefix}{}", parts.join("/"));
            if VIDEOS.contains(&ending(&path).as_str()) {
                let (frames, _) = below.rsplit_once('.').unwrap_or((&below, ""));
                found.videos.push((path, clean(frames)));
            } else if is_photo(&path) && !is_mask_name(&path) {
                found.photos.push(source(path, &below));
            } else if RAW.contains(&ending(&path).as_str()) {
                raw += 1;
            }
        }
    }
    found.photos.sort_by(|a, b| a.name.cmp(&b.name));
    found.videos.sort();
    Ok(raw)
}

/// Gives photos with equal names different ones.
fn unique(found: &mut Inputs) {
    let mut seen = HashSet::new();
    for photo in &mut found.photos {
        let mut number = 1;
        let first = photo.name.clone();
        while !seen.insert(photo.name.to_lowercase()) {
            number += 1;
            let (stem, end) = first.rsplit_once('.').unwrap_or((&first, "jpg"));
            photo.name = format!("{stem}_{number}.{end}");
        }
    }
    let mut seen = HashSet::new();
    for (_, folder) in &mut found.videos {
        while !seen.insert(folder.clone()) {
            folder.push('_');
        }
    }
    found.photos.sort_by(|a, b| a.name.cmp(&b.name));
}

/// Finds masks: in `masks/` of the input or next to the folder of photos, or next to the photo.
fn find_masks(paths: &[PathBuf], found: &mut Inputs) {
    let mut folders = Vec::new();
    for path in paths.iter().filter(|path| path.is_dir()) {
        for name in ["masks", "mask"] {
            folders.push(path.join(name));
            folders.push(path.join("images").join(name));
            folders.extend(path.parent().map(|parent| parent.join(name)));
        }
    }
    folders.retain(|folder| folder.is_dir());
    let mut used: HashMap<&str, usize> = HashMap::new();
    for photo in &mut found.photos {
        let (Some(name), Some(stem)) = (photo.path.file_name(), photo.path.file_stem()) else {
            continue;
        };
        let (name, stem) = (name.to_string_lossy(), stem.to_string_lossy());
        let marked = [
            format!("{name}.mask.png"),
            format!("{stem}.mask.png"),
            format!("{stem}_mask.png"),
            format!("{stem}-mask.png"),
        ];
        let beside = photo.path.parent().unwrap_or(Path::new("."));
        let in_folders = folders.iter().flat_map(|folder| {
            let inner = Path::new(&photo.name)
                .parent()
                .map_or_else(|| folder.clone(), |inner| folder.join(inner));
            [inner, folder.clone()].into_iter().flat_map(|place| {
                let plain = [
                    format!("{name}.png"),
                    format!("{stem}.png"),
                    name.to_string(),
                ];
                plain
                    .into_iter()
                    .chain(marked.clone())
                    .map(move |mask| place.join(mask))
            })
        });
        let mut places = in_folders.chain(marked.iter().map(|mask| beside.join(mask)));
        photo.mask = places.find(|mask| mask.is_file() && *mask != photo.path);
        if photo.mask.is_some() {
            *used.entry("masks").or_default() += 1;
        }
    }
    if let Some(count) = used.get("masks") {
        found.notes.push(format!(
            "masks of {count} of {} photos are used: black is excluded",
            found.photos.len()
        ));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn touch(root: &Path, names: &[&str]) {
        for name in names {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, name).unwrap();
        }
    }

    #[test]
    fn photos_videos_and_masks_are_found_and_other_files_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let files = [
            "left cam/a b.JPG",
            "left cam/ü.png",
            "right/a b.jpg",
            "walk.MP4",
            "masks/left cam/a b.png",
            "right/a b_mask.png",
            ".hidden/x.jpg",
            "notes.txt",
            "images_4/a.jpg",
            "x.DNG",
        ];
        touch(folder.path(), &files);
        let found = find(&[folder.path().to_owned()]).unwrap();
        let names: Vec<_> = found.photos.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(
            names,
            ["left_cam/a_b.JPG", "left_cam/ü.png", "right/a_b.jpg"]
        );
        assert_eq!(
            found.videos,
            [(folder.path().join("walk.MP4"), "walk".to_owned())]
        );
        assert_eq!(
            found.photos[2].mask,
            Some(folder.path().join("right/a b_mask.png"))
        );
        assert_eq!(found.photos[1].mask, None);
        assert_eq!(found.notes.len(), 2, "{:?}", found.notes);
    }

    #[test]
    fn equal_names_of_two_inputs_stay_apart() {
        let folder = tempfile::tempdir().unwrap();
        touch(folder.path(), &["one/1.jpg", "two/1.jpg", "two/1.JPG"]);
        let found = find(&[folder.path().join("one"), folder.path().join("two")]).unwrap();
        let names: Vec<_> = found.photos.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names[0], "one/1.jpg");
        assert_eq!(names.len(), 3);
        assert_ne!(names[1].to_lowercase(), names[2].to_lowercase());
    }

    #[test]
    fn inputs_without_photos_are_refused_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let error = find(&[folder.path().to_owned()]).unwrap_err();
        assert!(error.what().contains("no photos") && error.hint_text().is_some());
        touch(folder.path(), &["a.cr2"]);
        let error = find(&[folder.path().to_owned()]).unwrap_err();
        assert!(error.hint_text().unwrap().contains("raw"));
        let error = find(&[folder.path().join("a.cr2")]).unwrap_err();
        assert!(error.what().contains("neither"));
        assert!(find(&[folder.path().join("none")]).is_err());
    }
}
