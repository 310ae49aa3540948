//! What a run leaves on disk.
//!
//! | file | what |
//! |---|---|
//! | `splats.ply` | the Gaussians |
//! | `config.toml` | the configuration; `--config` takes it back |
//! | `appearance.safetensors` | where it is learnt: each photo's exposure or grid ([`crate::write_appearance`]) |
//! | `metrics.json` | everything measured, versioned ([`Metrics`]) |
//! | `metrics.csv` | a row every `log_every` steps, for spreadsheets |
//! | `cameras.json` | with `poses.refine`: the cameras of the photos trained on as refined ([`dapple_scene::write_cameras`]) |
//! | `renders/NAME.png` | each held-out photo beside its rendered view |
//! | `errors/NAME.png` | where the two differ: blue as the photo, red off by a quarter of the range |
//! | `scores.json`, `scores.md` | of `dapple eval --out`: every score |
//! | `checkpoint.safetensors` | while the run is not finished: what it needs to go on ([`Checkpoint`]) |
//!
//! Every file is written whole or not at all. A run that is killed leaves parts with names of their own,
//! which the next one takes away.

use crate::pictures::{error_map, side_by_side};
use crate::{
    CapLosses, Checkpoint, Ending, EvalReport, EvalRow, History, LossRow, Observer, Outcome,
    PhotoTraffic, Seconds, StepProgress, TrainConfig, Trainer, WatchReport,
};
use dapple_engine::{DensifyReport, Rendered};
use dapple_scene::atomic::{remove_leftovers, write_atomically};
use dapple_scene::{Error, Photo, Result, Splats, View, ply, write_cameras};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Version of [`Metrics`]: rises when a reader of the old one would misread the new one.
pub const METRICS_VERSION: u32 = 1;

/// Everything measured in a run: the schema of `metrics.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Always "dapple-metrics".
    pub schema: String,
    /// [`METRICS_VERSION`].
    pub version: u32,
    /// Version of Dapple that wrote it.
    pub dapple: String,
    /// The engine and its device.
    pub device: String,
    /// Why the run ended.
    pub ending: Ending,
    /// What the engine said when it failed; `None` when it did not.
    #[serde(default)]
    pub failure: Option<String>,
    /// Steps done.
    pub steps: u32,
    /// Gaussians at the end.
    pub gaussians: u64,
    /// Mean PSNR of the held-out photos at the end, dB; `None` when nothing was scored.
    pub psnr: Option<f64>,
    /// Mean SSIM of the held-out photos at the end.
    pub ssim: Option<f64>,
    /// Mean LPIPS of the held-out photos at the end; `None` without weights.
    #[serde(default)]
    pub lpips: Option<f64>,
    /// Mean PSNR with fitted colours, dB: see [`crate::CorrectedScores`]; where the appearance of photos is
    /// learnt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cc_psnr: Option<f64>,
    /// Mean SSIM likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cc_ssim: Option<f64>,
    /// Each held-out photo at the end.
    pub images: Vec<crate::ImageScore>,
    /// Mean PSNR of the held-out photos, dB, with each one's pose fitted to the splats; `None` unless
    /// poses are refined.
    #[serde(default)]
    pub aligned_psnr: Option<f64>,
    /// Mean SSIM of the same.
    #[serde(default)]
    pub aligned_ssim: Option<f64>,
    /// Each of the same.
    #[serde(default)]
    pub aligned_images: Vec<crate::ImageScore>,
    /// Where the time went.
    pub seconds: Seconds,
    /// What the cap on Gaussians per tile left out.
    #[serde(default)]
    pub cap: CapLosses,
    /// How photos were read while training; `None` where all were in memory.
    #[serde(default)]
    pub photos: Option<PhotoTraffic>,
    /// Training steps a second, without scoring.
    pub steps_per_second: f64,
    /// Photos trained on.
    pub train_views: usize,
    /// Photos held out.
    pub eval_views: usize,
    /// Extent of the scene, world units.
    pub extent: f64,
    /// The configuration.
    pub config: TrainConfig,
    /// Every scoring.
    pub evals: Vec<EvalRow>,
    /// What the photos set aside to watch for overfitting said; `None` where none are.
    #[serde(default)]
    pub watch: Option<WatchReport>,
    /// Every round of density control.
    pub densify: Vec<DensifyReport>,
    /// The loss every `log_every` steps.
    pub losses: Vec<LossRow>,
}

impl Metrics {
    /// Of a run that came to `outcome`.
    pub fn new(trainer: &Trainer, outcome: &Outcome) -> Self {
        let history = trainer.history();
        let seconds = history.seconds;
        Self {
            schema: "dapple-metrics".to_owned(),
            version: METRICS_VERSION,
            dapple: env!("CARGO_PKG_VERSION").to_owned(),
            device: trainer.device(),
            ending: outcome.ending,
            failure: trainer.failure().map(|error| error.what().to_owned()),
            steps: outcome.steps,
            gaussians: outcome.gaussians,
            psnr: outcome.eval.as_ref().map(|eval| eval.psnr),
            ssim: outcome.eval.as_ref().map(|eval| eval.ssim),
            lpips: outcome.eval.as_ref().and_then(|eval| eval.lpips),
            cc_psnr: outcome.eval.as_ref().and_then(|eval| eval.cc_psnr),
            cc_ssim: outcome.eval.as_ref().and_then(|eval| eval.cc_ssim),
            images: outcome
                .eval
                .as_ref()
                .map(|eval| eval.images.clone())
                .unwrap_or_default(),
            aligned_psnr: outcome.aligned.as_ref().map(|eval| eval.psnr),
            aligned_ssim: outcome.aligned.as_ref().map(|eval| eval.ssim),
            aligned_images: outcome
                .aligned
                .as_ref()
                .map(|eval| eval.images.clone())
                .unwrap_or_default(),
            seconds,
            cap: history.cap,
            photos: trainer.photo_traffic(),
            steps_per_second: if seconds.train > 0.0 {
                f64::from(outcome.steps) / seconds.train
            } else {
                0.0
            },
            train_views: trainer.train_view_count(),
            eval_views: trainer.eval_views().len(),
            extent: trainer.schedule().extent(),
            config: trainer.config().clone(),
            evals: history.evals.clone(),
            watch: trainer.watch_report(),
            densify: history.densify.clone(),
            losses: logged(history, trainer.config()).copied().collect(),
        }
    }
}

/// The steps that are logged: every `log_every`-th, the first and the last.
fn logged<'a>(history: &'a History, config: &'a TrainConfig) -> impl Iterator<Item = &'a LossRow> {
    let last = history.losses.last().map_or(0, |row| row.step);
    let every = config.log_every.max(1);
    history
        .losses
        .iter()
        .filter(move |row| row.step % every == 0 || row.step == 1 || row.step == last)
}

/// The folder of a run.
#[derive(Debug, Clone)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Makes the folder, if need be, and writes a file there to see that it can be done: better
    /// now than after an hour of training. Takes away what a killed run left half-written.
    ///
    /// # Errors
    /// A path that cannot be made or written to.
    pub fn create(path: &Path) -> Result<Self> {
        std::fs::create_dir_all(path)
            .map_err(|e| Error::io("cannot make the output folder", path, e))?;
        tempfile::Builder::new()
            .prefix(".dapple-")
            .tempfile_in(path)
            .map_err(|e| Error::io("cannot write into the output folder", path, e))?;
        let folder = Self::open(path);
        remove_leftovers(path);
        remove_leftovers(&folder.renders_path());
        remove_leftovers(&folder.errors_path());
        Ok(folder)
    }

    /// A folder that may hold a run, to read what is there.
    pub fn open(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
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

    /// Where refined cameras lie.
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
                "its splats are in splats.ply; a longer run has another schedule from the first step                  on: begin it with --steps and another --out",
            )),
            _ => Err(Error::input("this folder holds no checkpoint to go on from")
                .at_path(&path)
                .hint("the run ended before its first one: begin it again without --resume")),
        }
    }

    /// Takes the checkpoint away, if there is one.
    fn remove_checkpoint(&self) -> Result<()> {
        remove_old("cannot remove the old checkpoint", &self.checkpoint_path())
    }

    /// Writes `config.toml`.
    pub fn write_config(&self, config: &TrainConfig) -> Result<()> {
        write_bytes(&self.config_path(), config.to_toml()?.as_bytes())
    }

    /// Writes `splats.ply`.
    pub fn write_splats(&self, splats: &Splats) -> Result<()> {
        ply::write(&self.splats_path(), splats)
    }

    /// Writes `cameras.json` where poses are refined, and takes away that of another run where not.
    fn write_cameras(&self, trainer: &mut Trainer) -> Result<()> {
        let path = self.cameras_path();
        if trainer.config().poses.refine {
            return write_cameras(&path, &trainer.cameras()?);
        }
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io("cannot remove the old cameras", &path, e))
            }
            _ => Ok(()),
        }
    }

    /// Writes `metrics.json` and `metrics.csv`.
    pub fn write_metrics(&self, metrics: &Metrics) -> Result<()> {
        let json = serde_json::to_vec_pretty(metrics).map_err(|e| {
            Error::internal(format!("the metrics cannot be written: {e}")).caused_by(e)
        })?;
        write_bytes(&self.metrics_path(), &json)?;
        write_bytes(&self.csv_path(), csv(metrics).as_bytes())
    }

    /// Writes `renders/FILE_NAME`, the photo on the left and the rendered view on the right, and
    /// `errors/FILE_NAME`, where they differ.
    pub fn write_render(
        &self,
        file_name: &str,
        photo: &Photo,
        background: [f32; 3],
        rendered: &Rendered,
    ) -> Result<()> {
        for (folder, png) in [
            (
                self.renders_path(),
                side_by_side(photo, background, rendered)?,
            ),
            (self.errors_path(), error_map(photo, background, rendered)?),
        ] {
            std::fs::create_dir_all(&folder)
                .map_err(|e| Error::io("cannot make the folder of renders", &folder, e))?;
            write_bytes(&folder.join(file_name), &png)?;
        }
        Ok(())
    }

    /// Writes `scores.json`, which is `scores`, and `scores.md`, which is `table`.
    pub fn write_scores(&self, scores: &impl Serialize, table: &str) -> Result<()> {
        let json = serde_json::to_vec_pretty(scores).map_err(|e| {
            Error::internal(format!("the scores cannot be written: {e}")).caused_by(e)
        })?;
        write_bytes(&self.path.join("scores.json"), &json)?;
        write_bytes(&self.path.join("scores.md"), table.as_bytes())
    }
}

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
    if trainer.steps_done() == 0 {
        // Of another run.
        folder.remove_checkpoint()?;
    }
    folder.write_config(trainer.config())?;
    let background = trainer.schedule().render_settings().background;
    let mut saver = Saver {
        folder,
        background,
        names: RenderNames::default(),
        failure: None,
        inner: observer,
    };
    let result = trainer.run(&mut saver);
    let unwritten_render = saver.failure;
    let mut splats = match (trainer.splats(), &result) {
        (Err(_), Err(_)) => return result,
        (splats, _) => splats?,
    };
    if !result
        .as_ref()
        .is_ok_and(|outcome| outcome.ending.is_good())
    {
        keep_finite(&mut splats);
    }
    let saved = folder.write_splats(&splats);
    if !trainer.config().pace.is_empty() {
        // The pace has changed since.
        folder.write_config(trainer.config())?;
    }
    let learnt = write_learnt(folder, trainer);
    // The error of the run is the cause of all that follows: it is the one to report.
    let outcome = result?;
    saved?;
    learnt?;
    folder.write_cameras(trainer)?;
    folder.write_metrics(&Metrics::new(trainer, &outcome))?;
    if let (Ending::Failed(step), Some(error)) = (outcome.ending, trainer.failure()) {
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
    unwritten_render.map_or(Ok(outcome), Err)
}

/// Writes what was learnt of the photos' appearance; where nothing is, takes another run's away.
fn write_learnt(folder: &RunFolder, trainer: &mut Trainer) -> Result<()> {
    let path = folder.appearance_path();
    if !trainer.config().appearance.is_on() {
        return remove_old("cannot remove another run's appearance", &path);
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

/// Passes everything on, and writes checkpoints and the renders of the last scoring.
struct Saver<'a> {
    folder: &'a RunFolder,
    background: [f32; 3],
    names: RenderNames,
    /// The first render that could not be written: it must not cost the splats.
    failure: Option<Error>,
    inner: &'a mut dyn Observer,
}

impl Observer for Saver<'_> {
    fn on_step(&mut self, progress: &StepProgress) {
        self.inner.on_step(progress);
    }

    fn on_densify(&mut self, report: &DensifyReport) {
        self.inner.on_densify(report);
    }

    fn on_eval(&mut self, step: u32, report: &EvalReport) {
        self.inner.on_eval(step, report);
    }

    fn on_final_render(&mut self, view: &View, rendered: &Rendered) -> Result<()> {
        if self.failure.is_none() {
            let name = self.names.name(&view.name);
            let write = |photo: Arc<Photo>| {
                let folder = self.folder;
                folder.write_render(&name, &photo, self.background, rendered)
            };
            self.failure = view.photo.read().and_then(write).err();
        }
        self.inner.on_final_render(view, rendered)
    }

    fn saves_checkpoints(&self) -> bool {
        true
    }

    fn save_checkpoint(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        checkpoint.write(&self.folder.checkpoint_path())
    }

    fn on_checkpoint(&mut self, step: u32, saved: &Result<()>) {
        self.inner.on_checkpoint(step, saved);
    }

    fn should_stop(&self) -> bool {
        self.inner.should_stop()
    }
}

/// Flat file names for photos' names, which may hold folders: `left/0001.jpg` becomes
/// `left_0001.png`. No name is given twice.
#[derive(Debug, Clone, Default)]
pub struct RenderNames {
    /// In lower case: on some file systems A.png and a.png are one file.
    used: HashSet<String>,
}

impl RenderNames {
    /// The name of the render of `photo`.
    pub fn name(&mut self, photo: &str) -> String {
        let (folder, file) = photo.rsplit_once(['/', '\\']).unwrap_or(("", photo));
        let stem = match file.rsplit_once('.') {
            Some((stem, _)) if !stem.is_empty() => stem,
            _ => file,
        };
        let flat: String = format!("{folder}/{stem}")
            .trim_start_matches(['.', '/', '\\'])
            .chars()
            .map(|c| match c {
                '/' | '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|' => '_',
                c if c.is_control() => '_',
                c => c,
            })
            .collect();
        let mut name = format!("{flat}.png");
        let mut n = 2;
        while !self.used.insert(name.to_lowercase()) {
            name = format!("{flat}-{n}.png");
            n += 1;
        }
        name
    }
}

/// Drops Gaussians with a NaN or infinite parameter: readers refuse them.
fn keep_finite(splats: &mut Splats) {
    let stride = splats.sh_rest_stride();
    let finite: Vec<bool> = (0..splats.len())
        .map(|i| {
            let geometry = splats.means[i].iter().chain(&splats.scales[i]);
            let appearance = splats.quats[i].iter().chain(&splats.sh0[i]);
            geometry.chain(appearance).all(|v| v.is_finite())
                && splats.opacities[i].is_finite()
                && splats.sh_rest[i * stride..(i + 1) * stride]
                    .iter()
                    .all(|v| v.is_finite())
        })
        .collect();
    splats.retain(|i| finite[i]);
}

/// One row a logged step; scores stand in the row of their step, and what density control did in the
/// first row from its step on.
fn csv(metrics: &Metrics) -> String {
    let mut text = String::from(
        "step,loss,gaussians,steps_per_second,psnr,ssim,cloned,split,pruned,relocated,added\n",
    );
    let mut evals = metrics.evals.iter().peekable();
    let mut rounds = metrics.densify.iter().peekable();
    let mut row = |step: u32, rest: String, eval: Option<&EvalRow>| {
        let scores = eval.map_or(",".to_owned(), |e| format!("{:.4},{:.6}", e.psnr, e.ssim));
        let mut sums = [0; 5];
        while let Some(round) = rounds.next_if(|round| round.step <= step) {
            let DensifyReport {
                cloned,
                split,
                pruned,
                relocated,
                added,
                ..
            } = *round;
            for (sum, count) in sums
                .iter_mut()
                .zip([cloned, split, pruned, relocated, added])
            {
                *sum += count;
            }
        }
        let [cloned, split, pruned, relocated, added] = sums;
        let _ = writeln!(
            text,
            "{step},{rest},{scores},{cloned},{split},{pruned},{relocated},{added}"
        );
    };
    for loss in &metrics.losses {
        while let Some(eval) = evals.next_if(|eval| eval.step < loss.step) {
            row(eval.step, format!(",{},", eval.gaussians), Some(eval));
        }
        let eval = evals.next_if(|eval| eval.step == loss.step);
        let rest = format!(
            "{},{},{:.3}",
            loss.loss, loss.gaussians, loss.steps_per_second
        );
        row(loss.step, rest, eval);
    }
    text
}

fn remove_old(what: &str, path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io(what, path, e)),
        _ => Ok(()),
    }
}

fn write_bytes(path: &Path, bytes: &[u8]) -> Result<()> {
    write_atomically(path, |file| file.write_all(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_get_flat_names_and_no_two_the_same() {
        let mut names = RenderNames::default();
        let given = [
            "left/0001.jpg",
            "left_0001.PNG",
            "../a",
            "cam.1/0001",
            ".jpg",
        ];
        let expected = [
            "left_0001.png",
            "left_0001-2.png",
            "a.png",
            "cam.1_0001.png",
            "jpg.png",
        ];
        for (photo, expected) in given.iter().zip(expected) {
            assert_eq!(names.name(photo), expected, "{photo}");
        }
    }
}
