//! Memory limit of photos, and messages about reading photos beyond the limit.

use crate::machine::{self, human_bytes};
use dapple::scene::{Dataset, LoadOptions};
use dapple::train::PhotoTraffic;

/// Default share of the free memory for photos: the rest is for splats, the optimizer's state and other programs.
const SHARE_OF_FREE: u64 = 2;

/// Share of the training time from which waiting for photos is reported.
const WORTH_A_HINT: f64 = 0.05;

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
