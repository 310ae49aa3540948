//! How a run ended, and its result.

use crate::EvalReport;
use dapple_scene::{Error, ErrorKind};
use serde::{Deserialize, Serialize};

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "reason", content = "step")]
#[non_exhaustive]
pub enum Ending {
    /// All steps are done.
    Finished,
    /// A hook, or [`Trainer::stop_at`], stopped the run after this many steps.
    ///
    /// [`Trainer::stop_at`]: crate::Trainer::stop_at
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
