//! Fusion: plan of the grid, depth maps, blocks of voxels, signed distances, levels of resolution.

mod blocks;
mod consistent;
mod fuse;
mod levels;
mod maps;
mod plan;

pub use blocks::{Blocks, Grid, Key, SIDE, VOXELS, place_around};
pub use consistent::{drop_inconsistent, has_support, is_same_place};
pub use fuse::{Volume, fuse};
pub(crate) use levels::is_in_box;
pub use levels::{ByLevel, Levels};
pub use maps::{DepthMap, OPEN, normals_of};
pub(crate) use plan::median;
pub use plan::{Plan, PlanOptions, map_bytes, plan, plan_level};
