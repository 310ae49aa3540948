//! Ctrl-C.
//!
//! Work that has something to save asks for a [`grace`]: then the first Ctrl-C sets a flag, the
//! work ends cleanly, and a second Ctrl-C ends the program at once. Without it the first one does.

use crate::exit::INTERRUPTED;
use dapple::scene::{Error, Result};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

static GRACE: AtomicBool = AtomicBool::new(false);
static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Listens from now on (to SIGTERM and SIGHUP too).
pub fn listen() -> Result<()> {
    ctrlc::set_handler(|| {
        let first = !REQUESTED.swap(true, Ordering::SeqCst);
        if first && GRACE.load(Ordering::SeqCst) {
            let _ = writeln!(
                std::io::stderr(),
                "\nstopping: saving what there is (Ctrl-C again ends at once, unsaved)"
            );
            return;
        }
        std::process::exit(i32::from(INTERRUPTED));
    })
    .map_err(|e| Error::internal(format!("cannot listen for Ctrl-C: {e}")))
}

/// While this lives, the first Ctrl-C is a request.
#[derive(Debug)]
pub struct Grace;

/// Asks for time to save.
pub fn grace() -> Grace {
    GRACE.store(true, Ordering::SeqCst);
    Grace
}

impl Grace {
    /// Whether somebody has asked to stop.
    pub fn requested(&self) -> bool {
        REQUESTED.load(Ordering::SeqCst)
    }
}

impl Drop for Grace {
    fn drop(&mut self) {
        GRACE.store(false, Ordering::SeqCst);
    }
}
