//! Folders of a capture's own files, so that no results are written among them.

use super::layouts::{Found, detect};
use crate::capture::Capture;
use crate::colmap::files::POINTS_PLY;
use crate::{Error, LoadOptions, Result, bounded, own_split};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Refuses to write a folder of results to `out` in two cases: `out` is the root of the file system, or `out` contains
/// files of the capture at `scene`. The files count in `out` itself and in each of `inner` below it; within the
/// capture's folder they count anywhere below these folders. `options` are those that `capture` was opened with.
///
/// Links are followed, and `out` need not exist.
///
/// # Errors
/// The error names the folder.
pub fn refuse_output(
    out: &Path,
    inner: &[&str],
    scene: &Path,
    capture: &Capture,
    options: &LoadOptions,
) -> Result<()> {
    let whole = resolved(out);
    if whole.parent().is_none() {
        return Err(
            Error::input("results are not written into the root of the file system")
                .at_path(out)
                .hint("name a folder of their own with --out"),
        );
    }
    let inputs = input_folders(scene, capture, options)?;
    let below = inner.iter().map(|name| resolved(&out.join(name)));
    match std::iter::once(whole)
        .chain(below)
        .find(|folder| inputs.contains(folder))
    {
        None => Ok(()),
        Some(folder) => Err(Error::input(
            "results are not written among the capture's own files, and this folder holds some",
        )
        .at_path(folder)
        .hint("name a folder of their own with --out")),
    }
}

/// Refuses to write a file of results to `out` if the capture is read from it.
///
/// # Errors
/// The error names the file.
pub fn refuse_output_file(out: &Path, capture: &Capture) -> Result<()> {
    let whole = resolved(out);
    for image in &capture.images {
        let files = [image.existing(), image.mask_path()?, image.depth.clone()];
        if files.iter().flatten().any(|file| resolved(file) == whole) {
            return Err(Error::input("the output is a file of the capture itself")
                .at_path(out)
                .hint("choose another name"));
        }
    }
    Ok(())
}

/// Refuses to replace `out` if it is a file of some capture, or a folder with such files. A missing `out` is not
/// refused.
///
/// # Errors
/// The error names the file or folder.
pub fn refuse_capture_file(out: &Path) -> Result<()> {
    if !out.exists() {
        return Ok(());
    }
    let whole = resolved(out);
    let mut above = whole.ancestors().take(HIGHEST).filter(|path| path.is_dir());
    if !above.any(|folder| is_of_capture(&whole, folder)) {
        return Ok(());
    }
    let (what, hint) = match whole.is_dir() {
        true => (
            "results are not written among a capture's own files, and this folder holds some",
            "name a folder of their own",
        ),
        false => (
            "the output is a file of a capture, which is never replaced",
            "choose another name",
        ),
    };
    Err(Error::input(what).at_path(out).hint(hint))
}

/// Number of ancestors of a file in which its capture is searched, including the file itself.
const HIGHEST: usize = 6;

/// Returns true if `whole` is a file of the capture that the folder holds, or a folder with such files.
fn is_of_capture(whole: &Path, folder: &Path) -> bool {
    let Ok(found) = detect(folder) else {
        return false;
    };
    let root = resolved(&match &found {
        Found::Colmap { base, .. } => base.clone(),
        Found::Transforms(json, _) => folder_of(json),
        Found::Blender(root, _) => root.clone(),
    });
    let Some(parent) = whole.parent().filter(|_| whole.starts_with(&root)) else {
        return false;
    };
    if !whole.is_dir() && parent == root && is_named_in_root(whole, &found) {
        return true;
    }
    let with_depths = LoadOptions {
        depths: true,
        skip_missing: true,
        ..LoadOptions::default()
    };
    let Ok(capture) = super::open(folder, &with_depths) else {
        // Its files cannot be listed: all except those of its own folder may belong to it.
        return parent != root || whole.is_dir();
    };
    let Ok(inputs) = input_folders(folder, &capture, &with_depths) else {
        return true;
    };
    match whole.is_dir() {
        true => inputs.contains(whole),
        false if parent == root => refuse_output_file(whole, &capture).is_err(),
        false => inputs.contains(parent),
    }
}

/// Returns true for files of a capture that are not photos and are in its own folder.
fn is_named_in_root(whole: &Path, found: &Found) -> bool {
    let name = whole.file_name().unwrap_or_default().to_string_lossy();
    let name = name.to_lowercase();
    let is_listed = |names: &[&str]| names.iter().any(|own| own.eq_ignore_ascii_case(&name));
    let (stem, ending) = name.split_once('.').unwrap_or((&name, ""));
    let is_model = ["cameras", "images", "points3d", "rigs", "frames"].contains(&stem)
        && ["bin", "txt"].contains(&ending);
    let is_transforms = stem.starts_with("transforms") && ending == "json";
    // A transforms file names its points.
    let is_points = || match found {
        Found::Transforms(json, _) => {
            let text = bounded::read_text("cannot read the file", json, bounded::SETTINGS_BYTES);
            ending == "ply" && text.is_ok_and(|text| text.to_lowercase().contains(&name))
        }
        _ => false,
    };
    let is_json = matches!(found, Found::Transforms(json, _) if resolved(json) == whole);
    is_model
        || is_transforms
        || is_json
        || is_listed(&[
            "database.db",
            "project.ini",
            "synth.json",
            "true_cameras.json",
        ])
        || is_listed(&POINTS_PLY)
        || own_split::FILES.iter().any(|names| is_listed(names))
        || is_points()
}

/// Returns the folders that hold a file of the capture, and those between them and the capture's own; links followed.
fn input_folders(
    scene: &Path,
    capture: &Capture,
    options: &LoadOptions,
) -> Result<BTreeSet<PathBuf>> {
    let (root, model) = match detect(scene)? {
        Found::Colmap { base, model, .. } => (base, Some(model)),
        Found::Transforms(json, _) => (folder_of(&json), None),
        Found::Blender(root, _) => (root, None),
    };
    // A model below another folder: a user who names the outer folder means all of it.
    let named = scene.is_dir().then(|| scene.to_owned());
    let mut folders: BTreeSet<PathBuf> = [root.clone()].into();
    folders.extend(model.into_iter().chain(named));
    folders.extend(options.depth_folder.clone());
    for image in &capture.images {
        let file = image.folder.join(&image.file);
        folders.extend([image.folder.clone(), folder_of(&file)]);
        // A link to a photo elsewhere.
        if file.is_symlink() {
            folders.insert(folder_of(&resolved(&file)));
        }
        let named = [&image.mask, &image.depth].into_iter().flatten();
        folders.extend(named.map(|file| folder_of(file)));
        folders.extend(image.mask_folder());
        let beside = image.folder.parent().filter(|_| options.depths);
        folders.extend(beside.map(|beside| beside.join("depths")));
        folders.extend(beside.map(|beside| beside.join("depth")));
    }
    let root = resolved(&root);
    let mut all = BTreeSet::new();
    for folder in folders.iter().filter(|folder| folder.is_dir()) {
        let folder = resolved(folder);
        let between = folder.ancestors().take_while(|a| a.starts_with(&root));
        all.extend(between.map(Path::to_owned));
        all.insert(folder);
    }
    Ok(all)
}

/// Returns the parent folder of a file; "." for a bare name.
fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Returns the absolute path without links and dots. If the path does not exist yet, the existing part is resolved.
fn resolved(path: &Path) -> PathBuf {
    let mut missing: Vec<OsString> = Vec::new();
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut existing = absolute.as_path();
    loop {
        if let Ok(mut whole) = existing.canonicalize() {
            for name in missing.iter().rev() {
                match name.as_os_str() == ".." {
                    true => drop(whole.pop()),
                    false => whole.push(name),
                }
            }
            return whole;
        }
        let Some(last) = existing.components().next_back() else {
            return absolute;
        };
        if let Component::Normal(_) | Component::ParentDir = last {
            missing.push(last.as_os_str().to_owned());
        }
        let Some(parent) = existing.parent() else {
            return absolute;
        };
        existing = parent;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::{NoProgress, load};
    use dapple_synth::{SynthOptions, generate};
    use std::fs;

    #[test]
    fn files_of_a_capture_are_found_without_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let options = SynthOptions {
            photos: 3,
            width: 16,
            height: 12,
            points: 20,
            ..SynthOptions::default()
        };
        generate(&options, &at("a/C"), &NoProgress).unwrap();
        fs::create_dir(at("a/C/out")).unwrap();
        for file in ["a/mine.svg", "a/C/mine.svg", "a/C/out/splats.ply"] {
            fs::write(at(file), "mine").unwrap();
        }
        for own in [
            "a/C",
            "a/C/images",
            "a/C/sparse",
            "a/C/images/001.png",
            "a/C/sparse/0/points3D.bin",
            "a/C/sparse/../synth.json",
        ] {
            assert!(refuse_capture_file(&at(own)).is_err(), "{own}");
        }
        for free in [
            "a",
            "a/mine.svg",
            "a/C/mine.svg",
            "a/C/out",
            "a/C/out/splats.ply",
            "a/C/images/new.png",
        ] {
            refuse_capture_file(&at(free)).unwrap();
        }
        // A capture that cannot be read is still a capture.
        fs::write(at("a/C/sparse/0/images.bin"), "cut").unwrap();
        assert!(refuse_capture_file(&at("a/C/images/001.png")).is_err());
        refuse_capture_file(&at("a/C/mine.svg")).unwrap();
    }

    #[test]
    fn results_do_not_go_among_inputs() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let options = SynthOptions {
            photos: 3,
            width: 16,
            height: 12,
            points: 20,
            ..SynthOptions::default()
        };
        generate(&options, &at("a/C"), &NoProgress).unwrap();
        let scene = at("a/C");
        let check = |out: &Path, options: &LoadOptions| {
            let capture = load::open(&scene, options).unwrap();
            refuse_output(out, &["renders", "errors"], &scene, &capture, options)
        };
        let plain = LoadOptions::default();
        for bad in [
            "a/C",
            "a/C/",
            "a/C/images",
            "a/C/sparse",
            "a/C/sparse/0",
            "a/./C/x/../images",
        ] {
            let error = check(&at(bad), &plain).unwrap_err();
            assert!(
                error.hint_text().unwrap().contains("--out"),
                "{bad}: {error}"
            );
        }
        assert!(check(Path::new("/"), &plain).is_err());
        for good in ["a", "out", "a/C/out", "a/C/out/../other", "a/C2"] {
            check(&at(good), &plain).unwrap();
        }
        // Photos elsewhere, where a run would put its renders.
        fs::create_dir_all(at("t")).unwrap();
        fs::rename(at("a/C/images"), at("t/renders")).unwrap();
        let elsewhere = LoadOptions {
            images: Some(at("t/renders")),
            ..LoadOptions::default()
        };
        assert!(check(&at("t"), &elsewhere).is_err());
        check(&at("t/new"), &elsewhere).unwrap();
        // Links, to the folder and to a photo.
        #[cfg(unix)]
        {
            use std::os::unix::fs::symlink;
            symlink(at("t/renders"), at("a/C/images")).unwrap();
            symlink(at("a"), at("b")).unwrap();
            for bad in ["t/renders", "t", "b/C/images", "b/C", "b/C/sparse"] {
                assert!(check(&at(bad), &plain).is_err(), "{bad}");
            }
            fs::create_dir(at("d")).unwrap();
            fs::rename(at("t/renders/001.png"), at("d/001.png")).unwrap();
            symlink(at("d/001.png"), at("t/renders/001.png")).unwrap();
            assert!(check(&at("d"), &plain).is_err());
        }
    }
}
