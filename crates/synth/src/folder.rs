//! Writes a capture's folder, which appears completely or not at all.
//!
//! 1. Everything is written into a temporary folder next to the target.
//! 2. An existing target is replaced, but only if it is a synthetic capture: both folders are exchanged in one step.
//! 3. The old folder is deleted.

use super::SynthOptions;
use dapple_scene::atomic::{TemporaryFolder, appeared, put_in_place};
use dapple_scene::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// File that marks a folder as a synthetic capture.
pub(super) const NOTE: &str = "synth.json";
pub(super) const IMAGES: &str = "images";
/// File of the exact surface.
pub(super) const MESH: &str = "mesh.ply";
pub(super) const SPARSE: &str = "sparse";

/// File of the true cameras if the written ones are perturbed.
pub(super) const TRUTH: &str = "true_cameras.json";

/// Two halves of a capture of an object: folder of the photos, and transforms file.
pub(super) const TRAIN: (&str, &str) = ("train", "transforms_train.json");
pub(super) const TEST: (&str, &str) = ("test", "transforms_test.json");

/// Cameras and sparse points of a capture whose camera model COLMAP lacks.
pub(super) const TRANSFORMS: &str = "transforms.json";
pub(super) const POINTS: &str = "points.ply";

/// Entries of folders without a COLMAP model.
const ENTRIES: [&str; 6] = [TRAIN.0, TRAIN.1, TEST.0, TEST.1, TRANSFORMS, POINTS];

/// First line of the note: the format's name.
const FORMAT: &str = "dapple-synth-1";

/// Content of [`NOTE`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) format: String,
    /// Kind of ground truth in the capture.
    pub(super) truth: String,
    pub(super) options: SynthOptions,
}

impl Note {
    pub(super) fn new(options: &SynthOptions) -> Self {
        Self {
            format: FORMAT.to_owned(),
            truth: if options.object.is_some() {
                "poses, intrinsics, observed pixels and alpha are exact".to_owned()
            } else {
                Self::truth_of_points(options)
            },
            options: options.clone(),
        }
    }

    fn truth_of_points(options: &SynthOptions) -> String {
        format!(
            "{}intrinsics and observed pixels are exact; point positions have Gaussian noise \
                 of standard deviation `point_noise` on each coordinate",
            if options.pose_noise.is_off() {
                "poses, "
            } else {
                "poses have the noise `pose_noise`, the true ones are in true_cameras.json; "
            }
        )
    }
}

/// A folder under construction; dropped without [`Staging::finish`], it is deleted.
#[derive(Debug)]
pub(super) struct Staging {
    temporary: TemporaryFolder,
    out: PathBuf,
    /// True if the target held a capture at the beginning, which is replaced.
    replaces: bool,
}

impl Staging {
    /// Prepares an empty folder that will become `out`.
    pub(super) fn bare(out: &Path) -> Result<Self> {
        refuse_foreign(out)?;
        let parent = match out.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        fs::create_dir_all(parent)
            .map_err(|source| Error::io("cannot create the folder", parent, source))?;
        let temporary = TemporaryFolder::new_in(parent)
            .map_err(|source| Error::io("cannot write into the folder", parent, source))?;
        let staging = Self {
            temporary,
            out: out.to_owned(),
            replaces: holds_entries(out),
        };
        let root = staging.root();
        fs::create_dir_all(&root)
            .map_err(|source| Error::io("cannot create the folder", &root, source))?;
        Ok(staging)
    }

    /// [`Self::bare`] with the folder of the photos.
    pub(super) fn new(out: &Path) -> Result<Self> {
        let staging = Self::bare(out)?;
        let images = staging.images();
        fs::create_dir_all(&images)
            .map_err(|source| Error::io("cannot create the folder", &images, source))?;
        Ok(staging)
    }

    /// Returns the folder of the photos.
    pub(super) fn images(&self) -> PathBuf {
        self.root().join(IMAGES)
    }

    /// Returns the folder for files that are no part of the capture; it is deleted at the end.
    pub(super) fn temporary(&self) -> &Path {
        self.temporary.path()
    }

    /// Returns the folder of COLMAP's files.
    pub(super) fn model(&self) -> PathBuf {
        self.root().join(SPARSE).join("0")
    }

    /// Returns the capture's folder while it is under construction. (Not the temporary folder itself, which other users
    /// may not read.)
    pub(super) fn root(&self) -> PathBuf {
        self.temporary.path().join("new")
    }

    /// Moves the folder to its target.
    pub(super) fn finish(self) -> Result<()> {
        // Checked again: another process may have written files in the time between.
        refuse_foreign(&self.out)?;
        if !self.replaces && holds_entries(&self.out) {
            return Err(appeared(&self.out));
        }
        put_in_place(&self.root(), &self.out).map_err(|source| match source.kind() {
            // Another program has filled the folder since the check at the start.
            ErrorKind::AlreadyExists | ErrorKind::DirectoryNotEmpty => appeared(&self.out),
            _ => Error::io("cannot put the capture in place", &self.out, source),
        })?;
        Ok(())
    }
}

fn holds_entries(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

/// Refuses to replace anything but a missing or empty folder, or a synthetic capture without foreign files.
fn refuse_foreign(out: &Path) -> Result<()> {
    if !out.exists() {
        return Ok(());
    }
    let entries =
        fs::read_dir(out).map_err(|source| Error::io("cannot use the folder", out, source))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|source| Error::io("cannot read the folder", out, source))?;
        names.push(entry.file_name());
    }
    let refuse = |what: String| {
        Err(Error::input(what).at_path(out).hint(
            "choose another folder, or move this one away: only an empty folder or an untouched \
             synthetic capture is replaced",
        ))
    };
    if names.is_empty() {
        return Ok(());
    }
    if let Some(foreign) = names.iter().find(|&name| {
        let own = [NOTE, IMAGES, SPARSE, TRUTH, MESH];
        !own.iter().chain(&ENTRIES).any(|n| name == n)
    }) {
        return refuse(format!(
            "the folder holds {:?}, which no synthetic capture has",
            foreign.to_string_lossy()
        ));
    }
    let note = fs::read(out.join(NOTE)).ok();
    let note = note.and_then(|bytes| serde_json::from_slice::<Note>(&bytes).ok());
    match note {
        Some(note) if note.format == FORMAT => Ok(()),
        _ => refuse("the folder is not empty and not a synthetic capture".to_owned()),
    }
}
