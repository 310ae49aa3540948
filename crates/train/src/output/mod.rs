//! What a run leaves on disk.
//!
//! | file | what |
//! |---|---|
//! | `splats.ply` | the Gaussians |
//! | `config.toml` | the configuration; `--config` takes it back |
//! | `appearance.safetensors` | where it is learnt: each photo's exposure or grid ([`crate::write_appearance`]) |
//! | `metrics.json` | everything measured, versioned ([`Metrics`]) |
//! | `metrics.csv` | a row every `log_every` steps, for spreadsheets |
//! | `cameras.json` | the cameras of the photos trained on, with `poses.refine` as refined ([`dapple_scene::write_cameras`]): what was seen, and which way is up |
//! | `capture.json` | where the capture was, and its fingerprint ([`CaptureRecord`]) |
//! | `renders/NAME.png` | each held-out photo beside its rendered view |
//! | `errors/NAME.png` | where the two differ: blue as the photo, red off by a quarter of the range |
//! | `scores.json`, `scores.md` | of `dapple eval --out`: every score |
//! | `checkpoint.safetensors` | while the run is not finished: what it needs to go on ([`Checkpoint`]) |
//!
//! Every file is written whole or not at all. A run that is killed leaves parts with names of their own,
//! which the next one takes away. While a run writes, it holds the folder's lock ([`RunLock`]), and what
//! Dapple has not written is replaced on request only ([`RunFolder::refuse_foreign`]).

mod capture_record;
mod folder;
mod foreign;
mod lock;
mod metrics;
mod names;
mod picture_writer;
mod snapshots;

use crate::{
    Checkpoint, EvalReport, Observer, Onlooker, Outcome, Outlook, Seconds, StepProgress,
    TrainConfig, Trainer,
};
use dapple_engine::{DensifyReport, Pictures};
use dapple_scene::{Error, Result, Splats, View};
use glam::DVec3;
use rayon::prelude::*;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

pub use capture_record::{CaptureRecord, Fingerprint};
pub use folder::RunFolder;
use folder::remove_old;
pub use foreign::Writes;
pub use lock::RunLock;
pub use metrics::{METRICS_VERSION, Metrics};
pub use names::RenderNames;
pub use picture_writer::PictureWriter;
pub use snapshots::{MOST_BYTES as MOST_SNAPSHOT_BYTES, Snapshot, Snapshots, Taken};

/// Trains to the end of the run (or until the observer stops it) and leaves everything in the
/// folder. `config.toml` is written first, so that a run that was killed can be repeated; checkpoints
/// follow as configured, so that it need not be ([`Trainer::resume`]). A run that has finished has none.
///
/// # Errors
/// What cannot be written, what the engine cannot do. A run that ended badly (NaN loss, no
/// Gaussian left, a lost device) is an error too; a run that was stopped is not. In every case what
/// could be saved has been: splats before all else.
pub fn train_into(
    folder: &RunFolder,
    trainer: &mut Trainer,
    observer: &mut dyn Observer,
) -> Result<Outcome> {
    folder.reclaim(trainer.config())?;
    if trainer.steps_done() == 0 {
        // Of another run.
        folder.remove_checkpoint()?;
        folder.remove_snapshots()?;
    }
    folder.write_config(trainer.config())?;
    let (started, before) = (Instant::now(), trainer.history().seconds);
    let background = trainer.schedule().render_settings().background;
    let (config, origin) = (trainer.config().clone(), trainer.origin());
    let mut saver = Saver {
        folder,
        config: &config,
        origin,
        pictures: PictureWriter::new(folder, background),
        splats: None,
        inner: observer,
    };
    let result = trainer.run(&mut saver);
    let (pictures, writing) = (saver.pictures, saver.splats);
    let written = writing.map(|thread| thread.join());
    let is_good = result
        .as_ref()
        .is_ok_and(|outcome| outcome.ending.is_good());
    if let Err(error) = folder.reclaim(trainer.config()) {
        // Nothing is mixed with what another run writes there.
        result?;
        return Err(error);
    }
    let saved = match written {
        Some(Ok(written)) if is_good => written,
        _ => {
            let mut splats = match (trainer.splats(), &result) {
                (Err(_), Err(_)) => return result,
                (splats, _) => splats?,
            };
            keep_finite(&mut splats);
            folder.write_splats(&splats, trainer.config().antialias, origin)
        }
    };
    if *trainer.config() != config {
        // The run has become another since.
        folder.write_config(trainer.config())?;
    }
    let learnt = write_learnt(folder, trainer);
    // Pictures that could not be written must not cost the splats.
    let unwritten_picture = pictures.finish();
    // The error of the run is the cause of all that follows: it is the one to report.
    let outcome = result?;
    saved?;
    learnt?;
    folder.write_cameras(trainer)?;
    let counted = trainer.history().seconds.without(&before).total();
    trainer.add_seconds(&Seconds {
        write: (started.elapsed().as_secs_f64() - counted).max(0.0),
        ..Seconds::default()
    });
    folder.write_metrics(&Metrics::new(trainer, &outcome))?;
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

/// Writes what was learnt of the photos' appearance; where nothing is, takes another run's away.
fn write_learnt(folder: &RunFolder, trainer: &mut Trainer) -> Result<()> {
    let path = folder.appearance_path();
    if !trainer.config().appearance.is_on() {
        return remove_old("cannot remove another run's appearance", &path);
    }
    if trainer.config().appearance.has_looks() {
        let look = trainer.look()?;
        return crate::write_looks(&path, &look, trainer.train_names());
    }
    let appearance = trainer.appearance()?;
    if appearance.is_empty() {
        return Ok(());
    }
    crate::write_appearance(&path, &appearance, trainer.train_names())
}

/// The engine's error, with what was saved from it.
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

/// Passes everything on, and writes checkpoints and the pictures of the last scoring.
struct Saver<'a> {
    folder: &'a RunFolder,
    config: &'a TrainConfig,
    /// What the splats count from.
    origin: DVec3,
    pictures: PictureWriter,
    /// Writes the splats that the run ends with, while they are scored.
    splats: Option<JoinHandle<Result<()>>>,
    inner: &'a mut dyn Observer,
}

impl Observer for Saver<'_> {
    fn on_step(&mut self, progress: &StepProgress) {
        self.inner.on_step(progress);
    }

    fn on_densify(&mut self, report: &DensifyReport) {
        self.inner.on_densify(report);
    }

    fn on_outlook(&mut self, outlook: &Outlook, config: &TrainConfig) {
        self.inner.on_outlook(outlook, config);
    }

    fn on_eval(&mut self, step: u32, report: &EvalReport) {
        self.inner.on_eval(step, report);
    }

    fn on_last_splats(&mut self, splats: &Arc<Splats>) {
        let (folder, mut held) = (self.folder.clone(), Arc::clone(splats));
        let (antialiased, origin) = (self.config.antialias, self.origin);
        let thread = std::thread::Builder::new().name("splats".to_owned());
        let write = move || {
            if !all_finite(&held) {
                keep_finite(Arc::make_mut(&mut held));
            }
            folder.write_splats(&held, antialiased, origin)
        };
        // Without a thread they are written after scoring; where the folder is another run's by now, not at all.
        if self.folder.reclaim(self.config).is_ok() {
            self.splats = thread.spawn(write).ok();
        }
        self.inner.on_last_splats(splats);
    }

    fn wants_pictures(&self) -> bool {
        true
    }

    fn on_final_render(&mut self, view: &View, pictures: Pictures) -> Result<()> {
        if self.inner.wants_pictures() {
            self.inner.on_final_render(view, pictures.clone())?;
        }
        if self.folder.reclaim(self.config).is_ok() {
            self.pictures
                .write(&view.name, view.photo.read()?, pictures);
        }
        Ok(())
    }

    fn saves_checkpoints(&self) -> bool {
        true
    }

    fn save_checkpoint(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        self.folder.reclaim(&checkpoint.config)?;
        checkpoint.write(&self.folder.checkpoint_path())
    }

    fn on_checkpoint(&mut self, step: u32, saved: &Result<()>) {
        self.inner.on_checkpoint(step, saved);
    }

    fn between_steps(&mut self, run: &mut Onlooker<'_>) -> Result<()> {
        self.inner.between_steps(run)
    }

    fn wants_checkpoint(&mut self) -> bool {
        self.inner.wants_checkpoint()
    }

    fn should_stop(&self) -> bool {
        self.inner.should_stop()
    }
}

/// Whether all parameters of all Gaussians are numbers.
fn all_finite(splats: &Splats) -> bool {
    (0..splats.len())
        .into_par_iter()
        .all(|i| is_finite(splats, i))
}

/// Drops Gaussians with a NaN or infinite parameter: readers refuse them.
fn keep_finite(splats: &mut Splats) {
    let rows = (0..splats.len()).into_par_iter();
    let finite: Vec<bool> = rows.map(|i| is_finite(splats, i)).collect();
    splats.retain(|i| finite[i]);
}

/// Whether all parameters of a Gaussian are numbers.
fn is_finite(splats: &Splats, i: usize) -> bool {
    let stride = splats.sh_rest_stride();
    let geometry = splats.means[i].iter().chain(&splats.scales[i]);
    let appearance = splats.quats[i].iter().chain(&splats.sh0[i]);
    let rest = &splats.sh_rest[i * stride..(i + 1) * stride];
    let mut all = geometry.chain(appearance).chain(rest);
    all.all(|v| v.is_finite()) && splats.opacities[i].is_finite()
}
