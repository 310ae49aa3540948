//! Memory limit of photos, and messages about reading photos beyond the limit.

use crate::machine::{self, human_bytes};
use dapple::scene::{Dataset, LoadOptions};
use dapple::train::PhotoTraffic;

/// Default share of the free memory for photos: the rest is for splats, the optimizer's state and other programs.
const SHARE_OF_FREE: u64 = 2;

/// Share of the training time from which waiting for photos is reported.
const WORTH_A_HINT: f64 = 0.05;

/// Parses bytes with a unit: `4GiB`, `500MiB`, `2G` (of 1024).
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.'));
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let number: f64 = number
        .parse()
        .map_err(|_| "a number with a unit is needed, for example 4GiB".to_owned())?;
    let power = match unit.trim().to_ascii_lowercase().as_str() {
        "kib" | "k" => 10,
        "mib" | "m" => 20,
        "gib" | "g" => 30,
        "tib" | "t" => 40,
        "" => return Err("a unit is needed: MiB or GiB".to_owned()),
        "kb" | "mb" | "gb" | "tb" => {
            return Err("units are of 1024: write MiB or GiB".to_owned());
        }
        other => return Err(format!("\"{other}\" is not a unit: write MiB or GiB")),
    };
    let bytes = number * f64::from(1u32 << (power - 10)) * 1024.0;
    if bytes < 1.0 {
        return Err("at least a byte is needed".to_owned());
    }
    // The cast saturates.
    Ok(bytes as u64)
}

/// Returns the requested limit, or else a share of the free memory. `None` if the free memory is not known: then all
/// photos are held.
pub fn limit(asked: Option<u64>) -> Option<u64> {
    asked.or_else(|| machine::available_memory_bytes().map(|free| free / SHARE_OF_FREE))
}

/// Returns `options` with that limit.
pub fn limited(options: LoadOptions, asked: Option<u64>) -> LoadOptions {
    LoadOptions {
        photo_memory_bytes: limit(asked),
        ..options
    }
}

/// Returns the note for a capture whose photos are not all held.
pub fn note(dataset: &Dataset, asked: Option<u64>) -> Option<String> {
    let limit = dataset.photo_memory_bytes?;
    let bytes: u64 = dataset.views.iter().map(|view| view.photo.bytes()).sum();
    let whence = match asked {
        Some(_) => "as asked",
        None => "half of the memory that is free",
    };
    Some(format!(
        "the photos take {} and may take {} ({whence}): they are read again as training needs them",
        human_bytes(bytes),
        human_bytes(limit)
    ))
}

/// Returns the message about reading photos; `train_seconds` is the training time.
pub fn lines(traffic: &PhotoTraffic, train_seconds: f64) -> Vec<String> {
    let steps = traffic.ready + traffic.waits;
    let mut lines = vec![format!(
        "photos    read {} times for {steps} steps, {} of memory at most; {} steps waited, {:.1} s in all",
        traffic.reads,
        human_bytes(traffic.peak_bytes),
        traffic.waits,
        traffic.wait_seconds
    )];
    if traffic.wait_seconds > WORTH_A_HINT * train_seconds {
        lines.push(format!(
            "hint: reading photos held training back for {:.0} % of its time; give more --photo-memory, or \
             smaller photos with --downscale 2",
            100.0 * traffic.wait_seconds / train_seconds.max(f64::MIN_POSITIVE)
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_units_of_1024() {
        assert_eq!(parse_bytes("4GiB"), Ok(4 << 30));
        assert_eq!(parse_bytes("1.5 MiB"), Ok(3 << 19));
        assert_eq!(parse_bytes("2g"), Ok(2 << 30));
        for bad in ["4", "4GB", "GiB", "0GiB", "-1GiB", "4 apples"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn waiting_is_told_where_it_matters() {
        let traffic = PhotoTraffic {
            reads: 30,
            ready: 60,
            waits: 40,
            wait_seconds: 2.0,
            ..PhotoTraffic::default()
        };
        assert_eq!(lines(&traffic, 100.0).len(), 1);
        let told = lines(&traffic, 10.0);
        assert!(told[0].contains("100 steps") && told[0].contains("40 steps waited"));
        assert!(told[1].contains("20 %"), "{told:?}");
    }
}
