//! Meshes from depths of posed views, their colours, files and comparison with the truth.
//!
//! - [`fuse_views`]: depths of views to a surface. [`DepthSource`] is the only interface to a renderer.
//! - [`refine`]: vertices to where photos agree.
//! - [`surface`]: extraction, cleaning, simplification. [`Topology`] counts holes and faults.
//! - [`colour`]: colours per vertex or a texture, from a [`PhotoSource`].
//! - [`files`]: PLY, OBJ, GLB.
//! - [`judge`]: distances to a true surface, to sparse points, and renders against photos.
//!
//! The results have the same bytes on any number of threads: sums of voxels are in the order of the views, and lists
//! are sorted.
//!
//! A plane at depth 2, seen by one camera:
//!
//! ```
//! use dapple_base::{NoProgress, Result};
//! use dapple_mesh::volume::PlanOptions;
//! use dapple_mesh::{DepthSource, DepthView, Topology, fuse_views};
//! use dapple_scene::{Camera, Pose};
//!
//! struct Plane([Camera; 1]);
//!
//! impl DepthSource for Plane {
//!     fn cameras(&self) -> &[Camera] {
//!         &self.0
//!     }
//!
//!     fn depth(&mut self, _view: usize) -> Result<DepthView> {
//!         let pixels = 64 * 48;
//!         Ok(DepthView { depth: vec![2.0; pixels], alpha: vec![1.0; pixels], normals: None })
//!     }
//! }
//!
//! let mut plane = Plane([Camera::pinhole(64, 48, 60.0, Pose::IDENTITY)]);
//! let options = PlanOptions { voxel: Some(0.1), detail: 1.0, bounds: None, max_memory: 1 << 28, far: false };
//! let fused = fuse_views(&mut plane, &options, &NoProgress)?;
//! assert!(Topology::from_mesh(&fused.mesh).is_manifold());
//! assert!(fused.mesh.positions.iter().all(|p| (p.z - 2.0).abs() < 0.01));
//! # Ok::<(), dapple_base::Error>(())
//! ```

mod build;
mod collision;
pub mod colour;
mod corners;
pub mod files;
pub mod judge;
mod mesh;
mod nearest;
pub mod raster;
pub mod refine;
pub mod surface;
mod view;
pub mod volume;

pub use build::{Fused, fuse_views};
pub use collision::collision;
pub use mesh::{Mesh, Texture, Topology, components, split_fans};
pub use view::{DepthSource, DepthView, PhotoSource, Pinhole};
