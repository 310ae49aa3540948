//! NeRF-synthetic captures, as the Blender scripts of the NeRF paper write them.
//!
//! `transforms_train.json` and `transforms_test.json` are small Nerfstudio files: a field of view,
//! poses with OpenGL's axes, photos named without extension, sizes left to the photos, transparent
//! backgrounds, no points.
//!
//! 1. Training photos come from `transforms_train.json`.
//! 2. Held-out photos come from `transforms_test.json`, or `transforms_val.json` where that is
//!    missing. Names start with `train/` and `test/`, by which [`crate::Dataset::split`] knows them.

use crate::capture::Capture;
use crate::{LoadOptions, Result, nerfstudio};
use std::path::Path;

/// The file that makes a folder a Blender capture.
pub(crate) const TRAIN: &str = "transforms_train.json";

/// Reads the JSON files in `root`, whose photos are there or in `chosen`.
pub(crate) fn open(root: &Path, options: &LoadOptions, chosen: Option<&Path>) -> Result<Capture> {
    let mut capture = Capture::default();
    capture.add(
        nerfstudio::open(&root.join(TRAIN), options, chosen)?,
        "train/",
    );
    let held_out = ["transforms_test.json", "transforms_val.json"]
        .iter()
        .map(|name| root.join(name))
        .find(|path| path.is_file());
    match held_out {
        Some(path) => capture.add(nerfstudio::open(&path, options, chosen)?, "test/"),
        None => capture.notes.push(
            "there is no transforms_test.json: held-out photos are taken from the training ones"
                .to_owned(),
        ),
    }
    if root.join("transforms_test.json").is_file() && root.join("transforms_val.json").is_file() {
        capture
            .notes
            .push("transforms_val.json is not used: the test photos are held out".to_owned());
    }
    // One of the files names the points.
    if !capture.points.is_empty() {
        capture.notes.retain(|note| note != nerfstudio::NO_POINTS);
    }
    capture.notes.dedup();
    Ok(capture)
}

impl Capture {
    /// Adds another file's images under names that start with `prefix`.
    fn add(&mut self, other: Self, prefix: &str) {
        self.images
            .extend(other.images.into_iter().map(|mut image| {
                if !image.name.starts_with(prefix) {
                    image.name = format!("{prefix}{}", image.name);
                }
                image
            }));
        self.skipped += other.skipped;
        // Remainders exist for all points or for none.
        let is_whole = self.remainders.len() == self.points.len()
            && other.remainders.len() == other.points.len();
        self.points.extend(other.points);
        self.remainders.extend(other.remainders);
        if !is_whole {
            self.remainders.clear();
        }
        for note in other.notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }
}
