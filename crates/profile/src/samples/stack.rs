//! What a sample keeps of an interrupted thread, and how that becomes the addresses of its callers.
//!
//! Linux (`copied`): the handler copies registers and stack, and the thread that counts unwinds the copy. It
//! cannot be done in the handler: where a driver compiles code while the program runs, the unwinder of GCC 12 and
//! older takes a lock and memory, which the interrupted thread may hold.
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

/// Frames of a stack at most; the outermost of deeper ones are cut.
pub(super) const MOST_FRAMES: usize = 512;
/// Stands, outermost, where frames were cut.
pub(super) const CUT: usize = 0;
