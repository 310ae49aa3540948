//! Integration tests of this crate as one program.

mod add;
mod faults;
mod folds;
mod frame;
mod real;
mod stages;
mod support;
