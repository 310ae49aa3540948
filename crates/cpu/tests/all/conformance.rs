//! Runs the conformance suite on the CPU engine, with several numbers of threads.

#![allow(clippy::unwrap_used, reason = "tests")]

use dapple_cpu::{CpuEngine, CpuOptions};
use dapple_engine::Engine;
use dapple_reference::conformance;

fn engine(threads: usize) -> Box<dyn Engine> {
    let threads = Some(threads);
    Box::new(CpuEngine::new(CpuOptions { threads }).unwrap())
}

#[test]
fn images_match_the_reference() {
    conformance::images_match_the_reference(&|| engine(2));
}

#[test]
fn surfaces_match_the_reference() {
    conformance::surfaces_match_the_reference(&|| engine(2));
}

#[test]
fn gradients_match_the_reference() {
    conformance::gradients_match_the_reference(&|| engine(2));
}

#[test]
fn a_real_capture_matches_the_reference() {
    conformance::real_capture_matches_the_reference(&|| engine(2));
}

#[test]
fn loss_and_gradient_match_the_reference() {
    conformance::loss_and_gradient_match_the_reference(&|| engine(2));
}

#[test]
fn adam_takes_the_textbook_step() {
    conformance::adam_takes_the_textbook_step(&|| engine(2));
}

#[test]
fn gaussians_that_are_not_finite_are_reported() {
    conformance::gaussians_that_are_not_finite_are_reported(&|| engine(2));
}

#[test]
fn density_control_follows_the_plan() {
    conformance::density_control_follows_the_plan(&|| engine(1));
}

#[test]
fn threads_change_nothing() {
    conformance::runs_repeat_themselves(&[&|| engine(1), &|| engine(2), &|| engine(3), &|| {
        engine(5)
    }]);
}

#[test]
fn scores_match_the_reference() {
    // The host scores the renders of this engine.
    assert_eq!(conformance::scores_match_the_reference(&|| engine(1)), 0);
}

#[test]
fn the_cap_says_what_it_cut() {
    conformance::the_cap_says_what_it_cut(&|| engine(1));
}

#[test]
fn relocation_follows_the_plan() {
    conformance::relocation_follows_the_plan(&|| engine(1));
}

#[test]
fn extras_match_the_reference() {
    conformance::extras_match_the_reference(&|| engine(2));
}

#[test]
fn dropout_matches_the_reference() {
    conformance::dropout_matches_the_reference(&|| engine(2));
}

#[test]
fn threads_change_nothing_with_mcmc() {
    conformance::mcmc_repeats_itself(&[&|| engine(1), &|| engine(2), &|| engine(3)]);
}

#[test]
fn absolute_density_matches_the_reference() {
    conformance::absolute_density_matches_the_reference(&[&|| engine(1), &|| engine(3)]);
}

#[test]
fn looks_match_the_reference() {
    conformance::looks_match_the_reference(&|| engine(2));
}

#[test]
fn threads_change_nothing_with_looks() {
    conformance::looks_repeat_themselves(&[&|| engine(1), &|| engine(2), &|| engine(3)]);
}

#[test]
fn appearance_matches_the_reference() {
    conformance::appearance_matches_the_reference(&|| engine(2));
}

#[test]
fn threads_change_nothing_with_appearance() {
    conformance::appearance_repeats_itself(&[&|| engine(1), &|| engine(2), &|| engine(3)]);
}

#[test]
fn depths_match_the_reference() {
    conformance::depths_match_the_reference(&|| engine(2));
}

#[test]
fn depth_gradients_match_the_reference() {
    conformance::depth_gradients_match_the_reference(&|| engine(2));
}

#[test]
fn depth_steps_match_the_reference() {
    conformance::depth_steps_match_the_reference(&|| engine(2));
}

#[test]
fn threads_change_nothing_with_depths() {
    conformance::depth_steps_repeat_themselves(&[&|| engine(1), &|| engine(2), &|| engine(3)]);
}

#[test]
fn antialiasing_matches_the_reference() {
    conformance::antialiasing_matches_the_reference(&|| engine(2));
}

#[test]
fn steps_refresh_the_3d_filter() {
    conformance::steps_refresh_the_3d_filter(&|| engine(2));
}

#[test]
fn density_control_carries_the_3d_filter() {
    conformance::density_control_carries_the_3d_filter(&|| engine(1));
}

#[test]
fn threads_change_nothing_when_antialiased() {
    conformance::antialiased_runs_repeat_themselves(&[&|| engine(1), &|| engine(2), &|| engine(3)]);
}

#[test]
fn poses_match_the_reference() {
    conformance::poses_match_the_reference(&[&|| engine(2), &|| engine(1), &|| engine(3)]);
}

#[test]
fn what_is_shown_matches_the_reference() {
    conformance::bytes_are_those_of_the_host(&|| engine(2));
    conformance::blend_counts_match_the_reference(&|| engine(2));
}
