//! Results of a run, as text and for `--json`.

use super::wall::{self, Wall};
use crate::machine;
use crate::photo_memory;
use crate::training_display::{clock, gaussians, grouped};
use dapple::live::LiveHook;
use dapple::scene::{Error, ErrorKind, printable};
use dapple::train::{
    Budget, CapLosses, Ending, ExtensionCheck, ExtensionDecision, FocusScores, GotWorse,
    ImageScore, Outcome, PhotoTraffic, RunFolder, Seconds, Trainer, WatchReport,
};
use serde::Serialize;
use std::path::PathBuf;

/// What `--json` prints.
#[derive(Debug, Serialize)]
pub struct Summary {
    pub(super) out: PathBuf,
    pub(super) splats: PathBuf,
    pub(super) metrics: PathBuf,
    pub(super) renders: PathBuf,
    /// State to continue the finished run from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<State>,
    pub(super) ending: Ending,
    pub(super) steps: u32,
    pub(super) gaussians: u64,
    pub(super) psnr: Option<f64>,
    pub(super) ssim: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cc_psnr: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cc_ssim: Option<f64>,
    pub(super) lpips: Option<f64>,
    /// Scores inside the region of interest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) focus: Option<FocusScores>,
    /// The held-out photo with the lowest PSNR.
    pub(super) worst: Option<ImageScore>,
    pub(super) aligned_psnr: Option<f64>,
    pub(super) aligned_ssim: Option<f64>,
    pub(super) cameras: Option<PathBuf>,
    pub(super) steps_per_second: f64,
    /// Times of the whole run, with earlier commands.
    pub(super) seconds: Seconds,
    /// Times of this command.
    pub(super) wall_seconds: Seconds,
    pub(super) cap: CapLosses,
    pub(super) photos: Option<PhotoTraffic>,
    pub(super) watch: Option<WatchReport>,
    /// Origin of the Gaussian cap; none if an option sets it, or without a cap.
    pub(super) budget: Option<Budget>,
    /// Extension checks of the run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) extension_checks: Vec<ExtensionCheck>,
    /// Step after which the run used dropout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dropout_after: Option<u32>,
    /// Step with better scores of the held-out photos before the end.
    pub(super) got_worse: Option<GotWorse>,
    /// Missing photos of the capture, skipped with --skip-missing.
    pub(super) skipped_photos: usize,
    pub(super) peak_memory_bytes: Option<u64>,
}

/// File with the state of a finished run.
#[derive(Debug, Serialize)]
pub struct State {
    path: PathBuf,
    bytes: u64,
}

impl State {
    fn of(folder: &RunFolder) -> Option<Self> {
        let (path, bytes) = (folder.state_path(), folder.state_bytes()?);
        Some(Self { path, bytes })
    }
}

impl Summary {
    /// Returns the scores of the held-out photos as text.
    fn scores(&self) -> String {
        match (self.psnr, self.ssim) {
            (Some(psnr), Some(ssim)) => {
                let lpips = self
                    .lpips
                    .map_or(String::new(), |v| format!(", LPIPS {v:.4}"));
                let worst = self.worst.as_ref().map_or(String::new(), |worst| {
                    let name = printable(&worst.name);
                    format!("; worst {name} with {:.2} dB", worst.psnr)
                });
                format!("PSNR {psnr:.2} dB, SSIM {ssim:.4}{lpips} on the held-out photos{worst}")
            }
            _ => "none: no photo was held out".to_owned(),
        }
    }
}

/// A finished or interrupted run.
pub struct Done {
    /// Results of the run.
    pub summary: Summary,
    /// True if the run stopped at --stop-at.
    pub(super) as_asked: bool,
    wall: Wall,
    /// Live viewer, which may train the run on.
    pub(super) live: Option<LiveHook<'static>>,
}

impl Done {
    pub(super) fn new(
        folder: &RunFolder,
        trainer: &Trainer,
        outcome: &Outcome,
        stop_at: Option<u32>,
        wall: Wall,
    ) -> Self {
        let seconds = trainer.history().seconds;
        Self {
            wall,
            live: None,
            // A run stops after the whole batch of a step.
            as_asked: match outcome.ending {
                Ending::Stopped(step) => stop_at.is_some_and(|stop| step >= stop),
                _ => false,
            },
            summary: Summary {
                out: folder.path().to_owned(),
                splats: folder.splats_path(),
                metrics: folder.metrics_path(),
                renders: folder.renders_path(),
                state: State::of(folder).filter(|_| outcome.ending == Ending::Finished),
                ending: outcome.ending,
                steps: outcome.steps,
                gaussians: outcome.gaussians,
                psnr: outcome.eval.as_ref().map(|eval| eval.psnr),
                ssim: outcome.eval.as_ref().map(|eval| eval.ssim),
                cc_psnr: outcome.eval.as_ref().and_then(|eval| eval.cc_psnr),
                cc_ssim: outcome.eval.as_ref().and_then(|eval| eval.cc_ssim),
                lpips: outcome.eval.as_ref().and_then(|eval| eval.lpips),
                focus: outcome.eval.as_ref().and_then(|eval| eval.focus.clone()),
                worst: outcome
                    .eval
                    .as_ref()
                    .and_then(|eval| eval.worst(1).first().copied().cloned()),
                aligned_psnr: outcome.aligned.as_ref().map(|eval| eval.psnr),
                aligned_ssim: outcome.aligned.as_ref().map(|eval| eval.ssim),
                cameras: trainer.config().poses.refine.then(|| folder.cameras_path()),
                steps_per_second: f64::from(outcome.steps) / seconds.train.max(f64::MIN_POSITIVE),
                seconds,
                wall_seconds: seconds,
                cap: trainer.history().cap,
                photos: trainer.photo_traffic(),
                watch: trainer.watch_report(),
                budget: trainer.history().budget,
                extension_checks: trainer.extension_checks().to_vec(),
                dropout_after: trainer
                    .plan()
                    .amendments()
                    .dropouts()
                    .next()
                    .map(|(after, _)| after),
                got_worse: GotWorse::find_in(&trainer.history().evals),
                skipped_photos: trainer.skipped_photos(),
                peak_memory_bytes: machine::peak_memory_bytes(),
            },
        }
    }

    /// Records the command's times at its end.
    pub fn end(&mut self) {
        let summary = &mut self.summary;
        (summary.seconds, summary.wall_seconds) = self.wall.end(summary.seconds);
    }

    /// Returns the results as lines of text.
    pub fn lines(&self) -> String {
        let s = &self.summary;
        let scores = s.scores();
        let memory = s.peak_memory_bytes.map_or(String::new(), |b| {
            format!(", {} of memory at most", machine::human_bytes(b))
        });
        let mut lines = vec![format!("scores    {scores}")];
        if let Some(focus) = &s.focus {
            lines.push(format!("focus     {focus}"));
        }
        if let (Some(psnr), Some(ssim)) = (s.cc_psnr, s.cc_ssim) {
            lines.push(format!(
                "fitted    PSNR {psnr:.2} dB, SSIM {ssim:.4} once colours are fitted to each photo's"
            ));
        }
        if let (Some(psnr), Some(ssim)) = (s.aligned_psnr, s.aligned_ssim) {
            lines.push(format!(
                "aligned   PSNR {psnr:.2} dB, SSIM {ssim:.4} with the pose of each fitted to the splats"
            ));
        }
        lines.push(format!(
            "run       {} steps in {}, {:.1} it/s, {}{memory}",
            s.steps,
            clock(s.seconds.train),
            s.steps_per_second,
            gaussians(s.gaussians)
        ));
        if let Some(budget) = &s.budget {
            lines.push(format!("budget    {budget}"));
        }
        if let Some(line) = length(&s.extension_checks, s.dropout_after) {
            lines.push(line);
        }
        if s.cap.steps > 0 {
            lines.push(format!(
                "cap       cut in {} steps, up to {} pairs of Gaussian and tile in one; the largest \
                 transmittance lost is {:.4}",
                s.cap.steps,
                grouped(s.cap.most_instances),
                s.cap.largest_transmittance
            ));
        }
        if let Some(photos) = &s.photos {
            lines.extend(photo_memory::lines(photos, s.seconds.train));
        }
        if let Some(line) = s.watch.as_ref().and_then(overfitting) {
            lines.push(line);
        }
        if let Some(worse) = &s.got_worse {
            lines.push(got_worse(worse));
        }
        if s.skipped_photos > 0 {
            let (photos, were) = match s.skipped_photos {
                1 => ("photo", "was"),
                _ => ("photos", "were"),
            };
            lines.push(format!(
                "missing   {} {photos} of the capture {were} skipped",
                grouped(s.skipped_photos as u64)
            ));
        }
        lines.extend([
            format!("splats    {}", s.splats.display()),
            format!("metrics   {}", s.metrics.display()),
        ]);
        if let Some(cameras) = &s.cameras {
            lines.push(format!("cameras   {}", cameras.display()));
        }
        if s.psnr.is_some() {
            lines.push(format!("renders   {}", s.renders.display()));
        }
        if let Some(state) = &s.state {
            lines.push(format!(
                "state     {}, {}: `dapple train --continue {}` trains further",
                state.path.display(),
                machine::human_bytes(state.bytes),
                s.out.display()
            ));
        }
        lines.push(wall::line(&s.wall_seconds));
        lines.join("\n")
    }

    /// Returns the error of an interrupted run.
    pub fn interruption(&self) -> Option<Error> {
        match self.summary.ending {
            Ending::Stopped(step) if !self.as_asked => Some(
                Error::new(
                    ErrorKind::Interrupted,
                    format!("stopped after {step} steps; everything up to there is saved"),
                )
                .at_path(&self.summary.out)
                .hint(format!(
                    "`dapple train --resume {}` continues from there",
                    self.summary.out.display()
                )),
            ),
            _ => None,
        }
    }
}

/// Returns the line about the run's length and dropout, if an extension check was made.
fn length(extension_checks: &[ExtensionCheck], dropout_after: Option<u32>) -> Option<String> {
    let at = |check: &ExtensionCheck| grouped(check.steps[1].into());
    let extended = extension_checks
        .iter()
        .filter(|o| o.decision == ExtensionDecision::Extend);
    let last = extension_checks.last()?;
    let until = extended.map(at).next_back();
    let length = match (until, last.decision) {
        (Some(until), ExtensionDecision::Extend) => {
            format!("length    extended: withheld photos improved until step {until}")
        }
        (Some(until), _) => format!(
            "length    extended: withheld photos improved until step {until}, and not enough until {}",
            at(last)
        ),
        (None, _) => format!(
            "length    as planned: withheld photos did not improve until step {}",
            at(last)
        ),
    };
    let is_since = dropout_after == Some(last.steps[1]);
    Some(match is_since {
        true => format!("{length}; later steps used dropout"),
        false => length,
    })
}

/// Returns the line about better scores of the held-out photos before the end.
pub fn got_worse(worse: &GotWorse) -> String {
    format!(
        "worse     the held-out photos scored best after step {}, with {:.2} dB: {:.2} more than at the \
         end. Use fewer steps, or --validate-every 8, which keeps the best splats",
        grouped(worse.best.step.into()),
        worse.best.psnr,
        worse.lost
    )
}

/// Returns the line about overfitting, if earlier splats score better on the validation photos.
fn overfitting(watch: &WatchReport) -> Option<String> {
    let kept = watch.kept_step?;
    let at = |step: u32| watch.rows.iter().find(|row| row.step == step);
    let (best, last) = (at(kept)?, watch.rows.last()?);
    Some(format!(
        "overfit   the splats of step {} are kept: {} validation photos score {:.2} dB with them, with the last \
         splats {:.2}; use fewer steps",
        grouped(kept.into()),
        watch.photos,
        best.psnr,
        last.psnr
    ))
}
