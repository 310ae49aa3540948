//! Splats that commands read: the file that a path selects, and its frame.

use crate::console::Console;
use dapple::glam::DVec3;
use dapple::scene::edit::Similarity;
use dapple::scene::origin::{Frame, middle_of};
use dapple::scene::splat_file::{self, Format, ReadOptions, SplatMetadata};
use dapple::scene::{Error, Result, Splats, origin};
use dapple::train::RunFolder;
use std::path::{Path, PathBuf};

/// Returns the splat file that `path` selects: the file itself, or the splats of a run's folder.
///
/// # Errors
/// A folder without splats.
pub fn splats_file(path: &Path) -> Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let folder = RunFolder::open(path);
    let splats = folder.splats_path();
    if splats.is_file() {
        return Ok(splats);
    }
    if let Some(meta) = sog_meta(path).or_else(|| other_trainers_splats(path)) {
        return Ok(meta);
    }
    if let Some(error) = splat_file::foreign(path) {
        return Err(error);
    }
    let hint = match folder.checkpoint_path().is_file() {
        true => format!(
            "the run in it is not finished: `dapple train --resume {}` continues it",
            path.display()
        ),
        false => match splat_files(path).as_slice() {
            [] => "name a PLY file, or the folder of a run, which holds splats.ply".to_owned(),
            [one] => format!("name the file: {}", one.display()),
            [one, .., last] => format!(
                "name one of its files: {} to {}",
                one.display(),
                last.display()
            ),
        },
    };
    Err(Error::input("this folder holds no splats")
        .at_path(path)
        .hint(hint))
}

/// Returns the `meta.json` of a folder of SOG textures, or the `lod-meta.json` of streamed ones. Captures of other
/// programs can have a file with the first name.
pub fn sog_meta(folder: &Path) -> Option<PathBuf> {
    let names = ["meta.json", "lod-meta.json"];
    let mut files = names.into_iter().map(|name| folder.join(name));
    files.find(|file| splat_file::describes_splats(file))
}

/// Returns the last splats in the output folder of another trainer: 3DGS'
/// `point_cloud/iteration_30000/point_cloud.ply`, gsplat's `ply/point_cloud_29999.ply`, Brush's `export_30000.ply`,
/// Nerfstudio's `splat.ply`.
pub fn other_trainers_splats(folder: &Path) -> Option<PathBuf> {
    let inner = "point_cloud.ply";
    let numbered = [
        ("point_cloud", "iteration_", inner),
        ("", "iteration_", inner),
    ];
    let of_folders = numbered.into_iter().find_map(|(below, prefix, inner)| {
        let found = numbered_names(&folder.join(below), prefix, "");
        let files = found.into_iter().map(|(_, path)| path.join(inner));
        files.rev().find(|path| path.is_file())
    });
    let of_files = || {
        let kinds = [
            ("ply", "point_cloud_", ".ply"),
            ("", "point_cloud_", ".ply"),
            ("", "export_", ".ply"),
        ];
        kinds.into_iter().find_map(|(below, prefix, suffix)| {
            let found = numbered_names(&folder.join(below), prefix, suffix);
            found
                .into_iter()
                .map(|(_, path)| path)
                .rfind(|path| path.is_file())
        })
    };
    let named = || {
        let names = ["point_cloud.ply", "splat.ply", "exports/splat/splat.ply"];
        names
            .into_iter()
            .map(|name| folder.join(name))
            .find(|path| path.is_file())
    };
    of_folders.or_else(of_files).or_else(named)
}

/// Lists the entries of a folder with names of prefix, number and suffix, sorted by number.
fn numbered_names(folder: &Path, prefix: &str, suffix: &str) -> Vec<(u64, PathBuf)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<(u64, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.file_name();
            let number = name.to_str()?.strip_prefix(prefix)?.strip_suffix(suffix)?;
            Some((number.parse().ok()?, entry.path()))
        })
        .collect();
    found.sort();
    found
}

/// Lists the splat files in a folder, sorted by name.
fn splat_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_file() && Format::of_name(path).is_ok())
        .collect();
    files.sort();
    files
}

/// Reads splats and prints notes about their file.
pub fn read_splats(path: &Path, console: &Console) -> Result<(Splats, SplatMetadata)> {
    read_splats_with(path, &ReadOptions::default(), console)
}

/// Reads splats like [`read_splats`], with values for fields that the file may omit.
pub fn read_splats_with(
    path: &Path,
    options: &ReadOptions,
    console: &Console,
) -> Result<(Splats, SplatMetadata)> {
    let (splats, metadata) = splat_file::read_with_progress(path, options, &console.progress())?;
    for note in &metadata.notes {
        console.note(&format!("note: {}: {note}", path.display()));
    }
    if metadata.origin != DVec3::ZERO {
        console.note(&format!(
            "note: {}: positions are relative to the local origin {}",
            path.display(),
            origin::shown(metadata.origin)
        ));
    }
    if metadata.moved != Similarity::IDENTITY {
        console.note(&format!(
            "note: {}: the splats were moved since training; cameras of the capture are moved with them",
            path.display()
        ));
    }
    Ok((splats, metadata))
}

/// Undoes motion of splats since training, and changes their origin to that of the capture's cameras.
pub fn into_capture(splats: &mut Splats, frame: Frame, origin: DVec3) {
    let frame = frame.beside(middle_of(splats), origin);
    if frame.moved != Similarity::IDENTITY {
        frame.moved.inverse().apply(splats);
    }
    splats.count_from(origin - frame.origin);
}

/// Prints a note if a format cannot store the origin of the splats or their motion since training.
pub fn note_frame(format: Format, frame: Frame, console: &Console) {
    let origin = frame.origin;
    if frame.moved != Similarity::IDENTITY && !format.holds_motion() {
        console.note(&format!(
            "note: .{} has no place for the motion of the splats since training: cameras of the capture will not fit \
             them. .ply, .sog and .glb record it",
            format.extension()
        ));
    }
    if origin != DVec3::ZERO && !format.holds_origin() {
        let note = origin::not_held(format.extension(), origin);
        console.note(&format!("note: {note}"));
    }
}

/// Reduces splats to the SH degree of a format, and prints a note if a degree is lost.
pub fn held_by(format: Format, splats: Splats, console: &Console) -> Splats {
    let holds = format.max_sh_degree();
    if splats.sh_degree <= holds {
        return splats;
    }
    console.note(&format!(
        "warning: .{} holds spherical harmonics up to degree {holds}, these have degree {}: what changes with \
         the direction of view is lost",
        format.extension(),
        splats.sh_degree
    ));
    splats.with_sh_degree(holds)
}
