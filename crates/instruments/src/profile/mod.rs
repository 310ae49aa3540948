//! Bottlenecks of training on this machine, and comparison with the limits of the hardware.
//!
//! 1. [`ProfileTarget`]: the profile target.
//! 2. `windows`: a short run ([`Session::measure`]), measured by a `probe` that listens to the engine.
//! 3. `tiles`: distribution of the load of one view over its tiles ([`Session::analyse`]).
//! 4. `facts`: cost of stages by formula, limits of the device, and all other facts. `dapple-profile` computes
//!    statistics, budget and findings from them.
//! 5. [`files`]: the files of a profile.

mod facts;
pub mod files;
mod on_ranks;
pub(crate) mod probe;
mod remedies;
mod target;
mod tiles;
mod windows;

pub use facts::{device, fact};
pub use target::{ProfileTarget, synthetic};

use crate::instruments_of;
use dapple::contract::{Batch, StepSettings};
use dapple::{BoxedEngine, Progress, Result, TrainConfig, Trainer};
use dapple_profile::profile::{Ceilings, Fact, HeatMap, Program, Trace};
use dapple_profile::{Profile, analyse};
use facts::About;
use probe::Probe;
use std::fmt;
use tiles::Tiles;
use windows::{Run, Windows};

/// Numbers of steps of a profile.
#[derive(Debug, Clone, Copy)]
pub struct Steps {
    /// Steps before the measurement.
    pub warm_up: u32,
    /// Steps measured with the profiler. The same number is run without it, to measure its cost.
    pub measured: u32,
}

/// Facts about a profile that the caller supplies.
#[derive(Debug)]
pub struct Told {
    /// The program and its command line.
    pub program: Program,
    /// Settings of the run.
    pub settings: Vec<Fact>,
    /// Limits of the device ([`crate::ceilings::for_engine`]).
    pub ceilings: Ceilings,
}

/// A training run under measurement.
pub struct Session<'a> {
    subject: &'a ProfileTarget,
    probe: Probe,
    trainer: Trainer,
    device: Vec<Fact>,
}

/// Measurements before their analysis.
pub struct Measured {
    windows: Windows,
    steps: Steps,
}

/// A profile with its attachments.
#[derive(Debug)]
pub struct Profiled {
    /// Statistics, budget and findings.
    pub profile: Profile,
    /// Timeline of the profile.
    pub trace: Trace,
    /// Distribution of the load of one view over its tiles, if it has visible Gaussians.
    pub heat: Option<HeatMap>,
    /// CPU time of the host as an SVG, or the reason why it is missing.
    pub flamegraph: Result<String, String>,
}

impl<'a> Session<'a> {
    /// Prepares a run on an engine without splats. Its photos have full size from the first step on.
    ///
    /// # Errors
    /// See [`Trainer::new`]; splats cannot be uploaded.
    pub fn new(
        subject: &'a ProfileTarget,
        mut config: TrainConfig,
        mut engine: BoxedEngine,
    ) -> Result<Self> {
        config.data.coarse_until = 0.0;
        let device = facts::device(instruments_of(engine.as_mut())?);
        let probe = Probe::default();
        let engine = engine.observed(probe.clone());
        let mut trainer = Trainer::new(&subject.dataset, config, engine)?;
        if let Some(splats) = &subject.splats {
            trainer.engine_mut().upload(splats, None)?;
        }
        Ok(Self {
            subject,
            probe,
            trainer,
            device,
        })
    }

    /// Returns the run.
    pub fn trainer(&self) -> &Trainer {
        &self.trainer
    }

    /// Trains, and measures. Reports steps to `progress`; there may be more than announced first.
    ///
    /// # Errors
    /// Training fails; steps of several photos that are more than the run has; `progress` requests a stop.
    pub fn measure(&mut self, steps: Steps, progress: &dyn Progress) -> Result<Measured> {
        let queued = instruments_of(self.trainer.engine_mut().as_mut())?.has_queue();
        let windows = Run {
            trainer: &mut self.trainer,
            queued,
            probe: &self.probe,
            progress,
            warm_up: steps.warm_up,
            steps: steps.measured,
        }
        .measure()?;
        Ok(Measured { windows, steps })
    }

    /// Analyses the tiles of one view on the CPU, and computes a profile from all measurements.
    ///
    /// # Errors
    /// A photo cannot be read again; nothing was measured.
    pub fn analyse(&mut self, measured: Measured, told: Told) -> Result<Profiled> {
        let Measured { windows, steps } = measured;
        let tiles = self.tiles(&windows)?;
        let views = self.trainer.train_view_count();
        let photos = self.trainer.config().views_per_step.max(1);
        let setup = About {
            program: told.program,
            device: self.device.clone(),
            settings: told.settings,
            ceilings: told.ceilings,
            warm_up: steps.warm_up,
            steps: steps.measured,
            windows: &windows,
            tiles: tiles.as_ref(),
            engine: instruments_of(self.trainer.engine_mut().as_mut())?,
            views,
            photos,
        }
        .setup();
        let (profile, trace) = analyse(&windows.recording, &setup)?;
        Ok(Profiled {
            profile,
            trace,
            heat: tiles.map(|tiles| tiles.heat),
            flamegraph: windows.flamegraph,
        })
    }

    /// Analyses the tiles of the first training photo, with the splats at the end of the window.
    fn tiles(&self, windows: &Windows) -> Result<Option<Tiles>> {
        let held_out: Vec<&str> = self
            .trainer
            .eval_views()
            .iter()
            .map(|v| v.name.as_str())
            .collect();
        let view = self.subject.dataset.views.iter();
        let view = view
            .filter(|view| !held_out.contains(&view.name.as_str()))
            .min_by_key(|v| &v.name);
        let Some(view) = view else { return Ok(None) };
        if windows.splats.is_empty() {
            return Ok(None);
        }
        let schedule = self.trainer.schedule();
        let step = StepSettings {
            batch: Batch::ONE,
            ..schedule.step_settings(windows.steps_done.max(1))
        };
        Tiles::measure(view, &windows.splats, &step).map(Some)
    }
}

impl fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("subject", &self.subject.name)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Measured")
            .field("steps", &self.steps)
            .finish_non_exhaustive()
    }
}
