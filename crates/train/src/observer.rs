//! Progress reports of a run to its caller, and how the run ended.

use crate::{Checkpoint, EvalReport, ExtensionCheck, PausedRun, TrainConfig};
use dapple_engine::{DensifyReport, Pictures};
use dapple_scene::{Error, ErrorKind, Result, Splats, View};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Progress of a run after a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepProgress {
    /// Steps finished.
    pub step: u32,
    /// Steps of the run.
    pub steps: u32,
    /// Loss of this step's photo.
    pub loss: f32,
    /// Loss smoothed over about the last 50 steps.
    pub smoothed_loss: f32,
    /// Gaussians held.
    pub gaussians: u64,
    /// Recent training steps a second, without scoring.
    pub steps_per_second: f64,
    /// Estimated seconds to the last step, at the recent rate.
    pub eta_seconds: f64,
}

/// Observer of a run. Every method has a default that does nothing.
pub trait Observer {
    /// Called after a step has finished.
    fn on_step(&mut self, progress: &StepProgress) {
        let _ = progress;
    }

    /// Called after a round of density control.
    fn on_densify(&mut self, report: &DensifyReport) {
        let _ = report;
    }

    /// Called after an extension check. `config` is the current configuration, with the extension if one follows.
    fn on_extension_check(&mut self, check: &ExtensionCheck, config: &TrainConfig) {
        let _ = (check, config);
    }

    /// Called after held-out photos have been scored after `step` steps.
    fn on_eval(&mut self, step: u32, report: &EvalReport) {
        let _ = (step, report);
    }

    /// Called with the final splats, as files hold them, when all steps are done. The last scoring follows.
    fn on_last_splats(&mut self, splats: &Arc<Splats>) {
        let _ = splats;
    }

    /// Returns true if [`Self::on_final_render`] should be called.
    fn wants_pictures(&self) -> bool {
        false
    }

    /// Called after the last scoring has rendered a held-out view, whose photo is in memory. An error ends the run with
    /// it.
    fn on_final_render(&mut self, view: &View, pictures: Pictures) -> Result<()> {
        let _ = (view, pictures);
        Ok(())
    }

    /// Returns true if [`Self::save_checkpoint`] should be called: at the configured intervals, and when the run is
    /// stopped.
    fn saves_checkpoints(&self) -> bool {
        false
    }

    /// Stores a checkpoint. An error does not end the run: the next one may be saved.
    fn save_checkpoint(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        let _ = checkpoint;
        Ok(())
    }

    /// Called after a checkpoint after `step` steps has been saved or has failed.
    fn on_checkpoint(&mut self, step: u32, saved: &Result<()>) {
        let _ = (step, saved);
    }

    /// Called between two steps. A step is enqueued and may not be done. Renders and delays here do not change the
    /// result of the run. An error ends the run with it.
    fn between_steps(&mut self, run: &mut PausedRun<'_>) -> Result<()> {
        let _ = run;
        Ok(())
    }

    /// Returns true if a checkpoint is due now. Called after each [`Self::between_steps`], which is called again before
    /// the next step if it returned true.
    fn wants_checkpoint(&mut self) -> bool {
        false
    }

    /// Called before each step; `true` ends the run with [`Ending::Stopped`].
    fn should_stop(&self) -> bool {
        false
    }
}

/// Observer that does nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "reason", content = "step")]
#[non_exhaustive]
pub enum Ending {
    /// All steps are done.
    Finished,
    /// The observer stopped the run after this many steps.
    Stopped(u32),
    /// The loss of this step was NaN or infinite; the splats are from an earlier copy.
    NonFiniteLoss(u32),
    /// By this step Gaussians were NaN or infinite; the splats are from an earlier copy. [`Trainer::failure`] has the
    /// details.
    ///
    /// [`Trainer::failure`]: crate::Trainer::failure
    NonFinite(u32),
    /// Density control after this step removed all Gaussians.
    NoGaussians(u32),
    /// The engine failed; the splats are those after this step. [`Trainer::failure`] has the reason.
    ///
    /// [`Trainer::failure`]: crate::Trainer::failure
    Failed(u32),
}

impl Ending {
    /// Returns true if the splats are the intended result of the run, or an intermediate result of a stopped run.
    pub fn is_good(self) -> bool {
        matches!(self, Self::Finished | Self::Stopped(_))
    }

    /// Returns the ending as an error; `None` for [`Ending::Finished`].
    pub fn error(self) -> Option<Error> {
        match self {
            Self::Finished => None,
            Self::Stopped(step) => Some(Error::new(
                ErrorKind::Interrupted,
                format!("the run was stopped after {step} steps"),
            )),
            Self::NonFiniteLoss(step) => Some(
                Error::input(format!(
                    "the loss became NaN or infinite at step {step}: training cannot continue"
                ))
                .hint("lower the learning rates, or look for broken photos and poses with `dapple info`"),
            ),
            Self::NonFinite(step) => Some(
                Error::input(format!(
                    "Gaussians became NaN or infinite by step {step}: training cannot continue"
                ))
                .hint("lower the learning rates and weights, or look for broken photos and poses with `dapple info --check`"),
            ),
            Self::NoGaussians(step) => Some(
                Error::input(format!(
                    "no Gaussian is left after density control at step {step}"
                ))
                .hint(
                    "lower densify.prune_opacity or densify.start, or set densify.enabled = false; \
                     check that the photos and the sparse points belong together",
                ),
            ),
            Self::Failed(step) => Some(
                Error::unsupported(format!(
                    "the engine failed; the splats are those after step {step}"
                ))
                .hint("try again, or use --device cpu"),
            ),
        }
    }
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Reason of the end.
    pub ending: Ending,
    /// Steps done.
    pub steps: u32,
    /// Gaussians at the end.
    pub gaussians: u64,
    /// Scores of the held-out photos at the end; `None` if no photo is held out or the run failed.
    pub eval: Option<EvalReport>,
    /// Scores of the same photos with their poses fitted to the splats; `None` unless poses are refined.
    pub aligned: Option<EvalReport>,
}
