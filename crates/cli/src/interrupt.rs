//! Ctrl-C.
//!
//! Work that has something to save or to clean up asks for a [`grace`]: then the first Ctrl-C sets a
//! flag, the work ends cleanly, and a second Ctrl-C ends the program at once. Without it the first
//! one does; folders that were made for results and are still empty ([`remove_if_empty`]) go first.

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

/// Listens from now on (to SIGTERM and SIGHUP too).
pub fn listen() -> Result<()> {
    ctrlc::set_handler(|| {
        let first = !REQUESTED.swap(true, Ordering::SeqCst);
        if first && GRACE.load(Ordering::SeqCst) {
            let _ = writeln!(
                std::io::stderr(),
                "\nstopping: leaving things in order (Ctrl-C again ends at once)"
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

/// Removes these folders, if they are empty, when Ctrl-C ends the program.
pub fn remove_if_empty(folders: &NewFolders) {
    if let Ok(mut slot) = EMPTY.lock() {
        *slot = Some(folders.clone());
    }
}

/// While this lives, the first Ctrl-C is a request.
#[derive(Debug)]
pub struct Grace;

/// Whether somebody has asked to stop. Without a [`Grace`] the program has ended by then.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}

/// Asks for time to save, or to clean up.
pub fn grace() -> Grace {
    GRACE.store(true, Ordering::SeqCst);
    Grace
}

impl Grace {
    /// Whether somebody has asked to stop.
    pub fn requested(&self) -> bool {
        requested()
    }

    /// An error if somebody has; `done` says what there is.
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
