//! Meshes from depths of posed views.
mod build;
pub mod colour;
mod collision;
pub mod files;
pub mod judge;
mod mesh;
mod nearest;
pub mod raster;
pub mod surface;
mod view;
pub mod volume;

pub use build::{Fused, fuse_views};
pub use collision::collision;
pub use mesh::{Mesh, Texture, Topology, components, split_fans};
pub use view::{DepthSource, DepthView, PhotoSource, Pinhole};
