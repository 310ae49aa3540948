//! Ctrl-C handling, and the signals SIGTERM and SIGHUP.
//!
//! Work with results to save or files to clean up holds a [`grace`]. Then the first signal sets a flag and the work
//! ends cleanly; a further Ctrl-C ends the program at once. Without a grace the first signal ends the program, after
//! removing result folders that are still empty ([`remove_if_empty`]).

use crate::outputs::NewFolders;
use dapple::scene::{Error, ErrorKind, Result};
use dapple::train::RunLock;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit code of an interrupted run: 128 + SIGINT, as in shells.
pub const INTERRUPTED: u8 = 130;

static GRACE: AtomicBool = AtomicBool::new(false);
static REQUESTED: AtomicBool = AtomicBool::new(false);
static EMPTY: Mutex<Option<NewFolders>> = Mutex::new(None);

/// Starts to listen for Ctrl-C, and on Unix for SIGTERM and SIGHUP. A signal that the parent process ignores stays
/// ignored, as `nohup` expects. A write beyond `ulimit -f` becomes an error of that write.
pub fn listen() -> Result<()> {
    let failed = |e: &dyn std::fmt::Display| {
        Error::new(ErrorKind::Io, format!("cannot listen for Ctrl-C: {e}"))
            .at("the start of the program")
            .hint("raise the limits on memory, threads and open files (`ulimit -v`, `ulimit -u`, `ulimit -n`)")
    };
    #[cfg(unix)]
    {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
        let heard = [SIGINT, SIGTERM, SIGHUP]
            .into_iter()
            .filter(|&signal| !is_ignored(signal));
        let mut signals = signal_hook::iterator::Signals::new(heard).map_err(|e| failed(&e))?;
        // A handler without an effect: the write fails, and the program goes on.
        signal_hook::flag::register(SIGXFSZ, std::sync::Arc::default()).map_err(|e| failed(&e))?;
        let work = move || {
            for signal in signals.forever() {
                heed(signal == SIGINT);
            }
        };
        let thread = std::thread::Builder::new().name("signals".to_owned());
        thread.spawn(work).map_err(|e| failed(&e))?;
    }
    #[cfg(not(unix))]
    ctrlc::set_handler(|| heed(true)).map_err(|e| failed(&e))?;
    Ok(())
}

/// Stops the work cleanly at the first signal. A further Ctrl-C ends the program at once; other signals come twice if a
/// terminal closes, from the shell and from the kernel.
fn heed(is_ctrl_c: bool) {
    let is_first = !REQUESTED.swap(true, Ordering::SeqCst);
    let has_grace = GRACE.load(Ordering::SeqCst);
    if has_grace && is_first {
        let _ = writeln!(
            std::io::stderr(),
            "\nstopping cleanly (Ctrl-C again ends at once)"
        );
    }
    if has_grace && (is_first || !is_ctrl_c) {
        return;
    }
    RunLock::abandon_all();
    if let Ok(folders) = EMPTY.lock()
        && let Some(folders) = folders.as_ref()
    {
        folders.remove_empty();
    }
    std::process::exit(i32::from(INTERRUPTED));
}

/// Returns true if the process was started with this signal ignored.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: with a null pointer for the new action, `sigaction` only writes the present one, into memory of its size.
    let action = unsafe {
        if libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) != 0 {
            return false;
        }
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
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
