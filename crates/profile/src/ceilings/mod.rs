//! Ceilings: the measured limits of a device. Their definition, repetition, storage and evaluation is the same for
//! every device and is in this module; the engine supplies the measurements.
//!
//! 1. [`measure()`] runs groups of measurements one after the other into a [`Measured`]: rates by name, and curves over
//!    sizes. Each is repeated, its median counts, and the slowest over the median is its spread ([`Rated`]).
//! 2. [`Limits`] are the two ceilings that times of stages are compared with, for callers without time for all
//!    measurements.
//! 3. [`store`] writes them as JSON, one file per device, named after it; [`cached`] reads them back.
//! 4. [`is_scattered`] returns true if the machine was busy and the numbers are unreliable.

mod measure;
mod store;

pub use measure::{GOES, Group, Rated, measure};
pub use store::{cached, store};

use serde::{Deserialize, Serialize};
use std::time::{SystemTime, UNIX_EPOCH};

/// Must be raised when a field or the method of measurement changes: older files are then measured again.
pub const SCHEMA: u32 = 1;

/// The slowest over the median from which times count as scattered.
const SCATTERED: f64 = 1.3;

/// Returns true if times scatter so much (the slowest, or a high percentile, over the median) that the machine must
/// have been busy.
pub fn is_scattered(spread: f64) -> bool {
    spread > SCATTERED
}

/// Key of a device in the cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceKey {
    /// Name of the device.
    pub name: String,
    /// Driver and version; for a CPU, the threads and vector units used.
    pub driver: String,
}

/// Unit of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Bytes a second, reads and writes.
    BytesPerSecond,
    /// Arithmetic operations a second; a fused multiply-add counts as two.
    OperationsPerSecond,
    /// Other items a second: exponentials, atomic additions, values reduced.
    PerSecond,
    /// Duration of one item.
    Seconds,
}

impl Unit {
    /// Returns a value of this unit as text, with its unit.
    pub fn shown(self, value: f64) -> String {
        match self {
            Self::BytesPerSecond => scaled(value, "B/s"),
            Self::OperationsPerSecond => scaled(value, "FLOP/s"),
            Self::PerSecond => scaled(value, "/s"),
            Self::Seconds => format!("{:.2} us", value * 1e6),
        }
    }
}

/// Returns `1234567890.0` of `B/s` as `1.23 GB/s`.
fn scaled(value: f64, unit: &str) -> String {
    let (factor, prefix) = match value {
        v if v >= 1e12 => (1e-12, "T"),
        v if v >= 1e9 => (1e-9, "G"),
        v if v >= 1e6 => (1e-6, "M"),
        v if v >= 1e3 => (1e-3, "k"),
        _ => (1.0, ""),
    };
    format!("{:.2} {prefix}{unit}", value * factor)
}

/// Result of one measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// `copy`, `read`, `write`, `triad`, `fma_f32`, `fma_f16`, `exp2`, `dispatch`, `submission`, `atomics_spread`,
    /// `atomics_contended`, `subgroup_add`; for one thread of a CPU `read.one_thread` and so on.
    pub name: String,
    /// Unit of the value.
    pub unit: Unit,
    /// Median of several runs.
    pub value: f64,
    /// The slowest run over the median run: near 1 on an idle machine.
    pub spread: f64,
}

/// A point of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Size of the data, bytes.
    pub bytes: u64,
    /// Bytes a second.
    pub bytes_per_second: f64,
}

/// Bandwidth over sizes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// `working_set` (reading the same bytes again and again: shows caches), `upload` and `download` (host to device
    /// and the reverse, with a wait); for one thread of a CPU `working_set.one_thread`.
    pub name: String,
    /// By growing size.
    pub points: Vec<Point>,
}

/// The two ceilings that times of stages are compared with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// `f32` operations a second; an FMA counts as two.
    pub flops_per_second: f64,
    /// Bytes read and written a second.
    pub bytes_per_second: f64,
    /// The slowest run over the median run, the worse of both: near 1 on an idle machine.
    pub spread: f64,
}

impl Limits {
    /// Creates limits from measured rates.
    pub fn new(operations: Rated, bytes: Rated) -> Self {
        Self {
            flops_per_second: operations.per_second,
            bytes_per_second: bytes.per_second,
            spread: operations.spread.max(bytes.spread),
        }
    }
}

/// All measurements of a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The device.
    pub device: DeviceKey,
    /// Time of the measurement, UTC: `2026-03-01T12:30:00Z`.
    pub measured_at: String,
    /// Duration of the measurement, seconds.
    pub seconds: f64,
    /// Rates; a rate that the device does not support is absent.
    pub rates: Vec<Rate>,
    /// Curves.
    pub curves: Vec<Curve>,
}

impl Measured {
    /// Creates an empty record of this device, with the present time.
    pub fn new(device: DeviceKey) -> Self {
        Self {
            schema: SCHEMA,
            device,
            measured_at: utc(SystemTime::now()),
            seconds: 0.0,
            rates: Vec::new(),
            curves: Vec::new(),
        }
    }

    /// Adds a rate.
    pub fn rate(&mut self, name: &str, unit: Unit, rated: Rated) {
        self.rates.push(Rate {
            name: name.to_owned(),
            unit,
            value: rated.per_second,
            spread: rated.spread,
        });
    }

    /// Adds the duration of an item from its rate per second.
    pub fn duration(&mut self, name: &str, rated: Rated) {
        self.rates.push(Rate {
            name: name.to_owned(),
            unit: Unit::Seconds,
            value: 1.0 / rated.per_second,
            spread: rated.spread,
        });
    }

    /// Adds a curve.
    pub fn curve(&mut self, name: &str, points: Vec<Point>) {
        self.curves.push(Curve {
            name: name.to_owned(),
            points,
        });
    }

    /// Returns the value of a rate.
    pub fn get(&self, name: &str) -> Option<f64> {
        let rate = self.rates.iter().find(|rate| rate.name == name);
        rate.map(|rate| rate.value)
    }

    /// Returns the bytes read and written a second: the larger of copying and of the CPU's triad.
    pub fn bytes_per_second(&self) -> Option<f64> {
        let rates = ["copy", "triad"].into_iter().filter_map(|n| self.get(n));
        rates.max_by(f64::total_cmp)
    }

    /// Returns the `f32` operations a second; an FMA counts as two.
    pub fn flops_per_second(&self) -> Option<f64> {
        self.get("fma_f32")
    }

    /// Returns the worst spread of the rates that a busy machine reduces; latencies always scatter.
    pub fn spread(&self) -> f64 {
        let rates = self.rates.iter().filter(|rate| rate.unit != Unit::Seconds);
        rates.map(|rate| rate.spread).fold(1.0, f64::max)
    }

    /// Returns the day of the measurement.
    pub fn date(&self) -> &str {
        self.measured_at.get(..10).unwrap_or(&self.measured_at)
    }

    /// Returns true if all numbers are plausible.
    pub(crate) fn is_sound(&self) -> bool {
        let positive = |v: f64| v.is_finite() && v > 0.0;
        let points = self.curves.iter().flat_map(|curve| &curve.points);
        !self.rates.is_empty()
            && self
                .rates
                .iter()
                .all(|rate| positive(rate.value) && positive(rate.spread))
            && points
                .into_iter()
                .all(|p| p.bytes > 0 && positive(p.bytes_per_second))
    }
}

/// Returns a time in ISO 8601, in UTC, to the second.
pub fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days to a date of the Gregorian calendar (Hinnant 2013): years begin in March, so that the leap day is their
    // last, and 400 of them are an era.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::time::Duration;

    use super::store::tests::measured;

    #[test]
    fn dates_are_right_on_leap_days_too() {
        let at = |seconds| utc(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(1_772_323_200), "2026-03-01T00:00:00Z");
    }

    #[test]
    fn values_have_units() {
        assert_eq!(Unit::BytesPerSecond.shown(4.1e12), "4.10 TB/s");
        assert_eq!(Unit::Seconds.shown(2.5e-6), "2.50 us");
        assert_eq!(measured().spread(), 1.01);
        assert_eq!(measured().date().len(), 10);
        assert_eq!(measured().get("dispatch"), Some(2.5e-6));
        assert!(!is_scattered(measured().spread()) && is_scattered(1.31));
    }
}
