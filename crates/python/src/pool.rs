//! Threads of this process.
//!
//! A forked process has none of its parent's threads, and work for rayon's global pool would wait forever there. Each
//! process therefore creates a pool at its first call.

use dapple::{Error, Result};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::{Arc, Mutex, PoisonError};

/// The pool and the process that created it.
static POOL: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);

/// Runs work on the pool of this process.
pub fn install<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    own()?.install(work)
}

fn own() -> Result<Arc<ThreadPool>> {
    let mut slot = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if let Some((creator, pool)) = slot.take() {
        if creator == process {
            *slot = Some((creator, Arc::clone(&pool)));
            return Ok(pool);
        }
        // The pool of the parent process: its threads are not here to be joined.
        std::mem::forget(pool);
    }
    let pool = ThreadPoolBuilder::new()
        .thread_name(|i| format!("dapple-python-{i}"))
        .build()
        .map_err(|e| {
            Error::input(format!("cannot start threads: {e}"))
                .hint("raise the limit on threads (`ulimit -u`)")
        })?;
    let pool = Arc::new(pool);
    *slot = Some((process, Arc::clone(&pool)));
    Ok(pool)
}
