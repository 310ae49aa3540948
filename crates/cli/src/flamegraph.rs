//! `--flamegraph`: profile of this process's CPU time.
//!
//! 1. Before any work: check that the file is writable, and start sampling.
//! 2. After the work, also if it failed or was interrupted: write the flamegraph.

use crate::console::Console;
use crate::outputs::{refuse_existing, refuse_sources};
use dapple::scene::atomic::try_writing;
use dapple::scene::{Error, ErrorKind, Result};
use dapple_profile::samples::{DEFAULT_HZ, SampleError, Sampler};
use std::path::{Path, PathBuf};

/// Sampler, and the path of its flamegraph.
#[derive(Debug)]
pub struct Flamegraph {
    path: PathBuf,
    sampler: Sampler,
}

impl Flamegraph {
    /// Starts sampling. An existing `path` is an error unless `overwrite` is set.
    pub fn start(path: &Path, overwrite: bool) -> Result<Self> {
        refuse_existing(path, overwrite)?;
        if path.is_dir() {
            return Err(Error::input("the path of the flamegraph is a folder")
                .at_path(path)
                .hint("name a file, for example one inside that folder"));
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        try_writing(folder)
            .map_err(|e| Error::io("cannot write a flamegraph into the folder", folder, e))?;
        Ok(Self {
            path: path.to_owned(),
            sampler: Sampler::start(DEFAULT_HZ).map_err(|e| told(e, path))?,
        })
    }

    /// Writes the flamegraph of all samples since the start, with `title` as its heading.
    pub fn finish(self, title: &str, console: &Console) -> Result<()> {
        // The work may have written a file with this name since the start.
        refuse_sources(&self.path)?;
        let samples = self.sampler.finish().map_err(|e| told(e, &self.path))?;
        samples
            .write_flamegraph(&self.path, title)
            .map_err(|e| told(e, &self.path))?;
        console.note(&format!(
            "flamegraph: {} samples of CPU time in {}",
            samples.len(),
            self.path.display()
        ));
        Ok(())
    }

    /// Runs `work` and writes its flamegraph in any case. If both fail, the error of the work is returned and the
    /// other printed as a warning.
    pub fn around<T>(
        flamegraph: Option<Self>,
        title: &str,
        console: &Console,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let result = work();
        let written = flamegraph.map_or(Ok(()), |flamegraph| flamegraph.finish(title, console));
        match (result, written) {
            (Ok(value), written) => written.map(|()| value),
            (Err(error), Ok(())) => Err(error),
            (Err(error), Err(missing)) => {
                console.note(&format!("warning: no flamegraph: {}", missing.what()));
                Err(error)
            }
        }
    }
}

/// Converts an error of the sampler.
fn told(error: SampleError, path: &Path) -> Error {
    let hint = error.hint();
    match error {
        SampleError::Write(error) => error,
        other => Error::new(ErrorKind::Unsupported, other.to_string())
            .at(format!("--flamegraph {}", path.display()))
            .hint(hint),
    }
}
