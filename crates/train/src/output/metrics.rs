//! Measurements of a run, as `metrics.json` and as rows of `metrics.csv`.

use crate::{
    Budget, CapLosses, Continuation, Ending, EvalRow, ExtensionCheck, History, LossRow, Outcome,
    PhotoTraffic, Seconds, TrainConfig, Trainer, WatchReport,
};
use dapple_engine::DensifyReport;
use glam::DVec3;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// Version of [`Metrics`]. It rises if a reader of the old version would misread the new one.
pub const METRICS_VERSION: u32 = 1;

/// Measurements of a run: the schema of `metrics.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Always "dapple-metrics".
    pub schema: String,
    /// [`METRICS_VERSION`].
    pub version: u32,
    /// Version of Dapple that wrote the file.
    pub dapple: String,
    /// The engine and its device.
    pub device: String,
    /// Reason of the run's end.
    pub ending: Ending,
    /// Error of the engine if it failed.
    #[serde(default)]
    pub failure: Option<String>,
    /// Steps done.
    pub steps: u32,
    /// Gaussians at the end.
    pub gaussians: u64,
    /// Mean PSNR of the held-out photos at the end, dB; `None` if no photo was scored.
    pub psnr: Option<f64>,
    /// Mean SSIM of the held-out photos at the end.
    pub ssim: Option<f64>,
    /// Mean LPIPS of the held-out photos at the end; `None` without weights. Values of a GPU and a CPU agree within
    /// 1e-4.
    #[serde(default)]
    pub lpips: Option<f64>,
    /// Mean PSNR with fitted colours, dB: see [`crate::Scoring::fitted`]; `None` unless the run learns the appearance
    /// of photos.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cc_psnr: Option<f64>,
    /// Mean SSIM with fitted colours; `None` unless the run learns the appearance of photos.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cc_ssim: Option<f64>,
    /// Scores inside the region of interest; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<crate::FocusScores>,
    /// Scores of each held-out photo at the end.
    pub images: Vec<crate::ImageScore>,
    /// Mean PSNR of the held-out photos, dB, with each one's pose fitted to the splats; `None` unless
    /// poses are refined.
    #[serde(default)]
    pub aligned_psnr: Option<f64>,
    /// Mean SSIM of the held-out photos with fitted poses; `None` unless poses are refined.
    #[serde(default)]
    pub aligned_ssim: Option<f64>,
    /// Scores of each held-out photo with its fitted pose; `None` unless poses are refined.
    #[serde(default)]
    pub aligned_images: Vec<crate::ImageScore>,
    /// Time by activity.
    pub seconds: Seconds,
    /// Effect of the per-tile limit.
    #[serde(default)]
    pub cap: CapLosses,
    /// Statistics of photo reads during training; `None` if all photos were in memory.
    #[serde(default)]
    pub photos: Option<PhotoTraffic>,
    /// Training steps a second, without scoring.
    pub steps_per_second: f64,
    /// Gaussian cap and its reason; `None` if the user set the cap or there is no limit.
    #[serde(default)]
    pub budget: Option<Budget>,
    /// Number of training photos.
    pub train_views: usize,
    /// Number of held-out photos.
    pub eval_views: usize,
    /// Number of missing photos that the capture names and that were skipped on request.
    #[serde(default)]
    pub skipped_photos: usize,
    /// Extent of the scene, world units.
    pub extent: f64,
    /// Local origin of splats and snapshots, in the capture's own frame; `None` if it is zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<[f64; 3]>,
    /// The configuration that repeats the run, with its amendments.
    #[serde(deserialize_with = "crate::config::deserialize_whole")]
    pub config: TrainConfig,
    /// Every scoring.
    pub evals: Vec<EvalRow>,
    /// Results of the whole-run validation photos; `None` without them.
    #[serde(default)]
    pub watch: Option<WatchReport>,
    /// Later parts of the run, each continuing the part before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub continuations: Vec<Continuation>,
    /// Extension checks of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty", alias = "outlooks")]
    pub extension_checks: Vec<ExtensionCheck>,
    /// Every round of density control.
    pub densify: Vec<DensifyReport>,
    /// The loss every `log_every` steps.
    pub losses: Vec<LossRow>,
}

impl Metrics {
    /// The metrics of a run that ended with `outcome`.
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
            focus: outcome.eval.as_ref().and_then(|eval| eval.focus.clone()),
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
            budget: history.budget,
            train_views: trainer.train_view_count(),
            eval_views: trainer.eval_views().len(),
            skipped_photos: trainer.skipped_photos(),
            extent: trainer.schedule().extent(),
            origin: (trainer.origin() != DVec3::ZERO).then(|| trainer.origin().to_array()),
            config: trainer.plan().to_config(),
            evals: history.evals.clone(),
            watch: trainer.watch_report(),
            continuations: history.continuations.clone(),
            extension_checks: trainer.extension_checks().to_vec(),
            densify: history.densify.clone(),
            losses: logged(history, trainer.config()).copied().collect(),
        }
    }
}

/// Returns the logged steps: every `log_every`-th, the first and the last.
fn logged<'a>(history: &'a History, config: &'a TrainConfig) -> impl Iterator<Item = &'a LossRow> {
    let last = history.losses.last().map_or(0, |row| row.step);
    let every = config.log_every.max(1);
    history
        .losses
        .iter()
        .filter(move |row| row.step % every == 0 || row.step == 1 || row.step == last)
}

/// Formats one row for each logged step. Scores are in the row of their step, and density control is in the first row
/// from its step on.
pub(super) fn csv(metrics: &Metrics) -> String {
    let mut text = String::from(
        "step,loss,gaussians,steps_per_second,psnr,ssim,cloned,split,pruned,relocated,added,lpips\n",
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
        let lpips = eval.and_then(|e| e.lpips);
        let lpips = lpips.map_or(String::new(), |v| format!("{v:.6}"));
        let _ = writeln!(
            text,
            "{step},{rest},{scores},{cloned},{split},{pruned},{relocated},{added},{lpips}"
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
