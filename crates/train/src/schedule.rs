//! The numbers of each step: a pure function of the configuration and the step.
//!
//! 1. The centres' learning rate falls log-linearly over the run and is in units of the scene's extent (Kerbl et al.
//!    2023). The others are constant, and may fall once the number of Gaussians is fixed: the remaining error is noise
//!    of the steps, which smaller steps average out.
//! 2. The active SH degree rises by one every `sh_every` steps.
//! 3. `order.rs` determines the photo of a step.
//! 4. A random background is another colour in each step, keyed by (seed, step).
//! 5. Terms of the loss have weights; that of known depths falls log-linearly.
//! 6. A change of pace ([`TrainConfig::step_rate_log`]) runs the rest of the schedule in more or fewer steps: a step of
//!    the run has a *place* in the schedule, which determines all its numbers.
//! 7. The rate of the photos' appearance is zero at first and then falls log-linearly.
//! 8. The strategy determines density control after a step, and the terms that it adds to steps: [`crate::strategy`].
//! 9. Rates of scales and quaternions are larger at first ([`crate::config::LearningRateConfig::early`]), and the first
//!    photos half as large ([`crate::config::DataConfig::coarse_until`]).
//! 10. Anti-aliased runs compute the Gaussians' 3D filters again every hundred steps and after density control.
//! 11. Dropout omits a part of the Gaussians in all steps, or in those after a given one, drawn again for each step
//!     ([`dapple_engine::Dropout`]).
//! 12. After a run extension, all numbers are those of a run that had this length from its start
//!     ([`TrainConfig::extension_log`]).

use crate::TrainConfig;
use crate::config::{Background, DepthSource};
use crate::random::{Purpose, generator, unit};
use crate::strategy::{self, DensityStrategy, in_extents};
use dapple_engine::{
    Adam, DensifyPlan, Extras, LearningRates, LossTerm, LossWeights, PoseRates, RenderSettings,
    StepSettings,
};
use rand_chacha::rand_core::Rng;
use std::sync::Arc;

/// Steps between two updates of the 3D filters, as in Mip-Splatting (Yu et al. 2024).
const SMOOTHING_EVERY: u32 = 100;

/// The numbers of each step of a run. Steps count from 1.
#[derive(Debug, Clone)]
pub struct Schedule {
    config: TrainConfig,
    extent: f64,
    strategy: Arc<dyn DensityStrategy>,
    /// True if the caller supplied the strategy, so that the configuration cannot name it.
    strategy_is_own: bool,
    /// Schedules of run extensions, each with the step after which it applies ([`TrainConfig::extension_log`]).
    extended: Vec<(u32, Schedule)>,
}

impl Schedule {
    /// A schedule for a run in a scene of this extent (world units, [`dapple_scene::Dataset::extent`]).
    pub fn new(config: TrainConfig, extent: f64) -> Self {
        // Strategies work on places of the schedule.
        let unpaced = TrainConfig {
            step_rate_log: Vec::new(),
            ..config.clone()
        };
        let strategy = strategy::of(&unpaced, extent);
        let extended = config.extension_log.iter();
        let extended = extended
            .map(|&[after, steps, most]| {
                let longer = config.extended_to(steps, most as usize);
                (after, Self::new(longer, extent))
            })
            .collect();
        Self {
            config,
            extent,
            strategy,
            strategy_is_own: false,
            extended,
        }
    }

    /// Applies the numbers of a run that had `steps` steps and `most` Gaussians from its start to the steps after
    /// `after` ([`TrainConfig::extension_log`]).
    pub(crate) fn extend(&mut self, after: u32, steps: u32, most: usize) {
        let longer = self.config.extended_to(steps, most);
        let mut longer = Self::new(longer, self.extent);
        if self.strategy_is_own {
            longer.set_strategy(self.strategy.clone());
        }
        self.config
            .extension_log
            .push([after, steps, u32::try_from(most).unwrap_or(u32::MAX)]);
        self.extended.push((after, longer));
    }

    /// Sets the dropout rate `part` for the steps after `after` ([`TrainConfig::dropout_after`]).
    pub(crate) fn set_dropout(&mut self, after: u32, part: f64) {
        (self.config.dropout_after, self.config.dropout) = (after, part);
    }

    /// Returns the schedule that applies to step `step`.
    fn of(&self, step: u32) -> &Self {
        let is_after = |(after, _): &&(u32, Self)| step > *after;
        let last = self.extended.iter().rev().find(is_after);
        last.map_or(self, |(_, longer)| longer)
    }

    /// Replaces the density strategy of the configuration by one of the caller's own.
    #[must_use]
    pub fn with_strategy(mut self, strategy: Arc<dyn DensityStrategy>) -> Self {
        self.set_strategy(strategy);
        self
    }

    pub(crate) fn set_strategy(&mut self, strategy: Arc<dyn DensityStrategy>) {
        for (_, longer) in &mut self.extended {
            longer.set_strategy(strategy.clone());
        }
        self.strategy = strategy;
        self.strategy_is_own = true;
    }

    /// Returns the name of the density strategy.
    pub fn strategy_name(&self) -> &str {
        self.strategy.name()
    }

    /// Returns the name of the density strategy if it is the caller's own.
    pub(crate) fn own_strategy(&self) -> Option<&str> {
        self.strategy_is_own.then(|| self.strategy.name())
    }

    /// Returns the configuration of this schedule.
    pub fn config(&self) -> &TrainConfig {
        &self.config
    }

    /// Runs the rest of the schedule after step `after` in the steps up to `last` ([`TrainConfig::step_rate_log`]).
    /// Strategies work on places of the schedule, and do not notice the change.
    pub(crate) fn change_pace(&mut self, after: u32, last: u32) {
        self.config.step_rate_log.push([after, last]);
    }

    /// Returns the place in the configured schedule of step `step` of the run.
    pub fn place(&self, step: u32) -> u32 {
        self.of(step).own_place(step)
    }

    fn own_place(&self, step: u32) -> u32 {
        let (mut from, mut place, mut last) = (0, 0, self.config.steps);
        for &[after, new_last] in &self.config.step_rate_log {
            if step <= after {
                break;
            }
            place = self.along((from, place), last, after);
            (from, last) = (after, new_last);
        }
        self.along((from, place), last, step)
    }

    /// Returns the place of `step` between step `from`, whose place is `place`, and the last step, whose place is the
    /// end of the run. Steps after the schedule are removed or added first.
    fn along(&self, (from, place): (u32, u32), last: u32, step: u32) -> u32 {
        let (done, all) = (
            u64::from(step.saturating_sub(from)),
            u64::from(last.saturating_sub(from)).max(1),
        );
        let (length, steps) = (self.config.schedule_length(), self.config.steps);
        let to = |end: u32| u64::from(end.saturating_sub(place));
        // Steps within the schedule, and their number as planned.
        let (own, planned) = match length < steps {
            true => (to(length).min(all - 1), to(length)),
            false => (all, to(steps)),
        };
        let along = if done <= own || own == all {
            // Without a change of pace this is `step`, beyond the last step too.
            done * planned / own.max(1)
        } else {
            planned + (done - own) * (to(steps) - planned) / (all - own)
        };
        u32::try_from(u64::from(place) + along).unwrap_or(u32::MAX)
    }

    /// Returns the scene's extent, world units.
    pub fn extent(&self) -> f64 {
        self.extent
    }

    /// Returns render settings at full degree, over a fixed background: for scoring and for finished splats.
    pub fn render_settings(&self) -> RenderSettings {
        RenderSettings {
            background: self.config.background.fixed(),
            sh_degree: self.config.sh_degree,
            max_gaussians_per_tile: self.config.max_gaussians_per_tile,
            near: self.config.near_plane(),
            depth: false,
            surface: false,
            antialias: self.config.antialias,
        }
    }

    /// Returns the background colour of step `step`, keyed by (seed, step) if it is random.
    pub fn background(&self, step: u32) -> [f32; 3] {
        match self.config.background {
            Background::Colour(_) => self.config.background.fixed(),
            Background::Random => {
                let mut random = generator(self.config.seed, Purpose::Background, step.into());
                std::array::from_fn(|_| unit(&mut random))
            }
        }
    }

    /// Returns the degree of spherical harmonics in step `step`.
    pub fn sh_degree(&self, step: u32) -> u8 {
        let of = self.of(step);
        let risen = of.own_place(step).saturating_sub(1) / of.config.sh_every.max(1);
        u8::try_from(risen)
            .unwrap_or(u8::MAX)
            .min(self.config.sh_degree)
    }

    /// Returns the step sizes of step `step`.
    pub fn learning_rates(&self, step: u32) -> LearningRates {
        self.of(step).own_rates(step)
    }

    fn own_rates(&self, step: u32) -> LearningRates {
        let rates = &self.config.learning_rates;
        let place = self.place(step);
        let beyond = rates.decay.powf(self.beyond(place));
        let means = if rates.means > 0.0 {
            rates.means * (rates.means_final / rates.means).powf(self.done(place)) * beyond
        } else {
            0.0
        };
        let others = rates.decay.powf(self.settled(place)) * beyond;
        let shapes = others * rates.early.powf(self.growing(place));
        LearningRates {
            means: (means * self.extent) as f32,
            scales: (rates.scales * shapes) as f32,
            quats: (rates.quats * shapes) as f32,
            opacities: (rates.opacities * others) as f32,
            sh0: (rates.sh0 * others) as f32,
            sh_rest: (rates.sh_rest * others) as f32,
        }
    }

    /// Returns the weights of the loss terms in step `step`. Scales count in units of the extent, so that the unit of
    /// the world does not matter.
    pub fn losses(&self, step: u32) -> LossWeights {
        let config = &self.of(step).config;
        LossWeights::from_fn(|term| match term {
            LossTerm::Ssim => config.ssim_weight as f32,
            LossTerm::Depth => self.depth_weight(step),
            LossTerm::Opacity => config.densify.opacity_reg as f32,
            LossTerm::Scale => in_extents(config.densify.scale_reg, self.extent),
            LossTerm::Flatness => in_extents(config.densify.flat_reg, self.extent),
            LossTerm::Perceptual => config.lpips_weight as f32,
        })
    }

    /// Returns the position of the crop that step `step` compares, as fractions of 2^32.
    fn crop(&self, step: u32) -> [u32; 2] {
        if self.config.lpips_weight == 0.0 {
            return [0; 2];
        }
        let mut random = generator(self.config.seed, Purpose::Crop, step.into());
        std::array::from_fn(|_| random.next_u32())
    }

    /// Returns the weight of the depth loss in step `step`. It is log-linear over the run, so that depths determine the
    /// position of Gaussians first, and photos refine it later (Kerbl et al. 2024, "A Hierarchical 3D Gaussian
    /// Representation").
    fn depth_weight(&self, step: u32) -> f32 {
        let depth = &self.config.depth;
        if depth.from == DepthSource::None {
            return 0.0;
        }
        (depth.weight * depth.decay.powf(self.done(self.place(step)))) as f32
    }

    /// Returns the elapsed part of the schedule, 0 to 1.
    fn done(&self, place: u32) -> f64 {
        part(place, 0, self.config.schedule_length())
    }

    /// Returns the elapsed part of the steps in which the number of Gaussians is fixed, 0 to 1.
    fn settled(&self, place: u32) -> f64 {
        let config = &self.config;
        part(place, config.densify.stop, config.schedule_length())
    }

    /// Returns the remaining part of the steps in which the number of Gaussians changes, 1 to 0.
    fn growing(&self, place: u32) -> f64 {
        let config = &self.config;
        match config.densify.stop.min(config.schedule_length()) {
            0 => 0.0,
            stop => 1.0 - part(place, 0, stop),
        }
    }

    /// Returns the last step, at the current pace, that takes its photo at half the size.
    pub fn last_coarse_step(&self) -> u32 {
        let share = self.config.data.coarse_until;
        let end = (share * f64::from(self.config.schedule_length())) as u32;
        // An extension begins after these steps.
        let last = self
            .config
            .extension_log
            .first()
            .map_or(self.config.last_step(), |&[after, ..]| after);
        let (mut coarse, mut fine) = (0, last + 1);
        // Places rise with steps.
        while coarse + 1 < fine {
            let middle = coarse + (fine - coarse) / 2;
            match self.own_place(middle) <= end {
                true => coarse = middle,
                false => fine = middle,
            }
        }
        coarse
    }

    /// Returns the elapsed part of the run's steps after its schedule, 0 to 1.
    fn beyond(&self, place: u32) -> f64 {
        part(place, self.config.schedule_length(), self.config.steps)
    }

    /// Returns the step sizes of the pose of step `step`'s view.
    ///
    /// A rotation by `a` moves the image by `focal * a` pixels, a translation by `t` moves a point at depth z by
    /// `focal * t / z`. Depths are about as large as the distances between cameras, so that equal rates, with lengths
    /// in units of the extent, move the image by equal amounts.
    pub fn pose_rates(&self, step: u32) -> PoseRates {
        let poses = &self.config.poses;
        let done = self.done(self.place(step));
        if !poses.refine || done < poses.start {
            return PoseRates::default();
        }
        let rate = poses.rate * poses.decay.powf((done - poses.start) / (1.0 - poses.start));
        PoseRates {
            rotation: rate as f32,
            translation: (rate * self.extent) as f32,
        }
    }

    /// Returns all settings of step `step` for an engine.
    pub fn step_settings(&self, step: u32) -> StepSettings {
        StepSettings {
            refresh_smoothing: self.refreshes_smoothing(step),
            // The value of the run, independent of its extensions.
            dropout: match step > self.config.dropout_after {
                true => self.config.dropout as f32,
                false => 0.0,
            },
            ..self.of(step).own_settings(step)
        }
    }

    fn own_settings(&self, step: u32) -> StepSettings {
        let adam = &self.config.adam;
        let learning_rates = self.learning_rates(step);
        StepSettings {
            step,
            render: RenderSettings {
                background: self.background(step),
                sh_degree: self.sh_degree(step),
                ..self.render_settings()
            },
            learning_rates,
            adam: Adam {
                beta1: adam.beta1 as f32,
                beta2: adam.beta2 as f32,
                epsilon: adam.epsilon as f32,
            },
            losses: self.losses(step),
            crop: self.crop(step),
            accumulate_density: self.strategy.accumulates(self.place(step)),
            refresh_smoothing: false,
            extras: Extras {
                seed: self.config.seed,
                ..self.strategy.extras(self.place(step), &learning_rates)
            },
            dropout: 0.0,
            pose_rates: self.pose_rates(step),
            appearance: self
                .config
                .appearance
                .settings(self.place(step), self.config.steps),
            appearance_mlp: self
                .config
                .appearance
                .mlp_settings(self.place(step), self.config.steps),
        }
    }

    /// Returns true if step `step` begins by computing the 3D filters again: every [`SMOOTHING_EVERY`] steps, since
    /// centres move, and after density control.
    fn refreshes_smoothing(&self, step: u32) -> bool {
        let before = step.saturating_sub(1);
        self.config.antialias
            && (before.is_multiple_of(SMOOTHING_EVERY) || self.densify_plan(before).is_some())
    }

    /// Returns the round of density control that follows step `step`, if there is one.
    pub fn densify_plan(&self, step: u32) -> Option<DensifyPlan> {
        let schedule = self.of(step);
        let mut plans = schedule
            .places(step)
            .filter_map(|place| schedule.strategy.plan(place));
        plans.next_back().map(|plan| DensifyPlan { step, ..plan })
    }

    /// Returns the places of the schedule that `step` has passed since the step before: one place, unless the pace was
    /// changed.
    pub(crate) fn places(&self, step: u32) -> std::ops::RangeInclusive<u32> {
        let schedule = self.of(step);
        schedule.own_place(step.saturating_sub(1)) + 1..=schedule.own_place(step)
    }

    /// Returns true if held-out photos are scored after step `step`.
    pub fn evaluates_at(&self, step: u32) -> bool {
        let eval = &self.config.eval;
        let is_due = |place: u32| {
            (eval.every > 0 && place.is_multiple_of(eval.every)) || eval.steps.contains(&place)
        };
        step == self.config.last_step() || self.places(step).any(is_due)
    }
}

/// Returns the elapsed part of the steps after `from`, up to `last`, before step `place`: 0 to 1.
fn part(place: u32, from: u32, last: u32) -> f64 {
    if from >= last {
        return 0.0;
    }
    let before = place.saturating_sub(1).clamp(from, last);
    f64::from(before - from) / f64::from(last - from)
}
