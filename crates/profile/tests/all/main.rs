//! The integration tests of this crate, as one program: linking is most of the cost of another program.

mod html;
mod samples;
mod support;
mod trace;
mod truth;
