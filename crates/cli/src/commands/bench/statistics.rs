//! Times of the same work done again and again.

use crate::console::Console;
use serde::Serialize;

/// 95th percentile over median from which times are called scattered.
const SCATTERED: f64 = 1.3;

/// Milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Times {
    pub median_ms: f64,
    pub min_ms: f64,
    pub p95_ms: f64,
}

impl Times {
    /// Of durations in nanoseconds, in any order. Percentiles by nearest rank; the median of an
    /// even number is the mean of the middle two.
    pub fn of(durations_ns: &[u64]) -> Self {
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

    /// How often a second, at the median.
    pub fn per_second(&self) -> f64 {
        1e3 / self.median_ms.max(f64::MIN_POSITIVE)
    }

    fn spread(&self) -> f64 {
        self.p95_ms / self.median_ms.max(f64::MIN_POSITIVE)
    }

    /// A remark where the times of `what` scatter. Said even with `--quiet`: it decides whether
    /// the numbers can be used.
    pub fn remark(&self, what: &str, console: &Console) {
        if self.spread() > SCATTERED {
            busy(what, self.spread(), console);
        }
    }
}

/// The remark for a spread that was measured elsewhere.
pub fn remark_spread(what: &str, spread: f64, console: &Console) {
    if spread > SCATTERED {
        busy(what, spread, console);
    }
}

fn busy(what: &str, spread: f64, console: &Console) {
    console.always(&format!(
        "remark: {what}: slow ones took {spread:.2} times the median: the machine is busy\n  \
         hint: end other programs, or measure more with --steps and compare medians"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_sorted_times() {
        let ns: Vec<u64> = (1..=20).rev().map(|i| i * 1_000_000).collect();
        let times = Times::of(&ns);
        assert_eq!(
            (times.min_ms, times.median_ms, times.p95_ms),
            (1.0, 10.5, 19.0)
        );
        let one = Times::of(&[2_000_000]);
        assert_eq!((one.min_ms, one.median_ms, one.p95_ms), (2.0, 2.0, 2.0));
    }
}
