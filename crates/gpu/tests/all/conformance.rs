//! The GPU engine passes the conformance tests of all engines, with subgroups and without.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use crate::support;

use dapple_engine::Engine;
use dapple_gpu::{GpuEngine, GpuEngineOptions};
use dapple_reference::{self as reference, compare, conformance, scenes};

fn engine(without_subgroups: bool) -> Box<dyn Engine> {
    let options = GpuEngineOptions {
        gpu: support::options(without_subgroups),
        ..GpuEngineOptions::default()
    };
    Box::new(support::engine_on(options))
}

#[test]
fn images_match_the_reference() {
    require_gpu!();
    conformance::images_match_the_reference(&|| engine(false));
}

#[test]
fn gradients_match_the_reference() {
    require_gpu!();
    conformance::gradients_match_the_reference(&|| engine(false));
}

#[test]
fn a_real_capture_matches_the_reference() {
    require_gpu!();
    conformance::real_capture_matches_the_reference(&|| engine(false));
}

#[test]
fn loss_and_gradient_match_the_reference() {
    require_gpu!();
    conformance::loss_and_gradient_match_the_reference(&|| engine(false));
}

#[test]
fn adam_takes_the_textbook_step() {
    require_gpu!();
    conformance::adam_takes_the_textbook_step(&|| engine(false));
}

#[test]
fn gaussians_that_are_not_finite_are_reported() {
    require_gpu!();
    conformance::gaussians_that_are_not_finite_are_reported(&|| engine(false));
}

#[test]
fn density_control_follows_the_plan() {
    require_gpu!();
    conformance::density_control_follows_the_plan(&|| engine(false));
}

#[test]
fn relocation_follows_the_plan() {
    require_gpu!();
    conformance::relocation_follows_the_plan(&|| engine(false));
    conformance::relocation_follows_the_plan(&|| engine(true));
}

#[test]
fn extras_match_the_reference() {
    require_gpu!();
    conformance::extras_match_the_reference(&|| engine(false));
}

#[test]
fn dropout_matches_the_reference() {
    require_gpu!();
    conformance::dropout_matches_the_reference(&|| engine(false));
    conformance::dropout_matches_the_reference(&|| engine(true));
}

#[test]
fn mcmc_repeats_itself_without_subgroups_and_in_short_dispatches() {
    require_gpu!();
    conformance::mcmc_repeats_itself(&[
        &|| engine(false),
        &|| engine(false),
        &|| engine(true),
        &with_short_dispatches,
    ]);
}

#[test]
fn absolute_density_matches_the_reference() {
    require_gpu!();
    conformance::absolute_density_matches_the_reference(&[
        &|| engine(false),
        &|| engine(true),
        &with_short_dispatches,
    ]);
}

#[test]
fn poses_match_the_reference() {
    require_gpu!();
    conformance::poses_match_the_reference(&[
        &|| engine(false),
        &|| engine(true),
        &with_short_dispatches,
        &with_little_room,
    ]);
}

#[test]
fn looks_match_the_reference() {
    require_gpu!();
    conformance::looks_match_the_reference(&|| engine(false));
}

#[test]
fn looks_repeat_themselves_without_subgroups_and_in_short_dispatches() {
    require_gpu!();
    conformance::looks_repeat_themselves(&[
        &|| engine(false),
        &|| engine(true),
        &with_short_dispatches,
        &with_little_room,
    ]);
}

#[test]
fn appearance_matches_the_reference() {
    require_gpu!();
    conformance::appearance_matches_the_reference(&|| engine(false));
}

#[test]
fn appearance_repeats_itself_without_subgroups_and_in_short_dispatches() {
    require_gpu!();
    conformance::appearance_repeats_itself(&[
        &|| engine(false),
        &|| engine(true),
        &with_short_dispatches,
    ]);
}

#[test]
fn surfaces_match_the_reference() {
    require_gpu!();
    conformance::surfaces_match_the_reference(&|| engine(false));
}

#[test]
fn depths_match_the_reference() {
    require_gpu!();
    conformance::depths_match_the_reference(&|| engine(false));
}

#[test]
fn depth_gradients_match_the_reference() {
    require_gpu!();
    conformance::depth_gradients_match_the_reference(&|| engine(false));
}

#[test]
fn depth_steps_match_the_reference() {
    require_gpu!();
    conformance::depth_steps_match_the_reference(&|| engine(false));
}

#[test]
fn depth_steps_repeat_themselves_without_subgroups_and_in_short_dispatches() {
    require_gpu!();
    conformance::depth_steps_repeat_themselves(&[
        &|| engine(false),
        &|| engine(true),
        &with_short_dispatches,
    ]);
}

#[test]
fn antialiasing_matches_the_reference() {
    require_gpu!();
    conformance::antialiasing_matches_the_reference(&|| engine(false));
}

#[test]
fn steps_refresh_the_3d_filter() {
    require_gpu!();
    conformance::steps_refresh_the_3d_filter(&|| engine(false));
}

#[test]
fn density_control_carries_the_3d_filter() {
    require_gpu!();
    conformance::density_control_carries_the_3d_filter(&|| engine(false));
}

#[test]
fn antialiased_runs_repeat_themselves() {
    require_gpu!();
    conformance::antialiased_runs_repeat_themselves(&[
        &|| engine(false),
        &|| engine(true),
        &with_little_room,
    ]);
}

/// Returns an engine whose every buffer has to grow, in steps that set 3D filters too.
fn with_little_room() -> Box<dyn Engine> {
    let options = GpuEngineOptions {
        gpu: support::options(false),
        first_capacity: dapple_gpu::Capacity {
            gaussians: 1,
            visible: 1,
            instances: 1,
            ..dapple_gpu::Capacity::default()
        },
        ..GpuEngineOptions::default()
    };
    Box::new(support::engine_on(options))
}

/// Returns an engine with the settings of a device that kills long dispatches.
fn with_short_dispatches() -> Box<dyn Engine> {
    let options = GpuEngineOptions {
        gpu: support::options(false),
        bounds_dispatches: Some(true),
        default_cap: Some(0),
        ..GpuEngineOptions::default()
    };
    Box::new(support::engine_on(options))
}

#[test]
fn runs_repeat_themselves_without_subgroups_and_in_short_dispatches() {
    require_gpu!();
    conformance::runs_repeat_themselves(&[
        &|| engine(false),
        &|| engine(false),
        &|| engine(true),
        &with_short_dispatches,
    ]);
}

#[test]
fn scores_match_the_reference() {
    require_gpu!();
    // Five sizes have windows, with a mask's holes four.
    let compared = conformance::scores_match_the_reference(&|| engine(false));
    assert_eq!(compared, 2 * (5 + 4));
    conformance::scores_match_the_reference(&with_little_room);
    conformance::scores_match_the_reference(&with_short_dispatches);
}

#[test]
fn the_cap_says_what_it_cut() {
    require_gpu!();
    conformance::the_cap_says_what_it_cut(&|| engine(false));
}

/// SH rounded to sixteen bits moves gradients by about its rounding, and no other parameter does.
#[test]
fn stored_sh_moves_gradients_by_its_rounding() {
    require_gpu!();
    // Limits by tensor. A colour that rounding lifts over zero changes its own Gaussian's SH
    // gradient altogether.
    let bars = [
        ("f32", 1e-4, 1e-4),
        ("f16,f32", 1e-3, 1e-3),
        ("bf16,f32", 2e-2, 2e-1),
    ];
    for name in ["crowd", "random_sh3"] {
        let scene = scenes::named(name);
        let pixels = (scene.camera.width * scene.camera.height) as usize;
        let d_rgb: Vec<f32> = (0..3 * pixels)
            .map(|i| (i * 7919 % 1000) as f32 / 500.0 - 1.0)
            .collect();
        let wide: Vec<f64> = d_rgb.iter().map(|&v| v.into()).collect();
        let (splats, camera, settings) = (&scene.splats, &scene.camera, &scene.settings);
        let expected = reference::gradients(splats, camera, settings, &wide, None).unwrap();
        for (precision, bar, sh_bar) in bars {
            let options = GpuEngineOptions {
                gpu: support::options(false),
                precision: precision.parse().unwrap(),
                ..GpuEngineOptions::default()
            };
            let mut engine =
                match GpuEngine::on(&support::lease::device(&options.gpu).unwrap(), options) {
                    Ok(engine) => engine,
                    // Some drivers cannot pack f16.
                    Err(error) if precision.starts_with("f16") => {
                        eprintln!("SKIPPED: {error}");
                        continue;
                    }
                    Err(error) => panic!("{error}"),
                };
            engine.upload(splats, None).unwrap();
            let actual = engine.gradients(camera, settings, &d_rgb, None).unwrap();
            for (tensor, error) in compare::compare_gradients(&actual, &expected) {
                println!("{name:12} {precision:9} {tensor:10} {error:.1e}");
                let bar = if tensor.starts_with("sh") {
                    sh_bar
                } else {
                    bar
                };
                assert!(error < bar, "{name} {precision} {tensor}: {error:.1e}");
            }
        }
    }
}

#[test]
fn bytes_are_those_of_the_host() {
    require_gpu!();
    conformance::bytes_are_those_of_the_host(&|| engine(false));
}

#[test]
fn blend_counts_match_the_reference() {
    require_gpu!();
    conformance::blend_counts_match_the_reference(&|| engine(false));
    conformance::blend_counts_match_the_reference(&|| engine(true));
}
