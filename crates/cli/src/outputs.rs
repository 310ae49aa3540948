//! Checks that protect existing files: files of captures and of runs are never replaced, other files only on request.

use dapple::scene::{Capture, Error, LoadOptions, Result, load};
use dapple::train::{RunFolder, refuse_run_file};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Refuses to replace a file of a capture or of a run, with any options.
pub fn refuse_sources(out: &Path) -> Result<()> {
    load::refuse_capture_file(out)?;
    refuse_run_file(out)
}

/// Refuses to replace existing files without --overwrite, and files of captures and of runs in any case.
pub fn refuse_existing(path: &Path, overwrite: bool) -> Result<()> {
    if !path.exists() {
        return Ok(());
    }
    refuse_sources(path)?;
    match overwrite {
        true => Ok(()),
        false => Err(Error::input("the output exists already")
            .at_path(path)
            .hint("choose another name, or give --overwrite to replace it")),
    }
}

/// Refuses to write results into the folders of this capture, or of another.
pub fn refuse_inputs(
    out: &Path,
    scene: &Path,
    capture: &Capture,
    options: &LoadOptions,
) -> Result<()> {
    load::refuse_output(out, &["renders", "errors"], scene, capture, options)?;
    load::refuse_capture_file(out)
}

/// Refuses a folder with a run's results, unless the splats are that run's.
pub fn refuse_other_run(out: &Path, splats: &Path) -> Result<()> {
    let whole = |path: &Path| path.canonicalize().ok();
    let is_of_splats = splats
        .ancestors()
        .take(3)
        .any(|folder| whole(folder).is_some_and(|folder| Some(folder) == whole(out)));
    if is_of_splats || !RunFolder::open(out).holds_run() {
        return Ok(());
    }
    Err(
        Error::input("the output folder holds another run, whose pictures would be replaced")
            .at_path(out)
            .hint("name another folder with --out"),
    )
}

/// Folders created for output, removed again if the command writes nothing into them.
#[derive(Debug, Clone)]
pub struct NewFolders(Vec<PathBuf>);

impl NewFolders {
    /// Records which of `path` and its ancestors do not exist yet.
    pub fn before(path: &Path) -> Self {
        let missing = path
            .ancestors()
            .filter(|ancestor| !ancestor.as_os_str().is_empty())
            .take_while(|ancestor| !ancestor.exists());
        Self(missing.map(Path::to_owned).collect())
    }

    /// Removes the empty folders, innermost first.
    pub fn remove_empty(&self) {
        for folder in &self.0 {
            match std::fs::remove_dir(folder) {
                Err(e) if e.kind() != ErrorKind::NotFound => return,
                // A folder that was not created may have a parent that was.
                _ => {}
            }
        }
    }

    /// Calls [`Self::remove_empty`] if the result is an error.
    pub fn unless_ok<T>(&self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.remove_empty();
        }
        result
    }
}

/// Creates the parent folder of a file.
pub fn make_folder_of(path: &Path) -> Result<()> {
    match path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        None => Ok(()),
        Some(folder) => make_folder(folder),
    }
}

/// Creates an output folder.
pub fn make_folder(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .map_err(|e| Error::io("cannot make the output folder", folder, e))
}
