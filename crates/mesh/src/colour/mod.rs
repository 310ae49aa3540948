//! Colours of a mesh: per vertex, or by a texture; from photos in their own exposure or that of the splats.

mod atlas;
mod charts;
mod exposure;
mod paint;
mod unseen;
mod vertices;

pub use atlas::{TextureOptions, Textured, texture};
pub use exposure::{ColourMap, Matched, Reduced};
pub(crate) use paint::Patch;
pub use paint::{Spot, TOLERANCE, paint, sampled, to_bytes};
pub use unseen::Unseen;
pub use vertices::colour_vertices;
