//! Events of a run, which its hooks receive.

use crate::plan::Amendment;
use crate::{Checkpoint, EvalReport, ExtensionCheck};
use dapple_engine::{DensifyReport, Pictures};
use dapple_scene::{Result, Splats, View};
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

/// Event of a run: see [`crate::RunHook::on`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A step has finished.
    Step(StepProgress),
    /// A round of density control has finished.
    Densify(DensifyReport),
    /// An extension check has ended. If the run changes its plan, [`Event::Amended`] follows.
    ExtensionCheck(ExtensionCheck),
    /// The plan has an amendment for the steps from here on.
    Amended(Amendment),
    /// Held-out photos were scored after this many steps.
    Eval(u32, Arc<EvalReport>),
    /// All steps are done: the state to continue the run from. Sent before [`Event::FinalSplats`] to hooks that need it.
    FinalState(&'a Arc<Checkpoint>),
    /// All steps are done: the final splats, as files hold them. The last scoring follows.
    FinalSplats(&'a Arc<Splats>),
    /// The last scoring has rendered a held-out view, whose photo is in memory. Sent to hooks that need pictures.
    Pictures(&'a View, &'a Arc<Pictures>),
    /// A checkpoint was made, at the configured intervals or when the run stops. Sent to hooks that store checkpoints.
    Checkpoint(&'a Checkpoint),
    /// A checkpoint after this many steps was saved, or could not be saved. The run continues in either case.
    Saved(u32, &'a Result<()>),
}
