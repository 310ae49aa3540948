//! The start of a run: from the sparse points of a capture, or from existing splats.
//!
//! A run from splats differs in its configuration, which checkpoints and `config.toml` contain:
//!
//! 1. All harmonics are active from the first step (`sh_every = 0`).
//! 2. The centres' learning rate begins at the middle of its log-linear fall, since the centres are near their places.
//!    Scales and quaternions have constant rates (`learning_rates.early = 1`).
//! 3. All photos have their full size (`data.coarse_until = 0`).
//! 4. Opacities are not reset (`densify.reset_every = 0`): a reset would remove what the splats show.
//! 5. The Gaussian cap is at least the number of the splats.
//! 6. `from_splats` is set, so that a run with this configuration does not begin in the middle of the rest.

use super::Trainer;
use super::first_views::first_views;
use crate::focus;
use crate::sky::{self, Sky};
use crate::views::{Chosen, notes_on};
use crate::{Budget, CaptureStatistics, EvalReport, Schedule, Strategy, TrainConfig, strategy};
use dapple_base::numbers::human_bytes;
use dapple_device::BoxedEngine;
use dapple_engine::{Engine, MemoryPlan, OptimizerState, StepSettings};
use dapple_scene::{Dataset, Error, Result, Splats};
use std::time::Instant;

/// Near plane as a fraction of the scene's extent, if the configuration sets none. Gaussians close to a camera are fog
/// in that photo and noise in all others: on `bird` they cost single held-out photos 15 dB.
const NEAR_FRACTION: f64 = 0.05;

/// Number of consecutive steps whose settings are read.
const SAMPLED: u32 = 12;

impl Trainer {
    /// Prepares a run: checks the capture, makes the first Gaussians and passes them and the photos to the engine.
    ///
    /// # Errors
    /// The configuration contradicts itself, also if its `steps` were set and its schedule is that of a longer run:
    /// [`Preset::config_for`](crate::Preset::config_for) scales the schedule. The capture cannot be trained on (a
    /// single photo, none left after the split, an invalid lens, lost points). The engine refuses the run.
    pub fn new(dataset: &Dataset, config: TrainConfig, engine: BoxedEngine) -> Result<Self> {
        Self::begin(dataset, config, engine, None)
    }

    /// Prepares a run like [`Self::new`], from splats in the frame of the capture instead of its sparse points. Their
    /// harmonics are cut or zero-padded to the degree of the configuration. The module's head lists the settings that
    /// such a run changes.
    ///
    /// # Errors
    /// No Gaussian, non-finite values, or more Gaussians than the cap of the configuration; see [`Self::new`] for the
    /// others.
    pub fn from_splats(
        dataset: &Dataset,
        mut config: TrainConfig,
        engine: BoxedEngine,
        splats: Splats,
    ) -> Result<Self> {
        splats.check_lengths()?;
        refuse_no_gaussian(&splats)?;
        if let Some(i) = (0..splats.len()).find(|&i| !splats.has_finite_numbers(i)) {
            return Err(Error::input(format!(
                "Gaussian {i} of the splats to start from is NaN or infinite"
            ))
            .hint("remove such Gaussians with `dapple edit` first"));
        }
        if splats.len() > config.gaussian_budget() {
            return Err(Error::input(format!(
                "the splats to start from have {} Gaussians, more than max_gaussians = {}",
                splats.len(),
                config.max_gaussians
            ))
            .hint("set a larger --max-gaussians, or remove Gaussians with `dapple edit` first"));
        }
        settle_config(&mut config);
        let splats = splats.with_sh_degree(config.sh_degree);
        Self::begin(dataset, config, engine, Some(splats))
    }

    /// Scores the held-out photos before the first step, without a row in the history; `None` without such photos.
    ///
    /// # Errors
    /// The engine fails, or a photo cannot be read.
    pub fn first_score(&mut self) -> Result<Option<EvalReport>> {
        if self.hooks.held_out.views.is_empty() {
            return Ok(None);
        }
        let held_out = &self.hooks.held_out;
        held_out.measure(&mut self.run, false, None).map(Some)
    }

    fn begin(
        dataset: &Dataset,
        mut config: TrainConfig,
        engine: BoxedEngine,
        first: Option<Splats>,
    ) -> Result<Self> {
        let started = Instant::now();
        config.validate()?;
        config.validate_length()?;
        let chosen = Chosen::new(dataset, &config)?;
        focus::settle(&mut config, dataset, &chosen.train, first.as_ref())?;
        if config.near == 0.0 {
            config.near = NEAR_FRACTION * chosen.extent;
        }
        let sky = Sky::settle(dataset, &chosen, &mut config, first.as_ref())?;
        let count = first.as_ref().map(Splats::len);
        let plan = memory_plan(&config, engine.as_ref());
        let fit = plan.map(|plan| plan.gaussians);
        let wanted = count.unwrap_or_else(|| dataset.points.len().min(config.max_gaussians));
        refuse_beyond_buffers(wanted, plan, engine.as_ref())?;
        let budget = settle_budget(&mut config, dataset, &chosen.train, count, fit)?;
        let memory = note_on_memory(config.max_gaussians, plan);
        let from_splats = first.is_some();
        let (splats, of_sky) = sky::first_splats((dataset, &chosen), sky.as_ref(), &config, first)?;
        if config.densify.strategy == Strategy::Mcmc && config.densify.add == 0.0 {
            config.densify.add = strategy::growth(&config, splats.len() as u64);
        }
        let needs_state = config.appearance.has_mlp() || of_sky > 0;
        let state = needs_state.then(|| first_state(&splats, of_sky, &config, (dataset, &chosen)));
        let state = state.transpose()?;
        let with_sky = (&chosen, sky.as_ref());
        let mut trainer = Self::with_views(dataset, config, engine, with_sky, 0)?;
        trainer.run.engine.upload(&splats, state.as_ref())?;
        let count = splats.len();
        trainer.hooks.saving.begin_with(0, splats);
        let notes = notes_on(
            dataset,
            trainer.config(),
            chosen.eval.len(),
            (!from_splats).then_some(count - of_sky),
        );
        let of_sky = sky.map(|sky| sky.note(of_sky));
        trainer
            .notes
            .extend(notes.into_iter().chain(memory).chain(of_sky));
        let state = &mut trainer.run.state;
        state.gaussians = count as u64;
        state.history.budget = budget;
        state.history.seconds.setup = started.elapsed().as_secs_f64();
        Ok(trainer)
    }
}

/// Returns the state before the first step of splats whose last `sky` Gaussians are of the sky.
fn first_state(
    splats: &Splats,
    sky: usize,
    config: &TrainConfig,
    (dataset, chosen): (&Dataset, &Chosen),
) -> Result<OptimizerState> {
    let views = first_views(splats, config, dataset, chosen)?;
    Ok(OptimizerState {
        sky,
        ..OptimizerState::untrained(splats, views)
    })
}

/// Refuses to start a run from splats without a Gaussian.
///
/// # Errors
/// No Gaussian.
pub fn refuse_no_gaussian(splats: &Splats) -> Result<()> {
    match splats.is_empty() {
        true => Err(Error::input("the splats to start from have no Gaussian")
            .hint("name a file with Gaussians, or omit --from to start from the sparse points")),
        false => Ok(()),
    }
}

/// Sets the schedule of a run from splats, unless the configuration is that of an earlier such run.
fn settle_config(config: &mut TrainConfig) {
    if config.from_splats {
        return;
    }
    config.from_splats = true;
    config.sh_every = 0;
    config.data.coarse_until = 0.0;
    config.densify.reset_every = 0;
    let rates = &mut config.learning_rates;
    rates.early = 1.0;
    if rates.means > 0.0 && rates.means_final > 0.0 {
        rates.means = (rates.means * rates.means_final).sqrt();
    }
}

/// Returns how many Gaussians fit an engine in the steps of a run: the least of [`sampled_steps`]. `None` if only system
/// memory is the limit.
fn memory_plan(config: &TrainConfig, engine: &dyn Engine) -> Option<MemoryPlan> {
    let steps = sampled_steps(config).into_iter();
    let plans = steps.filter_map(|mut settings| {
        settings.render.sh_degree = config.sh_degree;
        engine.memory_plan(&settings)
    });
    plans.min_by_key(|plan| plan.gaussians)
}

/// Returns the most Gaussians that fit an engine in the steps of a run. `None` if only system memory is the limit.
pub fn fitting_gaussians(config: &TrainConfig, engine: &dyn Engine) -> Option<usize> {
    memory_plan(config, engine).map(|plan| plan.gaussians)
}

/// Returns the settings of some steps of a run at the start, in the middle and at the end, several of each because some
/// terms of the loss apply in every few steps: together they have all features of the run.
pub fn sampled_steps(config: &TrainConfig) -> Vec<StepSettings> {
    let schedule = Schedule::new(config.clone(), 1.0);
    let last = schedule.plan().last_step();
    let starts = [1, last / 2, last.saturating_sub(SAMPLED)];
    let steps = starts
        .into_iter()
        .flat_map(|first| first..=first.saturating_add(SAMPLED));
    let steps = steps.map(|step| schedule.step_settings(step.clamp(1, last.max(1))));
    steps.collect()
}

/// Refuses a run whose first Gaussians do not fit the buffers of its engines, before photos are read and Gaussians are
/// made.
fn refuse_beyond_buffers(
    wanted: usize,
    plan: Option<MemoryPlan>,
    engine: &dyn Engine,
) -> Result<()> {
    let Some(plan) = plan.filter(|plan| !plan.holds(wanted)) else {
        return Ok(());
    };
    let shared = plan.engines_holding(wanted).map_or(String::new(), |ranks| {
        format!("--ranks-in-process {ranks} shares them; or ")
    });
    Err(Error::unsupported(format!(
        "the run begins with {wanted} Gaussians, and the buffers of {} hold {}",
        engine.description(),
        plan.held.saturating_mul(plan.engines)
    ))
    .hint(format!(
        "{shared}use fewer (--max-gaussians), 16-bit storage (--precision) or a lower --sh-degree"
    )))
}

/// Returns a note if the cap that the user set is beyond the memory of the device.
fn note_on_memory(most: usize, plan: Option<MemoryPlan>) -> Option<String> {
    let plan = plan.filter(|plan| most > plan.gaussians)?;
    let fit = plan.gaussians;
    let holds = match (plan.by_buffer, plan.bytes) {
        (false, Some(bytes)) => format!(
            "the {} that this device has for them hold about {fit}",
            human_bytes(bytes)
        ),
        _ => {
            let (shown, of) = match plan.engines {
                0 | 1 => ("all".to_owned(), "this device".to_owned()),
                engines => (format!("one in {engines}"), format!("{engines} ranks")),
            };
            format!("if a photo shows {shown}, the largest buffers of {of} hold about {fit}")
        }
    };
    let smaller = plan.smaller.filter(|(_, more)| *more > fit);
    let smaller = smaller.map(|(name, more)| format!("--precision {name} fits about {more}"));
    let ranks = plan.by_buffer.then(|| {
        let ranks = plan.engines_for(most);
        format!("--ranks-in-process {ranks} shares them")
    });
    let remedies = smaller.into_iter().chain(ranks);
    let remedies: String = remedies.map(|remedy| remedy + ", or ").collect();
    Some(format!(
        "max_gaussians = {most} take {}, and {holds}: a run that grows further ends early; {remedies}lower \
         --max-gaussians or --sh-degree",
        human_bytes(plan.bytes_of(most))
    ))
}

/// Sets the Gaussian cap and the growth per round in the configuration, if it sets none; both stay for the whole run.
/// Returns the computed cap and its reason, unless the user set the cap.
///
/// # Errors
/// A photo cannot be read.
pub(super) fn settle_budget(
    config: &mut TrainConfig,
    dataset: &Dataset,
    train: &[usize],
    given: Option<usize>,
    fit: Option<usize>,
) -> Result<Option<Budget>> {
    if config.max_gaussians > 0 || !config.densify.strategy.has_budget() {
        return Ok(None);
    }
    let first = given.unwrap_or(match (config.initial_gaussians, dataset.points.len()) {
        (0, points) => points,
        (n, _) => n,
    });
    let budget = CaptureStatistics::measure(dataset, train)?.budget(&*config, first, fit);
    config.max_gaussians = budget.gaussians.max(given.unwrap_or(0));
    Ok(Some(budget))
}
