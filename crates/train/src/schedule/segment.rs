//! A segment of a schedule: the numbers of the steps between two amendments.

use crate::config::{Background, TrainConfig};
use crate::features::{self, At, Weighing};
use crate::random::{Purpose, generator, unit};
use crate::strategy::{self, DensityStrategy};
use dapple_engine::{
    Adam, Batch, LearningRates, LossTerm, LossWeights, RenderSettings, StepSettings,
};
use std::sync::Arc;

/// Steps with one configuration, strategy, pace and dropout rate.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    /// Last step before the segment.
    pub(super) after: u32,
    /// Configuration of a run that has these numbers from its start.
    config: Arc<TrainConfig>,
    extent: f64,
    pub(super) strategy: Arc<dyn DensityStrategy>,
    pub(super) dropout: f64,
    /// Step after which moments and density statistics started at zero; `None` if they did at the start of the run.
    fresh_after: Option<u32>,
    /// Last further part of the run: the step before it, and the centres' rate in its first step.
    part: Option<(u32, f64)>,
    pace: Pace,
}

/// A line from steps to places of the schedule: step `from` has the place `place`, and step `last` has the last place.
#[derive(Debug, Clone, Copy)]
struct Pace {
    from: u32,
    place: u32,
    last: u32,
}

impl Segment {
    /// The steps of a run with this configuration, from its start. `own` replaces the strategy of the configuration.
    pub(super) fn new(
        config: TrainConfig,
        extent: f64,
        own: Option<Arc<dyn DensityStrategy>>,
    ) -> Self {
        Self {
            after: 0,
            strategy: own.unwrap_or_else(|| strategy::of(&config, extent)),
            extent,
            dropout: config.dropout,
            fresh_after: None,
            part: None,
            pace: Pace {
                from: 0,
                place: 0,
                last: config.steps,
            },
            config: Arc::new(config),
        }
    }

    /// Returns this segment for the steps after `after`.
    pub(super) fn from(self, after: u32) -> Self {
        Self { after, ..self }
    }

    /// Returns this segment with a dropout rate.
    pub(super) fn with_dropout(self, dropout: f64) -> Self {
        Self { dropout, ..self }
    }

    /// Returns this segment as a further part of the run after step `after`, with the centres' rate in its first step.
    pub(super) fn continued(self, after: u32, means: f64, fresh_moments: bool) -> Self {
        Self {
            part: Some((after, means)),
            fresh_after: match fresh_moments {
                true => Some(after),
                false => self.fresh_after,
            },
            ..self
        }
    }

    /// Returns this segment with the parts of `other`.
    pub(super) fn with_parts_of(self, other: &Self) -> Self {
        Self {
            part: other.part,
            fresh_after: other.fresh_after,
            ..self
        }
    }

    /// Returns true if density statistics cover one interval of rounds.
    pub(super) fn has_statistics(&self, step: u32) -> bool {
        let every = self.config.densify.every;
        self.fresh_after
            .is_none_or(|after| step.saturating_sub(after) >= every)
    }

    /// Returns the factor of the rates for moments that started at zero: the bias correction of Adam (Kingma and Ba 2015)
    /// for the steps since then, divided by the engine's, which counts from the start of the run.
    fn correction(&self, step: u32) -> f64 {
        let Some(after) = self.fresh_after else {
            return 1.0;
        };
        let part = |beta: f64, steps: u32| 1.0 - beta.powf(f64::from(steps.max(1)));
        let (adam, since) = (&self.config.adam, step.saturating_sub(after));
        let (first, second) = (adam.beta1, adam.beta2);
        let wanted = part(second, since).sqrt() / part(first, since);
        wanted * part(first, step) / part(second, step).sqrt()
    }

    /// Returns this segment with the rest of its schedule after step `after` in the steps up to `last`. Strategies work
    /// on places of the schedule, and do not notice the change.
    pub(super) fn paced(&self, after: u32, last: u32) -> Self {
        Self {
            pace: Pace {
                from: after,
                place: self.place(after),
                last,
            },
            ..self.clone()
        }
    }

    /// Returns the place of `step` in the schedule. Steps after the schedule are removed or added first.
    pub(super) fn place(&self, step: u32) -> u32 {
        let Pace { from, place, last } = self.pace;
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

    /// Returns the place of a step in its batch; no batch goes beyond step `end`.
    pub(super) fn batch(&self, step: u32, end: u32) -> Batch {
        let size = self.config.views_per_step.max(1);
        let index = step.saturating_sub(self.after + 1) % size;
        let left = end.saturating_sub(step);
        Batch {
            index,
            size: size.min(index + 1 + left),
        }
    }

    pub(super) fn render_settings(&self) -> RenderSettings {
        RenderSettings {
            background: self.config.background.fixed(),
            sh_degree: self.config.sh_degree,
            max_gaussians_per_tile: self.config.max_gaussians_per_tile,
            near: self.config.near_plane(),
            depth: false,
            surface: false,
            antialias: self.config.antialias,
            extra_dilation: 0.0,
        }
    }

    pub(super) fn background(&self, step: u32) -> [f32; 3] {
        match self.config.background {
            Background::Colour(_) => self.config.background.fixed(),
            Background::Random => {
                let mut random = generator(self.config.seed, Purpose::Background, step.into());
                std::array::from_fn(|_| unit(&mut random))
            }
        }
    }

    pub(super) fn sh_degree(&self, step: u32) -> u8 {
        let Some(risen) = self
            .place(step)
            .saturating_sub(1)
            .checked_div(self.config.sh_every)
        else {
            return self.config.sh_degree;
        };
        u8::try_from(risen)
            .unwrap_or(u8::MAX)
            .min(self.config.sh_degree)
    }

    pub(super) fn learning_rates(&self, step: u32) -> LearningRates {
        let rates = &self.config.learning_rates;
        let place = self.place(step);
        let beyond = rates.decay.powf(self.beyond(place));
        let (first, done) = match self.part {
            None => (rates.means, self.done(place)),
            Some((after, first)) => {
                let length = self.config.schedule_length();
                (first, part(place, self.place(after), length))
            }
        };
        let means = if first > 0.0 {
            first * (rates.means_final / first).powf(done) * beyond
        } else {
            0.0
        };
        let others = rates.decay.powf(self.settled(place)) * beyond;
        let correction = self.correction(step);
        let (means, others) = (means * correction, others * correction);
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

    pub(super) fn losses(&self, step: u32) -> LossWeights {
        let config = &self.config;
        let ssim = config.ssim_weight as f32;
        let mut weights = LossWeights::default().with(LossTerm::Ssim, ssim);
        let of = Weighing {
            config,
            step,
            done: self.done(self.place(step)),
            extent: self.extent,
        };
        features::weigh(&of, &mut weights);
        weights
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

    /// Returns the elapsed part of the run's steps after its schedule, 0 to 1.
    fn beyond(&self, place: u32) -> f64 {
        part(place, self.config.schedule_length(), self.config.steps)
    }

    /// Returns the settings of step `step` in its batch. `follows_round` returns true if a round of density control precedes the
    /// step.
    pub(super) fn step_settings(
        &self,
        (step, batch): (u32, Batch),
        follows_round: &dyn Fn() -> bool,
    ) -> StepSettings {
        let adam = &self.config.adam;
        let place = self.place(step);
        let learning_rates = self.learning_rates(step);
        let extras = self.strategy.extras(place, &learning_rates);
        StepSettings {
            step,
            batch,
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
            seed: self.config.seed,
            accumulate_density: self.strategy.accumulates(place),
            absolute_density: extras.absolute_density,
            features: features::step(&At {
                config: &self.config,
                step,
                place,
                done: self.done(place),
                extent: self.extent,
                dropout: self.dropout,
                extras,
                follows_round,
            }),
        }
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
