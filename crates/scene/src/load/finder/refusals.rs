//! Captures whose names cannot be searched, or fit several files.

use super::{How, Located};
use crate::{Error, Result};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Most parts of a path: rule 4 tries each of them, for each folder of photos. Operating systems accept no longer
/// paths.
pub(super) const MOST_PARTS: usize = 512;

/// Refuses a path with more parts than a file system has folders.
pub(super) fn check_depth(file: &Path) -> Result<()> {
    if file.components().nth(MOST_PARTS).is_none() {
        return Ok(());
    }
    let beginning: PathBuf = file.components().take(4).collect();
    Err(Error::input(format!(
        "the capture names a file in more than {MOST_PARTS} nested folders"
    ))
    .at(format!("{}/...", beginning.display()))
    .hint("correct the path of that photo in the capture"))
}

/// Discards guesses of a file that another name has exactly, and refuses two guesses of one file.
pub(super) fn check_used_once(files: &[PathBuf], located: &mut [Option<Located>]) -> Result<()> {
    let is_guess = |found: &Located| found.moved || found.how != How::Exact;
    let exact = located.iter().flatten().filter(|found| !is_guess(found));
    let exact: HashSet<PathBuf> = exact.map(|found| found.path.clone()).collect();
    let mut guessed: HashMap<PathBuf, &Path> = HashMap::new();
    for (file, slot) in files.iter().zip(located) {
        let Some(found) = slot.as_ref().filter(|found| is_guess(found)) else {
            continue;
        };
        if exact.contains(&found.path) {
            *slot = None;
            continue;
        }
        match guessed.insert(found.path.clone(), file) {
            Some(other) if other != file => {
                return Err(Error::input(format!(
                    "\"{}\" and \"{}\" of the capture would both be this file",
                    other.display(),
                    file.display()
                ))
                .at_path(&found.path)
                .hint("give each its own file under the name that the capture has"));
            }
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn ambiguous(name: &str, paths: &[PathBuf]) -> Error {
    let shown: Vec<String> = paths
        .iter()
        .take(2)
        .map(|p| p.display().to_string())
        .collect();
    Error::input(format!(
        "\"{name}\" is ambiguous: several files fit it, {}",
        shown.join(" and ")
    ))
    .at_path(paths.first().map_or(Path::new(""), PathBuf::as_path))
    .hint(
        "keep the file that is meant and move the other away, or name the folder of the photos with --images",
    )
}
