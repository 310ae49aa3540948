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

#[test]
fn runs_repeat_themselves_with_subgroups_and_without() {
    conformance::runs_repeat_themselves(&[&|| engine(false), &|| engine(false), &|| engine(true)]);
}
