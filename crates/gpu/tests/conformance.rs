//! The GPU engine passes what every engine must pass, with subgroups and without.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use dapple_engine::{Engine, conformance};
use dapple_gpu::{GpuEngine, GpuEngineOptions};

fn engine(without_subgroups: bool) -> Box<dyn Engine> {
    let options = GpuEngineOptions {
        gpu: support::options(without_subgroups),
        ..GpuEngineOptions::default()
    };
    Box::new(GpuEngine::new(options).unwrap())
}

#[test]
fn images_match_the_reference() {
    conformance::images_match_the_reference(&|| engine(false));
}

#[test]
fn gradients_match_the_reference() {
    conformance::gradients_match_the_reference(&|| engine(false));
}

#[test]
fn a_real_capture_matches_the_reference() {
    conformance::real_capture_matches_the_reference(&|| engine(false));
}

#[test]
fn loss_and_gradient_match_the_reference() {
    conformance::loss_and_gradient_match_the_reference(&|| engine(false));
}

#[test]
fn adam_takes_the_textbook_step() {
    conformance::adam_takes_the_textbook_step(&|| engine(false));
}

#[test]
fn density_control_follows_the_plan() {
    conformance::density_control_follows_the_plan(&|| engine(false));
}

/// As on a device that kills long dispatches.
fn with_short_dispatches() -> Box<dyn Engine> {
    let options = GpuEngineOptions {
        gpu: support::options(false),
        bounds_dispatches: Some(true),
        default_cap: Some(0),
        ..GpuEngineOptions::default()
    };
    Box::new(GpuEngine::new(options).unwrap())
}

#[test]
fn runs_repeat_themselves_without_subgroups_and_in_short_dispatches() {
    conformance::runs_repeat_themselves(&[
        &|| engine(false),
        &|| engine(false),
        &|| engine(true),
        &with_short_dispatches,
    ]);
}

#[test]
fn the_cap_says_what_it_cut() {
    conformance::the_cap_says_what_it_cut(&|| engine(false));
}
