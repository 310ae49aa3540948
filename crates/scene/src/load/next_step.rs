//! Next steps for a path that is not a capture yet: poses of other tools, videos, archives, only photos.
//!
//! 1. [`of_folder`] compares the names in a folder and in the folders inside with [`TOOLS`], then searches for videos,
//!    archives and photos. The first match gives the error.
//! 2. [`of_file`] does the same for one file.
//!
//! The first sentence of each error names the content of the path; its hint names a way to a capture.

use super::finder::{Finder, fold, split_ending};
use super::tools::{TOOLS, Tool};
use crate::photo_faults::conversion;
use crate::{Error, bounded};
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

const VIDEOS: [&str; 14] = [
    "mp4", "mov", "m4v", "avi", "mkv", "webm", "mts", "m2ts", "3gp", "wmv", "mpg", "mpeg", "insv",
    "360",
];
const ARCHIVES: [&str; 10] = [
    "zip", "7z", "rar", "tar", "gz", "tgz", "bz2", "xz", "zst", "tbz2",
];
const SPLATS: [&str; 6] = ["splat", "spz", "sog", "ksplat", "glb", "gltf"];
const CLOUDS: [&str; 8] = ["las", "laz", "e57", "pcd", "xyz", "pts", "obj", "fbx"];

/// Sentence for a folder that holds nothing known.
const LOOKED_FOR: &str = "looked for a COLMAP model (sparse/0/cameras.bin and images.bin, or .txt), Nerfstudio's \
                          transforms.json and Blender's transforms_train.json";

/// The name of a file or folder, relative to the folder that is examined.
struct Name {
    /// Name in lower case, for comparisons.
    folded: String,
    /// Name on the disk, with slashes.
    real: String,
}

/// The names in a folder and in the folders inside.
#[derive(Default)]
struct Names {
    files: Vec<Name>,
    folders: Vec<Name>,
}

/// Limits of the listing: number of folders, and depth.
const LISTED_FOLDERS: usize = 200;
const LISTED_DEPTH: usize = 2;

impl Names {
    fn from_path(finder: &mut Finder, path: &Path) -> Self {
        let mut names = Self::default();
        let mut level = vec![String::new()];
        for depth in 0..=LISTED_DEPTH {
            let mut next = Vec::new();
            for before in &level {
                let listing = finder.list(&path.join(before));
                let name = |name: &OsString| {
                    let real = format!("{before}{}", name.to_string_lossy());
                    let folded = fold(&real);
                    Name { folded, real }
                };
                names.files.extend(listing.files.iter().map(name));
                names.folders.extend(listing.folders.iter().map(name));
                let inner = listing
                    .folders
                    .iter()
                    .map(|n| format!("{before}{}/", n.to_string_lossy()));
                next.extend(inner);
            }
            next.truncate(LISTED_FOLDERS);
            level = next;
            if depth == LISTED_DEPTH {
                break;
            }
        }
        names
    }

    /// Returns the first file with one of these extensions, in the folder itself or also inside.
    fn ending(&self, endings: &[&str], inside: bool) -> Option<&str> {
        let fits = |name: &&Name| {
            let ending = name.folded.rsplit_once('.').map(|(_, ending)| ending);
            (inside || !name.folded.contains('/'))
                && ending.is_some_and(|ending| endings.contains(&ending))
        };
        self.files.iter().find(fits).map(|name| name.real.as_str())
    }
}

/// Returns true if `name` matches a pattern: `*` for anything but `/`, and a leading `**/` for any folder or none.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    if let Some(rest) = pattern.strip_prefix("**/") {
        return fits(rest, name)
            || name
                .split_once('/')
                .is_some_and(|(_, name)| fits(pattern, name));
    }
    let Some((before, after)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(rest) = name.strip_prefix(before) else {
        return false;
    };
    let starts = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    { starts }
        .take_while(|&at| !rest[..at].contains('/'))
        .any(|at| fits(after, &rest[at..]))
}

fn tool_error(tool: &Tool, file: &str, path: &Path) -> Error {
    Error::input(format!(
        "no capture found: {file} is of {}, which Dapple does not read",
        tool.name
    ))
    .at_path(path)
    .hint(tool.way_in)
}

/// Builds the error of a folder without a capture.
pub(super) fn of_folder(finder: &mut Finder, path: &Path) -> Error {
    let names = Names::from_path(finder, path);
    if let Some(error) = incomplete(&names, path).or_else(|| other_json(&names, path)) {
        return error;
    }
    for tool in TOOLS {
        let all = names.files.iter().chain(&names.folders);
        let fitting = |pattern: &str| all.clone().any(|name| fits(pattern, &name.folded));
        let Some(first) = tool
            .files
            .first()
            .filter(|_| tool.files.iter().all(|p| fitting(p)))
        else {
            continue;
        };
        // Several files may match the name, and only one of them the content.
        let mut named = all.clone().filter(|name| fits(first, &name.folded)).take(8);
        let holds = |name: &&Name| {
            let path = path.join(&name.real);
            tool.content.is_empty() || tool.content.iter().any(|word| contains(&path, word))
        };
        if let Some(name) = named.find(holds) {
            return tool_error(tool, &name.real, path);
        }
    }
    let photos = photo_count(finder, path);
    match photos {
        Some((count, folder, ending)) if count >= 3 => photos_alone(count, &folder, &ending, path),
        _ => rest(&names, photos, path),
    }
}

/// Error for other content of a folder.
fn rest(names: &Names, photos: Option<(usize, PathBuf, String)>, path: &Path) -> Error {
    if let Some(video) = names.ending(&VIDEOS, true) {
        return of_video(&path.join(video), video);
    }
    if let Some(archive) = names.ending(&ARCHIVES, true) {
        return of_archive(path, archive);
    }
    if let Some((count, folder, ending)) = photos {
        return photos_alone(count, &folder, &ending, path);
    }
    let splats = names
        .ending(&SPLATS, false)
        .or_else(|| names.ending(&["ply"], false));
    if let Some(splats) = splats {
        return Error::input("no capture found in this folder: it has no photos and no poses")
            .at_path(path)
            .hint(format!(
                "if {splats} holds splats, `dapple view` and `dapple info` take it; training needs photos and poses"
            ));
    }
    if let Some(cloud) = names.ending(&CLOUDS, true) {
        return Error::input(format!("no capture found: {cloud} is a point cloud or a mesh"))
            .at_path(path)
            .hint("training needs photos with poses: export both from the program that made it, as a COLMAP model");
    }
    Error::input("no capture found in this folder")
        .at_path(path)
        .hint(LOOKED_FOR)
}

/// Builds the error of a COLMAP model that lacks a file, or of a project without a model.
fn incomplete(names: &Names, path: &Path) -> Option<Error> {
    let is_model_file = |name: &&Name, part: &str| {
        let name = name.folded.rsplit('/').next().unwrap_or_default();
        name.strip_prefix(part)
            .is_some_and(|rest| rest == ".bin" || rest == ".txt")
    };
    let part = |part: &str| {
        let found = names.files.iter().find(|name| is_model_file(name, part));
        found.map(|name| name.real.as_str())
    };
    let lacking = match (part("cameras"), part("images"), part("points3d")) {
        (Some(found), None, _) => Some((found, "images")),
        (None, Some(found), _) => Some((found, "cameras")),
        (None, None, Some(found)) => Some((found, "cameras and images")),
        _ => None,
    };
    if let Some((found, lacking)) = lacking {
        let ending = found.rsplit('.').next().unwrap_or("bin");
        return Some(
            Error::input(format!(
                "no capture found: the COLMAP model of {found} has no {lacking}.{ending}"
            ))
            .at_path(path)
            .hint("copy all files of the model: cameras, images and points3D"),
        );
    }
    let is_test =
        |name: &&Name| ["transforms_test.json", "transforms_val.json"].contains(&&*name.folded);
    let test = names.files.iter().find(is_test).map(|name| &name.real);
    test.map(|test| {
        Error::input(format!(
            "no capture found: {test} is there, and transforms_train.json is not"
        ))
        .at_path(path)
        .hint("copy transforms_train.json too, or name a file to train on its photos")
    })
}

/// Builds the error of a transforms file under another name.
fn other_json(names: &Names, path: &Path) -> Option<Error> {
    let jsons = names
        .files
        .iter()
        .filter(|name| name.folded.ends_with(".json"));
    let mut jsons = jsons.take(16).map(|name| &name.real);
    let found = jsons.find(|name| {
        let path = path.join(name);
        contains(&path, "\"frames\"") && contains(&path, "transform_matrix")
    })?;
    Some(
        Error::input(format!(
            "no capture found under a usual name: {found} looks like a transforms file"
        ))
        .at_path(path)
        .hint(format!("name the file: {}", path.join(found).display())),
    )
}

/// Returns true if the first 64 KiB of a file hold a word.
fn contains(path: &Path, word: &str) -> bool {
    let mut head = Vec::new();
    let is_read = bounded::open("cannot read the file", path)
        .is_ok_and(|file| file.take(1 << 16).read_to_end(&mut head).is_ok());
    is_read
        && head
            .windows(word.len())
            .any(|window| window == word.as_bytes())
}

/// Finds the folder with the most photos, `path` or one below: the number, the folder, and the extension of the first.
fn photo_count(finder: &mut Finder, path: &Path) -> Option<(usize, PathBuf, String)> {
    let mut folders = finder.below(path);
    folders.insert(0, path.to_owned());
    let mut best: Option<(usize, PathBuf, String)> = None;
    for folder in folders {
        let mut endings = finder.list(&folder).files.iter().filter_map(|file| {
            let name = file.to_string_lossy();
            (!name.starts_with("._")).then(|| split_ending(&name).1)?
        });
        let Some(first) = endings.next() else {
            continue;
        };
        let count = 1 + endings.count();
        if best.as_ref().is_none_or(|(most, ..)| count > *most) {
            best = Some((count, folder, first));
        }
    }
    best
}

fn photos_alone(count: usize, folder: &Path, ending: &str, path: &Path) -> Error {
    let photos = folder.display();
    let is_read = super::finder::READ.contains(&ending);
    let first = match is_read {
        true => String::new(),
        false => format!("{}; then ", conversion(ending)),
    };
    let there = match count {
        1 => format!("1 photo (.{ending}) is there"),
        _ => format!("{count} photos (.{ending}) are there"),
    };
    Error::input(format!("no capture found: {there}, but no camera poses"))
    .at_path(path)
    .hint(format!(
        "{first}find the poses with COLMAP: `colmap automatic_reconstructor --image_path {photos} \
         --workspace_path WORK`, put the photos into WORK/images if they are not there, then `dapple train WORK`"
    ))
}

fn of_video(path: &Path, name: &str) -> Error {
    let shown = path.display();
    Error::input(format!("no capture found: {name} is a video"))
        .at_path(path)
        .hint(format!(
            "take frames from it, e.g. `mkdir images && ffmpeg -i {shown} -vf fps=2 -q:v 2 images/%04d.jpg`, then \
             find their poses with COLMAP (`colmap automatic_reconstructor`)"
        ))
}

fn of_archive(path: &Path, name: &str) -> Error {
    Error::input(format!("no capture found: {name} is an archive"))
        .at_path(path)
        .hint("unpack it, and name the folder that comes out")
}

/// Returns true if a `.json` file belongs to another tool.
pub(super) fn is_foreign_json(path: &Path) -> bool {
    let name = fold(&path.file_name().unwrap_or_default().to_string_lossy());
    !contains(path, "\"frames\"") && TOOLS.iter().any(|tool| names_file(tool, &name, path))
}

fn names_file(tool: &Tool, name: &str, path: &Path) -> bool {
    let first = tool
        .files
        .first()
        .is_some_and(|pattern| fits(pattern, name));
    let alone = tool.files.len() == 1 || tool.is_told_by_first;
    let holds = |word: &&str| contains(path, word);
    first && alone && (tool.content.is_empty() || tool.content.iter().any(holds))
}

/// Builds the error of a file that is not a capture.
pub(super) fn of_file(path: &Path) -> Error {
    let name = fold(&path.file_name().unwrap_or_default().to_string_lossy());
    if let Some(tool) = TOOLS.iter().find(|tool| names_file(tool, &name, path)) {
        return tool_error(tool, &name, path);
    }
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    if VIDEOS.contains(&ending) {
        return of_video(path, &name);
    }
    if ARCHIVES.contains(&ending) {
        return of_archive(path, &name);
    }
    let error = Error::input("this file is not a capture").at_path(path);
    if split_ending(&name).1.is_some() {
        return error.hint(
            "this is a photo: name the folder of the capture, with all photos and their poses (COLMAP finds poses)",
        );
    }
    if SPLATS.contains(&ending) || ending == "ply" {
        return error.hint(
            "if the file holds splats, `dapple view`, `info`, `convert` and `render` take it; training takes a folder \
             of photos with poses",
        );
    }
    if CLOUDS.contains(&ending) {
        return error.hint("this is a point cloud or a mesh: training needs photos with poses");
    }
    error.hint("name the capture's folder, or its transforms.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stay_in_their_folder() {
        for (pattern, name, want) in [
            ("*.sfm", "cameras.sfm", true),
            ("*.sfm", "a/cameras.sfm", false),
            ("**/*.sfm", "a/cameras.sfm", true),
            ("**/*.sfm", "cameras.sfm", true),
            ("pose/*.txt", "pose/0.txt", true),
            ("cameras*.npz", "cameras_sphere.npz", true),
            ("a", "ab", false),
            ("**/x", "a/b/x", true),
            ("*_p*.txt", "x_pmatrix.txt", true),
            ("\u{e4}*", "\u{e4}\u{f6}", true),
        ] {
            assert_eq!(fits(pattern, name), want, "{pattern} {name}");
        }
    }
}
