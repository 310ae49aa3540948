//! Thread pool shared by all commands, separate from an engine's threads: reads photos, scores, and writes files.

use dapple::cpu::threads;
use dapple::scene::Result;

/// Starts the threads. Without this call the first use would start them, and panic if the system refuses.
///
/// # Errors
/// The system grants no threads, or no memory for their stacks.
pub fn start() -> Result<()> {
    let place = "the threads that read and score photos";
    threads::check_room(None).map_err(|e| e.at(place))?;
    let workers = rayon::ThreadPoolBuilder::new();
    workers
        .build_global()
        .map_err(|e| threads::refused(&e).at(place).caused_by(e))
}
