//! Integration tests of this crate as one program, because linking is most of the cost of each further program.

#![allow(clippy::too_many_lines, reason = "a test is one scenario")]

mod formats;
mod ply_compressed;
mod ply_format;
mod ply_other_tools;
mod ply_real;
mod ply_splat_transform;
mod splat_transform;
