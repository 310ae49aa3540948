//! Training time and step rate.
//!
//! 1. An engine with a queue returns from a step long before the step is done. So training time is wall time while
//!    steps are enqueued or waited for. Scoring and copies are excluded.
//! 2. The rate is computed from reports: steps that arrive together share the time since the last arrival.

use crate::history::Smoothed;
use std::time::Instant;

/// Steps that the rate is averaged over.
const SPAN: f64 = 20.0;

/// Counts training time.
#[derive(Debug)]
pub(crate) struct Clock {
    counted: f64,
    running_since: Option<Instant>,
    last_arrival: f64,
    seconds_per_step: Smoothed,
}

impl Clock {
    /// A clock stopped after `seconds`. The rate is not carried over, because this machine may differ.
    pub(crate) fn at(seconds: f64) -> Self {
        Self {
            counted: seconds,
            running_since: None,
            last_arrival: seconds,
            seconds_per_step: Smoothed::over(SPAN),
        }
    }

    pub(crate) fn resume(&mut self) {
        self.running_since.get_or_insert_with(Instant::now);
    }

    pub(crate) fn pause(&mut self) {
        self.counted = self.seconds();
        self.running_since = None;
    }

    /// Seconds of training so far.
    pub(crate) fn seconds(&self) -> f64 {
        let running = self.running_since.map(|since| since.elapsed());
        self.counted + running.map_or(0.0, |time| time.as_secs_f64())
    }

    /// Records that `steps` reports have arrived together.
    pub(crate) fn arrived(&mut self, steps: usize) {
        if steps == 0 {
            return;
        }
        let now = self.seconds();
        let each = (now - self.last_arrival) / steps as f64;
        for _ in 0..steps {
            self.seconds_per_step.push(each);
        }
        self.last_arrival = now;
    }

    /// Returns the recent time per step, s. Zero before the first report.
    pub(crate) fn seconds_per_step(&self) -> f64 {
        self.seconds_per_step.mean()
    }
}
