//! Integration tests of this crate as one program, because linking is most of the cost of each further program.

mod capture;
mod pose_noise;
mod splats;
