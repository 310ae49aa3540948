//! Positions of stages under the roofline (Williams, Waterman and Patterson, 2009).
//!
//! 1. A stage's work is counted by formula. The work over its median time is the achieved rate.
//! 2. The ceilings give the least time for its bytes and for its operations; the larger is the
//!    floor.
//! 3. The limit of a stage is **bandwidth** or **compute** if it reaches at least [`GOOD_PART`] of
//!    that ceiling, the nearer one. Otherwise it is **launch** if empty dispatches would take
//!    [`MOSTLY_LAUNCH`] of its time. Otherwise it is **latency**, which is everything except
//!    counted bytes and operations: waiting for memory, barriers, divergence, integer work, too few
//!    threads.
//!
//! A share above 1 is possible and is not clamped: caches serve bytes that the ceiling's memory
//! does not.

use crate::profile::{Bound, Ceilings, Cost, Placement};

/// Part of a ceiling from which the ceiling is the limit. Well-written kernels reach 70 to 90 % of
/// measured ceilings, and kernels that wait rarely reach half.
pub const GOOD_PART: f64 = 0.6;

/// Part of a stage's time in empty dispatches from which launching is the limit.
pub const MOSTLY_LAUNCH: f64 = 0.5;

/// Places a stage that does `cost` in `median_ns`, in `dispatches` dispatches. `None` if it has no
/// counted work, took no time, or the ceilings are not numbers above zero.
pub fn place(
    cost: Cost,
    median_ns: f64,
    dispatches: Option<f64>,
    ceilings: &Ceilings,
) -> Option<Placement> {
    let known = |value: f64| value.is_finite() && value > 0.0;
    if !known(median_ns)
        || !known(ceilings.bytes_per_second)
        || !known(ceilings.flops_per_second)
        || !known(cost.bytes + cost.flops)
    {
        return None;
    }
    let seconds = median_ns * 1e-9;
    let bytes_per_second = cost.bytes / seconds;
    let flops_per_second = cost.flops / seconds;
    let share_of_bandwidth = bytes_per_second / ceilings.bytes_per_second;
    let share_of_compute = flops_per_second / ceilings.flops_per_second;
    let launch = ceilings.dispatch_ns.zip(dispatches);
    let launch_share = launch.map_or(0.0, |(each, many)| each * many / median_ns);
    let bound = if share_of_bandwidth.max(share_of_compute) >= GOOD_PART {
        if share_of_bandwidth >= share_of_compute {
            Bound::Bandwidth
        } else {
            Bound::Compute
        }
    } else if launch_share >= MOSTLY_LAUNCH {
        Bound::Launch
    } else {
        Bound::Latency
    };
    Some(Placement {
        bytes_per_second,
        flops_per_second,
        share_of_bandwidth,
        share_of_compute,
        // Without bytes, the largest number of operations a byte that JSON can hold.
        intensity: (cost.flops / cost.bytes).min(f64::MAX),
        floor_ns: bytes_ns(cost, ceilings).max(flops_ns(cost, ceilings)),
        bound,
    })
}

/// Returns the least time for the bytes, ns.
pub(crate) fn bytes_ns(cost: Cost, ceilings: &Ceilings) -> f64 {
    cost.bytes / ceilings.bytes_per_second * 1e9
}

/// Returns the least time for the operations, ns.
pub(crate) fn flops_ns(cost: Cost, ceilings: &Ceilings) -> f64 {
    cost.flops / ceilings.flops_per_second * 1e9
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// Returns ceilings of 100 GB/s, 1 TFLOP/s, 2 us a dispatch.
    fn ceilings() -> Ceilings {
        Ceilings {
            bytes_per_second: 100e9,
            flops_per_second: 1e12,
            dispatch_ns: Some(2000.0),
            source: "by hand".into(),
        }
    }

    fn placed(bytes: f64, flops: f64, median_ns: f64, dispatches: f64) -> Placement {
        place(
            Cost { bytes, flops },
            median_ns,
            Some(dispatches),
            &ceilings(),
        )
        .unwrap()
    }

    #[test]
    fn a_copy_is_bound_by_bandwidth() {
        // 8 MB in 100 us are 80 GB/s; at 100 GB/s they take 80 us; 4 MFLOP are 0.04 TFLOP/s.
        let copy = placed(8e6, 4e6, 100e3, 1.0);
        assert_eq!(copy.bound, Bound::Bandwidth);
        assert!((copy.bytes_per_second - 80e9).abs() < 1.0);
        assert!((copy.share_of_bandwidth - 0.8).abs() < 1e-12);
        assert!((copy.share_of_compute - 0.04).abs() < 1e-12);
        assert!((copy.floor_ns - 80e3).abs() < 1e-6);
        assert_eq!(copy.intensity, 0.5);
    }

    #[test]
    fn the_other_bounds() {
        // 70 MFLOP in 100 us are 0.7 TFLOP/s.
        assert_eq!(placed(1e6, 70e6, 100e3, 1.0).bound, Bound::Compute);
        // 30 of 100 GB/s, 0.1 of 1 TFLOP/s.
        assert_eq!(placed(3e6, 10e6, 100e3, 1.0).bound, Bound::Latency);
        // The same work in 25 dispatches: 50 us of launching.
        assert_eq!(placed(3e6, 10e6, 100e3, 25.0).bound, Bound::Launch);
        assert_eq!(placed(0.0, 70e6, 100e3, 1.0).intensity, f64::MAX);
    }

    #[test]
    fn nothing_is_invented() {
        let none = |cost, ns, ceilings: &Ceilings| place(cost, ns, None, ceilings).is_none();
        let cost = Cost {
            bytes: 1.0,
            flops: 1.0,
        };
        assert!(none(Cost::default(), 1.0, &ceilings()));
        assert!(none(cost, 0.0, &ceilings()));
        let mut broken = ceilings();
        broken.bytes_per_second = 0.0;
        assert!(none(cost, 1.0, &broken));
    }
}
