//! Plan of a run: its configuration, which does not change, and its amendments, which the run adds.
//!
//! 1. The configuration holds what the user chose, and what the capture settled before the first step.
//! 2. An [`Amendment`] changes the steps after one step: the step rate controller moves the last step, and extension
//!    checks lengthen the run or start dropout. A hook returns the change ([`crate::Next::Amend`]); `Run::amend` alone
//!    applies it.
//! 3. The plan determines every number of every step ([`crate::Schedule`]). `config.toml` and checkpoints store it as
//!    one configuration ([`Plan::to_config`]), so that a run with this configuration is bit-identical.
//!
//! To add an amendment: a variant of [`Change`], its check in `config/validate.rs`, and its segment in
//! `schedule/mod.rs`.

mod amendments;

pub use amendments::{Amendment, Amendments, Change};

use crate::TrainConfig;
use dapple_scene::Result;

/// Plan of a run: all that determines its steps, except for the capture.
///
/// ```
/// use dapple_train::{Amendment, Change, Plan, Preset};
///
/// let mut config = Preset::Micro.config_for(200);
/// let change = Change::StepRate { last: 150 };
/// config.amendments = vec![Amendment { after: 100, change }].into();
/// let plan = Plan::from(config.clone());
/// assert_eq!((plan.config().steps, plan.last_step()), (200, 150));
/// assert_eq!(plan.to_config(), config);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Its own amendments are empty.
    config: TrainConfig,
    amendments: Amendments,
}

impl From<TrainConfig> for Plan {
    fn from(mut config: TrainConfig) -> Self {
        let amendments = std::mem::take(&mut config.amendments);
        Self { config, amendments }
    }
}

impl Plan {
    /// Returns the configuration, without the amendments. It does not change during a run.
    pub fn config(&self) -> &TrainConfig {
        &self.config
    }

    /// Returns the amendments of an earlier run that this run repeats, and those that this run has made.
    pub fn amendments(&self) -> &Amendments {
        &self.amendments
    }

    /// Returns the configuration that repeats the run, with the amendments.
    pub fn to_config(&self) -> TrainConfig {
        TrainConfig {
            amendments: self.amendments.clone(),
            ..self.config.clone()
        }
    }

    /// Returns the last step of the run, as currently planned.
    pub fn last_step(&self) -> u32 {
        self.config.last_step_with(&self.amendments)
    }

    /// Returns the Gaussian cap at the end of the run.
    pub(crate) fn last_budget(&self) -> usize {
        let raised = self.amendments.extensions().next_back();
        raised.map_or_else(
            || self.config.gaussian_budget(),
            |(_, _, most)| most as usize,
        )
    }

    /// Returns the configuration of the last extension; `None` without one.
    pub(crate) fn extended(&self) -> Option<TrainConfig> {
        let (_, steps, most) = self.amendments.extensions().next_back()?;
        Some(self.config.extended_to(steps, most as usize))
    }

    /// Adds an amendment by its step, unless the plan has it from an earlier run.
    ///
    /// # Errors
    /// The amendment contradicts the plan.
    pub(crate) fn amend(&mut self, amendment: Amendment) -> Result<()> {
        if self.amendments.iter().any(|known| *known == amendment) {
            return Ok(());
        }
        // Amendments of later steps may be planned.
        let at = self.amendments.insert(amendment);
        let checked = self.to_config().validate();
        if checked.is_err() {
            self.amendments.remove(at);
        }
        checked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preset;

    #[test]
    fn an_amendment_goes_before_those_of_later_steps() {
        let mut config = Preset::Micro.config_for(200);
        let planned = Amendment::dropout(150, 0.1);
        config.amendments = vec![planned].into();
        let mut plan = Plan::from(config);
        let rate = Amendment::step_rate(100, 180);
        assert!(plan.amend(rate).is_ok());
        let all: Vec<Amendment> = plan.amendments().iter().copied().collect();
        assert_eq!(all, [rate, planned]);
        assert!(plan.amend(Amendment::step_rate(500, 600)).is_err());
        assert_eq!(plan.amendments().iter().count(), 2);
    }
}
