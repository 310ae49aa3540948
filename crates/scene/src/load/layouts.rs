//! Detects the layout of a path: the folder structures that other tools write.
//!
//! 1. A file is a Nerfstudio or a Blender capture by its name, or a part of a COLMAP model.
//! 2. A folder is a COLMAP model itself, or holds one in `sparse` (the largest of several), or a transforms file.
//! 3. Else the folders below are searched: the usual ones of COLMAP's automatic reconstructor (`dense/0`), of its
//!    undistorter (`dense`, `undistorted`), of 3DGS' converter (`distorted`) and of Nerfstudio (`colmap`) in this
//!    order, then any other folder if it is the only one.
//! 4. Else [`next_step`] describes the content and the next step.

use super::finder::{Finder, fold};
use super::next_step;
use super::places::photo_folders;
use crate::colmap::files::POINTS_PLY;
use crate::{Capture, Point};
use crate::{Error, Result, blender, bounded, colmap, nerfstudio, ply};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Kind and location of a capture.
pub(super) enum Found {
    Colmap {
        model: PathBuf,
        base: PathBuf,
        notes: Vec<String>,
    },
    Transforms(PathBuf, Vec<String>),
    Blender(PathBuf, Vec<String>),
}

const TRANSFORMS: &str = "transforms.json";

/// Folders of step 3, in order of preference.
const USUAL: [&str; 12] = [
    "colmap",
    "dense",
    "dense/0",
    "undistorted",
    "colmap/dense",
    "colmap/dense/0",
    "colmap/undistorted",
    "workspace/dense/0",
    "distorted",
    "colmap/sparse",
    "output",
    "reconstruction",
];

/// Detects the capture at `path`.
pub(super) fn detect(path: &Path) -> Result<Found> {
    let metadata =
        std::fs::metadata(path).map_err(|e| Error::io("cannot open the capture", path, e))?;
    if metadata.is_file() {
        return detect_file(path);
    }
    let mut finder = Finder::default();
    if colmap::is_model(path) {
        return Ok(Found::Colmap {
            model: path.to_owned(),
            base: base_of(&mut finder, path, None),
            notes: Vec::new(),
        });
    }
    let transforms = finder.named(path, TRANSFORMS);
    for sparse in finder.folders(path, Path::new("sparse")) {
        if let Some((model, mut notes)) = largest_model(&sparse)? {
            notes.extend(transforms.as_deref().map(note_transforms));
            return Ok(Found::Colmap {
                model,
                base: path.to_owned(),
                notes,
            });
        }
    }
    if let Some(json) = transforms {
        return Ok(Found::Transforms(json, Vec::new()));
    }
    if path.join(blender::TRAIN).is_file() {
        return Ok(Found::Blender(path.to_owned(), Vec::new()));
    }
    match search(&mut finder, path)? {
        Some(found) => Ok(found),
        None => Err(next_step::of_folder(&mut finder, path)),
    }
}

/// Returns the folder of the COLMAP model of the capture at `path`; `None` for a capture of another format.
///
/// # Errors
/// The errors of [`crate::load::open`] for a path without a capture.
pub fn colmap_model(path: &Path) -> Result<Option<PathBuf>> {
    Ok(match detect(path)? {
        Found::Colmap { model, .. } => Some(model),
        Found::Transforms(..) | Found::Blender(..) => None,
    })
}

/// Detects the capture of a file (step 1).
fn detect_file(path: &Path) -> Result<Found> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let name = fold(&path.file_name().unwrap_or_default().to_string_lossy());
    if name == blender::TRAIN {
        return Ok(Found::Blender(parent.to_owned(), Vec::new()));
    }
    let is_part = ["cameras", "images", "points3d"].iter().any(|part| {
        let rest = name.strip_prefix(part);
        rest == Some(".bin") || rest == Some(".txt")
    });
    if is_part && colmap::is_model(parent) {
        return detect(parent);
    }
    if name.ends_with(".json") && !next_step::is_foreign_json(path) {
        return Ok(Found::Transforms(path.to_owned(), Vec::new()));
    }
    Err(next_step::of_file(path))
}

/// Returns the folder in which photos are searched: the nearest with a usual folder of photos, else the parent of the
/// model's folder (`sparse/0`, `sparse`, `0`). `top` is the highest allowed folder.
fn base_of(finder: &mut Finder, model: &Path, top: Option<&Path>) -> PathBuf {
    let is_inner = |folder: &Path| {
        let name = fold(&folder.file_name().unwrap_or_default().to_string_lossy());
        let is_number = !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit());
        let words = [
            "sparse",
            "model",
            "sfm",
            "text",
            "txt",
            "bin",
            "distorted",
            "undistorted",
            "colmap",
            "dense",
        ];
        is_number || words.iter().any(|word| name.starts_with(word))
    };
    let mut inner = model;
    let mut highest = 0;
    while is_inner(inner)
        && Some(inner) != top
        && let Some(parent) = inner.parent()
    {
        inner = parent;
        highest += 1;
    }
    let mut ancestors = model.ancestors().take(3.max(highest + 1));
    let within = |folder: &&Path| top.is_none_or(|top| folder.starts_with(top));
    let with_photos =
        ancestors.find(|folder| within(folder) && !photo_folders(finder, folder).is_empty());
    let base = with_photos.unwrap_or(inner);
    match base.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => base.to_owned(),
    }
}

/// Searches the folders below (step 3).
fn search(finder: &mut Finder, path: &Path) -> Result<Option<Found>> {
    // Captures by their folder.
    let mut captures: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
    for folder in finder.below(path) {
        if colmap::is_model(&folder) {
            let above = folder.parent().unwrap_or(path);
            let is_sparse = above
                .file_name()
                .is_some_and(|n| fold(&n.to_string_lossy()) == "sparse");
            let own = folder
                .file_name()
                .is_some_and(|n| fold(&n.to_string_lossy()) == "sparse");
            let capture = match (own, is_sparse && above != path) {
                (true, _) => above,
                (false, true) => above.parent().unwrap_or(path),
                (false, false) => &folder,
            };
            captures
                .entry(capture.to_owned())
                .or_default()
                .push(folder.clone());
        } else if [TRANSFORMS, blender::TRAIN]
            .iter()
            .any(|name| folder.join(name).is_file())
        {
            captures.entry(folder).or_default();
        }
    }
    let relative = |capture: &Path| capture.strip_prefix(path).unwrap_or(capture).to_owned();
    let Some(capture) = choose(path, &captures)? else {
        return Ok(None);
    };
    let models = captures.remove(&capture).unwrap_or_default();
    let mut notes = vec![format!(
        "the capture is in {}/",
        relative(&capture).display()
    )];
    if !captures.is_empty() {
        let others: Vec<String> = captures
            .keys()
            .map(|c| format!("{}/", relative(c).display()))
            .collect();
        notes.push(format!(
            "other captures are not used: {} (name one to use it)",
            others.join(", ")
        ));
    }
    if models.is_empty() {
        let inner = detect(&capture)?;
        return Ok(Some(match inner {
            Found::Transforms(json, _) => Found::Transforms(json, notes),
            Found::Blender(root, _) => Found::Blender(root, notes),
            Found::Colmap { model, base, .. } => Found::Colmap { model, base, notes },
        }));
    }
    let (model, more) = match &*models {
        [model] => (model.clone(), Vec::new()),
        _ => largest(models)?,
    };
    notes.extend(more);
    let is_distorted = capture.ends_with("distorted");
    let base = base_of(finder, &model, Some(path));
    // 3DGS' converter keeps the photos of the distorted model in `input`.
    let base = match is_distorted {
        true => capture.parent().unwrap_or(path).to_owned(),
        false => base,
    };
    Ok(Some(Found::Colmap { model, base, notes }))
}

/// Chooses among several captures below `path` the one in a usual place, or the only one; refuses to guess.
fn choose(path: &Path, captures: &BTreeMap<PathBuf, Vec<PathBuf>>) -> Result<Option<PathBuf>> {
    let relative = |capture: &Path| capture.strip_prefix(path).unwrap_or(capture).to_owned();
    let rank = |capture: &Path| {
        let name = fold(&relative(capture).to_string_lossy().replace('\\', "/"));
        USUAL.iter().position(|usual| *usual == name)
    };
    let ranked = captures
        .keys()
        .filter_map(|capture| Some((rank(capture)?, capture)));
    if let Some((_, usual)) = ranked.min() {
        let siblings = captures
            .iter()
            .filter(|(c, _)| c.parent() == usual.parent());
        let siblings = siblings
            .map(|(c, models)| (c.clone(), models.clone()))
            .collect();
        let largest = largest_of_numbered(&siblings)?;
        return Ok(Some(largest.unwrap_or_else(|| usual.clone())));
    }
    match captures.len() {
        0 => Ok(None),
        1 => Ok(captures.keys().next().cloned()),
        _ => match largest_of_numbered(captures)? {
            Some(capture) => Ok(Some(capture)),
            None => Err(several(path, captures.keys().map(|c| relative(c)))),
        },
    }
}

/// Returns the one of `dense/0`, `dense/1`, ... with the most photos; `None` unless all are numbered in one folder.
fn largest_of_numbered(captures: &BTreeMap<PathBuf, Vec<PathBuf>>) -> Result<Option<PathBuf>> {
    let parents: Vec<Option<&Path>> = captures.keys().map(|capture| capture.parent()).collect();
    let is_number = |capture: &PathBuf| {
        let name = capture.file_name().unwrap_or_default().to_string_lossy();
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit())
    };
    if parents.windows(2).any(|pair| pair[0] != pair[1]) || !captures.keys().all(is_number) {
        return Ok(None);
    }
    let mut best: Option<(usize, &PathBuf)> = None;
    for (capture, models) in captures {
        let Some(model) = models.first() else {
            return Ok(None);
        };
        let count = colmap::image_count(model)?;
        if best.is_none_or(|(most, _)| count > most) {
            best = Some((count, capture));
        }
    }
    Ok(best.map(|(_, capture)| capture.clone()))
}

fn several(path: &Path, captures: impl Iterator<Item = PathBuf>) -> Error {
    let names: Vec<String> = captures.map(|c| c.display().to_string()).collect();
    let more = names.len().saturating_sub(6);
    let shown = names.iter().take(6).cloned().collect::<Vec<_>>().join(", ");
    let more = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Error::input(format!(
        "the folder holds {} captures: {shown}{more}",
        names.len()
    ))
    .at_path(path)
    .hint("name one of them")
}

/// Returns the note on a transforms file next to the model that is used instead.
fn note_transforms(json: &Path) -> String {
    let name = json.file_name().unwrap_or_default().to_string_lossy();
    let unused = format!("there is a {name} too; the COLMAP model is used");
    match nerfstudio::missing(json) {
        Err(error) => format!(
            "{unused} (that file is no transforms file that can be read: {})",
            error.what()
        ),
        Ok((_, 0)) => format!("{unused} (name the file to use it)"),
        Ok((frames, missing)) => format!(
            "{unused} (of the {frames} photos that the file names {missing} {are} missing: name it with \
             --skip-missing to use it without)",
            are = if missing == 1 { "is" } else { "are" }
        ),
    }
}

/// Returns the model in `sparse` or its subfolders with the most registered images, and notes.
fn largest_model(sparse: &Path) -> Result<Option<(PathBuf, Vec<String>)>> {
    let entries =
        std::fs::read_dir(sparse).map_err(|e| Error::io("cannot list the folder", sparse, e))?;
    let mut models: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.is_dir() && colmap::is_model(path))
        .collect();
    models.sort();
    match &*models {
        [] => Ok(colmap::is_model(sparse).then(|| (sparse.to_owned(), Vec::new()))),
        [model] => Ok(Some((model.clone(), Vec::new()))),
        _ => {
            let (model, notes) = largest(models)?;
            Ok(Some((model, notes)))
        }
    }
}

/// Returns the model with the most registered images, and notes on the others.
fn largest(models: Vec<PathBuf>) -> Result<(PathBuf, Vec<String>)> {
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
    let largest = counted.into_iter().next().map(|(_, model)| model);
    Ok((largest.unwrap_or_default(), vec![note]))
}

/// Reads sparse points from a PLY file with a usual name next to the capture, if the capture names none.
pub(super) fn use_points_beside(capture: &mut Capture, folders: &[&Path]) {
    let mut finder = Finder::default();
    let mut found = None;
    for folder in folders {
        let mut names = POINTS_PLY.iter();
        found = found.or_else(|| names.find_map(|name| finder.named(folder, name)));
    }
    let Some(path) = found else {
        return;
    };
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    // A file of splats is not a file of sparse points.
    if is_splats(&path) {
        return;
    }
    let (points, metadata) = match ply::read_all_points(&path) {
        Ok(read) => read,
        Err(error) => {
            capture.notes.push(format!(
                "{name} is not used as sparse points: {}",
                error.what()
            ));
            return;
        }
    };
    if is_random_start(&points) {
        capture.notes.push(format!(
            "{name} is not used: its 100 000 points are the random ones that 3DGS' trainer writes"
        ));
        return;
    }
    if points.is_empty() {
        return;
    }
    let is_moot = |note: &String| note == nerfstudio::NO_POINTS || note == colmap::NO_POINTS;
    capture.notes.retain(|note| !is_moot(note));
    capture.notes.push(format!(
        "the sparse points are those of {name}, next to the poses"
    ));
    let named = |note: String| format!("{}: {note}", path.display());
    capture.notes.extend(metadata.notes.into_iter().map(named));
    (capture.points, capture.remainders) = (points, metadata.remainders);
    capture.missing_points = None;
    capture.tracks = None;
}

/// Returns true if the header of a PLY file has the properties of splats.
fn is_splats(path: &Path) -> bool {
    let mut head = Vec::new();
    let file = bounded::open("cannot read the points", path)
        .map(|file| file.take(1 << 14).read_to_end(&mut head));
    let text = String::from_utf8_lossy(&head);
    let header = text.split("end_header").next().unwrap_or_default();
    file.is_ok()
        && ["f_dc_0", "scale_0", "packed_position"]
            .iter()
            .any(|word| header.contains(word))
}

/// Returns true for the points that the trainer of the 3DGS paper generates for Blender scenes: 100 000 points, uniform
/// in a cube from -1.3 to 1.3.
fn is_random_start(points: &[Point]) -> bool {
    let inside = |v: &f32| v.abs() <= 1.3;
    let largest = |axis: usize| {
        points
            .iter()
            .map(|p| p.position[axis].abs())
            .fold(0.0, f32::max)
    };
    points.len() == 100_000
        && points.iter().all(|p| p.position.iter().all(inside))
        && (0..3).all(|axis| largest(axis) > 1.299)
}
