//! Progress of reading and writing, reported for operations that take a second or more.

use crate::{Error, ErrorKind, Progress, Result};
use std::io::{self, Write};

/// Number of Gaussians from which reading reports progress.
pub(crate) const TOLD_READ: usize = 1_000_000;

/// Counter of finished units of work.
pub(crate) struct Watch<'a> {
    progress: &'a dyn Progress,
    is_told: bool,
}

impl<'a> Watch<'a> {
    /// Starts the operation `what` of `total` units; operations below `told_from` units are too short for a report.
    pub(crate) fn start(
        progress: &'a dyn Progress,
        what: &str,
        total: usize,
        told_from: usize,
    ) -> Self {
        let is_told = total >= told_from;
        if is_told {
            progress.start(what, total as u64);
        }
        Self { progress, is_told }
    }

    /// Starts a report of reading Gaussians.
    pub(crate) fn reading(progress: &'a dyn Progress, count: usize) -> Self {
        Self::start(progress, "reading splats", count, TOLD_READ)
    }

    /// Adds finished units.
    pub(crate) fn advance(&self, units: usize) {
        if self.is_told {
            self.progress.advance(units as u64);
        }
    }

    /// Returns true if the operation is to stop.
    pub(crate) fn should_stop(&self) -> bool {
        self.progress.should_stop()
    }

    /// Returns the error of a request to stop.
    pub(crate) fn check(&self) -> Result<()> {
        match self.should_stop() {
            true => Err(Error::new(
                ErrorKind::Interrupted,
                "it was stopped; nothing was written",
            )),
            false => Ok(()),
        }
    }
}

/// For operations with their own reports: `start` and `finish` do nothing, because the watch has started and finishes
/// when dropped.
impl Progress for Watch<'_> {
    fn start(&self, _: &str, _: u64) {}

    fn advance(&self, units: u64) {
        Watch::advance(self, units as usize);
    }

    fn finish(&self) {}

    fn should_stop(&self) -> bool {
        Watch::should_stop(self)
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if self.is_told {
            self.progress.finish();
        }
    }
}

/// Writer that counts Gaussians by their bytes.
pub(crate) struct Counted<'a> {
    out: &'a mut dyn Write,
    watch: &'a Watch<'a>,
    /// Bytes per Gaussian.
    row: usize,
    bytes: usize,
}

impl<'a> Counted<'a> {
    pub(crate) fn new(out: &'a mut dyn Write, watch: &'a Watch<'a>, row: usize) -> Self {
        Self {
            out,
            watch,
            row: row.max(1),
            bytes: 0,
        }
    }
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        let before = self.bytes / self.row;
        self.bytes += written;
        let done = self.bytes / self.row;
        // Not checked for each row.
        if done / 4096 > before / 4096 {
            self.watch.advance((done / 4096 - before / 4096) * 4096);
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
