//! Stages: one file per stage, named as in `dapple_engine::Stage`. `visits` is shared by both walks
//! over tiles. Kernels of features are in their folders: `features`.

pub mod blend;
pub mod blend_backward;
pub mod contributors;
pub mod densify;
pub mod emit;
pub mod finite;
pub mod loss;
pub mod order;
pub mod project;
pub mod ranges;
pub mod sort;
pub mod surface;
pub mod update;
mod visits;
