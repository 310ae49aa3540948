//! Conformance suite: checks for every engine, written against [`Engine`]. An engine declares its
//! tests with [`conformance_tests!`](crate::conformance_tests), so that the requirements are equal for all engines.
//!
//! Checks panic with a description of the failure, as tests do. `make` creates an engine without
//! splats.
//!
//! - images and gradients against the f64 reference, on every scene of [`crate::scenes`];
//! - images and gradients on views of a real capture;
//! - a training step: loss and its gradient through the whole chain, Adam, density statistics;
//! - the refined pose of a view;
//! - a step through the appearance MLP: the network's derivatives and Adam;
//! - a step that learns the bilateral grids: forward and backward pass, the grid, its Adam;
//! - a step that learns the photometric model: forward and backward pass, the model, its Adam;
//! - depths, their gradients, and a step with known depths;
//! - surface depths and normals;
//! - densification and relocation rounds, noise, regularisers;
//! - scores that an engine computes, on images of every awkward size;
//! - bytes of renders, and the number of Gaussians that pixels blend;
//! - all of these with both anti-aliasing filters;
//! - bit-identical results of repeated runs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a suite of tests that engines share"
)]

mod antialias;
mod appearance;
mod appearance_mlp;
mod capture;
mod decided;
mod density;
mod depth;
mod dropout;
mod finite;
mod list;
mod parity;
mod photometric;
mod poses;
mod score;
mod shown;
mod strategy;
mod surface;
mod training;

pub use antialias::{
    antialiased_runs_repeat_themselves, antialiasing_matches_the_reference,
    density_control_carries_the_3d_filter, steps_refresh_the_3d_filter,
};
pub use appearance::{appearance_matches_the_reference, appearance_repeats_itself};
pub use appearance_mlp::{appearance_mlp_matches_the_reference, appearance_mlp_repeats_itself};
pub use capture::real_capture_matches_the_reference;
pub use density::density_control_follows_the_plan;
pub use depth::{
    depth_gradients_match_the_reference, depth_steps_match_the_reference,
    depth_steps_repeat_themselves, depths_match_the_reference,
};
pub use dropout::dropout_matches_the_reference;
pub use finite::gaussians_that_are_not_finite_are_reported;
pub use parity::{
    gradients_match_the_reference, images_match_the_reference, the_cap_says_what_it_cut,
};
pub use photometric::{photometric_matches_the_reference, photometric_repeats_itself};
pub use poses::poses_match_the_reference;
pub use score::scores_match_the_reference;
pub use shown::{blend_counts_match_the_reference, bytes_are_those_of_the_host};
pub use strategy::{extras_match_the_reference, mcmc_repeats_itself, relocation_follows_the_plan};
pub use surface::surfaces_match_the_reference;
pub use training::{
    absolute_density_matches_the_reference, adam_takes_the_textbook_step,
    loss_and_gradient_match_the_reference, runs_repeat_themselves,
};

use dapple_engine::{DensifyPlan, Engine, EngineExt, Report};
use dapple_scene::Splats;

/// Constructor of an engine without splats.
pub type Make<'a> = &'a dyn Fn() -> Box<dyn Engine>;

/// Creates an engine with splats.
fn with_splats(make: Make<'_>, splats: &Splats) -> Box<dyn Engine> {
    let mut engine = make();
    engine.upload(splats, None).unwrap();
    engine
}

/// Returns the last report, after all enqueued work is done.
fn last_report(engine: &mut dyn Engine) -> Report {
    engine.download().unwrap();
    engine.poll().unwrap().pop().expect("no report came")
}

/// Returns the loss of the step that was enqueued last.
fn last_loss(engine: &mut dyn Engine) -> f32 {
    match last_report(engine) {
        Report::Step(report) => report.loss,
        other => panic!("no report of a step but {other:?}"),
    }
}

/// Returns the plan of a round in which all visible Gaussians grow.
fn growing() -> DensifyPlan {
    DensifyPlan {
        step: 100,
        seed: 3,
        grow_gradient: Some(1e-6),
        split_scale: 0.02,
        prune_opacity: Some(0.005),
        prune_scale: None,
        max_gaussians: usize::MAX,
        room_share: 1.0,
        reset_opacity: None,
        relocate: None,
    }
}
