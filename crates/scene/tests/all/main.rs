//! Integration tests of this crate as one program, because linking is most of the cost of each further program.

#![allow(clippy::too_many_lines, reason = "a test is one scenario")]

mod cameras_file;
mod colmap_parsers;
mod load_colmap;
mod load_real;
mod load_support;
mod load_transforms;
