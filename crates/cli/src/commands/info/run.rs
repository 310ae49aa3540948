//! Facts about a run from its folder: from `metrics.json`, or from the checkpoint of an unfinished run.

use super::Shown;
use super::parts::{Part, lines_of, parts_of};
use crate::machine;
use crate::training_display::{clock, gaussians, grouped};
use dapple::scene::{Result, bounded};
use dapple::train::config::FocusRegion;
use dapple::train::{
    Checkpoint, ConfigPatch, Continuation, EvalRow, GotWorse, RunFolder, SkyMode, StartSplats,
};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What `--json` prints of a run.
#[derive(Debug, Serialize)]
pub struct RunInfo {
    kind: &'static str,
    path: PathBuf,
    /// True if the run is finished.
    finished: bool,
    steps: u32,
    /// Mean PSNR of the held-out photos, dB, at the end or when last scored.
    psnr: Option<f64>,
    ssim: Option<f64>,
    /// Step of those scores.
    scored_after: Option<u32>,
    gaussians: u64,
    /// Training time, without scoring and reading photos.
    seconds: f64,
    device: String,
    train_photos: Option<usize>,
    held_out_photos: Option<usize>,
    got_worse: Option<GotWorse>,
    dapple: Option<String>,
    /// Splats that the run started from.
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<StartSplats>,
    /// Region of interest of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    focus: Option<FocusInfo>,
    /// True if a sky on a sphere beyond the scene is among the Gaussians.
    sky: bool,
    /// Parts of a run that was continued.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Part>,
    /// Size of the state that a finished run can be continued from, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    state_bytes: Option<u64>,
}

/// Region of interest of a run, with the scores inside when the held-out photos were last scored.
#[derive(Debug, Serialize)]
struct FocusInfo {
    region: String,
    psnr: Option<f64>,
    ssim: Option<f64>,
}

impl FocusInfo {
    /// `None` for a run without a region.
    fn new(region: FocusRegion, evals: &[EvalRow]) -> Option<Self> {
        let last = evals.last();
        region.is_on().then(|| Self {
            region: region.to_string(),
            psnr: last.and_then(|row| row.focus_psnr),
            ssim: last.and_then(|row| row.focus_ssim),
        })
    }

    fn line(&self) -> String {
        match (self.psnr, self.ssim) {
            (Some(psnr), Some(ssim)) => {
                format!("{}, inside PSNR {psnr:.2} dB, SSIM {ssim:.4}", self.region)
            }
            _ => format!("{}, not scored inside", self.region),
        }
    }
}

/// Shown fields of `metrics.json`: other versions may have fewer or more.
#[derive(Deserialize)]
struct Metrics {
    dapple: String,
    device: String,
    steps: u32,
    gaussians: u64,
    psnr: Option<f64>,
    ssim: Option<f64>,
    seconds: Seconds,
    train_views: usize,
    eval_views: usize,
    #[serde(default)]
    evals: Vec<EvalRow>,
    #[serde(default)]
    continuations: Vec<Continuation>,
}

#[derive(Deserialize)]
struct Seconds {
    train: f64,
}

impl RunInfo {
    /// Reads the run in a folder; `None` if the folder has no run.
    ///
    /// # Errors
    /// A damaged checkpoint in a folder with no other results.
    pub fn read(path: &Path) -> Result<Option<Self>> {
        let folder = RunFolder::open(path);
        let finished = !folder.checkpoint_path().is_file();
        let metrics = bounded::read(
            "cannot read the metrics",
            &folder.metrics_path(),
            bounded::CAMERAS_BYTES,
        )
        .ok();
        let metrics = metrics.and_then(|json| serde_json::from_slice::<Metrics>(&json).ok());
        if let Some(metrics) = metrics {
            return Ok(Some(Self::of_metrics(path, metrics, finished)));
        }
        if finished {
            return Ok(None);
        }
        let checkpoint = Checkpoint::read(&folder.checkpoint_path())?;
        let history = &checkpoint.history;
        let last = history.evals.last();
        Ok(Some(Self {
            kind: "run",
            path: path.to_owned(),
            finished,
            steps: checkpoint.step,
            psnr: last.map(|row| row.psnr),
            ssim: last.map(|row| row.ssim),
            scored_after: last.map(|row| row.step),
            gaussians: checkpoint.splats.len() as u64,
            seconds: history.seconds.train,
            device: checkpoint.device.clone(),
            train_photos: None,
            held_out_photos: None,
            got_worse: GotWorse::find_in(&history.evals),
            dapple: None,
            start: checkpoint.launch.start.clone(),
            focus: FocusInfo::new(checkpoint.config.focus.region, &history.evals),
            sky: checkpoint.config.sky == SkyMode::On,
            parts: parts_of(&history.continuations, &history.evals, checkpoint.step),
            state_bytes: None,
        }))
    }

    fn of_metrics(path: &Path, metrics: Metrics, finished: bool) -> Self {
        let config = ConfigPatch::read(&RunFolder::open(path).config_path()).unwrap_or_default();
        Self {
            kind: "run",
            path: path.to_owned(),
            finished,
            parts: parts_of(&metrics.continuations, &metrics.evals, metrics.steps),
            state_bytes: RunFolder::open(path).state_bytes().filter(|_| finished),
            steps: metrics.steps,
            psnr: metrics.psnr,
            ssim: metrics.ssim,
            scored_after: metrics.psnr.map(|_| metrics.steps),
            gaussians: metrics.gaussians,
            seconds: metrics.seconds.train,
            device: metrics.device,
            train_photos: Some(metrics.train_views),
            held_out_photos: Some(metrics.eval_views),
            got_worse: GotWorse::find_in(&metrics.evals),
            dapple: Some(metrics.dapple),
            start: start_of(path),
            focus: FocusInfo::new(config.focus.region.unwrap_or_default(), &metrics.evals),
            sky: config.sky == Some(SkyMode::On),
        }
    }
}

/// Returns the splats that the finished run in `path` started from.
fn start_of(path: &Path) -> Option<StartSplats> {
    let record = RunFolder::open(path).read_capture().ok()??;
    record.start
}

impl Shown for RunInfo {
    fn lines(&self) -> Vec<(&'static str, String)> {
        let path = self.path.display();
        let state = match self.finished {
            true => String::new(),
            false => format!(", not finished: `dapple train --resume {path}` continues it"),
        };
        let scores = match (self.psnr, self.ssim) {
            (Some(psnr), Some(ssim)) => {
                let when = self.scored_after.filter(|&step| step != self.steps);
                let when = when.map_or(String::new(), |step| {
                    format!(", scored after step {}", grouped(step.into()))
                });
                format!("PSNR {psnr:.2} dB, SSIM {ssim:.4} on the held-out photos{when}")
            }
            _ => "none".to_owned(),
        };
        let mut lines = vec![
            ("run", format!("{path}{state}")),
            (
                "steps",
                format!("{} in {}", grouped(self.steps.into()), clock(self.seconds)),
            ),
            ("scores", scores),
            ("device", self.device.clone()),
        ];
        if let (Some(train), Some(held_out)) = (self.train_photos, self.held_out_photos) {
            lines.push(("photos", format!("{train} trained on, {held_out} held out")));
        }
        if let Some(start) = &self.start {
            let (path, crc) = (start.path.display(), start.crc32);
            let count = gaussians(start.gaussians);
            lines.push(("start", format!("{count} of {path} (CRC-32 {crc:08x})")));
        }
        if let Some(focus) = &self.focus {
            lines.push(("focus", focus.line()));
        }
        if self.sky {
            let how = "on a sphere beyond the scene: `dapple edit --drop-sky` removes it";
            lines.push(("sky", how.to_owned()));
        }
        lines.extend(lines_of(&self.parts));
        if let Some(bytes) = self.state_bytes {
            let bytes = machine::human_bytes(bytes);
            lines.push((
                "state",
                format!("{bytes}: `dapple train --continue {path}` trains further"),
            ));
        }
        if let Some(worse) = &self.got_worse {
            lines.push((
                "worse",
                format!(
                    "after step {} the held-out photos scored best, with {:.2} dB: {:.2} more",
                    grouped(worse.best.step.into()),
                    worse.best.psnr,
                    worse.lost
                ),
            ));
        }
        lines
    }
}
