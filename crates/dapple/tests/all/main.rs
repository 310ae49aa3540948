//! The integration tests of this crate, as one program: linking is most of what a further one costs.

mod adapt;
mod floaters;
#[path = "../../../gpu/tests/all/support/lease.rs"]
mod lease;
#[path = "../../../train/tests/all/lpips_weights/mod.rs"]
mod lpips_weights;
mod masks;
mod perceptual;
mod resume;
mod scoring;
mod streamed_photos;
mod tensors;
