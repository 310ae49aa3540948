//! A run that keeps its pace.

use super::{Now, Pacer};
use crate::trainer::{Companion, Run};
use crate::{Observer, TrainConfig, Trainer};
use dapple_scene::Result;

/// Gives the rest of a run more or fewer steps, where there is a pacer that finds so.
#[derive(Debug, Default)]
pub(crate) struct Pacing(Option<Pacer>);

impl Companion for Pacing {
    fn after_step(&mut self, run: &mut Run, _: &mut dyn Observer) -> Result<()> {
        let Some(pacer) = &mut self.0 else {
            return Ok(());
        };
        let state = &run.state;
        let gaussians = state.gaussians as f64;
        let place = run.schedule.place(state.step);
        let now = Now {
            step: state.step,
            done: state.reported,
            seconds: state.clock.seconds(),
            last: run.config().last_step(),
            gaussians,
            later_gaussians: later_gaussians(run.config(), place, gaussians),
        };
        if let Some(last) = pacer.look(&now) {
            run.change_pace(last);
        }
        Ok(())
    }
}

impl Trainer {
    /// Lets the run end when its time is over: its number of steps changes as it goes
    /// ([`crate::time_budget`]), and is kept in the configuration and in checkpoints. For a run from its
    /// first step on; one that goes on keeps its last pace.
    pub fn set_pacer(&mut self, pacer: Pacer) {
        self.companions.pacing = Pacing(Some(pacer));
    }
}

/// The mean number of Gaussians in the rest of a run that stands at `place` of its schedule: growing
/// evenly until density control ends, to what they may become, or to twice as many where there is no
/// limit.
fn later_gaussians(config: &TrainConfig, place: u32, gaussians: f64) -> f64 {
    let densify = &config.densify;
    let left = config.steps.saturating_sub(place);
    let grows = match densify.enabled {
        true => densify.stop.min(config.steps).saturating_sub(place),
        false => 0,
    };
    let twice = 2.0 * gaussians;
    let end = match (config.max_gaussians, densify.strategy.has_budget()) {
        (0, _) => twice,
        (limit, true) => limit as f64,
        (limit, false) => twice.min(limit as f64),
    };
    if grows == 0 || left == 0 {
        return gaussians;
    }
    let end = end.max(gaussians);
    let share = f64::from(grows) / f64::from(left);
    share * 0.5 * (gaussians + end) + (1.0 - share) * end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Strategy;

    #[test]
    fn gaussians_to_come_are_those_of_the_budget_or_twice_as_many() {
        let mut config = TrainConfig {
            steps: 1000,
            ..TrainConfig::default()
        };
        config.densify.stop = 600;
        let later = |config: &TrainConfig, place| later_gaussians(config, place, 1000.0);
        // Half of the rest grows to 2000, half stays there.
        assert_eq!(later(&config, 200), 1750.0);
        config.max_gaussians = 1400;
        assert_eq!(later(&config, 200), 1300.0);
        config.max_gaussians = 5000;
        assert_eq!(later(&config, 200), 1750.0);
        config.densify.strategy = Strategy::Mcmc;
        assert_eq!(later(&config, 200), 4000.0);
        assert_eq!(later(&config, 700), 1000.0);
        config.densify.enabled = false;
        assert_eq!(later(&config, 200), 1000.0);
    }
}
