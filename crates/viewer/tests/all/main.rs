//! Integration tests of this crate as one program, because each further program costs mostly its
//! linking.

#![allow(clippy::too_many_lines, reason = "a test is one scenario")]

mod common;
mod edits;
mod server;
