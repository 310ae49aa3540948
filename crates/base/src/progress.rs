//! How long work tells its caller how far it is, and asks whether to go on. The command line draws
//! a bar, tests draw nothing.

/// Receives the progress of long work. Called from several threads at once.
pub trait Progress: Sync {
    /// Work begins: what it is ("reading photos") and how many units it has.
    fn start(&self, what: &str, total: u64);
    /// `n` more units are done.
    fn advance(&self, n: u64);
    /// All of it is done, or it stopped with an error.
    fn finish(&self);
    /// Whether to stop. Asked, often, by work that would leave something half-made behind: it then
    /// cleans up and ends with an error of kind [`Interrupted`](crate::ErrorKind::Interrupted).
    fn should_stop(&self) -> bool {
        false
    }
}

/// Listens to nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn start(&self, _what: &str, _total: u64) {}
    fn advance(&self, _n: u64) {}
    fn finish(&self) {}
}
