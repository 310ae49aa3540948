//! Measures ceilings, on any device.
//!
//! 1. Groups of measurements run one after the other; between them `progress` may request a stop.
//! 2. A measurement is repeated. Its rate is that of the median run, its spread the slowest over the median. The times
//!    that are compared with it are medians too, and the spread shows a busy machine.

use super::{DeviceKey, Measured};
use crate::{Error, ErrorKind, Result};
use dapple_base::Progress;
use std::time::Instant;

/// Runs of a measurement that takes some 30 ms or longer.
pub const GOES: usize = 5;

/// Shorter than any run, so that no rate is infinite.
const SHORTEST_SECONDS: f64 = 1e-9;

/// A rate per second, and its spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rated {
    /// Rate of the median run.
    pub per_second: f64,
    /// The slowest run over the median run.
    pub spread: f64,
}

impl Rated {
    /// Computes the rate of runs that took `seconds` each, in any order, and did `amount` each.
    pub fn from_seconds(amount: f64, mut seconds: Vec<f64>) -> Self {
        seconds.sort_by(f64::total_cmp);
        let middle = seconds.get(seconds.len() / 2).copied();
        let median = middle.unwrap_or_default().max(SHORTEST_SECONDS);
        let slowest = seconds.last().copied().unwrap_or(median);
        Self {
            per_second: amount / median,
            spread: slowest / median,
        }
    }

    /// Measures `goes` runs that do `amount` each; `go` returns the seconds that it took.
    ///
    /// # Errors
    /// The error of the first run that fails.
    pub fn repeat(amount: f64, goes: usize, mut go: impl FnMut() -> Result<f64>) -> Result<Self> {
        let seconds: Result<Vec<f64>> = (0..goes).map(|_| go()).collect();
        Ok(Self::from_seconds(amount, seconds?))
    }

    /// Returns the faster of two ways to do the same work.
    #[must_use]
    pub fn or_faster(self, other: Self) -> Self {
        if self.per_second > other.per_second {
            self
        } else {
            other
        }
    }

    /// Converts the rate to a unit of which each counted item has `factor`.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self {
            per_second: factor * self.per_second,
            ..self
        }
    }
}

/// Measurements that add their results.
pub type Group<'a> = Box<dyn FnOnce(&mut Measured) -> Result<()> + 'a>;

/// Measures all `groups` of a device; progress shows `title`.
///
/// # Errors
/// The error of a group; `progress` requests a stop.
pub fn measure(
    device: DeviceKey,
    title: &str,
    groups: Vec<Group<'_>>,
    progress: &dyn Progress,
) -> Result<Measured> {
    let started = Instant::now();
    let mut measured = Measured::new(device);
    progress.start(title, groups.len() as u64);
    let done = groups.into_iter().try_for_each(|group| {
        if progress.should_stop() {
            return Err(Error::new(
                ErrorKind::Interrupted,
                "stopped while measuring; nothing was kept",
            ));
        }
        group(&mut measured)?;
        progress.advance(1);
        Ok(())
    });
    progress.finish();
    done?;
    measured.seconds = started.elapsed().as_secs_f64();
    Ok(measured)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::ceilings::Unit;
    use dapple_base::NoProgress;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn the_median_counts_and_the_slowest_is_the_spread() {
        let rated = Rated::from_seconds(6.0, vec![4.0, 1.0, 2.0]);
        assert_eq!((rated.per_second, rated.spread), (3.0, 2.0));
        assert!(Rated::from_seconds(1.0, vec![0.0]).per_second.is_finite());
        assert!(Rated::from_seconds(1.0, Vec::new()).per_second.is_finite());
        let mut goes = 0.0;
        let rated = Rated::repeat(1.0, 3, || {
            goes += 1.0;
            Ok(goes)
        });
        assert_eq!(rated.unwrap().per_second, 0.5);
        assert!(Rated::repeat(1.0, 3, || Err(Error::input("no"))).is_err());
        let slow = Rated::from_seconds(1.0, vec![4.0]);
        assert_eq!(slow.or_faster(rated_of(2.0)), rated_of(2.0));
        assert_eq!(slow.times(4.0).per_second, 1.0);
    }

    fn rated_of(per_second: f64) -> Rated {
        Rated {
            per_second,
            spread: 1.0,
        }
    }

    /// Requests a stop after this amount of progress.
    struct StopsAfter(AtomicU64);

    impl Progress for StopsAfter {
        fn start(&self, _what: &str, _total: u64) {}
        fn advance(&self, n: u64) {
            self.0.fetch_sub(n, Ordering::Relaxed);
        }
        fn finish(&self) {}
        fn should_stop(&self) -> bool {
            self.0.load(Ordering::Relaxed) == 0
        }
    }

    #[test]
    fn groups_run_in_order_until_they_are_stopped() {
        let key = || DeviceKey {
            name: "a".to_owned(),
            driver: "b".to_owned(),
        };
        let groups = || -> Vec<Group<'static>> {
            let group = |name: &'static str| -> Group<'static> {
                Box::new(move |measured: &mut Measured| {
                    measured.rate(name, Unit::PerSecond, rated_of(2.0));
                    Ok(())
                })
            };
            vec![group("one"), group("two")]
        };
        let all = measure(key(), "measuring", groups(), &NoProgress).unwrap();
        let names: Vec<&str> = all.rates.iter().map(|rate| rate.name.as_str()).collect();
        assert_eq!(names, ["one", "two"]);
        let stopped = measure(key(), "measuring", groups(), &StopsAfter(AtomicU64::new(1)));
        assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Interrupted);
        let failing: Vec<Group<'_>> = vec![Box::new(|_| Err(Error::input("no")))];
        assert!(measure(key(), "measuring", failing, &NoProgress).is_err());
    }
}
