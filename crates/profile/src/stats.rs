//! [`Stats::from_values`]: statistics of a set of numbers.

use crate::profile::Stats;

impl Stats {
    /// Computes the statistics of `values`, in any order; non-finite values are ignored. All zero without finite
    /// values.
    pub fn from_values(values: &[f64]) -> Self {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let (Some(&min), Some(&max)) = (sorted.first(), sorted.last()) else {
            return Self::default();
        };
        let count = sorted.len() as f64;
        let sum: f64 = sorted.iter().sum();
        let mean = sum / count;
        // Two passes: differences of large sums of squares would lose a small deviation.
        let squares: f64 = sorted.iter().map(|v| (v - mean).powi(2)).sum();
        let std = if sorted.len() > 1 {
            (squares / (count - 1.0)).sqrt()
        } else {
            0.0
        };
        Self {
            count: sorted.len() as u64,
            sum,
            mean,
            std,
            min,
            median: median_of_sorted(&sorted),
            p95: nearest_rank(&sorted, 95),
            p99: nearest_rank(&sorted, 99),
            max,
        }
    }

    /// Returns the standard error of the mean over the mean; 0 if the mean is.
    pub fn relative_error(&self) -> f64 {
        if self.mean == 0.0 || self.count == 0 {
            return 0.0;
        }
        self.std / (self.count as f64).sqrt() / self.mean.abs()
    }
}

/// Returns the middle value, or the mean of the middle two; 0 without values.
pub(crate) fn median_of_sorted(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[half],
        _ => sorted[half - 1].midpoint(sorted[half]),
    }
}

/// Returns the smallest value that at least `percent` of all are not above.
fn nearest_rank(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted[rank.saturating_sub(1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hand_computed_values() {
        // Sum 40, mean 5; squared differences 9+1+1+1+0+0+4+16 = 32; 32 / 7.
        let stats = Stats::from_values(&[9.0, 2.0, 4.0, 4.0, 5.0, 4.0, 7.0, 5.0]);
        assert_eq!((stats.count, stats.sum, stats.mean), (8, 40.0, 5.0));
        assert!((stats.std - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!((stats.min, stats.median, stats.max), (2.0, 4.5, 9.0));
        // Ranks ceil(7.6) = 8 and ceil(7.92) = 8.
        assert_eq!((stats.p95, stats.p99), (9.0, 9.0));
    }

    #[test]
    fn percentiles_by_nearest_rank() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let stats = Stats::from_values(&hundred);
        assert_eq!((stats.p95, stats.p99, stats.median), (95.0, 99.0, 50.5));
        let twenty: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!(Stats::from_values(&twenty).p95, 19.0);
    }

    #[test]
    fn of_none_of_one_and_of_what_is_no_number() {
        assert_eq!(Stats::from_values(&[]), Stats::default());
        let one = Stats::from_values(&[3.0, f64::NAN, f64::INFINITY]);
        assert_eq!((one.count, one.mean, one.std), (1, 3.0, 0.0));
        assert_eq!((one.median, one.p95, one.p99), (3.0, 3.0, 3.0));
    }

    #[test]
    fn a_small_deviation_of_large_numbers_survives() {
        let stats = Stats::from_values(&[1e15, 1e15 + 2.0]);
        assert_eq!(stats.std, 2.0_f64.sqrt());
    }
}
