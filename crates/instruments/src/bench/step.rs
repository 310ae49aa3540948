//! Fixed-size training step on the points of a real scene, as measured for gsplat and other trainers.
//!
//! 1. Make Gaussians from the points ([`Garden`]) and render them from the folder's cameras: the photos.
//! 2. Train from the same Gaussians, disturbed: L1 and SSIM, Adam on every parameter, SH degree 3, the cameras in
//!    order, no density control.
//! 3. Time the steps, and the stages in a run of their own ([`measure`](super::measure)).

use super::garden::{self, Garden};
use super::measure::{HostPerStep, Job, measure, view_of};
use super::rows::{LimitRow, StageRow, rows};
use super::times::Times;
use crate::Open;
use dapple::contract::{
    AppearanceMlp, AppearanceMlpSettings, LearningRates, OptimizerState, RenderSettings,
    StepCounts, TrainView, ViewState,
};
use dapple::train::{AppearanceModel, ConfigPatch, TrainConfig};
use dapple::{Engine, Error, Result, Splats};
use serde::Serialize;

/// Steps before the timed ones.
const WARM_UP: u32 = 30;
/// Seed of all random numbers.
pub const SEED: u64 = 0;
pub(super) const NEAR: f32 = 0.01;

/// Step sizes of the 3DGS paper's trainer, for a scene of extent 1.
pub(super) const LEARNING_RATES: LearningRates = LearningRates {
    means: 1.6e-4,
    scales: 5e-3,
    quats: 1e-3,
    opacities: 5e-2,
    sh0: 2.5e-3,
    sh_rest: 1.25e-4,
};

/// Returns the settings with which `dapple train --appearance mlp` trains the appearance MLP at first.
fn mlp_settings() -> Result<AppearanceMlpSettings> {
    let mut named = ConfigPatch::default();
    named.appearance.model = Some(AppearanceModel::Mlp);
    let config = TrainConfig::resolve(None, None, named)?;
    let mut steps = config.appearance.start + 1..=config.steps;
    let first = steps.find_map(|step| config.appearance.mlp_settings(step, config.steps));
    first.ok_or_else(|| Error::internal("no step of a run with an appearance MLP trains it"))
}

/// Result for one number of Gaussians at one size.
#[derive(Debug, Serialize)]
pub struct Run {
    /// Copies of the points along x and y.
    pub tiles: u32,
    /// Gaussians.
    pub gaussians: u64,
    /// Width of the photos, pixels.
    pub width: u32,
    /// Height of the photos, pixels.
    pub height: u32,
    /// Steps that each time is a mean over: 1 if steps were timed one by one.
    pub steps_per_time: u32,
    /// Times of a whole step.
    pub step: Times,
    /// Steps per second.
    pub it_per_s: f64,
    /// Counts of the photos' renders.
    pub cameras: Vec<CameraCounts>,
    /// Counts per step, for an engine with a queue.
    pub host_per_step: Option<HostPerStep>,
    /// Stages in the order they ran.
    pub stages: Vec<StageRow>,
}

/// Counts of the render of one camera.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct CameraCounts {
    /// Visible Gaussians.
    pub visible: u64,
    /// Instances: (Gaussian, tile) pairs.
    pub instances: u64,
    /// Instances of the fullest tile.
    pub max_instances_per_tile: u64,
}

impl From<StepCounts> for CameraCounts {
    fn from(counts: StepCounts) -> Self {
        Self {
            visible: counts.visible,
            instances: counts.instances,
            max_instances_per_tile: counts.max_instances_per_tile,
        }
    }
}

/// Renders the photos of size `[width, height]` from the Gaussians of a garden. Returns them with the counts of their
/// renders.
pub(super) fn photos(
    engine: &mut dyn Engine,
    garden: &Garden,
    truth: &Splats,
    size: [u32; 2],
) -> Result<(Vec<TrainView>, Vec<CameraCounts>)> {
    engine.upload(truth, None)?;
    let settings = RenderSettings {
        near: NEAR,
        ..RenderSettings::default()
    };
    let cameras = garden.cameras(size).into_iter();
    cameras
        .map(|camera| {
            let rendered = engine.render(&camera, &settings)?;
            Ok((
                view_of(camera, rendered.photo()),
                CameraCounts::from(rendered.counts),
            ))
        })
        .collect()
}

/// Runs steps 1 to 3 with `tiles` x `tiles` copies of the garden, `truth` ([`Garden::splats`] of [`SEED`]), and photos
/// of `size`, `[width, height]`. With `learns_looks`, also trains the appearance MLP, as with `--appearance mlp`.
///
/// # Errors
/// The engine fails.
pub fn run(
    open: &Open<'_>,
    garden: &Garden,
    (tiles, truth): (u32, &Splats),
    size: [u32; 2],
    steps: u32,
    limits: LimitRow,
    learns_looks: bool,
) -> Result<Run> {
    let mut engine = open(false)?.into_engine();
    let (views, cameras) = photos(engine.as_mut(), garden, truth, size)?;
    drop(engine);
    let splats = garden::start(truth.clone(), SEED);
    let rates = learns_looks.then(mlp_settings).transpose()?;
    let appearance_mlp = rates.map(|rates| {
        let views = ViewState {
            appearance_mlp: AppearanceMlp::new(
                [0.0; 3],
                garden::HALF,
                views.len(),
                splats.len(),
                SEED,
            ),
            ..ViewState::default()
        };
        (OptimizerState::untrained(&splats, views), rates)
    });
    let measured = measure(&Job {
        open,
        splats: &splats,
        views: &views,
        learning_rates: LEARNING_RATES,
        warm_up: WARM_UP,
        steps,
        near: NEAR,
        appearance_mlp: appearance_mlp
            .as_ref()
            .map(|(state, rates)| (state, *rates)),
    })?;
    Ok(Run {
        tiles,
        gaussians: measured.work.gaussians,
        width: size[0],
        height: size[1],
        steps_per_time: measured.steps_per_time,
        step: measured.step,
        it_per_s: measured.step.per_second(),
        cameras,
        stages: rows(&measured, limits),
        host_per_step: measured.host,
    })
}
