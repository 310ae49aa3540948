//! The integration tests of this crate, as one program: each further program would cost mostly its link time.

mod ops;
