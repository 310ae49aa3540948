//! Other formats of splats than PLY: bytes by hand, other tools, damage.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod damage;
mod glb;
mod gltf;
mod gltf_content;
mod ksplat;
mod measure;
mod moved;
mod progress;
mod sog;
mod spz;
mod streamed;
mod support;
mod tool;
