//! Ctrl-C handling.
//!
//! Work with results to save or files to clean up holds a [`grace`]. Then the first Ctrl-C sets a flag and the work
//! ends cleanly; a second Ctrl-C ends the program at once. Without a grace the first Ctrl-C ends the program, after
//! removing result folders that are still empty ([`remove_if_empty`]).

use crate::exit::INTERRUPTED;
use crate::options::NewFolders;
use dapple::scene::{Error, ErrorKind, Result};
use dapple::train::RunLock;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

static GRACE: AtomicBool = AtomicBool::new(false);
static REQUESTED: AtomicBool = AtomicBool::new(false);
static EMPTY: Mutex<Option<NewFolders>> = Mutex::new(None);

/// Starts to listen for Ctrl-C, SIGTERM and SIGHUP.
pub fn listen() -> Result<()> {
    ctrlc::set_handler(|| {
        let first = !REQUESTED.swap(true, Ordering::SeqCst);
        if first && GRACE.load(Ordering::SeqCst) {
            let _ = writeln!(
                std::io::stderr(),
                "\nstopping cleanly (Ctrl-C again ends at once)"
            );
            return;
        }
        RunLock::abandon_all();
        if let Ok(folders) = EMPTY.lock()
            && let Some(folders) = folders.as_ref()
        {
            folders.remove_empty();
        }
        std::process::exit(i32::from(INTERRUPTED));
    })
    .map_err(|e| {
        Error::new(ErrorKind::Io, format!("cannot listen for Ctrl-C: {e}"))
            .at("the start of the program")
            .hint("raise the limits on memory, threads and open files (`ulimit -v`, `ulimit -u`, `ulimit -n`)")
    })
}

/// Removes these folders, if empty, when Ctrl-C ends the program.
pub fn remove_if_empty(folders: &NewFolders) {
    if let Ok(mut slot) = EMPTY.lock() {
        *slot = Some(folders.clone());
    }
}

/// While this exists, the first Ctrl-C only sets a flag.
#[derive(Debug)]
pub struct Grace;

/// Returns true after Ctrl-C. Without a [`Grace`] the program has already ended.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}

/// Reserves time to save or to clean up after Ctrl-C.
pub fn grace() -> Grace {
    GRACE.store(true, Ordering::SeqCst);
    Grace
}

impl Grace {
    /// Returns true after Ctrl-C.
    pub fn requested(&self) -> bool {
        requested()
    }

    /// Returns an error after Ctrl-C; `done` describes the work done so far.
    pub fn check(&self, done: impl FnOnce() -> String) -> Result<()> {
        if self.requested() {
            return Err(Error::new(ErrorKind::Interrupted, done()));
        }
        Ok(())
    }
}

impl Drop for Grace {
    fn drop(&mut self) {
        GRACE.store(false, Ordering::SeqCst);
    }
}
