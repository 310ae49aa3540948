//! The folder of a run: paths of its files, and functions that write them.

use super::CaptureRecord;
use super::foreign;
use super::lock::{RunLock, is_at};
use super::metrics::{Metrics, csv};
use crate::checkpoint::shards;
use crate::{Checkpoint, Ending, ShardPlace, TrainConfig, Trainer};
use dapple_scene::atomic::{remove_leftovers, remove_old, try_writing, write_atomically};
use dapple_scene::splat_file::{self, Format, WriteOptions};
use dapple_scene::{Error, Result, Splats, bounded, write_cameras};
use glam::DVec3;
use serde::Serialize;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Beginning of the names of the files with the parts of a checkpoint.
const CHECKPOINT: &str = "checkpoint";

/// The folder of a run.
#[derive(Debug, Clone)]
pub struct RunFolder {
    path: PathBuf,
    held: Option<Arc<Mutex<Held>>>,
}

/// A folder that this process writes to.
#[derive(Debug)]
struct Held {
    lock: RunLock,
    /// The folder itself, which has its identity even if another folder gets its name. None if the system opens no
    /// folders.
    folder: Option<File>,
    /// Identity of the capture, for a folder that is created again.
    capture: Option<CaptureRecord>,
    /// True if the folder was removed during the run, and created again.
    is_renewed: bool,
    /// Reason why the state of the finished run is missing.
    state_note: Option<String>,
}

impl Held {
    fn new(path: &Path) -> Result<Self> {
        Ok(Self {
            lock: RunLock::exclusive(path)?,
            folder: File::open(path).ok(),
            capture: None,
            is_renewed: false,
            state_note: None,
        })
    }

    /// Returns true if the path still leads to this folder. Without an identity, returns false.
    fn is_folder_at(&self, path: &Path) -> bool {
        self.folder.as_ref().is_some_and(|it| is_at(it, path))
    }
}

impl RunFolder {
    /// Creates the folder, if need be, and writes a file there, so that a fault is found before training. Locks out
    /// other processes while the value, or a clone of it, exists ([`RunLock`]). Removes partial files of a killed run.
    ///
    /// # Errors
    /// The path cannot be created or written to; another process writes there.
    pub fn create(path: &Path) -> Result<Self> {
        std::fs::create_dir_all(path)
            .map_err(|e| Error::io("cannot make the output folder", path, e))?;
        try_writing(path).map_err(|e| Error::io("cannot write into the output folder", path, e))?;
        let folder = Self {
            path: path.to_owned(),
            held: Some(Arc::new(Mutex::new(Held::new(path)?))),
        };
        // Partial files of processes that have ended: this process holds the lock.
        remove_leftovers(path);
        remove_leftovers(&folder.renders_path());
        remove_leftovers(&folder.errors_path());
        folder.remove_next_state()?;
        Ok(folder)
    }

    /// A folder that may hold a run, for reading.
    pub fn open(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            held: None,
        }
    }

    fn held(&self) -> Option<MutexGuard<'_, Held>> {
        let held = self.held.as_ref()?.lock();
        Some(held.unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns a note for the user about the folder's lock, if there is one.
    pub fn lock_note(&self) -> Option<String> {
        self.held()?.lock.note().map(str::to_owned)
    }

    /// Returns a note for the user if the folder was removed during the run.
    pub fn renewal_note(&self) -> Option<String> {
        self.held()?.is_renewed.then(|| {
            format!(
                "another program removed or moved {} during the run: the folder was created again, and lacks what was \
                 written before",
                self.path.display()
            )
        })
    }

    /// Returns a note for the user if the state of the finished run could not be written.
    pub fn state_note(&self) -> Option<String> {
        self.held()?.state_note.clone()
    }

    pub(super) fn keep_state_note(&self, note: String) {
        if let Some(mut held) = self.held() {
            held.state_note = Some(note);
        }
    }

    /// Stores the identity of the capture, for a folder that is created again.
    pub(super) fn keep_capture(&self, record: &CaptureRecord) {
        if let Some(mut held) = self.held() {
            held.capture = Some(record.clone());
        }
    }

    /// Creates the folder again, with its lock, configuration and capture record, if another process has removed it
    /// since the run began. Does nothing without a lock.
    ///
    /// # Errors
    /// Another process writes there now, or another folder with files has the name; the folder cannot be created or
    /// written.
    pub(super) fn reclaim(&self, config: &TrainConfig) -> Result<()> {
        let Some(mut held) = self.held() else {
            return Ok(());
        };
        let is_same = held.is_folder_at(&self.path);
        // A system without identities of folders has at least the lock.
        if held.lock.is_in_place() && (is_same || held.folder.is_none()) {
            return Ok(());
        }
        if !is_same && held.folder.is_some() && holds_files(&self.path) {
            return Err(Error::input(
                "another folder has the name of the output folder, and holds files that this run has not written",
            )
            .at_path(&self.path)
            .hint("do not replace the folder of a run while the run writes to it"));
        }
        std::fs::create_dir_all(&self.path)
            .map_err(|e| Error::io("cannot make the output folder", &self.path, e))?;
        let new = Held::new(&self.path)?;
        *held = Held {
            capture: held.capture.take(),
            is_renewed: held.is_renewed || !is_same,
            ..new
        };
        let record = held.capture.clone().filter(|_| !is_same);
        drop(held);
        if let Some(record) = record {
            self.write_record(&record)?;
        }
        self.write_config(config)
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the Gaussians.
    pub fn splats_path(&self) -> PathBuf {
        self.path.join("splats.ply")
    }

    /// Returns the path of the appearance of the photos.
    pub fn appearance_path(&self) -> PathBuf {
        self.path.join("appearance.safetensors")
    }

    /// Returns the path of the configuration.
    pub fn config_path(&self) -> PathBuf {
        self.path.join("config.toml")
    }

    /// Returns the path of the training cameras.
    pub fn cameras_path(&self) -> PathBuf {
        self.path.join("cameras.json")
    }

    /// Returns the path of all measurements.
    pub fn metrics_path(&self) -> PathBuf {
        self.path.join("metrics.json")
    }

    /// Returns the path of the rows for spreadsheets.
    pub fn csv_path(&self) -> PathBuf {
        self.path.join("metrics.csv")
    }

    /// Returns the path of the rendered views.
    pub fn renders_path(&self) -> PathBuf {
        self.path.join("renders")
    }

    /// Returns the path of the error maps.
    pub fn errors_path(&self) -> PathBuf {
        self.path.join("errors")
    }

    /// Returns the path of the scores of `dapple eval`.
    pub fn scores_path(&self) -> PathBuf {
        self.path.join("scores.json")
    }

    /// Returns the path of the scores of `dapple eval` as a table.
    pub fn scores_table_path(&self) -> PathBuf {
        self.path.join("scores.md")
    }

    /// Returns the path of the last checkpoint.
    pub fn checkpoint_path(&self) -> PathBuf {
        self.path.join("checkpoint.safetensors")
    }

    /// Reads the checkpoint of the run in this folder, to resume from.
    ///
    /// # Errors
    /// The run is finished, or there is no checkpoint yet; see [`Checkpoint::read`] for the others.
    pub fn read_checkpoint(&self) -> Result<Checkpoint> {
        let path = self.checkpoint_path();
        if path.exists() {
            return Checkpoint::read(&path);
        }
        if !self.path.is_dir() {
            return Err(Error::input("there is no such folder, so no run to resume")
                .at_path(&self.path)
                .hint("name the folder that the run wrote to, without --resume to begin one"));
        }
        let metrics = bounded::read(
            "cannot read the metrics",
            &self.metrics_path(),
            bounded::CAMERAS_BYTES,
        )
        .ok();
        let metrics = metrics.and_then(|json| serde_json::from_slice::<Metrics>(&json).ok());
        match metrics {
            Some(metrics) if metrics.ending == Ending::Finished => Err(Error::input(format!(
                "this run is finished: all of its {} steps are done",
                metrics.steps
            ))
            .at_path(&self.path)
            .hint(format!(
                "`dapple train --continue {} --steps +N` trains it for N more steps",
                self.path.display()
            ))),
            _ => Err(
                Error::input("this folder holds no checkpoint to resume from")
                    .at_path(&path)
                    .hint("the run ended before its first one: begin it again without --resume"),
            ),
        }
    }

    /// Removes the checkpoint, if there is one.
    pub(super) fn remove_checkpoint(&self) -> Result<()> {
        let path = self.checkpoint_path();
        remove_old("cannot remove the old checkpoint", &path)?;
        remove_old("cannot remove the old checkpoint", &shards::before(&path))?;
        shards::remove_others(&self.path, CHECKPOINT, &[])
    }

    /// Returns where the parts of a checkpoint are written.
    pub(super) fn checkpoint_shards(&self) -> ShardPlace {
        ShardPlace {
            checkpoint: self.checkpoint_path(),
            stem: CHECKPOINT,
            packs: false,
        }
    }

    /// Writes `config.toml`.
    pub fn write_config(&self, config: &TrainConfig) -> Result<()> {
        let text = foreign::signed(&config.to_toml()?);
        write_bytes(&self.config_path(), text.as_bytes())
    }

    /// Writes `splats.ply`. Its header states whether the run was anti-aliased, and its local origin
    /// ([`Trainer::origin`]) if that is not zero.
    pub fn write_splats(&self, splats: &Splats, antialiased: bool, origin: DVec3) -> Result<()> {
        let options = splat_options(antialiased, origin);
        splat_file::write_with(&self.splats_path(), splats, Format::Ply, &options)
    }

    /// Writes `cameras.json` in the capture's own frame, with refined poses if the run refines them.
    pub(super) fn write_cameras(&self, trainer: &mut Trainer) -> Result<()> {
        let origin = trainer.origin();
        let mut cameras = match trainer.config().poses.refine {
            true => trainer.cameras()?,
            // Not read from the engine, which may have failed.
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

    /// Writes `scores` to `scores.json`, and `table` to `scores.md`.
    pub fn write_scores(&self, scores: &impl Serialize, table: &str) -> Result<()> {
        let json = serde_json::to_vec_pretty(scores).map_err(|e| {
            Error::internal(format!("the scores cannot be written: {e}")).caused_by(e)
        })?;
        write_bytes(&self.scores_path(), &json)?;
        write_bytes(&self.scores_table_path(), table.as_bytes())
    }
}

/// Returns true if the path is a folder that holds anything but the lock of a run.
fn holds_files(folder: &Path) -> bool {
    let mut entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.any(|entry| entry.file_name() != RunLock::FILE)
}

/// Returns the write options of the splats of a run: anti-aliasing and local origin.
pub(crate) fn splat_options(antialiased: bool, origin: DVec3) -> WriteOptions {
    WriteOptions {
        antialiased,
        origin,
        ..WriteOptions::default()
    }
}

pub(super) fn write_bytes(path: &Path, bytes: &[u8]) -> Result<()> {
    write_atomically(path, |file| file.write_all(bytes))
}
