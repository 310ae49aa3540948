//! `state.safetensors`: the state that a finished run can be continued from, and reading of any ended run to continue it.
//!
//! 1. The file is written next to its final place while the splats are scored, and takes its place after all other
//!    results are written. Until then an earlier state belongs to the results in the folder.
//! 2. The state belongs to the results if both have the same number of steps. A run that ended badly keeps the state of
//!    the part before.
//! 3. A run without a state continues from its splats, with the history of `metrics.json`.

use super::metrics::{METRICS_VERSION, Metrics};
use super::{CaptureRecord, RunFolder};
use crate::checkpoint::shards;
use crate::{CaptureIdentity, Checkpoint, Ending, History, RunOrigin, ShardPlace};
use dapple_engine::OptimizerState;
use dapple_scene::atomic::remove_old;
use dapple_scene::splat_file::{self, ReadOptions};
use dapple_scene::{Error, ErrorKind, Result, bounded};
use std::path::{Path, PathBuf};

/// Beginning of the names of the files with the parts of a state.
const STATE: &str = "state";

impl RunFolder {
    /// Returns the path of the state of a finished run.
    pub fn state_path(&self) -> PathBuf {
        self.path().join("state.safetensors")
    }

    /// Returns the path of a state before the other results are written.
    fn next_state_path(&self) -> PathBuf {
        self.path().join("state.next.safetensors")
    }

    /// Returns the size of the state of a finished run, bytes; `None` without one.
    pub fn state_bytes(&self) -> Option<u64> {
        let file = self.state_path().metadata().ok()?;
        let parts = shards::files_in(self.path(), STATE);
        let parts = parts.iter().filter_map(|path| path.metadata().ok());
        let bytes: u64 = parts.map(|part| part.len()).sum();
        file.is_file().then_some(file.len() + bytes)
    }

    /// Writes the state of a finished run, which [`Self::settle_state`] moves to its place.
    pub(super) fn write_next_state(&self, state: &Checkpoint) -> Result<()> {
        state.write_packed(&self.next_state_path())
    }

    /// Moves the state of a finished run to its place, or removes the state of the run before.
    pub(super) fn settle_state(&self, is_written: bool) -> Result<()> {
        let (from, to) = (self.next_state_path(), self.state_path());
        if is_written {
            std::fs::rename(&from, &to)
                .map_err(|e| Error::io("cannot move the state of the run", &from, e))?;
        } else {
            remove_old("cannot remove an unfinished state", &from)?;
            remove_old("cannot remove the state of an earlier run", &to)?;
        }
        shards::remove_others(self.path(), STATE, &[to])
    }

    /// Removes the state that a killed run has not moved to its place.
    pub(super) fn remove_next_state(&self) -> Result<()> {
        remove_old("cannot remove an unfinished state", &self.next_state_path())?;
        shards::remove_others(self.path(), STATE, &[self.state_path()])
    }

    /// Returns where the parts of the state of a finished run are written.
    pub(super) fn state_shards(&self) -> ShardPlace {
        ShardPlace {
            checkpoint: self.state_path(),
            stem: STATE,
            packs: true,
        }
    }

    /// Removes the checkpoint, the snapshots and the state of another run, before a part of a run is written to this
    /// folder. Other results are replaced by whole ones.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn clear_older(&self) -> Result<()> {
        self.remove_checkpoint()?;
        self.remove_snapshots()?;
        remove_old("cannot remove the state of another run", &self.state_path())?;
        shards::remove_others(self.path(), STATE, &[])
    }

    /// Reads the run in this folder to continue it ([`crate::Trainer::continue_run`]): the checkpoint of a stopped run,
    /// else the state of a finished run. Without both, returns the splats with an empty optimizer state.
    ///
    /// # Errors
    /// The folder holds no run, or the run of another version; a file is damaged.
    pub fn read_to_continue(&self) -> Result<Checkpoint> {
        if self.checkpoint_path().is_file() {
            return Checkpoint::read(&self.checkpoint_path());
        }
        let path = self.state_path();
        let state = match path.is_file() {
            true => Some(Checkpoint::read(&path).map_err(|e| of_state(e, &path))?),
            false => None,
        };
        let metrics = self.read_metrics();
        let Some(mut state) = state else {
            return self.splats_to_continue(metrics?);
        };
        let Ok(metrics) = metrics else {
            return Ok(state);
        };
        match metrics.steps == state.step {
            true => {
                // The state was made before the last scoring.
                state.history.evals = metrics.evals;
                state.history.seconds = metrics.seconds;
                Ok(state)
            }
            false if metrics.ending == Ending::Finished => self.splats_to_continue(metrics),
            false => Ok(state),
        }
    }

    /// Reads `metrics.json`.
    ///
    /// # Errors
    /// The folder holds no finished or stopped run, or the run of another version; the file is damaged.
    pub fn read_metrics(&self) -> Result<Metrics> {
        let path = self.metrics_path();
        if !path.is_file() {
            return Err(self.no_run());
        }
        let json = bounded::read("cannot read the metrics", &path, bounded::CAMERAS_BYTES)?;
        let metrics: Metrics = serde_json::from_slice(&json).map_err(|e| {
            other_version(format!("the metrics of the run cannot be read: {e}"), &path)
        })?;
        match metrics.version == METRICS_VERSION {
            true => Ok(metrics),
            false => Err(other_version(
                format!(
                    "another Dapple has written this run: its metrics have version {}, this one reads {METRICS_VERSION}",
                    metrics.version
                ),
                &path,
            )),
        }
    }

    /// Returns a run to continue from its splats only.
    fn splats_to_continue(&self, metrics: Metrics) -> Result<Checkpoint> {
        let path = self.splats_path();
        if !path.is_file() || metrics.steps == 0 {
            return Err(self.no_run());
        }
        let (splats, _) = splat_file::read_with(&path, &ReadOptions::default())?;
        if splats.is_empty() {
            return Err(Error::input("the splats of the run have no Gaussian").at_path(&path));
        }
        let record: Option<CaptureRecord> = self.read_capture().ok().flatten();
        Ok(Checkpoint {
            step: metrics.steps,
            config: metrics.config,
            capture: CaptureIdentity::default(),
            launch: RunOrigin {
                capture: record.as_ref().map(|record| record.path.clone()),
                start: record.and_then(|record| record.start),
                ..RunOrigin::default()
            },
            device: metrics.device,
            strategy: None,
            history: History {
                losses: metrics.losses,
                densify: metrics.densify,
                evals: metrics.evals,
                seconds: metrics.seconds,
                cap: metrics.cap,
                budget: metrics.budget,
                continuations: metrics.continuations,
            },
            splats,
            state: OptimizerState::default(),
            watched: Vec::new(),
            best: None,
            extension_checks: metrics.extension_checks,
            loss_before_check: None,
            shards: None,
        })
    }

    /// Returns the error of a folder without a run.
    fn no_run(&self) -> Error {
        let path = self.path();
        if path.is_file() {
            return Error::input("this is a file, and no folder of a run")
                .at_path(path)
                .hint("start a run from splats of a file: `dapple train CAPTURE --from FILE`");
        }
        if !path.is_dir() {
            return Error::input("there is no such folder")
                .at_path(path)
                .hint("name the folder that a run wrote to");
        }
        Error::input("this folder holds no run")
            .at_path(path)
            .hint(
                "name the folder of a run, with its metrics.json; `dapple train CAPTURE --from FILE` starts a run from \
                 splats of any program",
            )
    }
}

fn other_version(what: String, path: &Path) -> Error {
    Error::unsupported(what).at_path(path).hint(
        "use the version of Dapple that wrote it, or start another run from its splats with --from",
    )
}

/// Returns the error of a state file with its own hint.
fn of_state(error: Error, path: &Path) -> Error {
    let hint = match error.kind() {
        ErrorKind::Unsupported => {
            "use the version of Dapple that wrote it, or start another run from its splats with --from"
        }
        _ => "remove the file to continue from the splats of the run",
    };
    let place = error.place().map(str::to_owned);
    let told = Error::new(error.kind(), error.what().to_owned()).hint(hint);
    match place {
        Some(place) => told.at(place),
        None => told.at_path(path),
    }
}
