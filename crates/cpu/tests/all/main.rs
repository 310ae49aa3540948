//! Integration tests of this crate, as one program: linking is most of the cost of a further
//! program.

mod conformance;
