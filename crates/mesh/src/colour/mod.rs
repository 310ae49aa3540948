//! Colours of a mesh: per vertex, or by a texture.

mod atlas;
mod charts;
mod paint;
mod unseen;
mod vertices;

pub use atlas::{TextureOptions, Textured, texture};
pub use paint::{Spot, paint, sampled, to_bytes};
pub use unseen::Unseen;
pub use vertices::colour_vertices;
