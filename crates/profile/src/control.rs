//! The control: a loop that no change to the program affects, timed next to the measured steps.
//!
//! 1. At some moments of a run ([`ControlTimer::take`]) it runs for a few milliseconds, on as many threads as the
//!    program uses. A load of the machine at that time slows it like the program.
//! 2. Two profiles with different controls were not measured under equal conditions: the machine was busier, its clock
//!    lower. [`compare`](crate::compare()) then marks no change as the program's, and gives the reason first
//!    ([`indefensible`]).

use crate::compare::Ratio;
use crate::profile::{Control, Finding, Profile};
use crate::stats::median_of_sorted;
use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

/// Rounds at each moment; the first warms up and is dropped.
const ROUNDS: usize = 13;

/// Numbers of a thread, 512 KiB of them: arithmetic and caches both count.
const NUMBERS: usize = 1 << 17;

/// Passes over the numbers in a round: about a millisecond.
const PASSES: usize = 40;

/// A machine is steady if the control changes by no more than this.
pub(crate) const STEADY: f64 = 0.1;

/// Times the control, moment by moment.
#[derive(Debug, Clone)]
pub struct ControlTimer {
    threads: usize,
    moments: Vec<Vec<f64>>,
}

impl ControlTimer {
    /// Creates a timer on this number of threads, at least one.
    pub fn new(threads: usize) -> Self {
        Self {
            threads: threads.max(1),
            moments: Vec::new(),
        }
    }

    /// Runs the control now. Nothing else of the program should run at the same time.
    pub fn take(&mut self) {
        let (begin, end) = (Barrier::new(self.threads), Barrier::new(self.threads));
        let mut rounds = Vec::with_capacity(ROUNDS);
        std::thread::scope(|scope| {
            for _ in 1..self.threads {
                scope.spawn(|| {
                    let mut numbers = vec![1.0; NUMBERS];
                    for _ in 0..ROUNDS {
                        begin.wait();
                        work(&mut numbers);
                        end.wait();
                    }
                });
            }
            let mut numbers = vec![1.0; NUMBERS];
            for _ in 0..ROUNDS {
                begin.wait();
                let started = Instant::now();
                work(&mut numbers);
                end.wait();
                rounds.push(started.elapsed().as_nanos() as f64);
            }
        });
        self.moments.push(rounds.split_off(1));
    }

    /// Returns the times.
    pub fn finish(self) -> Control {
        Control {
            threads: self.threads as u64,
            moments_ns: self.moments,
        }
    }
}

#[inline(never)]
fn work(numbers: &mut [f32]) {
    for _ in 0..PASSES {
        for number in black_box(&mut *numbers) {
            *number = *number * 0.999 + 0.001;
        }
    }
}

impl Control {
    /// Returns the median round of each moment, ns.
    pub(crate) fn medians(&self) -> Vec<f64> {
        let median = |rounds: &Vec<f64>| {
            let mut sorted = rounds.clone();
            sorted.sort_unstable_by(f64::total_cmp);
            median_of_sorted(&sorted)
        };
        let medians = self.moments_ns.iter().map(median);
        medians.filter(|ns| ns.is_finite() && *ns > 0.0).collect()
    }
}

/// Returns new over old of the controls; the interval is that between moments, not a confidence interval.
pub(crate) fn between(old: &Profile, new: &Profile) -> Option<Ratio> {
    let (old, new) = (old.control.as_ref()?, new.control.as_ref()?);
    if old.threads != new.threads {
        return None;
    }
    let extremes = |medians: &[f64]| {
        let mut sorted = medians.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        Some([*sorted.first()?, median_of_sorted(&sorted), *sorted.last()?])
    };
    let [old_low, old_median, old_high] = extremes(&old.medians())?;
    let [new_low, new_median, new_high] = extremes(&new.medians())?;
    Some(Ratio {
        value: new_median / old_median,
        interval: Some([new_low / old_high, new_high / old_low]),
    })
}

/// Returns the reason that changes cannot be distinguished from those of the machine, if there is one.
pub(crate) fn indefensible(
    old: &Profile,
    new: &Profile,
    control: Option<&Ratio>,
) -> Option<String> {
    const AGAIN: &str = "measure both again, alternately, on a machine that does nothing else";
    let nothing = |why: String| Some(format!("nothing is marked: {why}"));
    let Some((ratio, [low, high])) = control.and_then(|r| Some((r.value, r.interval?))) else {
        return nothing(
            "a control (a loop that nothing changed, timed beside the steps, on as many threads) is not in \
             both profiles, so what the machine did between them is not known; profile both with this build"
                .to_owned(),
        );
    };
    let apart = format!("{ratio:.2} times as long ({low:.2} .. {high:.2} from moment to moment)");
    if (ratio.max(1.0 / ratio) - 1.0) > STEADY {
        let busier = if ratio > 1.0 { "new" } else { "old" };
        return nothing(format!(
            "the machine was busier or slower in the {busier} run: a loop that nothing changed took {apart}; \
             {AGAIN}"
        ));
    }
    for (which, profile) in [("old", old), ("new", new)] {
        let medians = profile
            .control
            .as_ref()
            .map_or(Vec::new(), Control::medians);
        let least = medians.iter().copied().fold(f64::MAX, f64::min);
        let most = medians.iter().copied().fold(0.0, f64::max);
        if most / least - 1.0 > STEADY {
            return nothing(format!(
                "the machine was not steady in the {which} run: a loop that nothing changed took {:.2} times \
                 as long at one moment as at another; {AGAIN}",
                most / least
            ));
        }
        let noisy = |f: &&Finding| f.fired && f.rule == "noisy_measurement";
        if let Some(finding) = profile.findings.iter().find(noisy) {
            return nothing(format!(
                "the {which} profile has noisy steps ({}); measure more steps, on a machine that does \
                 nothing else",
                finding.evidence
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_moment_has_its_rounds() {
        let mut timer = ControlTimer::new(2);
        timer.take();
        timer.take();
        let control = timer.finish();
        assert_eq!((control.threads, control.medians().len()), (2, 2));
        for rounds in &control.moments_ns {
            assert_eq!(rounds.len(), ROUNDS - 1);
            assert!(rounds.iter().all(|ns| *ns > 0.0));
        }
    }
}
