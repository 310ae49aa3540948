//! [`StepContext`]: what the stages and features of one training step read and change.

use crate::blocks::Blocks;
use crate::features::appearance_mlp::kernels::MlpColours;
use crate::features::noise::kernels::NoiseStep;
use crate::features::regularise::kernels::Regularisers;
use crate::frame::{CameraF32, Frame};
use crate::model::Model;
use crate::stages::blend_backward::Mode;
use crate::views::Views;
use dapple_engine::{Dropout, Part, Stage, StageTime, StepSettings, TileMask, ViewId};
use dapple_scene::Photo;
use std::sync::Arc;
use std::time::Instant;

/// Clock for the stages of one pass, measured between them.
pub struct Clock {
    last: Instant,
    /// Times so far.
    pub stages: Vec<StageTime>,
}

impl Clock {
    /// Starts a clock.
    pub fn start() -> Self {
        Self {
            last: Instant::now(),
            stages: Vec::with_capacity(Stage::ALL.len()),
        }
    }

    /// Adds the time since the last call to a stage.
    pub fn lap(&mut self, stage: Stage) {
        let now = Instant::now();
        let duration_ns = now.duration_since(self.last).as_nanos() as u64;
        // `appearance` runs twice: forward and backward.
        match self.stages.iter_mut().find(|time| time.stage == stage) {
            Some(time) => time.duration_ns += duration_ns,
            None => self.stages.push(StageTime { stage, duration_ns }),
        }
        self.last = now;
    }
}

/// Parts of features that act inside the loops of `project` and `update`.
#[derive(Debug, Default)]
pub struct KernelSlots {
    /// `project`: the Gaussians' indices in the model, for random numbers.
    pub part: Part,
    /// `project`: Gaussians that the step drops, and the opacity of the others.
    pub opacity: Option<Dropout>,
    /// `project` and `emit`: tiles that a render has; `None` = all.
    pub tiles: Option<TileMask>,
    /// `project` and `update`: Gaussians with the colours of the photo's appearance.
    pub mlp: Option<MlpColours>,
    /// `update`, before Adam: further gradients.
    pub gradient: Option<Regularisers>,
    /// `update`, after Adam: noise.
    pub after_adam: Option<NoiseStep>,
}

impl KernelSlots {
    /// Returns the Gaussians that the stages read: those with the colours of the photo's appearance, if there are any.
    pub fn shown<'a>(&'a self, model: &'a Model) -> &'a Blocks {
        match &self.mlp {
            Some(colours) => &colours.params,
            None => &model.params,
        }
    }
}

/// One step of training: what stages and features read and change.
pub struct StepContext<'a> {
    /// View of the step.
    pub view: ViewId,
    /// Settings of the step.
    pub settings: &'a StepSettings,
    /// Photo of the view.
    pub photo: Arc<Photo>,
    /// Refined camera of the view.
    pub camera: CameraF32,
    /// SH degree of the step.
    pub sh_degree: u8,
    /// Gaussians.
    pub model: &'a mut Model,
    /// All views.
    pub views: &'a mut Views,
    /// Buffers of the stages.
    pub frame: &'a mut Frame,
    /// Further outputs of the backward pass.
    pub mode: Mode,
    /// Features inside kernels.
    pub slots: KernelSlots,
    /// Times of stages.
    pub clock: Clock,
}

impl StepContext<'_> {
    /// Returns the inputs of `update`.
    pub fn update(&mut self) -> UpdateContext<'_> {
        UpdateContext {
            settings: self.settings,
            camera: &self.camera,
            sh_degree: self.sh_degree,
            mode: self.mode,
            model: self.model,
            frame: self.frame,
            slots: &mut self.slots,
        }
    }
}

/// What `update` reads and changes: see the fields of [`StepContext`].
pub struct UpdateContext<'a> {
    /// Settings of the step.
    pub settings: &'a StepSettings,
    /// Refined camera of the view.
    pub camera: &'a CameraF32,
    /// SH degree of the step.
    pub sh_degree: u8,
    /// Outputs of the backward pass.
    pub mode: Mode,
    /// Gaussians.
    pub model: &'a mut Model,
    /// Buffers of the stages.
    pub frame: &'a Frame,
    /// Features inside kernels.
    pub slots: &'a mut KernelSlots,
}
