//! What limits training on this machine, and how far it is from what the hardware can do.
//!
//! 1. [`Subject`]: what is trained.
//! 2. `windows`: a short run ([`Session::measure`]), measured through a `probe` between trainer and engine.
//! 3. `tiles`: how the load of one view is spread ([`Session::analyse`]).
//! 4. `facts`: what stages cost by formula, what the device reaches at most, and all else that is to
//!    be told. `dapple-profile` makes statistics, budget and findings of it.
//! 5. [`files`]: the files that a profile leaves.

mod facts;
pub mod files;
pub(crate) mod probe;
mod remedies;
mod subject;
mod tiles;
mod windows;

pub use facts::{device, fact};
pub use subject::{Subject, synthetic};

use crate::Instrumented;
use dapple::{Progress, Result, TrainConfig, Trainer};
use dapple_profile::profile::{Ceilings, Fact, HeatMap, Program, Trace};
use dapple_profile::{Profile, analyse};
use facts::About;
use probe::Probe;
use std::fmt;
use tiles::Tiles;
use windows::{Run, Windows};

/// How long to look.
#[derive(Debug, Clone, Copy)]
pub struct Steps {
    /// Before anything is measured.
    pub warm_up: u32,
    /// Measured with the profiler; as many again are taken without, to tell what it costs.
    pub measured: u32,
}

/// What only the caller knows of a profile.
#[derive(Debug)]
pub struct Told {
    /// The program and its command line.
    pub program: Program,
    /// How the run was set up.
    pub settings: Vec<Fact>,
    /// What the device reaches at most ([`crate::ceilings::of`]).
    pub ceilings: Ceilings,
}

/// A training run under measurement.
pub struct Session<'a> {
    subject: &'a Subject,
    probe: Probe,
    trainer: Trainer,
    device: Vec<Fact>,
}

/// What was measured, before anything is made of it.
pub struct Measured {
    windows: Windows,
    steps: Steps,
}

/// A profile and what is shown with it.
#[derive(Debug)]
pub struct Profiled {
    /// The profile.
    pub profile: Profile,
    /// Its timeline.
    pub trace: Trace,
    /// How the load of one view is spread over its tiles, if there was something to see.
    pub heat: Option<HeatMap>,
    /// CPU time of the host as an SVG, or why there is none.
    pub flamegraph: Result<String, String>,
}

impl<'a> Session<'a> {
    /// Gets a run ready on an engine without splats. Its photos are whole from the first step on.
    ///
    /// # Errors
    /// Those of [`Trainer::new`] and of uploading splats.
    pub fn new(
        subject: &'a Subject,
        mut config: TrainConfig,
        engine: Box<dyn Instrumented>,
    ) -> Result<Self> {
        config.data.coarse_until = 0.0;
        let device = facts::device(engine.as_ref());
        let probe = Probe::new(engine);
        let mut trainer = Trainer::new(&subject.dataset, config, Box::new(probe.clone()))?;
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

    /// The run.
    pub fn trainer(&self) -> &Trainer {
        &self.trainer
    }

    /// Trains, and measures. `progress` is told of steps, of which there may be more than it was told first.
    ///
    /// # Errors
    /// Those of training; `progress` asks to stop.
    pub fn measure(&mut self, steps: Steps, progress: &dyn Progress) -> Result<Measured> {
        let windows = Run {
            trainer: &mut self.trainer,
            queued: self.probe.with(|engine| engine.has_queue()),
            probe: &self.probe,
            progress,
            warm_up: steps.warm_up,
            steps: steps.measured,
        }
        .measure()?;
        Ok(Measured { windows, steps })
    }

    /// Looks at the tiles of one view, on the processor, and makes a profile of everything.
    ///
    /// # Errors
    /// A photo that cannot be read again; nothing was measured.
    pub fn analyse(&self, measured: Measured, told: Told) -> Result<Profiled> {
        let Measured { windows, steps } = measured;
        let tiles = self.tiles(&windows)?;
        let setup = self.probe.with(|engine| {
            About {
                program: told.program,
                device: self.device.clone(),
                settings: told.settings,
                ceilings: told.ceilings,
                warm_up: steps.warm_up,
                steps: steps.measured,
                windows: &windows,
                tiles: tiles.as_ref(),
                engine,
                views: self.trainer.train_view_count(),
            }
            .setup()
        });
        let (profile, trace) = analyse(&windows.recording, &setup)?;
        Ok(Profiled {
            profile,
            trace,
            heat: tiles.map(|tiles| tiles.heat),
            flamegraph: windows.flamegraph,
        })
    }

    /// Of the first photo that is trained on, with the splats as they were at the end of the window.
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
        let step = schedule.step_settings(windows.steps_done.max(1));
        Tiles::of(view, &windows.splats, &step).map(Some)
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
