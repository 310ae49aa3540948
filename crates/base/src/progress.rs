//! Progress of long work, and requests to stop it. The command line draws a bar, tests draw
//! nothing.

/// Receiver of the progress of long work. Called from several threads at once.
pub trait Progress: Sync {
    /// Begins a task: `what` is its description ("reading photos"), `total` its number of units.
    fn start(&self, what: &str, total: u64);
    /// Adds `n` finished units.
    fn advance(&self, n: u64);
    /// Ends the task: all units are done, or it stopped with an error.
    fn finish(&self);
    /// Returns true if the work should stop. Work that would leave an incomplete result calls this
    /// function often. If the result is true, it cleans up and ends with an error of kind
    /// [`Interrupted`](crate::ErrorKind::Interrupted).
    fn should_stop(&self) -> bool {
        false
    }
}

/// Receiver that ignores all progress.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn start(&self, _what: &str, _total: u64) {}
    fn advance(&self, _n: u64) {}
    fn finish(&self) {}
}
