//! Everything measured, as `metrics.json` and as rows of `metrics.csv`.

use crate::{
    Budget, CapLosses, Ending, EvalRow, History, LossRow, Outcome, Outlook, PhotoTraffic, Seconds,
    TrainConfig, Trainer, WatchReport,
};
use dapple_engine::DensifyReport;
use glam::DVec3;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

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
    /// Mean LPIPS of the held-out photos at the end; `None` without weights. A GPU's and the processor's are within 1e-4.
    #[serde(default)]
    pub lpips: Option<f64>,
    /// Mean PSNR with fitted colours, dB: see [`crate::Scoring::fitted`]; where the appearance of photos is
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
    /// Where the most Gaussians come from; `None` where they were named, or have no limit.
    #[serde(default)]
    pub budget: Option<Budget>,
    /// Photos trained on.
    pub train_views: usize,
    /// Photos held out.
    pub eval_views: usize,
    /// Photos that the capture names and that were not there, left out as asked.
    #[serde(default)]
    pub skipped_photos: usize,
    /// Extent of the scene, world units.
    pub extent: f64,
    /// The local origin that splats and snapshots count from, in the capture's own frame; `None` where it is zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<[f64; 3]>,
    /// The configuration.
    pub config: TrainConfig,
    /// Every scoring.
    pub evals: Vec<EvalRow>,
    /// What the photos set aside to watch for overfitting said; `None` where none are.
    #[serde(default)]
    pub watch: Option<WatchReport>,
    /// What photos that were set aside for a while said of a longer run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outlooks: Vec<Outlook>,
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
            budget: history.budget,
            train_views: trainer.train_view_count(),
            eval_views: trainer.eval_views().len(),
            skipped_photos: trainer.skipped_photos(),
            extent: trainer.schedule().extent(),
            origin: (trainer.origin() != DVec3::ZERO).then(|| trainer.origin().to_array()),
            config: trainer.config().clone(),
            evals: history.evals.clone(),
            watch: trainer.watch_report(),
            outlooks: trainer.outlooks().to_vec(),
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

/// One row a logged step; scores stand in the row of their step, and what density control did in the
/// first row from its step on.
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
