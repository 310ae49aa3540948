//! Conformance suite: checks for every engine, written against [`dapple_engine::Engine`]. An engine declares its
//! tests with [`conformance_tests!`](crate::conformance_tests), so that the requirements are equal for all engines.
//!
//! Checks panic with a description of the failure, as tests do. `make` creates an engine without
//! splats.
//!
//! - images and gradients against the f64 reference, on every scene of [`crate::scenes`];
//! - images and gradients on views of a real capture;
//! - a training step: loss and its gradient through the whole chain, Adam, density statistics;
//! - batches of steps, whose mean gradient moves the Gaussians;
//! - a step with each feature ([`crate::features`]): forward and backward pass, the feature's state, its Adam;
//! - surface depths and normals;
//! - densification and relocation rounds, noise, regularisers;
//! - rounds with a region of interest;
//! - frozen Gaussians and those of the sky in steps and rounds;
//! - scores that an engine computes, on images of every awkward size;
//! - bytes of renders, and the number of Gaussians that pixels blend;
//! - renders and derivatives of chosen tiles;
//! - all of these with both anti-aliasing filters;
//! - bit-identical results of repeated runs, and of a model in parts.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a suite of tests that engines share"
)]

mod batches;
mod capture;
pub(crate) mod decided;
mod density;
pub(crate) mod engines;
mod finite;
mod focus;
mod frozen;
mod list;
pub(crate) mod parity;
mod ranks;
mod score;
mod shown;
mod sky;
mod strategy;
mod surface;
mod tiles;
pub(crate) mod training;

pub use crate::features::checks::*;
pub use batches::batches_match_the_reference;
pub use capture::real_capture_matches_the_reference;
pub use density::density_control_follows_the_plan;
pub use engines::Make;
pub use finite::gaussians_that_are_not_finite_are_reported;
pub use focus::focus_steers_density_control;
pub use frozen::frozen_gaussians_stay;
pub use parity::{
    gradients_match_the_reference, images_match_the_reference, the_cap_says_what_it_cut,
};
pub use ranks::{Rounds, ShortRun, ranks_grow_alike, ranks_train_alike};
pub use score::scores_match_the_reference;
pub use shown::{
    blend_counts_match_the_reference, bytes_are_those_of_the_host, contributors_match_the_reference,
};
pub use sky::the_sky_keeps_its_shape;
pub use strategy::*;
pub use surface::surfaces_match_the_reference;
pub use tiles::chosen_tiles_match_the_reference;
pub use training::{
    absolute_density_matches_the_reference, adam_takes_the_textbook_step,
    loss_and_gradient_match_the_reference, runs_repeat_themselves,
};
