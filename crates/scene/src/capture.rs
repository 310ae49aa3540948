//! A capture whose files are found and parsed, before its photos are decoded.

use crate::tracks::Observation;
use crate::{Camera, Error, LoadOptions, OwnSplit, Point, Result, Split, Tracks};
use glam::DVec3;
use std::path::{Component, Path, PathBuf};

/// Photos on disk with their poses, and sparse points.
#[derive(Debug, Clone, Default)]
pub struct Capture {
    /// Images sorted by name, no name twice.
    pub images: Vec<PosedImage>,
    /// Local origin: the position of the world origin of cameras and points in the capture's own frame, world units.
    /// [`crate::load::open`] chooses it. It is zero unless coordinates are so large compared with the capture's extent
    /// that `f32` would lose precision.
    pub origin: DVec3,
    /// Sparse points; may be empty.
    pub points: Vec<Point>,
    /// Rounding remainders of the point positions: the file's doubles minus the `f32` numbers. Empty if the files hold
    /// no doubles, and after the origin is chosen.
    pub remainders: Vec<[f32; 3]>,
    /// Images that observe each point, by [`PosedImage::id`]; `None` if the capture does not record them.
    pub tracks: Option<Tracks>,
    /// Some observations of the points, of images by [`PosedImage::id`]; empty if the capture has none.
    pub observations: Vec<Observation>,
    /// See [`crate::Dataset::own_split`].
    pub own_split: Option<OwnSplit>,
    /// See [`crate::Dataset::missing_points`].
    pub missing_points: Option<PathBuf>,
    /// See [`crate::Dataset::skipped`].
    pub skipped: usize,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// A photo on disk and the camera that took it.
#[derive(Debug, Clone)]
pub struct PosedImage {
    /// Name that views are sorted and split by.
    pub name: String,
    /// Image folder.
    pub folder: PathBuf,
    /// Path of the photo in that folder: of the file that was found, or the name in the capture.
    pub file: PathBuf,
    /// True if that folder already holds copies reduced by `LoadOptions::downscale`.
    pub downscaled: bool,
    /// Mask of the photo: the one that the capture names, or the one found by the photo's name.
    pub mask: Option<PathBuf>,
    /// Number of the image in [`Capture::tracks`].
    pub id: u32,
    /// Depth image, if the capture names one. Otherwise a folder is searched.
    pub depth: Option<PathBuf>,
    /// Camera of the capture, lens included; its size may differ from the photo's.
    pub camera: Camera,
    /// Name of the lens model in the source.
    pub source_model: String,
}

impl PosedImage {
    /// Returns the photo's path if that file exists.
    pub(crate) fn existing(&self) -> Option<PathBuf> {
        let path = self.folder.join(&self.file);
        path.is_file().then_some(path)
    }

    /// Returns the mask's path.
    ///
    /// # Errors
    /// A mask that is missing.
    pub(crate) fn mask_path(&self) -> Result<Option<PathBuf>> {
        match &self.mask {
            None => Ok(None),
            Some(mask) if mask.is_file() => Ok(Some(mask.clone())),
            Some(mask) => Err(
                Error::input(format!("the mask of \"{}\" is missing", self.name))
                    .at_path(mask)
                    .hint("restore it, or remove mask_path from the transforms file"),
            ),
        }
    }

    /// Returns the usual folder of masks.
    pub(crate) fn mask_folder(&self) -> Option<PathBuf> {
        Some(self.folder.parent()?.join("masks"))
    }
}

impl Capture {
    /// Sorts by name, refuses names that appear twice, and keeps at most `max_views`, spread evenly over the names.
    pub(crate) fn select(&mut self, options: &LoadOptions) -> Result<()> {
        self.images.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some(pair) = self.images.windows(2).find(|p| p[0].name == p[1].name) {
            return Err(
                Error::input(format!("the photo \"{}\" appears twice", pair[0].name))
                    .hint("remove one of the two from the capture"),
            );
        }
        let total = self.images.len();
        if let Some(max) = options.max_views.filter(|&max| max < total) {
            let kept: Vec<usize> = (0..max).map(|i| i * total / max).collect();
            let mut index = 0..;
            self.images
                .retain(|_| index.next().is_some_and(|i| kept.binary_search(&i).is_ok()));
            self.notes
                .push(format!("{max} of {total} photos are used, as asked"));
        }
        if self.images.len() == 1 {
            self.notes.push(
                "there is a single photo: nothing can be held out, and depth cannot be learned"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Splits the images into training and held-out photos, see [`Split::new`].
    pub fn split(&self, eval_every: usize) -> Split {
        let names: Vec<&str> = self
            .images
            .iter()
            .map(|image| image.name.as_str())
            .collect();
        Split::new(&names, self.own_split.as_ref(), eval_every)
    }

    /// Removes the images whose photos are missing, counts them and adds a note.
    ///
    /// # Errors
    /// All photos are missing.
    pub(crate) fn skip_missing(&mut self) -> Result<()> {
        let before = self.images.len();
        self.images.retain(|image| image.existing().is_some());
        self.skipped += before - self.images.len();
        let (skipped, total) = (self.skipped, self.images.len() + self.skipped);
        if self.images.is_empty() {
            return Err(Error::input(format!("all {total} photos are missing"))
                .hint("check the image folder, or name another folder with --images"));
        }
        if skipped > 0 {
            let are = if skipped == 1 { "is" } else { "are" };
            self.notes.push(format!(
                "{skipped} of {total} photos {are} missing and skipped"
            ));
        }
        Ok(())
    }
}

/// A path that a capture's file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedPath {
    /// Path relative to the capture, with `.` and inner `..` resolved. For a path that leads outside, the part after
    /// the root or the leading `..`.
    pub path: PathBuf,
    /// True if the path is absolute or leads above the capture's folder: a path of another machine, or one chosen by an
    /// untrusted writer. Only files inside the capture are used for such a path.
    pub leads_out: bool,
}

/// Reads a path of a capture's file.
///
/// # Errors
/// A path that names no file.
pub(crate) fn named_path(name: &str) -> Result<NamedPath> {
    let mut path = PathBuf::new();
    let mut leads_out = false;
    // Files written on Windows name subfolders with backslashes.
    let slashed = name.replace('\\', "/");
    let is_drive = |part: &str| part.len() == 2 && part.ends_with(':');
    for part in Path::new(&slashed).components() {
        match part {
            Component::Normal(part) if path.as_os_str().is_empty() => {
                // `D:` and `file:` are also recognised on systems without drives.
                match part.to_str().is_some_and(|p| is_drive(p) || p == "file:") {
                    true => leads_out = true,
                    false => path.push(part),
                }
            }
            Component::Normal(part) => path.push(part),
            Component::CurDir => {}
            Component::ParentDir => leads_out |= !path.pop(),
            Component::RootDir | Component::Prefix(_) => leads_out = true,
        }
    }
    if path.as_os_str().is_empty() || name.contains('\0') {
        return Err(
            Error::input(format!("\"{}\" names no file", name.escape_default()))
                .hint("every photo needs a path relative to the capture"),
        );
    }
    Ok(NamedPath { path, leads_out })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_leave_the_folder_are_refused() {
        for bad in ["..", "", "./", "a/..", "/", "C:\\", "a\0b"] {
            assert!(named_path(bad).is_err(), "{bad:?}");
        }
        for (bad, inside) in [
            ("../a.png", "a.png"),
            ("a/../../b.png", "b.png"),
            ("/etc/passwd", "etc/passwd"),
            ("\\x", "x"),
            ("D:\\scans\\a.png", "scans/a.png"),
            ("c:a/b.png", "c:a/b.png"),
            ("\\\\server\\share\\a.png", "server/share/a.png"),
            ("file:///home/me/a.png", "home/me/a.png"),
        ] {
            let named = named_path(bad).unwrap();
            assert_eq!(named.path, Path::new(inside), "{bad:?}");
            assert!(named.path.is_relative());
            assert_eq!(named.leads_out, bad != "c:a/b.png", "{bad:?}");
        }
        for (good, want) in [
            ("a.png", "a.png"),
            ("./s/a.png", "s/a.png"),
            ("s/../a.png", "a.png"),
            ("s\\a.png", "s/a.png"),
            ("..a/..b", "..a/..b"),
        ] {
            let named = named_path(good).unwrap();
            assert_eq!(named.path, Path::new(want));
            assert!(!named.leads_out);
        }
    }
}
