//! Operations of a second or more report their progress, and stop on request.

use crate::formats::support::crowd;
use dapple_splats::splat_file::{self, Format, ReadOptions, WriteOptions};
use dapple_splats::{ErrorKind, Progress};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts, and requests a stop at a number of finished units.
#[derive(Default)]
struct Listener {
    begun: Mutex<Vec<(String, u64)>>,
    done: AtomicU64,
    ended: AtomicU64,
    stops_after: Option<u64>,
}

impl Progress for Listener {
    fn start(&self, what: &str, total: u64) {
        self.begun.lock().unwrap().push((what.to_owned(), total));
    }

    fn advance(&self, n: u64) {
        self.done.fetch_add(n, Ordering::Relaxed);
    }

    fn finish(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    fn should_stop(&self) -> bool {
        let done = self.done.load(Ordering::Relaxed);
        self.stops_after.is_some_and(|most| done >= most)
    }
}

impl Listener {
    /// Returns the only job and its last reported fraction; asserts that the job has ended.
    #[track_caller]
    fn job(&self) -> (String, f64) {
        let begun = self.begun.lock().unwrap();
        assert_eq!(
            (begun.len(), self.ended.load(Ordering::Relaxed)),
            (1, 1),
            "{begun:?}"
        );
        let (what, total) = &begun[0];
        (
            what.clone(),
            self.done.load(Ordering::Relaxed) as f64 / *total as f64,
        )
    }
}

#[test]
fn long_jobs_are_told_and_short_ones_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let write = |count, degree, format: Format, listener: &Listener| {
        let path = folder.path().join(format.file_name("a"));
        let options = WriteOptions::default();
        splat_file::write_with_progress(&path, &crowd(count, degree), format, &options, listener)
    };
    for format in [
        Format::Ply,
        Format::Sog,
        Format::Spz,
        Format::StreamedSog,
        Format::Glb,
    ] {
        let quiet = Listener::default();
        write(200, 1, format, &quiet).unwrap();
        let begun = quiet.begun.lock().unwrap().clone();
        // Merging has its own report.
        assert!(
            begun.iter().all(|(what, _)| what.contains("merging")),
            "{begun:?}"
        );
    }
    for (count, degree, format, what) in [
        (400_000, 0, Format::Ply, "writing splats"),
        (50_000, 1, Format::Sog, "finding a palette"),
        (600_000, 3, Format::Spz, "packing splats"),
        (300_000, 3, Format::Glb, "packing splats"),
    ] {
        let listener = Listener::default();
        write(count, degree, format, &listener).unwrap();
        let (told, share) = listener.job();
        assert!(told.contains(what), "{told}");
        // Headers and the last rows are within the tolerance.
        assert!((share - 1.0).abs() < 0.03, "{format:?}: {share}");
    }
}

#[test]
fn a_request_to_stop_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    for (format, count) in [
        (Format::Sog, 50_000),
        (Format::Spz, 600_000),
        (Format::Glb, 300_000),
    ] {
        let listener = Listener {
            stops_after: Some(1),
            ..Listener::default()
        };
        let path = folder.path().join(format.file_name("a"));
        let splats = crowd(count, 3);
        let options = WriteOptions::default();
        let stopped = splat_file::write_with_progress(&path, &splats, format, &options, &listener);
        assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Interrupted);
        assert!(!path.exists());
        assert!(listener.job().1 < 1.0);
    }
}

#[test]
fn reading_a_million_is_told() {
    let folder = tempfile::tempdir().unwrap();
    for format in [Format::Ply, Format::Spz] {
        let path = folder.path().join(format.file_name("a"));
        splat_file::write(&path, &crowd(1_000_000, 0), format).unwrap();
        let listener = Listener::default();
        let options = ReadOptions::default();
        splat_file::read_with_progress(&path, &options, &listener).unwrap();
        let (told, share) = listener.job();
        assert_eq!(told, "reading splats");
        assert!(share > 0.95 && share <= 1.0, "{format:?}: {share}");
    }
}
