//! How a run tells its caller where it is, and how it ended.

use crate::{Checkpoint, EvalReport, Onlooker, Outlook, TrainConfig};
use dapple_engine::{DensifyReport, Pictures};
use dapple_scene::{Error, ErrorKind, Result, Splats, View};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Where a run is, after a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepProgress {
    /// Steps finished.
    pub step: u32,
    /// Steps this run will take.
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

/// Listens to a run. Every method has a default that does nothing.
pub trait Observer {
    /// A step has finished.
    fn on_step(&mut self, progress: &StepProgress) {
        let _ = progress;
    }

    /// A round of density control has finished.
    fn on_densify(&mut self, report: &DensifyReport) {
        let _ = report;
    }

    /// Photos that were set aside for a while have said whether a longer run gains; `config` is as it is now, with
    /// the extension, if one follows.
    fn on_outlook(&mut self, outlook: &Outlook, config: &TrainConfig) {
        let _ = (outlook, config);
    }

    /// Held-out photos have been scored after `step` steps.
    fn on_eval(&mut self, step: u32, report: &EvalReport) {
        let _ = (step, report);
    }

    /// All steps are done, and the run ends with these splats, as files hold them. The last scoring follows.
    fn on_last_splats(&mut self, splats: &Arc<Splats>) {
        let _ = splats;
    }

    /// Whether [`Self::on_final_render`] is to be called.
    fn wants_pictures(&self) -> bool {
        false
    }

    /// The last scoring has rendered a held-out view, whose photo is in memory. An error ends the run with it.
    fn on_final_render(&mut self, view: &View, pictures: Pictures) -> Result<()> {
        let _ = (view, pictures);
        Ok(())
    }

    /// Whether [`Self::save_checkpoint`] is to be called: now and then, and when the run is stopped.
    fn saves_checkpoints(&self) -> bool {
        false
    }

    /// Puts a checkpoint where it is safe. An error does not end the run: the next one may be saved.
    fn save_checkpoint(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        let _ = checkpoint;
        Ok(())
    }

    /// A checkpoint after `step` steps has been saved, or not.
    fn on_checkpoint(&mut self, step: u32, saved: &Result<()>) {
        let _ = (step, saved);
    }

    /// A step is enqueued, and may not be done. What is rendered and how long it takes changes no bit of the run.
    /// An error ends the run with it.
    fn between_steps(&mut self, run: &mut Onlooker<'_>) -> Result<()> {
        let _ = run;
        Ok(())
    }

    /// Whether a checkpoint is to be made now; asked after each [`Self::between_steps`], which is called again
    /// before the next step where it was.
    fn wants_checkpoint(&mut self) -> bool {
        false
    }

    /// Asked before each step; `true` ends the run with [`Ending::Stopped`].
    fn should_stop(&self) -> bool {
        false
    }
}

/// Listens to nothing.
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
    /// The observer asked for it, after this many steps.
    Stopped(u32),
    /// The loss of this step was NaN or infinite; the splats are those of a copy from before.
    NonFiniteLoss(u32),
    /// By this step Gaussians were NaN or infinite; the splats are those of a copy from before.
    /// [`Trainer::failure`] says more.
    ///
    /// [`Trainer::failure`]: crate::Trainer::failure
    NonFinite(u32),
    /// Density control after this step left no Gaussian.
    NoGaussians(u32),
    /// The engine failed; the splats are those after this step. [`Trainer::failure`] says why.
    ///
    /// [`Trainer::failure`]: crate::Trainer::failure
    Failed(u32),
}

impl Ending {
    /// Whether the splats are what the run was meant to give, or at least on the way there.
    pub fn is_good(self) -> bool {
        matches!(self, Self::Finished | Self::Stopped(_))
    }

    /// The ending as an error; `None` for [`Ending::Finished`].
    pub fn error(self) -> Option<Error> {
        match self {
            Self::Finished => None,
            Self::Stopped(step) => Some(Error::new(
                ErrorKind::Interrupted,
                format!("the run was stopped after {step} steps"),
            )),
            Self::NonFiniteLoss(step) => Some(
                Error::input(format!(
                    "the loss became NaN or infinite at step {step}: training cannot go on"
                ))
                .hint("lower the learning rates, or look for broken photos and poses with `dapple info`"),
            ),
            Self::NonFinite(step) => Some(
                Error::input(format!(
                    "Gaussians became NaN or infinite by step {step}: training cannot go on"
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

/// What a run came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Why it ended.
    pub ending: Ending,
    /// Steps done.
    pub steps: u32,
    /// Gaussians at the end.
    pub gaussians: u64,
    /// Scores of the held-out photos at the end; `None` when nothing is held out or the run failed.
    pub eval: Option<EvalReport>,
    /// Scores of the same photos with their poses fitted to the splats; `None` unless poses are refined.
    pub aligned: Option<EvalReport>,
}
