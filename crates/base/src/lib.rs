//! Base of all crates of Dapple, without code about splats or devices.
//!
//! - [`Error`]: what failed, where, and a hint.
//! - [`Progress`]: progress of long work, and requests to stop it.
//! - [`atomic`]: files that are either complete or absent.
//! - [`bounded`]: reads of whole files, up to a limit.
//! - [`numbers`]: numbers formatted for readers, and read from them.
//! - [`printable`]: file names made safe for terminals.
//! - [`quantiles`]: medians and quantiles.
//! - [`settings`](mod@settings): settings, one row each.
//! - [`text`]: byte order marks and UTF-16 in text files.

pub mod atomic;
pub mod bounded;
mod error;
pub mod numbers;
mod printable;
mod progress;
pub mod quantiles;
pub mod settings;
#[doc(hidden)]
pub mod test_requirements;
pub mod text;

pub use error::{Error, ErrorKind, Result, decoder_fault};
pub use printable::{printable, printable_lines};
pub use progress::{NoProgress, Progress};
