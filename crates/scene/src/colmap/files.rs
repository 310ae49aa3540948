//! The files of a COLMAP model in a folder.

use crate::load::finder::{Finder, fold};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Format of one file of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Binary,
    Text,
    /// Points only.
    Ply,
}

/// Names of point files that trainers and exporters write next to poses, in lower case.
pub(crate) const POINTS_PLY: [&str; 10] = [
    "points3d.ply",
    "sparse_pc.ply",
    "pointcloud.ply",
    "point_cloud.ply",
    "init.ply",
    "points.ply",
    "sparse.ply",
    "sparse_points.ply",
    "pcd.ply",
    "input.ply",
];

/// Paths of a model's files.
#[derive(Debug, Clone)]
pub(crate) struct ModelFiles {
    pub cameras: (PathBuf, Kind),
    pub images: (PathBuf, Kind),
    /// Points file; `None` if the folder has none.
    pub points: Option<(PathBuf, Kind)>,
}

/// Finds a file of a model in one format, in upper or lower case.
fn file(finder: &mut Finder, folder: &Path, name: &str, kind: Kind) -> Option<(PathBuf, Kind)> {
    let ending = match kind {
        Kind::Binary => "bin",
        Kind::Text => "txt",
        Kind::Ply => "ply",
    };
    let path = finder.named(folder, &format!("{name}.{ending}"))?;
    Some((path, kind))
}

/// Finds a file of a model in this format, or else in the other.
fn either(finder: &mut Finder, folder: &Path, name: &str, first: Kind) -> Option<(PathBuf, Kind)> {
    let second = match first {
        Kind::Binary => Kind::Text,
        _ => Kind::Binary,
    };
    file(finder, folder, name, first).or_else(|| file(finder, folder, name, second))
}

impl ModelFiles {
    /// Finds the model files in `folder`; `None` unless cameras and images exist.
    pub fn in_folder(folder: &Path) -> Option<Self> {
        // Usual names, checked without a listing of the folder.
        let has = |name: &str| folder.join(name).is_file();
        let ordinary = ["bin", "txt"]
            .into_iter()
            .any(|ending| has(&format!("cameras.{ending}")) && has(&format!("images.{ending}")));
        let finder = &mut Finder::default();
        let is_camera_file =
            |file: &OsString| fold(&file.to_string_lossy()).starts_with("cameras.");
        if !ordinary && !finder.list(folder).files.iter().any(is_camera_file) {
            return None;
        }
        // One format for both files if it is complete: the halves of two exports may differ.
        let mut has_both = |kind: &Kind| {
            let mut has = |name: &str| file(finder, folder, name, *kind).is_some();
            has("cameras") && has("images")
        };
        let kinds = [Kind::Binary, Kind::Text];
        let kind = kinds
            .into_iter()
            .find(&mut has_both)
            .unwrap_or(Kind::Binary);
        let cameras = either(finder, folder, "cameras", kind)?;
        let images = either(finder, folder, "images", kind)?;
        let points = either(finder, folder, "points3D", kind).or_else(|| {
            let found = POINTS_PLY
                .iter()
                .find_map(|name| finder.named(folder, name))?;
            Some((found, Kind::Ply))
        });
        Some(Self {
            cameras,
            images,
            points,
        })
    }

    /// Path of the points file, existing or expected.
    pub fn points_path(&self, folder: &Path) -> PathBuf {
        match (&self.points, self.cameras.1) {
            (Some((path, _)), _) => path.clone(),
            (None, Kind::Text) => folder.join("points3D.txt"),
            (None, _) => folder.join("points3D.bin"),
        }
    }

    /// Notes on deviations from COLMAP's format.
    pub fn notes(&self) -> Vec<String> {
        let name = |path: &Path| {
            path.file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned()
        };
        let mut notes = Vec::new();
        let points = self.points.iter().filter(|(_, kind)| *kind != Kind::Ply);
        let mixed = [&self.cameras, &self.images].into_iter().chain(points);
        let kinds: Vec<&(PathBuf, Kind)> = mixed.collect();
        if kinds.iter().any(|(_, kind)| *kind != self.cameras.1) {
            let names: Vec<String> = kinds.iter().map(|(path, _)| name(path)).collect();
            notes.push(format!("the model is made of {}", names.join(", ")));
        }
        if let Some((path, Kind::Ply)) = &self.points {
            notes.push(format!("the sparse points are those of {}", name(path)));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            std::fs::write(folder.path().join(name), "x").unwrap();
        }
        let found = ModelFiles::in_folder(folder.path())?;
        let points = found.points.as_ref().map(|(path, _)| path.as_path());
        let all = [found.cameras.0.as_path(), &found.images.0]
            .into_iter()
            .chain(points);
        let shown = all.map(|path| path.file_name().unwrap().to_string_lossy().into_owned());
        Some(shown.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_whole_kind_goes_before_a_mix() {
        let want = |names: &[&str], want: &str| {
            assert_eq!(files(names).as_deref(), Some(want), "{names:?}");
        };
        let (cb, ib, pb) = ("cameras.bin", "images.bin", "points3D.bin");
        let (ct, it, pt) = ("cameras.txt", "images.txt", "points3D.txt");
        want(
            &[cb, ib, pb, ct, it, pt],
            "cameras.bin images.bin points3D.bin",
        );
        want(&[cb, ct, it, pt], "cameras.txt images.txt points3D.txt");
        want(&[cb, it, pt], "cameras.bin images.txt points3D.txt");
        want(&[ct, ib, pb], "cameras.txt images.bin points3D.bin");
        want(&[cb, ib, pt], "cameras.bin images.bin points3D.txt");
        want(
            &[cb, ib, "points3D.ply", pt],
            "cameras.bin images.bin points3D.txt",
        );
        want(
            &[cb, ib, "points3D.ply"],
            "cameras.bin images.bin points3D.ply",
        );
        want(
            &[cb, ib, "init.ply", "points3d.ply"],
            "cameras.bin images.bin points3d.ply",
        );
        want(
            &["Cameras.bin", "IMAGES.BIN", "points3d.bin"],
            "Cameras.bin IMAGES.BIN points3d.bin",
        );
        want(&[cb, ib], "cameras.bin images.bin");
        for part in [&[cb, pb][..], &[ib], &[], &["cameras.json", "images.json"]] {
            assert_eq!(files(part), None, "{part:?}");
        }
    }
}
