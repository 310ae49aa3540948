//! What a device was measured to do at most, kept from one start to the next.
//!
//! 1. Whoever measures fills a [`Measured`]: rates by name, and curves over sizes.
//! 2. [`store`] writes it as JSON, one file a device, named after it.
//! 3. [`cached`] reads it back if it is whole, of this schema, and of that very device with that very
//!    driver. Anything else counts as absent: measuring again is cheap.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Raised when a field or the way to measure it changes: older files are measured again.
pub const SCHEMA: u32 = 1;

/// Larger files are not ours.
const MOST_BYTES: u64 = 1 << 20;

/// A device as the cache knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceKey {
    /// The device's name.
    pub name: String,
    /// What drives it: driver and version; of a processor the threads and vector units used.
    pub driver: String,
}

/// What a rate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Bytes a second, read and written ones.
    BytesPerSecond,
    /// Arithmetic operations a second, a fused multiply-add being two.
    OperationsPerSecond,
    /// Things done a second: exponentials, atomic additions, values reduced.
    PerSecond,
    /// How long one takes.
    Seconds,
}

impl Unit {
    /// A value of this unit for people, with its unit.
    pub fn shown(self, value: f64) -> String {
        match self {
            Self::BytesPerSecond => scaled(value, "B/s"),
            Self::OperationsPerSecond => scaled(value, "FLOP/s"),
            Self::PerSecond => scaled(value, "/s"),
            Self::Seconds => format!("{:.2} us", value * 1e6),
        }
    }
}

/// `1234567890.0` of `B/s` as `1.23 GB/s`.
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

/// One thing measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// `copy`, `read`, `write`, `triad`, `fma_f32`, `fma_f16`, `exp2`, `dispatch`, `submission`,
    /// `atomics_spread`, `atomics_contended`, `subgroup_add`; of one thread of a processor
    /// `read.one_thread` and so on.
    pub name: String,
    /// What the value counts.
    pub unit: Unit,
    /// The median of several goes.
    pub value: f64,
    /// The slowest go over the median one: near 1 where nothing else runs.
    pub spread: f64,
}

/// A point of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Size of what was worked on.
    pub bytes: u64,
    /// Bytes a second.
    pub bytes_per_second: f64,
}

/// Bandwidth over sizes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// `working_set` (reading the same bytes again and again: caches show), `upload` and `download`
    /// (host to device and back, waited for); of one thread of a processor
    /// `working_set.one_thread`.
    pub name: String,
    /// By growing size.
    pub points: Vec<Point>,
}

/// All that was measured of a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Of which device.
    pub device: DeviceKey,
    /// When, UTC: `2026-03-01T12:30:00Z`.
    pub measured_at: String,
    /// How long measuring took, seconds.
    pub seconds: f64,
    /// Rates; what a device cannot do is not among them.
    pub rates: Vec<Rate>,
    /// Curves.
    pub curves: Vec<Curve>,
}

impl Measured {
    /// Nothing yet, of this device, now.
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
    pub fn rate(&mut self, name: &str, unit: Unit, value: f64, spread: f64) {
        self.rates.push(Rate {
            name: name.to_owned(),
            unit,
            value,
            spread,
        });
    }

    /// Adds a curve.
    pub fn curve(&mut self, name: &str, points: Vec<Point>) {
        self.curves.push(Curve {
            name: name.to_owned(),
            points,
        });
    }

    /// The value of a rate.
    pub fn get(&self, name: &str) -> Option<f64> {
        let rate = self.rates.iter().find(|rate| rate.name == name);
        rate.map(|rate| rate.value)
    }

    /// Bytes read and written a second, the most of copying and of the processor's triad.
    pub fn bytes_per_second(&self) -> Option<f64> {
        let rates = ["copy", "triad"].into_iter().filter_map(|n| self.get(n));
        rates.max_by(f64::total_cmp)
    }

    /// `f32` operations a second, an FMA being two.
    pub fn flops_per_second(&self) -> Option<f64> {
        self.get("fma_f32")
    }

    /// The worst spread of the rates that a busy machine makes smaller; latencies always scatter.
    pub fn spread(&self) -> f64 {
        let rates = self.rates.iter().filter(|rate| rate.unit != Unit::Seconds);
        rates.map(|rate| rate.spread).fold(1.0, f64::max)
    }

    /// The day it was measured.
    pub fn date(&self) -> &str {
        self.measured_at.get(..10).unwrap_or(&self.measured_at)
    }

    /// Whether all numbers can be.
    fn is_sound(&self) -> bool {
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

/// What was stored of a device in the folder of caches; `None` if it was never measured, or the file
/// is damaged, of another schema, another driver.
pub fn cached(folder: &Path, device: &DeviceKey) -> Option<Measured> {
    let file = file_of(folder, device);
    if std::fs::metadata(&file).ok()?.len() > MOST_BYTES {
        return None;
    }
    let measured: Measured = serde_json::from_slice(&std::fs::read(file).ok()?).ok()?;
    let ours = measured.schema == SCHEMA && measured.device == *device;
    (ours && measured.is_sound()).then_some(measured)
}

/// Keeps what was measured, in place of what was kept of that device. Returns the file. Written
/// beside and moved there, so that a file is whole or not there.
///
/// # Errors
/// A folder that cannot be made or written to.
pub fn store(folder: &Path, measured: &Measured) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let file = file_of(folder, &measured.device);
    let beside = file.with_extension(format!("{}.part", std::process::id()));
    let text = serde_json::to_vec_pretty(measured)?;
    let written = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, &file));
    written.inspect_err(|_| {
        let _ = std::fs::remove_file(&beside);
    })?;
    Ok(file)
}

/// Readable, and different for devices that differ.
fn file_of(folder: &Path, device: &DeviceKey) -> PathBuf {
    let readable: String = device
        .name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '-'
            }
        })
        .take(40)
        .collect();
    let parts = [device.name.as_str(), "\0", device.driver.as_str()];
    // FNV-1a.
    let hash = parts
        .concat()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    folder.join(format!("ceilings-{readable}-{hash:016x}.json"))
}

/// A time as ISO 8601 has it, in UTC, to the second.
pub fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days to a date of the Gregorian calendar (Hinnant 2013): years begin in March, so that the
    // leap day is their last, and 400 of them are an era.
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

    fn device(driver: &str) -> DeviceKey {
        DeviceKey {
            name: "NVIDIA H200 / 2".to_owned(),
            driver: driver.to_owned(),
        }
    }

    fn measured() -> Measured {
        let mut measured = Measured::new(device("570.1"));
        measured.rate("copy", Unit::BytesPerSecond, 4.1e12, 1.01);
        measured.rate("dispatch", Unit::Seconds, 2.5e-6, 3.0);
        let point = Point {
            bytes: 1 << 14,
            bytes_per_second: 1e13,
        };
        measured.curve("working_set", vec![point]);
        measured
    }

    #[test]
    fn what_was_stored_is_read_for_that_device_alone() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        assert_eq!(cached(&inner, &device("570.1")), None);
        let file = store(&inner, &measured()).unwrap();
        assert_eq!(cached(&inner, &device("570.1")), Some(measured_as(&file)));
        assert_eq!(cached(&inner, &device("570.2")), None);
        assert_eq!(
            std::fs::read_dir(&inner).unwrap().count(),
            1,
            "nothing beside it"
        );
        let again = store(&inner, &measured()).unwrap();
        assert_eq!(again, file);
    }

    fn measured_as(file: &Path) -> Measured {
        serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
    }

    #[test]
    fn what_is_damaged_or_foreign_counts_as_absent() {
        let folder = tempfile::tempdir().unwrap();
        let file = store(folder.path(), &measured()).unwrap();
        let whole = std::fs::read_to_string(&file).unwrap();
        let absent = |text: &str| {
            std::fs::write(&file, text).unwrap();
            assert_eq!(cached(folder.path(), &device("570.1")), None, "{text}");
        };
        absent("");
        absent(&whole[..whole.len() / 2]);
        absent(&whole.replace("\"schema\": 1", "\"schema\": 0"));
        absent(&whole.replace("570.1", "999"));
        absent(&whole.replace("4100000000000.0", "-1.0"));
        absent(&whole.replace("4100000000000.0", "null"));
        absent(&whole.replace("10000000000000.0", "0.0"));
        std::fs::write(&file, &whole).unwrap();
        assert!(cached(folder.path(), &device("570.1")).is_some());
    }

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
    }
}
