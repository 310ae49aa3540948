//! A capture that has been found and understood, before its photos are decoded.

use crate::{Camera, Error, LoadOptions, Point, Result, Tracks};
use glam::DVec3;
use std::path::{Component, Path, PathBuf};

/// Posed photos on disk, sorted by name, and sparse points.
#[derive(Debug, Clone, Default)]
pub struct Capture {
    /// Sorted by name, no name twice.
    pub images: Vec<PosedImage>,
    /// The local origin: where the world origin of cameras and points lies in the capture's own frame, world units.
    /// [`crate::load::open`] chooses it: zero, unless coordinates are so large beside the capture's extent that
    /// `f32` would lose precision.
    pub origin: DVec3,
    /// Sparse points; may be empty.
    pub points: Vec<Point>,
    /// What the positions of the points lack as `f32`: the file's doubles minus the rounded numbers. Empty where files
    /// hold no doubles, and once the origin is chosen.
    pub remainders: Vec<[f32; 3]>,
    /// Which images each of the points was found in, by [`PosedImage::id`]; `None` where the capture
    /// does not say.
    pub tracks: Option<Tracks>,
    /// As [`crate::Dataset::missing_points`].
    pub missing_points: Option<PathBuf>,
    /// As [`crate::Dataset::skipped`].
    pub skipped: usize,
    /// Remarks for the user.
    pub notes: Vec<String>,
}

/// What to do about photos that are not there.
const MISSING_HINT: &str = "check the image folder, name another one with --images, or use the photos \
                            that are there with --skip-missing";

/// A photo on disk and the camera that took it.
#[derive(Debug, Clone)]
pub struct PosedImage {
    /// Name that views are sorted and split by.
    pub name: String,
    /// The image folder.
    pub folder: PathBuf,
    /// Path of the photo in that folder; the extension may be missing.
    pub file: PathBuf,
    /// Whether that folder holds copies reduced by `LoadOptions::downscale` already.
    pub downscaled: bool,
    /// Its mask, if the capture names one. Otherwise a `masks` folder is looked for.
    pub mask: Option<PathBuf>,
    /// The number that [`Capture::tracks`] knows it by.
    pub id: u32,
    /// Its depth image, if the capture names one. Otherwise a folder is looked for.
    pub depth: Option<PathBuf>,
    /// The camera as the capture describes it, lens included; its size may differ from the photo's.
    pub camera: Camera,
    /// The name of the lens model in the source.
    pub source_model: String,
}

/// Extensions tried when the named file is not there, in this order.
const EXTENSIONS: [&str; 6] = ["png", "jpg", "jpeg", "PNG", "JPG", "JPEG"];

impl PosedImage {
    /// The photo's path.
    pub fn path(&self) -> Result<PathBuf> {
        self.existing().ok_or_else(|| {
            Error::input(format!("the photo \"{}\" is missing", self.name))
                .at_path(self.folder.join(&self.file))
                .hint(MISSING_HINT)
        })
    }

    /// The photo's path if there is such a file: as named, or with another extension (converted
    /// photos; Blender's files name none).
    pub(crate) fn existing(&self) -> Option<PathBuf> {
        let exact = self.folder.join(&self.file);
        let appended = |ext: &&str| {
            let mut name = exact.clone().into_os_string();
            name.push(".");
            name.push(ext);
            PathBuf::from(name)
        };
        std::iter::once(exact.clone())
            .chain(EXTENSIONS.iter().map(appended))
            .chain(EXTENSIONS.iter().map(|ext| exact.with_extension(ext)))
            .find(|path| path.is_file())
    }

    /// The mask's path: the one the capture names, or the photo's name in a `masks` folder beside
    /// the image folder, as `a.png`, `a.jpg.png` (COLMAP's way) or `a.jpg`.
    pub(crate) fn mask_path(&self) -> Result<Option<PathBuf>> {
        if let Some(mask) = &self.mask {
            return if mask.is_file() {
                Ok(Some(mask.clone()))
            } else {
                Err(
                    Error::input(format!("the mask of \"{}\" is missing", self.name))
                        .at_path(mask)
                        .hint("restore it, or remove mask_path from the transforms file"),
                )
            };
        }
        let Some(masks) = self.mask_folder() else {
            return Ok(None);
        };
        let mut named = masks.join(&self.file);
        let mut appended = named.clone().into_os_string();
        appended.push(".png");
        let exact = named.clone();
        named.set_extension("png");
        Ok([PathBuf::from(appended), named, exact]
            .into_iter()
            .find(|path| path.is_file()))
    }
}

impl PosedImage {
    /// Where masks are looked for unless the capture names them.
    pub(crate) fn mask_folder(&self) -> Option<PathBuf> {
        Some(self.folder.parent()?.join("masks"))
    }
}

impl Capture {
    /// Sorts by name, refuses names that appear twice, and keeps at most `max_views`, spread
    /// evenly over the names.
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

    /// Refuses a capture whose photos are not all there, naming the first.
    ///
    /// # Errors
    /// Photos that are missing: how many.
    pub fn check_files(&self) -> Result<()> {
        let missing: Vec<&PosedImage> = self
            .images
            .iter()
            .filter(|image| image.existing().is_none())
            .collect();
        let Some(first) = missing.first() else {
            return Ok(());
        };
        let what = if missing.len() == 1 {
            format!("the photo \"{}\" is missing", first.name)
        } else {
            format!(
                "{} of {} photos are missing, the first is \"{}\"",
                missing.len(),
                self.images.len(),
                first.name
            )
        };
        Err(Error::input(what)
            .at_path(first.folder.join(&first.file))
            .hint(MISSING_HINT))
    }

    /// Leaves out the images whose photos are not there, counts them and says so.
    ///
    /// # Errors
    /// None is there.
    pub(crate) fn skip_missing(&mut self) -> Result<()> {
        let before = self.images.len();
        self.images.retain(|image| image.existing().is_some());
        self.skipped += before - self.images.len();
        let (skipped, total) = (self.skipped, self.images.len() + self.skipped);
        if self.images.is_empty() {
            return Err(Error::input(format!("none of {total} photos is there"))
                .hint("check the image folder, or name another one with --images"));
        }
        if skipped > 0 {
            let are = if skipped == 1 { "is" } else { "are" };
            self.notes.push(format!(
                "{skipped} of {total} photos {are} missing and left out, as asked"
            ));
        }
        Ok(())
    }
}

/// A path that a capture's file names, relative to the capture, with `.` and inner `..` resolved.
/// Paths that lead outside are refused: a capture from a stranger must not choose files.
pub(crate) fn relative_path(name: &str) -> Result<PathBuf> {
    let outside = || {
        Error::input(format!(
            "the path \"{name}\" leads out of the capture's folder"
        ))
        .hint("keep photos inside the capture and name them relative to it")
    };
    let mut path = PathBuf::new();
    // Files written on Windows name subfolders with backslashes.
    for part in Path::new(&name.replace('\\', "/")).components() {
        match part {
            Component::Normal(part) => path.push(part),
            Component::CurDir => {}
            Component::ParentDir => {
                if !path.pop() {
                    return Err(outside());
                }
            }
            Component::RootDir | Component::Prefix(_) => return Err(outside()),
        }
    }
    if path.as_os_str().is_empty() || name.contains('\0') {
        return Err(
            Error::input(format!("\"{}\" names no file", name.escape_default()))
                .hint("every photo needs a path relative to the capture"),
        );
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_leave_the_folder_are_refused() {
        for bad in [
            "../a.png",
            "a/../../b.png",
            "/etc/passwd",
            "..",
            "",
            "./",
            "a/..",
            "\\x",
            "a\0b",
        ] {
            assert!(relative_path(bad).is_err(), "{bad:?}");
        }
        for (good, want) in [
            ("a.png", "a.png"),
            ("./s/a.png", "s/a.png"),
            ("s/../a.png", "a.png"),
            ("s\\a.png", "s/a.png"),
            ("..a/..b", "..a/..b"),
        ] {
            assert_eq!(relative_path(good).unwrap(), Path::new(want));
        }
    }
}
