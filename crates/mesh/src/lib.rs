//! Meshes from depths of posed views.
mod build;
pub mod colour;
pub mod files;
mod mesh;
pub mod raster;
pub mod surface;
mod view;
pub mod volume;

pub use build::{Fused, fuse_views};
pub use mesh::{Mesh, Texture, Topology, components, split_fans};
pub use view::{DepthSource, DepthView, PhotoSource, Pinhole};
