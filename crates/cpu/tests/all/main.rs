//! The integration tests of this crate, as one program: linking is most of what a further one costs.

mod conformance;
