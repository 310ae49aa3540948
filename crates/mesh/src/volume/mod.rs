//! Fusion: plan of the grid, depth maps, blocks of voxels, signed distances.

mod blocks;
mod consistent;
mod fuse;
mod maps;
mod plan;

pub use blocks::{Blocks, Grid, Key, SIDE, VOXELS};
pub use consistent::{drop_inconsistent, is_same_place};
pub use fuse::{Volume, fuse};
pub use maps::{DepthMap, OPEN, normals_of};
pub(crate) use plan::median;
pub use plan::{Plan, PlanOptions, map_bytes, plan};
