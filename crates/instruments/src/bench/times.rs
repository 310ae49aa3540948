//! Times of repeated work.

use dapple_profile::ceilings::is_scattered;
use serde::Serialize;

/// Statistics of times, milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Times {
    /// Median time.
    pub median_ms: f64,
    /// Fastest time.
    pub min_ms: f64,
    /// 95th percentile.
    pub p95_ms: f64,
}

impl Times {
    /// Computes the statistics of durations in nanoseconds, in any order. Percentiles are by nearest rank; the median
    /// of an even number is the mean of the middle two.
    pub fn from_ns(durations_ns: &[u64]) -> Self {
        let mut sorted = durations_ns.to_vec();
        sorted.sort_unstable();
        let count = sorted.len();
        if count == 0 {
            return Self::default();
        }
        let ms = |rank: usize| sorted[rank] as f64 * 1e-6;
        Self {
            median_ms: 0.5 * (ms((count - 1) / 2) + ms(count / 2)),
            min_ms: ms(0),
            p95_ms: ms((count * 95).div_ceil(100) - 1),
        }
    }

    /// Returns the rate per second, at the median.
    pub fn per_second(&self) -> f64 {
        1e3 / self.median_ms.max(f64::MIN_POSITIVE)
    }

    /// Returns the ratio of the 95th percentile to the median if it is so far from 1 that the machine was busy and the
    /// numbers are unreliable.
    pub fn scattered(&self) -> Option<f64> {
        let spread = self.p95_ms / self.median_ms.max(f64::MIN_POSITIVE);
        is_scattered(spread).then_some(spread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_sorted_times() {
        let ns: Vec<u64> = (1..=20).rev().map(|i| i * 1_000_000).collect();
        let times = Times::from_ns(&ns);
        assert_eq!(
            (times.min_ms, times.median_ms, times.p95_ms),
            (1.0, 10.5, 19.0)
        );
        let one = Times::from_ns(&[2_000_000]);
        assert_eq!((one.min_ms, one.median_ms, one.p95_ms), (2.0, 2.0, 2.0));
        assert_eq!(one.scattered(), None);
        assert!(times.scattered().is_some_and(|spread| spread > 1.8));
    }
}
