//! The data of an interrupted thread in a sample, and its conversion to the addresses of its callers.
//!
//! Linux (`copied`): the handler copies registers and stack, and the thread that counts unwinds the copy. The handler
//! cannot unwind. If a driver compiles code while the program runs, the unwinder of GCC 12 and older takes a lock and
//! memory, which the interrupted thread may hold.
//!
//! macOS (`walked`): the handler unwinds; that system's unwinder takes neither for code that was loaded.

#[cfg(target_os = "linux")]
mod copied;
#[cfg(target_os = "macos")]
mod walked;

#[cfg(target_os = "linux")]
pub(super) use copied::{BYTES, Registers, Unwinder, check, take};
#[cfg(target_os = "macos")]
pub(super) use walked::{BYTES, Registers, Unwinder, check, take};

/// Most frames of a stack; the outermost frames of deeper stacks are cut.
pub(super) const MOST_FRAMES: usize = 512;
/// Outermost address where frames were cut.
pub(super) const CUT: usize = 0;
