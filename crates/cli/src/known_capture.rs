//! Capture of a run, from the record in its folder, for commands that are given only the run.

use crate::console::Console;
use crate::options::of_run;
use dapple::scene::{Error, Result, load};
use dapple::train::{CaptureRecord, ConfigPatch, Fingerprint, RunFolder, TrainConfig};
use std::path::{Path, PathBuf};

/// Returns the capture of the run of these splats; `None` if no run has recorded one.
///
/// # Errors
/// The capture is missing, or has changed.
pub fn find(splats: &Path, console: &Console) -> Result<Option<PathBuf>> {
    let Some((folder, record)) = record_beside(splats)? else {
        return Ok(None);
    };
    // With the run's options, not this command's.
    let config = of_run(splats, "config.toml");
    let config = TrainConfig::resolve(None, Some(&config), ConfigPatch::default())?;
    let mut why = None;
    for place in record.places(&folder) {
        if !place.exists() {
            continue;
        }
        let capture = match load::open(&place, &config.load_options()) {
            Ok(capture) => capture,
            Err(error) => {
                why.get_or_insert((place, error.what().to_owned()));
                continue;
            }
        };
        match record
            .fingerprint
            .difference(&Fingerprint::from_capture(&capture))
        {
            None => {
                console.note(&format!("capture: that of the run, {}", place.display()));
                return Ok(Some(place));
            }
            Some(differs) => {
                why.get_or_insert((place, differs));
            }
        }
    }
    let again = "name it with --capture CAPTURE";
    Err(match why {
        None => Error::input("the capture of this run is no longer where it was")
            .at_path(&record.path)
            .hint(format!("if it was moved, {again}")),
        Some((place, differs)) => Error::input(format!(
            "the capture of this run has changed since: {differs}"
        ))
        .at_path(place)
        .hint(format!("to accept it unchanged, {again}")),
    })
}

/// Finds the capture like [`find`], and prints a note with the reason if there is none. For optional uses.
pub fn find_if_there(splats: &Path, console: &Console) -> Option<PathBuf> {
    find(splats, console).unwrap_or_else(|error| {
        let hint = error.hint_text().unwrap_or_default();
        let place = error.place().unwrap_or_default();
        console.note(&format!("note: {} ({place}): {hint}", error.what()));
        None
    })
}

/// Finds the capture like [`find`], and fails if there is none.
pub fn needed(splats: &Path, console: &Console) -> Result<PathBuf> {
    find(splats, console)?.ok_or_else(|| {
        Error::input("the capture of these splats is not recorded")
            .at_path(splats)
            .hint("name it with --capture CAPTURE")
    })
}

fn record_beside(splats: &Path) -> Result<Option<(PathBuf, CaptureRecord)>> {
    let file = of_run(splats, "capture.json");
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let record = RunFolder::open(folder).read_capture()?;
    Ok(record.map(|record| (folder.to_owned(), record)))
}
