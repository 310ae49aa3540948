//! The folder of a run: where each file lies, and how it is written.

use super::foreign;
use super::lock::RunLock;
use super::metrics::{Metrics, csv};
use crate::{Checkpoint, Ending, TrainConfig, Trainer};
use dapple_scene::atomic::{remove_leftovers, try_writing, write_atomically};
use dapple_scene::splat_file::{self, Format, WriteOptions};
use dapple_scene::{Error, Result, Splats, write_cameras};
use glam::DVec3;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The folder of a run.
#[derive(Debug, Clone)]
pub struct RunFolder {
    path: PathBuf,
    lock: Option<Arc<Mutex<RunLock>>>,
}

impl RunFolder {
    /// Makes the folder, if need be, and writes a file there to see that it can be done: better
    /// now than after an hour of training. Keeps other processes out as long as the value, or a clone of
    /// it, lives ([`RunLock`]). Takes away what a killed run left half-written.
    ///
    /// # Errors
    /// A path that cannot be made or written to; another process writes there.
    pub fn create(path: &Path) -> Result<Self> {
        std::fs::create_dir_all(path)
            .map_err(|e| Error::io("cannot make the output folder", path, e))?;
        try_writing(path).map_err(|e| Error::io("cannot write into the output folder", path, e))?;
        let lock = RunLock::exclusive(path)?;
        let folder = Self {
            path: path.to_owned(),
            lock: Some(Arc::new(Mutex::new(lock))),
        };
        // Of processes that are no longer there: this one is alone now.
        remove_leftovers(path);
        remove_leftovers(&folder.renders_path());
        remove_leftovers(&folder.errors_path());
        Ok(folder)
    }

    /// A folder that may hold a run, to read what is there.
    pub fn open(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            lock: None,
        }
    }

    /// What the user should know of the folder's lock, if anything.
    pub fn lock_note(&self) -> Option<String> {
        let lock = self.lock.as_ref()?.lock();
        let lock = lock.unwrap_or_else(PoisonError::into_inner);
        lock.note().map(str::to_owned)
    }

    /// Makes the folder anew, with its lock and configuration, if somebody has taken it away since the run
    /// began. Whoever holds no lock is not asked.
    ///
    /// # Errors
    /// Another process writes there now; what cannot be made or written.
    pub(super) fn reclaim(&self, config: &TrainConfig) -> Result<()> {
        let Some(lock) = &self.lock else {
            return Ok(());
        };
        let mut lock = lock.lock().unwrap_or_else(PoisonError::into_inner);
        if lock.is_in_place() {
            return Ok(());
        }
        std::fs::create_dir_all(&self.path)
            .map_err(|e| Error::io("cannot make the output folder", &self.path, e))?;
        *lock = RunLock::exclusive(&self.path)?;
        self.write_config(config)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the Gaussians lie.
    pub fn splats_path(&self) -> PathBuf {
        self.path.join("splats.ply")
    }

    /// Where the appearance of the photos lies.
    pub fn appearance_path(&self) -> PathBuf {
        self.path.join("appearance.safetensors")
    }

    /// Where the configuration lies.
    pub fn config_path(&self) -> PathBuf {
        self.path.join("config.toml")
    }

    /// Where the cameras trained on lie.
    pub fn cameras_path(&self) -> PathBuf {
        self.path.join("cameras.json")
    }

    /// Where everything measured lies.
    pub fn metrics_path(&self) -> PathBuf {
        self.path.join("metrics.json")
    }

    /// Where the rows for spreadsheets lie.
    pub fn csv_path(&self) -> PathBuf {
        self.path.join("metrics.csv")
    }

    /// Where the rendered views lie.
    pub fn renders_path(&self) -> PathBuf {
        self.path.join("renders")
    }

    /// Where the maps of errors lie.
    pub fn errors_path(&self) -> PathBuf {
        self.path.join("errors")
    }

    /// Where the scores of `dapple eval` lie.
    pub fn scores_path(&self) -> PathBuf {
        self.path.join("scores.json")
    }

    /// Where the same lie as a table.
    pub fn scores_table_path(&self) -> PathBuf {
        self.path.join("scores.md")
    }

    /// Where the last checkpoint lies.
    pub fn checkpoint_path(&self) -> PathBuf {
        self.path.join("checkpoint.safetensors")
    }

    /// The checkpoint of the run in this folder, to go on from.
    ///
    /// # Errors
    /// The run is finished, or there is no checkpoint yet; and as [`Checkpoint::read`].
    pub fn read_checkpoint(&self) -> Result<Checkpoint> {
        let path = self.checkpoint_path();
        if path.exists() {
            return Checkpoint::read(&path);
        }
        if !self.path.is_dir() {
            return Err(
                Error::input("there is no such folder, so no run to go on with")
                    .at_path(&self.path)
                    .hint("name the folder that the run wrote to, without --resume to begin one"),
            );
        }
        let metrics = std::fs::read(self.metrics_path()).ok();
        let metrics = metrics.and_then(|json| serde_json::from_slice::<Metrics>(&json).ok());
        match metrics {
            Some(metrics) if metrics.ending == Ending::Finished => Err(Error::input(format!(
                "this run is finished: all of its {} steps are done",
                metrics.steps
            ))
            .at_path(&self.path)
            .hint(
                "its splats are in splats.ply; a longer run has another schedule from the first step \
                 on: begin it with --steps and another --out",
            )),
            _ => Err(Error::input("this folder holds no checkpoint to go on from")
                .at_path(&path)
                .hint("the run ended before its first one: begin it again without --resume")),
        }
    }

    /// Takes the checkpoint away, if there is one.
    pub(super) fn remove_checkpoint(&self) -> Result<()> {
        remove_old("cannot remove the old checkpoint", &self.checkpoint_path())
    }

    /// Writes `config.toml`.
    pub fn write_config(&self, config: &TrainConfig) -> Result<()> {
        let text = foreign::signed(&config.to_toml()?);
        write_bytes(&self.config_path(), text.as_bytes())
    }

    /// Writes `splats.ply`, which says so where they were trained with anti-aliasing, and which local origin they count
    /// from ([`Trainer::origin`]) where that is not zero.
    pub fn write_splats(&self, splats: &Splats, antialiased: bool, origin: DVec3) -> Result<()> {
        let options = WriteOptions {
            antialiased,
            origin,
            ..WriteOptions::default()
        };
        splat_file::write_with(&self.splats_path(), splats, Format::Ply, &options)
    }

    /// Writes `cameras.json`: refined where poses are, else as they were given, in the capture's own frame.
    pub(super) fn write_cameras(&self, trainer: &mut Trainer) -> Result<()> {
        let origin = trainer.origin();
        let mut cameras = match trainer.config().poses.refine {
            true => trainer.cameras()?,
            // Not asked of the engine, which may have failed.
            false => trainer.given_cameras().to_vec(),
        };
        for (_, camera) in &mut cameras {
            *camera = camera.about(-origin);
        }
        write_cameras(&self.cameras_path(), &cameras)
    }

    /// Writes `metrics.json` and `metrics.csv`.
    pub fn write_metrics(&self, metrics: &Metrics) -> Result<()> {
        let json = serde_json::to_vec_pretty(metrics).map_err(|e| {
            Error::internal(format!("the metrics cannot be written: {e}")).caused_by(e)
        })?;
        write_bytes(&self.metrics_path(), &json)?;
        write_bytes(&self.csv_path(), csv(metrics).as_bytes())
    }

    /// Writes `scores.json`, which is `scores`, and `scores.md`, which is `table`.
    pub fn write_scores(&self, scores: &impl Serialize, table: &str) -> Result<()> {
        let json = serde_json::to_vec_pretty(scores).map_err(|e| {
            Error::internal(format!("the scores cannot be written: {e}")).caused_by(e)
        })?;
        write_bytes(&self.scores_path(), &json)?;
        write_bytes(&self.scores_table_path(), table.as_bytes())
    }
}

/// Takes away what another run has left, if it is there.
pub(super) fn remove_old(what: &str, path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io(what, path, e)),
        _ => Ok(()),
    }
}

pub(super) fn write_bytes(path: &Path, bytes: &[u8]) -> Result<()> {
    write_atomically(path, |file| file.write_all(bytes))
}
