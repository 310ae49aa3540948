//! Renders from several cameras: some at once, and while the host takes them, the GPU makes the next.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use dapple_engine::{Engine, GradientParts, ImageDerivative, RenderSettings, Rendered};
use dapple_gpu::passes::Capacity;
use dapple_gpu::{GpuEngine, GpuEngineOptions};
use dapple_reference::scenes;
use dapple_scene::{Camera, Error, Splats};
use glam::DVec3;

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

/// Returns more cameras than are rendered at once in an image of this size, each from another place.
fn moved(camera: Camera) -> Vec<Camera> {
    let cameras = (0..19).map(|i| {
        let mut camera = camera;
        let step = f64::from(i) * 0.03;
        camera.camera_from_world.translation += DVec3::new(step, -0.5 * step, 0.25 * step);
        camera
    });
    cameras.collect()
}

#[test]
fn views_of_one_size_are_rendered_at_once_with_the_same_bits() {
    require_gpu!();
    for (name, antialias) in [
        ("crowd", false),
        ("depth_ties", false),
        ("tile_cap", true),
        ("lens_opencv", false),
        ("panorama_seam", false),
    ] {
        let scene = scenes::named(name);
        let settings = RenderSettings {
            depth: true,
            antialias,
            ..scene.settings
        };
        let cameras = moved(scene.camera);
        let mut single = engine(&scene.splats);
        let expected: Vec<Rendered> = cameras
            .iter()
            .map(|camera| single.render(camera, &settings).unwrap())
            .collect();
        assert_ne!(expected[0], expected[18], "{name}");
        let mut several = engine(&scene.splats);
        // The first time, buffers are too small.
        for _ in 0..2 {
            let found = rendered_each(&mut several, &cameras, &settings);
            for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                assert_eq!(found.counts, expected.counts, "{name}, view {i}");
                assert!(found == expected, "{name}, view {i}");
            }
            assert_eq!(found.len(), expected.len());
        }
        let tiles = single.capacity().tiles;
        assert_eq!(several.capacity().tiles, 16 * tiles, "{name}: not at once");
        // A step makes the buffers of steps; after it views are rendered one by one.
        let by_pixel = vec![1.0; expected[0].rgb.len()];
        let derivative = ImageDerivative {
            rgb: &by_pixel,
            alpha: None,
            depth: None,
        };
        several
            .differentiate(&cameras[0], &settings, &derivative, GradientParts::All)
            .unwrap();
        assert!(rendered_each(&mut several, &cameras, &settings) == expected);
    }
}

#[test]
fn views_for_which_there_is_no_memory_are_rendered_one_by_one() {
    require_gpu!();
    let scene = scenes::named("crowd");
    let cameras = moved(scene.camera);
    let mut roomy = engine(&scene.splats);
    let expected: Vec<Rendered> = cameras
        .iter()
        .map(|camera| roomy.render(camera, &scene.settings).unwrap())
        .collect();
    // One view's instances fit into a binding, those of all do not.
    let most = expected.iter().map(|r| r.counts.instances).max().unwrap();
    let mut tight = support::engine_on(GpuEngineOptions {
        gpu: support::options(false),
        max_binding_bytes: 2 * most * 48,
        ..GpuEngineOptions::default()
    });
    tight.upload(&scene.splats, None).unwrap();
    assert!(rendered_each(&mut tight, &cameras, &scene.settings) == expected);
    assert!(tight.render(&scene.camera, &scene.settings).unwrap() == expected[0]);
}
