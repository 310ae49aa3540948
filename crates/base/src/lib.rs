//! What every crate of Dapple shares, and nothing that knows of splats or devices.
//!
//! - [`Error`]: what went wrong, where, and what to do about it.
//! - [`Progress`]: how long work says how far it is, and asks whether to stop.
//! - [`atomic`]: files that are either whole or not there.
//! - [`bounded`]: files read whole, but never without end.
//! - [`numbers`]: numbers as people read them.
//! - [`printable`]: names of files as a terminal may be shown them.
//! - [`text`]: byte order marks and UTF-16 in text files.

pub mod atomic;
pub mod bounded;
mod error;
#[doc(hidden)]
pub mod lacking;
pub mod numbers;
mod printable;
mod progress;
pub mod text;

pub use error::{Error, ErrorKind, Result};
pub use printable::{printable, printable_lines};
pub use progress::{NoProgress, Progress};
