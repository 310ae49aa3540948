//! A training step: the stages, and the features at the points between them.

use crate::blocks::Blocks;
use crate::context::{Clock, KernelSlots, StepContext};
use crate::cost::Work;
use crate::features::Features;
use crate::frame::{CameraF32, Frame};
use crate::simd::Row;
use crate::stages::blend::BlendExtra;
use crate::stages::{
    blend, blend_backward, emit, finite, loss, order, project, ranges, sort, update,
};
use dapple_engine::{LossTerm, RenderSettings, Stage, StepReport, TileMask};
use dapple_scene::Result;

/// Inputs of the stages from `project` to `blend`.
pub struct Forward<'a> {
    /// Gaussians.
    pub params: &'a Blocks,
    /// 3D filters, where the render is anti-aliased.
    pub filter_3d: Option<&'a [Row]>,
    /// Camera.
    pub camera: &'a CameraF32,
    /// Settings of the render.
    pub settings: &'a RenderSettings,
    /// SH degree.
    pub sh_degree: u8,
    /// Features inside `project`.
    pub slots: &'a KernelSlots,
    /// Further output of `blend`.
    pub extra: BlendExtra,
}

impl Forward<'_> {
    /// Executes the stages.
    pub fn run(&self, frame: &mut Frame, clock: &mut Clock) {
        project::run(
            self.params,
            self.filter_3d,
            self.camera,
            self.sh_degree,
            self.slots,
            frame,
        );
        clock.lap(Stage::Project);
        let projected = Projected {
            gaussians: self.params.len,
            camera: self.camera,
            settings: self.settings,
            tiles: self.slots.tiles.as_ref(),
            extra: self.extra,
        };
        projected.run(frame, clock);
    }
}

/// Inputs of the stages from `order` to `blend`, in addition to the projected Gaussians of a frame.
pub struct Projected<'a> {
    /// Number of projected Gaussians, invisible ones included.
    pub gaussians: usize,
    /// Camera.
    pub camera: &'a CameraF32,
    /// Settings of the render.
    pub settings: &'a RenderSettings,
    /// Tiles of the render, of which `project` has listed those of each Gaussian; `None` = all.
    pub tiles: Option<&'a TileMask>,
    /// Further output of `blend`.
    pub extra: BlendExtra,
}

impl Projected<'_> {
    /// Executes the stages.
    pub fn run(&self, frame: &mut Frame, clock: &mut Clock) {
        let (camera, settings) = (self.camera, self.settings);
        let cap = settings.max_gaussians_per_tile;
        order::run(self.gaussians, frame);
        clock.lap(Stage::Order);
        emit::run(camera, self.tiles, frame);
        clock.lap(Stage::Emit);
        ranges::run(camera, cap, frame);
        clock.lap(Stage::Ranges);
        sort::run(camera, frame);
        clock.lap(Stage::Sort);
        blend::run(camera, settings.background, cap, self.extra, frame);
        clock.lap(Stage::Blend);
    }
}

/// Executes a training step. Returns its report and the counts for [`crate::cost`].
///
/// # Errors
/// An error of a feature.
pub fn run(mut step: StepContext<'_>, features: &mut Features) -> Result<(StepReport, Work)> {
    let settings = step.settings;
    let (render, losses) = (&settings.render, &settings.losses);
    features.prepare(&mut step)?;
    features.before_project(&mut step);
    forward(&mut step);
    features.image(&mut step);
    let ssim = losses[LossTerm::Ssim];
    let loss = loss::run(
        &step.camera,
        &step.photo,
        render.background,
        ssim,
        step.frame,
    );
    features.image_loss(&mut step)?;
    step.clock.lap(Stage::Loss);
    features.image_back(&mut step);
    blend_backward::run(
        &step.camera,
        render.max_gaussians_per_tile,
        step.mode,
        step.frame,
    );
    step.clock.lap(Stage::BlendBackward);
    features.gradients(&mut step);
    update::run(step.update());
    step.clock.lap(Stage::Update);
    features.after_update(&mut step);
    let checks = settings.checks_numbers();
    let counts = step.frame.counts;
    let report = StepReport {
        step: settings.step,
        loss,
        counts,
        stages: step.clock.stages,
        not_finite: checks.then(|| finite::run(&step.model.params)).flatten(),
    };
    let work = Work {
        gaussians: counts.gaussians,
        visible: counts.visible,
        instances: counts.instances,
        row_visits: step.frame.row_visits,
        pixels: step.camera.size.map(u64::from).iter().product(),
        tiles: counts.tiles,
        sh_degree: step.sh_degree,
        ssim: ssim > 0.0,
    };
    Ok((report, work))
}

/// Executes the stages from `project` to `blend`.
fn forward(step: &mut StepContext<'_>) {
    let render = &step.settings.render;
    step.model.fit_filters(render.antialias);
    let forward = Forward {
        params: step.slots.shown(step.model),
        filter_3d: step.model.filters(render.antialias),
        camera: &step.camera,
        settings: render,
        sh_degree: step.sh_degree,
        slots: &step.slots,
        extra: BlendExtra::depths(step.mode.depths),
    };
    forward.run(step.frame, &mut step.clock);
}
