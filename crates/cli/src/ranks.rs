//! Processes of a run that a launcher of MPI has started. The first trains; the others execute its commands.

use crate::console::Console;
use crate::options::DeviceOptions;
use dapple::Launch;
use dapple::scene::Result;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Launch of the first process, until it opens its engine.
static LAUNCH: Mutex<Option<Launch>> = Mutex::new(None);

/// True in the first process of a launch.
static JOINED: AtomicBool = AtomicBool::new(false);

/// Joins the launch that this process belongs to, if there is one. Returns true if this process has executed the
/// commands of the first process, which has ended.
///
/// # Errors
/// A fault of MPI or of a rank.
pub fn join(device: &DeviceOptions, console: &Console) -> Result<bool> {
    let Some(launch) = Launch::join()? else {
        return Ok(false);
    };
    match launch.rank() {
        0 => {
            JOINED.store(true, Ordering::Relaxed);
            *LAUNCH.lock().unwrap_or_else(PoisonError::into_inner) = Some(launch);
            Ok(false)
        }
        rank => {
            let (name, options) = device.of_rank()?;
            launch
                .serve(&name, &options)
                .map(|()| true)
                .inspect_err(|error| console.note(&format!("rank {rank}: {}", error.what())))
        }
    }
}

/// Returns the launch of the first process, once.
pub fn take_launch() -> Option<Launch> {
    LAUNCH.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Returns true if MPI launched this process with others or by itself.
pub fn are_joined() -> bool {
    JOINED.load(Ordering::Relaxed)
}
