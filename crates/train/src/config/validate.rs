//! Refuses configurations that cannot work, before any photo is read: numbers outside the ranges of their rows, and
//! contradictory values.

use super::rows::MOST_STEPS;
use super::{DepthSource, TrainConfig};
use crate::features;
use crate::plan::Change;
use crate::strategy::Strategy;
use dapple_base::settings::check_ranges;
use dapple_scene::{Error, Result};

impl TrainConfig {
    /// Checks every value and every contradiction between values.
    ///
    /// # Errors
    /// The first fault, named by its key.
    pub fn validate(&self) -> Result<()> {
        check_ranges(self)?;
        self.validate_run()?;
        self.validate_rates()?;
        features::validate(self)?;
        self.validate_densify()
    }

    /// Refuses a run that is shorter than its preset's, with the schedule of the preset's own length: its `steps`
    /// were set and nothing else was scaled.
    ///
    /// # Errors
    /// Such a schedule, where the run would end before its harmonics or its number of Gaussians have settled.
    pub(crate) fn validate_length(&self) -> Result<()> {
        let entries = |config: &Self| {
            let densify = &config.densify;
            [
                config.sh_every,
                densify.start,
                densify.stop,
                config.eval.every,
            ]
        };
        let whole = [self.preset.config(), Self::default()];
        let is_whole = |other: &Self| {
            self.preset == other.preset
                && self.steps < other.steps
                && entries(self) == entries(other)
        };
        let has_no_harmonics = self.sh_degree > 0 && self.sh_every >= self.steps;
        let never_settles = self.densify.enabled && self.densify.stop > self.steps;
        let Some(other) = whole.iter().find(|other| is_whole(other)) else {
            return Ok(());
        };
        if !has_no_harmonics && !never_settles {
            return Ok(());
        }
        Err(Error::input(format!(
            "the run has {} steps, and its schedule is that of {}: harmonics begin after step {}, and Gaussians \
             are added until step {}",
            self.steps, other.steps, self.sh_every, self.densify.stop
        ))
        .hint(format!(
            "begin with Preset::config_for({}), which scales the schedule, or with TrainConfig::resolve",
            self.steps
        )))
    }

    fn validate_run(&self) -> Result<()> {
        if self.stop_after > self.steps {
            return Err(Error::input(format!(
                "stop_after = {} lies beyond the last step, {}",
                self.stop_after, self.steps
            ))
            .hint("raise steps, or remove stop_after to run all of them"));
        }
        if self.schedule_steps > self.steps {
            return Err(Error::input(format!(
                "schedule_steps = {} lies beyond the last step, {}",
                self.schedule_steps, self.steps
            ))
            .hint("raise steps, or lower schedule_steps; stop_after ends a run before its schedule does"));
        }
        self.validate_amendments()?;
        self.validate_extensions()?;
        self.validate_coarse()?;
        if self.data.eval_every == 1 {
            return Err(Error::input(
                "data.eval_every = 1 holds out every photo: none is left to train on",
            )
            .hint("8 holds out every eighth photo, 0 none"));
        }
        if self.data.validate_every == 1 {
            return Err(Error::input(
                "data.validate_every = 1 withholds every photo, so no photo is left to train on",
            )
            .hint(
                "set data.validate_every to 0 for none, or to 2 or more; 16 withholds one photo in 16",
            ));
        }
        Ok(())
    }

    fn validate_amendments(&self) -> Result<()> {
        let (mut least, mut end) = (0, self.steps);
        for amendment in self.amendments.iter() {
            let after = amendment.after;
            let is_within = (least..end).contains(&after);
            let (can_be, new_end) = match amendment.change {
                Change::StepRate { last } => (is_within && last > after, last),
                Change::Extension {
                    steps,
                    max_gaussians,
                } => {
                    let is_longer = steps > end && max_gaussians > 0;
                    (is_within && after > least && is_longer, steps)
                }
                Change::Dropout { rate } => (after >= least && (0.0..=0.5).contains(&rate), end),
                Change::Continuation { means, .. } => {
                    (is_within && (0.0..=10.0).contains(&means), end)
                }
            };
            if !can_be || new_end > MOST_STEPS {
                return Err(Error::input(format!(
                    "the amendment {amendment} cannot be: the run is between steps {least} and {end}"
                ))
                .hint(
                    "`after` is a step of the run, `last` is a later step, `steps` and `max_gaussians` are what an \
                     extended run is to have, `rate` is 0 to 0.5, and `means` 0 to 10",
                ));
            }
            (least, end) = (after, new_end);
        }
        Ok(())
    }

    fn validate_extensions(&self) -> Result<()> {
        let others = [
            (
                "an amendment of the step rate",
                self.amendments.step_rates().next().is_some(),
            ),
            ("schedule_steps", self.schedule_length() != self.steps),
            ("data.validate_every", self.data.validate_every > 0),
            ("densify.strategy", self.densify.strategy != Strategy::Mcmc),
            ("appearance.model", self.appearance.is_on()),
            ("poses.refine", self.poses.refine),
            ("depth.from", self.depth.from != DepthSource::None),
        ];
        let is_extended = self.amendments.extensions().next().is_some();
        let is_asked = self.max_extensions > 0 || is_extended;
        match others.into_iter().find(|(_, is_other)| is_asked && *is_other) {
            None => Ok(()),
            Some((key, _)) => Err(Error::input(format!(
                "max_extensions = {} and {key} contradict each other",
                self.max_extensions
            ))
            .hint(format!(
                "run extensions need mcmc, the whole schedule, and no parameters of single photos: remove max_extensions, or {key}"
            ))),
        }
    }

    fn validate_coarse(&self) -> Result<()> {
        let of_photos = [
            ("appearance.model", self.appearance.is_on()),
            ("poses.refine", self.poses.refine),
            ("depth.from", self.depth.from != DepthSource::None),
        ];
        let found = of_photos.into_iter().find(|(_, is_on)| *is_on);
        let Some((key, _)) = found.filter(|_| self.data.coarse_until > 0.0) else {
            return Ok(());
        };
        Err(Error::input(format!(
            "data.coarse_until = {} and {key} contradict each other",
            self.data.coarse_until
        ))
        .hint(format!(
            "poses, colours and depths need full-size photos: remove data.coarse_until, or {key}"
        )))
    }

    fn validate_rates(&self) -> Result<()> {
        let rates = &self.learning_rates;
        if (rates.means > 0.0) != (rates.means_final > 0.0) {
            return Err(Error::input(
                "learning_rates.means and means_final must both be 0 or both be larger",
            )
            .hint("the rate falls log-linearly from one to the other"));
        }
        Ok(())
    }

    fn validate_densify(&self) -> Result<()> {
        let densify = &self.densify;
        if densify.enabled && densify.start > densify.stop {
            return Err(Error::input(format!(
                "densify.start = {} is after densify.stop = {}",
                densify.start, densify.stop
            ))
            .hint("swap them, or set densify.enabled = false for a fixed number of Gaussians"));
        }
        if !densify.enabled && densify.strategy.has_budget() {
            return Err(Error::input(format!(
                "densify.strategy = {} has nothing to do while densify.enabled = false",
                densify.strategy
            ))
            .hint(
                "choose a preset that densifies (m9, m10, quick, standard), or omit --strategy",
            ));
        }
        densify.strategy.validate(self)
    }
}
