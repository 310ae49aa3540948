//! Renders from several cameras: while the host takes one, the GPU makes the next.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use dapple_engine::{Engine, RenderSettings, Rendered};
use dapple_gpu::passes::Capacity;
use dapple_gpu::{GpuEngine, GpuEngineOptions};
use dapple_reference::scenes;
use dapple_scene::{Camera, Error, Splats};

/// Opens an engine whose buffers are too small.
fn engine(splats: &Splats) -> GpuEngine {
    let mut engine = support::engine_on(GpuEngineOptions {
        gpu: support::options(false),
        first_capacity: Capacity {
            visible: 7,
            instances: 64,
            ..Capacity::default()
        },
        ..GpuEngineOptions::default()
    });
    engine.upload(splats, None).unwrap();
    engine
}

fn rendered_each(
    engine: &mut GpuEngine,
    cameras: &[Camera],
    settings: &RenderSettings,
) -> Vec<Rendered> {
    let mut found = Vec::new();
    let mut each = |i: usize, rendered| {
        assert_eq!(i, found.len());
        found.push(rendered);
        Ok(())
    };
    engine.render_each(cameras, settings, &mut each).unwrap();
    found
}

#[test]
fn renders_in_a_row_are_those_of_single_calls() {
    require_gpu!();
    let scene = scenes::named("crowd");
    let (width, height) = (scene.camera.width, scene.camera.height);
    // Another size each time.
    let sizes = [
        (width / 2, height / 3),
        (width, height),
        (width / 3, height),
        (2 * width, 2 * height),
    ];
    let cameras = sizes.map(|(w, h)| scene.camera.resized(w, h));
    for (depth, surface) in [(false, false), (true, true)] {
        let settings = RenderSettings {
            depth,
            surface,
            ..scene.settings
        };
        let mut single = engine(&scene.splats);
        let expected: Vec<Rendered> = cameras
            .iter()
            .map(|camera| single.render(camera, &settings).unwrap())
            .collect();
        assert!(expected.iter().all(|rendered| rendered.counts.visible > 7));
        let mut several = engine(&scene.splats);
        assert_eq!(rendered_each(&mut several, &cameras, &settings), expected);
        assert!(rendered_each(&mut several, &[], &settings).is_empty());
    }
}

#[test]
fn an_error_ends_the_row_and_the_engine_goes_on() {
    require_gpu!();
    let scene = scenes::named("crowd");
    let mut engine = engine(&scene.splats);
    let expected = engine.render(&scene.camera, &scene.settings).unwrap();
    let mut count = 0;
    let mut each = |_: usize, _: Rendered| {
        count += 1;
        match count {
            2 => Err(Error::input("enough")),
            _ => Ok(()),
        }
    };
    let cameras = [scene.camera; 4];
    let error = engine.render_each(&cameras, &scene.settings, &mut each);
    assert_eq!(error.unwrap_err().to_string(), "enough");
    assert_eq!(count, 2);
    let again = engine.render(&scene.camera, &scene.settings).unwrap();
    assert_eq!(again, expected);
}
