//! Finds out what a path holds.
//!
//! 1. A file is a Nerfstudio or a Blender capture, by its name.
//! 2. A folder is a COLMAP model itself, or holds one in `sparse` (the largest of several), or a
//!    transforms file, or a model one level down.

use super::LoadOptions;
use crate::capture::{Capture, PosedImage, relative_path};
use crate::{Error, Result, blender, colmap, nerfstudio};
use std::path::{Path, PathBuf};

/// A capture's kind, and where it lies.
pub(super) enum Found {
    Colmap {
        model: PathBuf,
        base: PathBuf,
        notes: Vec<String>,
    },
    Transforms(PathBuf),
    Blender(PathBuf),
}

/// What lies at `path`.
pub(super) fn detect(path: &Path) -> Result<Found> {
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
        notes.extend(note_transforms(&path.join("transforms.json")));
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

/// What to say of a transforms file beside the model that is used instead.
fn note_transforms(json: &Path) -> Option<String> {
    if !json.is_file() {
        return None;
    }
    let unused = "there is a transforms.json too; the COLMAP model is used";
    Some(match nerfstudio::missing(json) {
        None => format!("{unused} (that file is no transforms file that can be read)"),
        Some((_, 0)) => format!("{unused} (name the file to use it)"),
        Some((frames, missing)) => format!(
            "{unused} (of the {frames} photos that the file names {missing} {are} missing: name it with \
             --skip-missing to use it without)",
            are = if missing == 1 { "is" } else { "are" }
        ),
    })
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

/// Reads a COLMAP model whose photos lie under `base`.
pub(super) fn open_colmap(
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
        .zip(read.image_ids)
        .map(|((name, camera, source_model), id)| {
            Ok(PosedImage {
                file: relative_path(&name)
                    .map_err(|e| e.at(format!("{}, image \"{name}\"", model.display())))?,
                name,
                folder: folder.clone(),
                downscaled: false,
                mask: None,
                id,
                depth: None,
                camera,
                source_model: source_model.to_owned(),
            })
        })
        .collect::<Result<_>>()?;
    Ok(Capture {
        images,
        origin: glam::DVec3::ZERO,
        points: read.points,
        remainders: read.remainders,
        tracks: Some(read.tracks),
        missing_points: read.missing_points,
        skipped: 0,
        notes,
    })
}
