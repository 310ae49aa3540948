//! Another place for splats that the folder of a run does not take: a full disk, or a folder that has gone.

use super::folder::splat_options;
use super::{RunFolder, finite_splats};
use crate::Trainer;
use dapple_scene::splat_file::{self, Format, WriteOptions};
use dapple_scene::{Error, Splats};
use std::path::{Path, PathBuf};

/// Names that are tried in a folder before the next folder is.
const ATTEMPTS: u32 = 100;

/// Writes the splats of a run to the temporary folder of the system, or to the current folder; the error then names the
/// file. Files that are there already stay.
pub(super) fn saved(error: Error, trainer: &mut Trainer, folder: &RunFolder) -> Error {
    let Ok(splats) = finite_splats(trainer) else {
        return error;
    };
    let options = splat_options(trainer.config().antialias, trainer.origin());
    let places = [Some(std::env::temp_dir()), std::env::current_dir().ok()];
    let places = places.into_iter().flatten();
    saved_in(places, error, &splats, &options, folder)
}

fn saved_in(
    places: impl Iterator<Item = PathBuf>,
    error: Error,
    splats: &Splats,
    options: &WriteOptions,
    folder: &RunFolder,
) -> Error {
    let name = folder.path().file_name().unwrap_or_default();
    let name = format!("dapple-{}-splats", name.to_string_lossy());
    let write = |place: PathBuf| {
        let path = free(&place, &name)?;
        let written = splat_file::write_with(&path, splats, Format::Ply, options);
        written.is_ok().then_some(path)
    };
    let saved = { places }.find_map(write);
    let Some(path) = saved else {
        return error;
    };
    let path = path.display().to_string();
    let what = format!("{}; the splats are saved in another place", error.what());
    let at = match error.place() {
        Some(place) => format!("{place}; saved: {path}"),
        None => format!("saved: {path}"),
    };
    let told = Error::new(error.kind(), what).at(at);
    match error.hint_text() {
        Some(hint) => told.hint(hint.to_owned()),
        None => told,
    }
}

/// A path in a folder that nothing has.
fn free(place: &Path, name: &str) -> Option<PathBuf> {
    let numbered = |n: u32| match n {
        1 => format!("{name}.ply"),
        n => format!("{name}-{n}.ply"),
    };
    (1..=ATTEMPTS)
        .map(|n| place.join(numbered(n)))
        .find(|path| path.symlink_metadata().is_err())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn the_first_folder_that_takes_splats_is_named_and_no_file_is_replaced() {
        let above = tempfile::tempdir().unwrap();
        let missing = above.path().join("missing");
        let places = || [missing.clone(), above.path().to_owned()].into_iter();
        let folder = RunFolder::open(Path::new("out/bird"));
        let (splats, options) = (Splats::empty(0), WriteOptions::default());
        let full = || Error::unsupported("the disk is full").at("out/bird/splats.ply");
        for name in ["dapple-bird-splats.ply", "dapple-bird-splats-2.ply"] {
            let error = saved_in(places(), full(), &splats, &options, &folder);
            assert!(error.what().starts_with("the disk is full; the splats"));
            assert!(error.place().unwrap().ends_with(name), "{error}");
            assert!(above.path().join(name).is_file());
        }
        let nowhere = [missing.clone()].into_iter();
        let error = saved_in(nowhere, full(), &splats, &options, &folder);
        assert_eq!(error.place(), Some("out/bird/splats.ply"));
    }
}
