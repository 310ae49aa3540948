//! The integration tests of this crate, as one program: linking is most of what a further one costs.

mod clock;
mod device;
mod general;
mod pool;
mod primitives;
mod soon;
mod support;
