//! `dapple train --time-budget 60s`: plans a run for a time budget.
//!
//! 1. The capture's description is read, not its photos, and steps are timed on a separate engine.
//! 2. The plan sets the steps, and resolution and Gaussians unless the options set them.
//! 3. The run adjusts its step rate to the budget. Reading photos, calibration and scoring are not included.

use super::Args;
use crate::console::Console;
use crate::options::DeviceOptions;
use crate::training_display::{clock, gaussians, grouped};
use dapple::scene::{Error, NoProgress, Result, load};
use dapple::train::config::DataPatch;
use dapple::train::time_budget::{
    Plan, PlanRequest, SHORT_GROW_GRADIENT, StepRateController, calibrate, plan,
};
use dapple::train::{
    CaptureStatistics, ConfigPatch, PhotoCoverage, TrainConfig, fitting_gaussians,
};
use std::path::Path;
use std::time::Instant;

/// Share of the time budget for calibration, within bounds in seconds.
const CALIBRATION: f64 = 0.05;
const LEAST_CALIBRATION: f64 = 0.3;
const MOST_CALIBRATION: f64 = 6.0;

/// Plan of a run for a time budget.
pub struct Planned {
    /// Layer of options with the plan.
    pub patch: ConfigPatch,
    /// Controller of the step rate.
    pub pacer: StepRateController,
    /// Capture statistics of the training photos.
    pub seen: PhotoCoverage,
}

/// Times some steps and plans the run from the result.
pub fn planned(
    args: &Args,
    seconds: f64,
    scene: &Path,
    config: &TrainConfig,
    device: &DeviceOptions,
    console: &Console,
) -> Result<Planned> {
    let started = Instant::now();
    let capture = load::open(scene, &config.load_options())?;
    let dataset = load::describe_all(&capture, &config.load_options(), &NoProgress)?;
    let train = config.data.split_views(&dataset).train;
    let evidence = CaptureStatistics::measure(&dataset, &train)?;
    let points = dataset.points.len();
    let (model, wish) = {
        let mut engine = device.engine_to_time()?;
        let engine = engine.as_mut();
        let fit = fitting_gaussians(config, engine);
        let wish = wish(args, seconds, config, points, (&evidence, fit));
        let share = (CALIBRATION * seconds).clamp(LEAST_CALIBRATION, MOST_CALIBRATION);
        let most = wish.full_gaussians;
        (calibrate(&dataset, config, engine, share, most)?, wish)
    };
    let plan = plan(&model, &wish);
    tell(&plan, &wish, started.elapsed().as_secs_f64(), console);
    let mut patch = args.patch();
    patch.steps = Some(plan.steps);
    let given = args.config.as_deref().map(ConfigPatch::read).transpose()?;
    if given
        .as_ref()
        .is_none_or(|given| given.eval.every.is_none())
    {
        // Scoring during the run is not in the budget, and would delay the end.
        patch.eval.every = Some(0);
    }
    if !wish.gaussians_are_settled {
        patch.max_gaussians = Some(plan.max_gaussians);
        let is_given = given.is_some_and(|given| given.densify.grow_gradient.is_some());
        if plan.is_short() && !is_given && patch.densify.grow_gradient.is_none() {
            patch.densify.grow_gradient = Some(SHORT_GROW_GRADIENT * config.densify.grow_gradient);
        }
    }
    patch.data = DataPatch {
        downscale: Some(config.data.downscale * plan.downscale),
        ..patch.data
    };
    let pixels = wish.pixels / f64::from(plan.downscale * plan.downscale);
    Ok(Planned {
        patch,
        pacer: StepRateController::new(seconds, model, pixels),
        seen: evidence.seen,
    })
}

fn wish(
    args: &Args,
    seconds: f64,
    config: &TrainConfig,
    points: usize,
    (evidence, fit): (&CaptureStatistics, Option<usize>),
) -> PlanRequest {
    let photos = evidence.seen.photos;
    let data = args.patch().data;
    let pixels = evidence.pixels;
    let first = match (config.initial_gaussians, points) {
        (0, points) => points,
        (n, 0) => n,
        (n, points) => n.min(points),
    };
    let grows = config.densify.enabled;
    let full = match config.max_gaussians {
        _ if !grows => first,
        0 => evidence.budget(config, first, fit).gaussians,
        n => n,
    };
    PlanRequest {
        seconds,
        pixels: pixels as f64 / photos.max(1) as f64,
        train_pixels: pixels as f64,
        first_gaussians: first,
        full_gaussians: full,
        gaussians_are_settled: !grows || config.max_gaussians > 0,
        size_is_settled: data.downscale.is_some() || data.max_resolution.is_some(),
    }
}

fn tell(plan: &Plan, wish: &PlanRequest, took: f64, console: &Console) {
    let size = match plan.downscale {
        1 => "whole photos".to_owned(),
        n => format!("photos reduced by {n}"),
    };
    let limit = match wish.gaussians_are_settled {
        true => "Gaussians as configured".to_owned(),
        false => format!("up to {}", gaussians(plan.max_gaussians as u64)),
    };
    console.note(&format!(
        "time budget {}: {} steps of {:.1} ms are planned, {size}, {limit} (calibrated in {took:.1} s, which \
         does not count, nor do reading photos and scoring)",
        clock(wish.seconds),
        grouped(plan.steps.into()),
        1e3 * plan.seconds_per_step
    ));
}

/// Refuses a configuration file that sets the length of the run.
pub fn refuse_steps(args: &Args) -> Result<()> {
    let Some(file) = &args.config else {
        return Ok(());
    };
    let given = ConfigPatch::read(file)?;
    let named = [
        ("steps", given.steps.is_some()),
        ("stop_after", given.stop_after.is_some_and(|step| step > 0)),
        (
            "max_extensions",
            given.max_extensions.is_some_and(|often| often > 0),
        ),
        (
            "amendments",
            given
                .amendments
                .is_some_and(|amendments| !amendments.is_empty()),
        ),
    ];
    match named.iter().find(|(_, is_named)| *is_named) {
        None => Ok(()),
        Some((key, _)) => Err(Error::input(format!(
            "the configuration names {key}, and --time-budget chooses the length of the run"
        ))
        .at_path(file)
        .hint(format!(
            "remove {key} from it, or omit --time-budget to repeat its run"
        ))),
    }
}
