//! Stores ceilings between runs: a JSON file per device, in a folder for caches.
//!
//! A file is used if it is whole, of this schema, and of exactly this device with this driver. Any other file counts as
//! absent: measuring again is cheap.

use super::{DeviceKey, Measured, SCHEMA};
use crate::{Error, Result};
use dapple_base::atomic::write_atomically;
use std::path::{Path, PathBuf};

/// A larger file was not written by this module.
const MOST_BYTES: u64 = 1 << 20;

/// Returns the stored ceilings of a device in the folder of caches. `None` if it was never measured, or the file is
/// damaged, of another schema, or of another driver.
pub fn cached(folder: &Path, device: &DeviceKey) -> Option<Measured> {
    let file = file_of(folder, device);
    if std::fs::metadata(&file).ok()?.len() > MOST_BYTES {
        return None;
    }
    let measured: Measured = serde_json::from_slice(&std::fs::read(file).ok()?).ok()?;
    let ours = measured.schema == SCHEMA && measured.device == *device;
    (ours && measured.is_sound()).then_some(measured)
}

/// Stores ceilings, and replaces the stored ceilings of that device. Returns the file, which is never incomplete.
///
/// # Errors
/// A folder that cannot be made or written to.
pub fn store(folder: &Path, measured: &Measured) -> Result<PathBuf> {
    std::fs::create_dir_all(folder)
        .map_err(|e| Error::io("cannot make the folder for caches", folder, e))?;
    let file = file_of(folder, &measured.device);
    let text = serde_json::to_vec_pretty(measured)
        .map_err(|e| Error::internal(format!("a measurement cannot be written as JSON: {e}")))?;
    write_atomically(&file, |to| to.write_all(&text))?;
    Ok(file)
}

/// Returns a readable file name that is different for different devices.
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

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::ceilings::{Point, Rated, Unit};

    fn device(driver: &str) -> DeviceKey {
        DeviceKey {
            name: "NVIDIA H200 / 2".to_owned(),
            driver: driver.to_owned(),
        }
    }

    pub(in crate::ceilings) fn measured() -> Measured {
        let mut measured = Measured::new(device("570.1"));
        measured.rate(
            "copy",
            Unit::BytesPerSecond,
            Rated {
                per_second: 4.1e12,
                spread: 1.01,
            },
        );
        measured.duration(
            "dispatch",
            Rated {
                per_second: 4e5,
                spread: 3.0,
            },
        );
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
}
