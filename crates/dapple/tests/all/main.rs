//! Integration tests of this crate, as one program: linking is most of the cost of a further
//! program.

mod adapt;
mod floaters;
#[path = "../../../gpu/tests/all/support/lease.rs"]
mod lease;
mod live;
#[path = "../../../train/tests/all/lpips_weights/mod.rs"]
mod lpips_weights;
mod masks;
mod perceptual;
mod resume;
mod scoring;
mod sky;
mod streamed_photos;
mod tensors;
