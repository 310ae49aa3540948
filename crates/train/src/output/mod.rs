//! Files that a run writes.
//!
//! | file | content |
//! |---|---|
//! | `splats.ply` | the Gaussians |
//! | `config.toml` | the configuration; `--config` reads it |
//! | `appearance.safetensors` | if the run learns appearance: each photo's exposure, grid or embedding ([`crate::write_appearance`]) |
//! | `metrics.json` | all measurements, versioned ([`Metrics`]) |
//! | `metrics.csv` | a row every `log_every` steps, for spreadsheets |
//! | `cameras.json` | the training cameras, refined with `poses.refine` ([`dapple_scene::write_cameras`]): viewers read the seen region and the up direction from it |
//! | `capture.json` | the place of the capture, its fingerprint, and the splats that the run started from ([`CaptureRecord`]) |
//! | `renders/NAME.png` | each held-out photo next to its rendered view |
//! | `errors/NAME.png` | the difference of both: blue for none, red for a quarter of the range |
//! | `scores.json`, `scores.md` | of `dapple eval --out`: every score |
//! | `state.safetensors` | of a finished run, unless `no_state` is set: the state to continue from ([`RunFolder::read_to_continue`]) |
//! | `checkpoint.safetensors` | while the run is not finished: the state to resume from ([`Checkpoint`]) |
//! | `checkpoint.a.0.safetensors` ... | of models that several devices share: their Gaussians, and those of the state ([`crate::Shards`]) |
//!
//! Every file is written atomically, and the splats before the pictures. If the splats cannot be written to the folder,
//! they are written to another place, which the error names. A killed run may create partial files with names of their
//! own, which the next run removes. While a run writes, it holds the folder's lock ([`RunLock`]). Files that Dapple has
//! not written are replaced on request only ([`RunFolder::refuse_foreign`]).

mod capture_record;
mod elsewhere;
mod folder;
mod foreign;
mod lock;
mod metrics;
mod names;
mod picture_writer;
mod snapshots;
mod state;

use crate::event::Event;
use crate::hook::{CheckpointKind, DeviceRequirements, RunHook};
use crate::{Checkpoint, Ending, Outcome, Seconds, ShardPlace, TrainConfig, Trainer};
use dapple_scene::atomic::remove_old;
use dapple_scene::{Error, Result, Splats};
use glam::DVec3;
use rayon::prelude::*;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

pub use capture_record::{CaptureRecord, Fingerprint};
pub use folder::RunFolder;
pub(crate) use folder::splat_options;
pub use foreign::{EarlierRun, Writes, refuse_run_file};
pub use lock::RunLock;
pub use metrics::{METRICS_VERSION, Metrics};
pub use names::RenderNames;
pub use picture_writer::PictureWriter;
pub use snapshots::{MOST_BYTES as MOST_SNAPSHOT_BYTES, Snapshot, Snapshots, Taken};

/// Trains to the end of the run (or until a hook stops it) and writes all results to the folder. `config.toml` is
/// written first, so that a killed run can be repeated; if the folder holds older splats, it is written with the new
/// ones. Checkpoints follow as configured, so that a killed run can be resumed instead ([`Trainer::resume`]). A
/// finished run has no checkpoint.
///
/// # Errors
/// A file cannot be written; the engine fails. A run that ended badly (NaN loss, no Gaussian left, a lost device) is an
/// error too; a run that was stopped is not. In every case the splats are saved first, then all other results that can
/// be saved.
pub fn train_into(
    folder: &RunFolder,
    trainer: &mut Trainer,
    hook: &mut dyn RunHook,
) -> Result<Outcome> {
    folder.reclaim(&trainer.plan().to_config())?;
    if trainer.steps_done() == 0 {
        // The checkpoint of another run.
        folder.remove_checkpoint()?;
        folder.remove_snapshots()?;
    }
    // Older splats keep the configuration that they were trained with until new ones replace them.
    let has_older = folder.splats_path().exists();
    if !has_older {
        folder.write_config(&trainer.plan().to_config())?;
    }
    let (started, before) = (Instant::now(), trainer.history().seconds);
    let background = trainer.schedule().render_settings().background;
    let (config, origin) = (trainer.plan().to_config(), trainer.origin());
    let mut saver = FolderHook {
        folder,
        config: &config,
        origin,
        pictures: PictureWriter::new(folder, background),
        splats: None,
        state: None,
    };
    let result = trainer.run_with(&mut [&mut saver, hook]);
    let (pictures, writing, state) = (saver.pictures, saver.splats, saver.state);
    let written = writing.map(|thread| thread.join());
    let state = state.map(|thread| thread.join());
    let is_good = result
        .as_ref()
        .is_ok_and(|outcome| outcome.ending.is_good());
    let amended = trainer.plan().to_config();
    if let Err(error) = folder.reclaim(&amended) {
        // Results are not mixed with those of another run that writes there.
        let error = result.err().unwrap_or(error);
        return Err(elsewhere::saved(error, trainer, folder));
    }
    let saved = match written {
        Some(Ok(written)) if is_good => written,
        _ => match (finite_splats(trainer), &result) {
            (Err(_), Err(_)) => return result,
            (splats, _) => folder.write_splats(&splats?, trainer.config().antialias, origin),
        },
    };
    if let Err(error) = saved {
        let error = result.err().unwrap_or(error);
        return Err(elsewhere::saved(error, trainer, folder));
    }
    if has_older || amended != config {
        folder.write_config(&amended)?;
    }
    let learnt = write_learnt(folder, trainer);
    // The splats must be saved even if pictures cannot be written.
    let unwritten_picture = pictures.finish();
    // The error of the run is the cause of later errors: report it first.
    let outcome = result?;
    learnt?;
    folder.write_cameras(trainer)?;
    let counted = trainer.history().seconds.without(&before).total();
    trainer.add_seconds(&Seconds {
        write: (started.elapsed().as_secs_f64() - counted).max(0.0),
        ..Seconds::default()
    });
    folder.write_metrics(&Metrics::new(trainer, &outcome))?;
    settle_state(folder, trainer, (&outcome, state))?;
    if let (Some(step), Some(error)) = (trainer.failed_step(), trainer.failure()) {
        return Err(saved_from(error, step, trainer.steps_done(), folder));
    }
    match outcome.ending.error() {
        Some(error) if !outcome.ending.is_good() => return Err(error.at_path(folder.path())),
        Some(_) => {
            if let Some(error) = trainer.take_unsaved() {
                return Err(error);
            }
        }
        None => folder.remove_checkpoint()?,
    }
    unwritten_picture.map(|()| outcome)
}

/// Moves the written state of a finished run to its place. Without one, removes the state of the results that this run has
/// replaced. A run that ended badly keeps it, to continue from there.
fn settle_state(
    folder: &RunFolder,
    trainer: &mut Trainer,
    (outcome, state): (&Outcome, Option<std::thread::Result<Result<()>>>),
) -> Result<()> {
    let unsaved = trainer.take_unsaved_state();
    let written = match state.or(unsaved.map(|error| Ok(Err(error)))) {
        Some(Ok(Err(error))) => {
            let what = format!(
                "the state of the run could not be written, so --continue starts from its splats: {}",
                error.what()
            );
            folder.keep_state_note(what);
            false
        }
        Some(Ok(Ok(()))) => true,
        _ => false,
    };
    let is_bad = !outcome.ending.is_good();
    let is_unsaved =
        matches!(outcome.ending, Ending::Stopped(_)) && !folder.checkpoint_path().is_file();
    match !written && (is_bad || is_unsaved) && trainer.is_continued() {
        true => Ok(()),
        false => folder.settle_state(written),
    }
}

/// Returns the splats of a run without non-finite Gaussians, which readers refuse.
pub(crate) fn finite_splats(trainer: &mut Trainer) -> Result<Splats> {
    let mut splats = trainer.splats()?;
    keep_finite(&mut splats);
    Ok(splats)
}

/// Writes the learned appearance of the photos. Without one, removes the file of another run.
fn write_learnt(folder: &RunFolder, trainer: &mut Trainer) -> Result<()> {
    let path = folder.appearance_path();
    if !trainer.config().appearance.is_on() {
        return remove_old("cannot remove another run's appearance", &path);
    }
    let learned = trainer.view_state()?;
    crate::write_appearance(&path, &learned, trainer.train_names())
}

/// Returns the engine's error with a note of what was saved.
fn saved_from(error: &Error, step: u32, enqueued: u32, folder: &RunFolder) -> Error {
    let lost = match enqueued.saturating_sub(step) {
        0 => String::new(),
        1 => ", the step after it is lost".to_owned(),
        steps => format!(", the {steps} steps after it are lost"),
    };
    let path = folder.splats_path().display().to_string();
    let told = Error::new(
        error.kind(),
        format!(
            "{}; the splats after step {step} are saved{lost}",
            error.what()
        ),
    )
    .at(error
        .place()
        .map_or(path.clone(), |place| format!("{place}; saved: {path}")));
    match error.hint_text() {
        Some(hint) => told.hint(hint),
        None => told,
    }
}

/// Hook that writes checkpoints, the final splats and the pictures of the last scoring.
struct FolderHook<'a> {
    folder: &'a RunFolder,
    config: &'a TrainConfig,
    /// Local origin of the splats.
    origin: DVec3,
    pictures: PictureWriter,
    /// Thread that writes the final splats while they are scored.
    splats: Option<JoinHandle<Result<()>>>,
    /// Thread that writes the state of a finished run while its splats are scored.
    state: Option<JoinHandle<Result<()>>>,
}

impl FolderHook<'_> {
    fn write_state(&mut self, state: &Arc<Checkpoint>) {
        let (folder, state) = (self.folder.clone(), Arc::clone(state));
        let thread = std::thread::Builder::new().name("state".to_owned());
        if self.folder.reclaim(self.config).is_ok() {
            let write = move || folder.write_next_state(&state);
            self.state = thread.spawn(write).ok();
        }
    }

    fn write_final(&mut self, splats: &Arc<Splats>) {
        let (folder, mut held) = (self.folder.clone(), Arc::clone(splats));
        let (config, origin) = (self.config.clone(), self.origin);
        let thread = std::thread::Builder::new().name("splats".to_owned());
        // Pictures come after them.
        let hold = self.pictures.hold();
        let write = move || {
            if !all_finite(&held) {
                keep_finite(Arc::make_mut(&mut held));
            }
            let written = folder
                .write_splats(&held, config.antialias, origin)
                .and_then(|()| folder.write_config(&config));
            if written.is_err() {
                hold.refuse();
            }
            written
        };
        // Without a thread the splats are written after scoring; if the folder belongs to another run by now, not at
        // all.
        if self.folder.reclaim(self.config).is_ok() {
            self.splats = thread.spawn(write).ok();
        }
    }
}

impl RunHook for FolderHook<'_> {
    fn name(&self) -> &'static str {
        "run folder"
    }

    fn needs(&self) -> DeviceRequirements {
        DeviceRequirements {
            pictures: true,
            checkpoints: true,
            final_state: !self.config.no_state,
        }
    }

    fn shard_place(&self, of: CheckpointKind) -> Result<Option<ShardPlace>> {
        self.folder.reclaim(self.config)?;
        Ok(Some(match of {
            CheckpointKind::OfSteps => self.folder.checkpoint_shards(),
            CheckpointKind::Final => self.folder.state_shards(),
        }))
    }

    fn on(&mut self, event: &Event<'_>) -> Result<()> {
        match event {
            Event::FinalState(state) if !self.config.no_state => self.write_state(state),
            Event::FinalSplats(splats) => self.write_final(splats),
            Event::Pictures(view, pictures) if self.folder.reclaim(self.config).is_ok() => {
                let pictures = Arc::clone(pictures);
                self.pictures
                    .write(&view.name, view.photo.read()?, pictures);
            }
            Event::Checkpoint(checkpoint) => {
                self.folder.reclaim(&checkpoint.config)?;
                checkpoint.write(&self.folder.checkpoint_path())?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// Returns true if all parameters of all Gaussians are finite.
fn all_finite(splats: &Splats) -> bool {
    (0..splats.len())
        .into_par_iter()
        .all(|i| splats.has_finite_numbers(i))
}

/// Drops Gaussians with a NaN or infinite parameter: readers refuse them.
fn keep_finite(splats: &mut Splats) {
    let rows = (0..splats.len()).into_par_iter();
    let finite: Vec<bool> = rows.map(|i| splats.has_finite_numbers(i)).collect();
    splats.retain(|i| finite[i]);
}
