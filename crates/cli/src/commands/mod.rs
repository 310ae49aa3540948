//! Commands, one file each: options, help and implementation.

pub mod bench;
pub mod convert;
pub mod demo;
pub mod doctor;
pub mod edit;
pub mod eval;
pub mod export;
pub mod info;
pub mod mesh;
pub mod photos;
pub mod profile;
pub mod render;
pub mod synth;
pub mod train;
pub mod verify;
pub mod view;
