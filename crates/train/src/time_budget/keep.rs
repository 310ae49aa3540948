//! Hook that applies the step rate controller to a run.

use super::{Now, StepRateController};
use crate::hook::{Next, RunHook};
use crate::plan::Change;
use crate::{PausedRun, TrainConfig};
use dapple_scene::Result;

/// Gives the rest of a run more or fewer steps if its controller requests it.
#[derive(Debug, Default)]
pub(crate) struct StepRateHook(pub(crate) Option<StepRateController>);

impl RunHook for StepRateHook {
    fn name(&self) -> &'static str {
        "step rate"
    }

    fn after_step(&mut self, run: &mut PausedRun<'_>) -> Result<Next> {
        let Some(pacer) = &mut self.0 else {
            return Ok(Next::Continue);
        };
        let run = run.run();
        let state = &run.state;
        let gaussians = state.gaussians as f64;
        let place = run.schedule.place(state.step);
        let now = Now {
            step: state.step,
            done: state.reported,
            seconds: state.clock.seconds(),
            last: run.last_step(),
            gaussians,
            later_gaussians: later_gaussians(run.config(), place, gaussians),
        };
        Ok(match pacer.observe(&now) {
            Some(last) => Next::Amend(Change::StepRate { last }),
            None => Next::Continue,
        })
    }
}

/// Returns the mean number of Gaussians in the rest of a run at `place` of its schedule. The number grows evenly until
/// density control ends: to the cap, or to twice the current number without a cap.
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
        // In half of the remaining steps the number grows to 2000, in the other half it stays there.
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
