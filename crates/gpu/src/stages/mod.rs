//! The stages of a step, one file each: which kernels, over what.

pub mod appearance;
pub mod begin;
pub mod blend;
pub mod blend_backward;
pub mod densify;
pub mod depth;
pub mod emit;
pub mod finite;
pub mod gather;
pub mod loss;
pub mod morton;
pub mod order;
pub mod poses;
pub mod project;
pub mod ranges;
pub mod relocate;
pub mod report;
pub mod score;
pub mod smoothing;
pub mod sort;
pub mod update;
