//! The GPU engine passes the conformance tests of all engines, with subgroups and without.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use crate::support;

use dapple_engine::{Engine, EngineExt};
use dapple_gpu::{GpuEngine, GpuEngineOptions};
use dapple_reference::{self as reference, compare, scenes};

fn engine(without_subgroups: bool) -> Box<dyn Engine> {
    let options = GpuEngineOptions {
        gpu: support::options(without_subgroups),
        ..GpuEngineOptions::default()
    };
    Box::new(support::engine_on(options))
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

/// Usual engine, without subgroups, in short dispatches, with buffers that have to grow.
const VARIANTS: [fn() -> Box<dyn Engine>; 4] = [
    || engine(false),
    || engine(true),
    with_short_dispatches,
    with_little_room,
];

/// Returns true if there is a GPU for tests.
fn is_ready() -> bool {
    support::has_gpu()
}

dapple_reference::conformance_tests!(VARIANTS, is_ready);

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
