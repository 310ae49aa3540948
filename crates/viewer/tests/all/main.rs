//! Integration tests of this crate as one program, because each further program costs mostly its
//! linking.

mod common;
mod edits;
mod server;
