//! Step rate controller: moves the last step of a run so that it ends in time.
//!
//! 1. The controller measures the step rate after a tenth of the time, and then whenever 30 % of the remaining time
//!    have passed, down to a hundredth of the total.
//! 2. A step is expected to take as long as steps took since the last measurement. Later steps have more Gaussians and
//!    are slower, in the proportion of the cost model.
//! 3. If the rest does not end within 2 % of the planned time, its number of steps is changed. When the time is over,
//!    one more step ends the run.

use super::CostModel;

const FIRST_LOOK: f64 = 0.1;
const LOOK_AFTER: f64 = 0.3;
const LEAST_BETWEEN: f64 = 0.01;

/// Error of the end of a run that is tolerated.
const TOLERANCE: f64 = 0.02;

/// Share of the time to aim at; the rest is for noise.
const AIM: f64 = 0.99;

/// Steps of the longest possible run.
const MOST_STEPS: u32 = 100_000_000;

/// Progress of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Now {
    /// Steps enqueued.
    pub step: u32,
    /// Steps done.
    pub done: u32,
    /// Training time so far, seconds.
    pub seconds: f64,
    /// The currently planned last step.
    pub last: u32,
    /// Gaussians.
    pub gaussians: f64,
    /// Mean Gaussians of the remaining steps.
    pub later_gaussians: f64,
}

/// Step rate controller of a run.
#[derive(Debug, Clone)]
pub struct StepRateController {
    /// Training time of the run before.
    before: f64,
    /// Time budget.
    seconds: f64,
    model: CostModel,
    pixels: f64,
    /// State at the last measurement: steps done, seconds.
    since: (u32, f64),
    next_look: f64,
}

impl StepRateController {
    /// A controller for a run that trains for `seconds` on photos of `pixels`, from its first step on.
    pub fn new(seconds: f64, model: CostModel, pixels: f64) -> Self {
        Self {
            before: 0.0,
            seconds,
            model,
            pixels,
            since: (0, 0.0),
            next_look: FIRST_LOOK * seconds,
        }
    }

    /// A controller for a further part of a run that trains for `seconds`, after `done` steps in `before` seconds. Steps
    /// are expected to take as long as these, for any number of Gaussians.
    pub fn for_part(seconds: f64, (done, before): (u32, f64)) -> Self {
        let model = CostModel {
            fixed: before / f64::from(done.max(1)),
            per_pixel: 0.0,
            per_gaussian: 0.0,
        };
        Self {
            before,
            since: (done, before),
            next_look: before + FIRST_LOOK * seconds,
            ..Self::new(seconds, model, 0.0)
        }
    }

    /// Returns the number of steps of a part, as expected before its first step: at least one.
    pub fn steps_of_part(&self) -> u32 {
        // The cast saturates.
        ((self.seconds / self.model.seconds(self.pixels, 0.0)) as u32).clamp(1, MOST_STEPS)
    }

    /// Returns the run's new last step, if it should change.
    pub fn observe(&mut self, now: &Now) -> Option<u32> {
        let end = self.before + self.seconds;
        let is_over = now.seconds >= end;
        if now.step >= now.last || !(is_over || now.seconds >= self.next_look) {
            return None;
        }
        if is_over {
            return (now.last > now.step + 1).then_some(now.step + 1);
        }
        let (done_then, seconds_then) = self.since;
        if now.done <= done_then {
            return None;
        }
        let pace = (now.seconds - seconds_then) / f64::from(now.done - done_then);
        self.since = (now.done, now.seconds);
        let left = end - now.seconds;
        self.next_look = now.seconds + (LOOK_AFTER * left).max(LEAST_BETWEEN * self.seconds);
        let of = |gaussians: f64| self.model.seconds(self.pixels, gaussians);
        let later = pace * of(now.later_gaussians) / of(now.gaussians);
        let on_the_way = pace * f64::from(now.step.saturating_sub(now.done));
        let aim = self.before + AIM * self.seconds;
        let fit = (aim - now.seconds - on_the_way) / later.max(1e-9);
        // The cast saturates, and the sum is bounded by the longest possible run.
        let steps = (fit as u32).clamp(1, MOST_STEPS - now.step.min(MOST_STEPS - 1));
        let planned = f64::from(now.last - now.step);
        let is_off = (f64::from(steps) - planned).abs() > TOLERANCE * planned;
        is_off.then(|| now.step + steps)
    }
}
