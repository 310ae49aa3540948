//! The integration tests of this crate, as one program: linking is most of what a further one costs.

mod html;
mod samples;
mod support;
mod trace;
mod truth;
