//! Stages: one file per stage, named as in `dapple_engine::Stage`. `visits` is shared by both walks
//! over tiles.

pub mod appearance;
pub mod appearance_mlp;
pub mod blend;
pub mod blend_backward;
pub mod crops;
pub mod densify;
pub mod depth;
pub mod emit;
pub mod finite;
pub mod loss;
pub mod noise;
pub mod order;
pub mod photometric;
pub mod poses;
pub mod project;
pub mod ranges;
pub mod regularisers;
pub mod relocate;
pub mod sort;
pub mod surface;
pub mod update;
mod visits;
