//! The integration tests of this crate, as one program: linking is most of the cost of another program.

mod clock;
mod device;
mod general;
mod pool;
mod primitives;
mod submission_batch;
mod support;
