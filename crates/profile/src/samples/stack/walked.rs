//! The handler unwinds, and stores addresses.

use super::{CUT, MOST_FRAMES};
use crate::samples::SampleError;
use libc::c_void;

/// Bytes of one address.
const ADDRESS: usize = size_of::<usize>();
/// Bytes of the deepest stack.
pub(in super::super) const BYTES: usize = MOST_FRAMES * ADDRESS;

/// Empty: only the addresses are stored.
#[derive(Debug, Clone, Copy, Default)]
pub(in super::super) struct Registers;

/// Stores the addresses of the interrupted thread in `bytes`; returns the number of bytes. Called in a signal handler:
/// takes no lock and no memory.
///
/// # Safety
/// `context` is the context that the system passed to a signal handler.
pub(in super::super) unsafe fn take(
    context: *mut c_void,
    bytes: &mut [u8; BYTES],
) -> (Registers, usize) {
    // SAFETY: as above.
    let at = unsafe { interrupted_at(context.cast()) };
    let (mut used, mut interrupted) = (0, false);
    let mut keep = |address: usize| {
        bytes[used..used + ADDRESS].copy_from_slice(&address.to_ne_bytes());
        used += ADDRESS;
        used < BYTES
    };
    // SAFETY: unsynchronised, because the interrupted code may hold the lock; only the resolving of names needs it.
    unsafe {
        backtrace::trace_unsynchronized(|frame| {
            let address = frame.ip() as usize;
            // This handler and the system's trampoline come first.
            interrupted |= address == at;
            !interrupted || keep(address)
        });
    }
    if !interrupted {
        // The unwinder failed: the interrupted address is known nevertheless.
        keep(at);
    }
    (Registers, used)
}

/// Returns the address of the instruction that was interrupted.
///
/// # Safety
/// `context` is the context that the system passed to a signal handler.
unsafe fn interrupted_at(context: *mut libc::ucontext_t) -> usize {
    // SAFETY: as above.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        return (*(*context).uc_mcontext).__ss.__rip as usize;
        #[cfg(target_arch = "aarch64")]
        return (*(*context).uc_mcontext).__ss.__pc as usize;
    }
}

/// Unwinds once: the unwinder loads its data on its first call, which must not be in a handler.
///
/// # Errors
/// None here.
pub(in super::super) fn check() -> Result<(), SampleError> {
    backtrace::trace(|_| true);
    Ok(())
}

/// Reads addresses back.
pub(in super::super) struct Unwinder;

impl Unwinder {
    pub(in super::super) fn new() -> Self {
        Self
    }

    /// Does nothing: the unwinder keeps no tables.
    pub(in super::super) fn follow(&mut self) {}

    /// Returns the stored addresses, innermost first.
    pub(in super::super) fn addresses(&mut self, _: Registers, stack: &[u8]) -> Vec<usize> {
        let (words, _) = stack.as_chunks::<ADDRESS>();
        let mut addresses: Vec<_> = words.iter().map(|&b| usize::from_ne_bytes(b)).collect();
        if addresses.len() == MOST_FRAMES {
            addresses.push(CUT);
        }
        addresses
    }
}
