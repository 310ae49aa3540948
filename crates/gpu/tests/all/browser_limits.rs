//! A device restricted to the limits of every browser (8 storage buffers a kernel, 16 KiB of workgroup memory, no
//! subgroups, no immediates) gives the same bytes as an unrestricted device. Covers renders, gradients, scores and
//! training runs.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use crate::support;

use dapple_engine::features::photometric::PhotometricSettings;
use dapple_engine::features::{antialias, noise};
use dapple_engine::{
    AppearanceGrids, AppearanceSettings, DensifyPlan, DepthSample, Engine, EngineExt,
    GradientParts, ImageDerivative, LossTerm, PoseRates, Relocation, RenderSettings, StepFeatures,
    StepSettings, ViewId,
};
use dapple_gpu::{Capacity, GpuEngine, GpuEngineOptions};
use dapple_reference::scenes;
use dapple_runtime::DeviceClass;
use dapple_scene::{Camera, Pose, Splats};
use glam::DVec3;
use support::{plan, settings, views};

fn engine(class: DeviceClass, change: impl FnOnce(&mut GpuEngineOptions)) -> GpuEngine {
    let mut options = GpuEngineOptions {
        gpu: support::options(false),
        ..GpuEngineOptions::default()
    };
    options.gpu.class = class;
    change(&mut options);
    let engine = support::engine_on(options);
    let granted = engine.gpu().granted();
    if class == DeviceClass::WebGpuDefault {
        assert_eq!(
            (
                granted.storage_buffers,
                granted.workgroup_bytes,
                granted.immediate_bytes
            ),
            (8, 16 << 10, 0)
        );
        assert_eq!(
            (granted.subgroup_size, granted.binding_bytes),
            (None, 128 << 20)
        );
    } else {
        assert!(granted.storage_buffers >= 16);
    }
    engine
}

/// Returns an engine on an unrestricted device, and one on a restricted device.
fn both() -> [GpuEngine; 2] {
    [DeviceClass::Native, DeviceClass::WebGpuDefault].map(|class| engine(class, |_| {}))
}

fn assert_same_image(engines: &mut [GpuEngine; 2], camera: &Camera, settings: &RenderSettings) {
    let [a, b] = engines
        .each_mut()
        .map(|engine| engine.render(camera, settings).unwrap());
    assert!(
        a.alpha.iter().any(|alpha| *alpha > 0.5),
        "there is something to see"
    );
    assert!(a == b, "the images differ");
}

#[test]
fn images_and_gradients_are_those_of_any_other_device() {
    require_gpu!();
    let mut engines = both();
    for name in [
        "random_sh3",
        "lens_opencv",
        "panorama_seam",
        "background",
        "crowd",
    ] {
        let scene = scenes::named(name);
        for engine in &mut engines {
            engine.upload(&scene.splats, None).unwrap();
        }
        let pixels = scene.camera.width as usize * scene.camera.height as usize;
        let by_rgb: Vec<f32> = (0..3 * pixels).map(|v| (v % 7) as f32 * 1e-2).collect();
        let by_depth: Vec<f32> = (0..pixels).map(|v| (v % 5) as f32 * 1e-2).collect();
        for (antialias, depth) in [(false, false), (true, true)] {
            let settings = RenderSettings {
                antialias,
                depth,
                ..scene.settings
            };
            assert_same_image(&mut engines, &scene.camera, &settings);
            let derivative = ImageDerivative {
                rgb: &by_rgb,
                alpha: None,
                depth: depth.then_some(&by_depth[..]),
            };
            let [a, b] = engines.each_mut().map(|engine| {
                let gradients =
                    engine.differentiate(&scene.camera, &settings, &derivative, GradientParts::All);
                format!("{:?}", gradients.unwrap())
            });
            assert!(a == b, "{name}: the gradients differ");
        }
    }
}

/// Returns settings with every option of a step except the bilateral grid.
fn everything(step: u32) -> StepSettings {
    let plain = settings(step);
    StepSettings {
        render: RenderSettings {
            antialias: true,
            ..plain.render
        },
        losses: plain
            .losses
            .with(LossTerm::Depth, 0.1)
            .with(LossTerm::Normals, 0.1)
            .with(LossTerm::Opacity, 0.01),
        absolute_density: true,
        features: StepFeatures {
            antialias: antialias::Step {
                refresh: step.is_multiple_of(4),
            },
            noise: noise::Step { scale: 0.1 },
            poses: PoseRates {
                rotation: 1e-3,
                translation: 1e-3,
            },
            ..plain.features
        },
        ..plain
    }
}

/// Runs steps, with density control after every fourth; buffers overflow during the run.
fn trained(
    class: DeviceClass,
    of_step: fn(u32) -> StepSettings,
    plan: fn(u32) -> DensifyPlan,
) -> GpuEngine {
    let mut engine = engine(class, |options| {
        options.first_capacity = Capacity {
            visible: 7,
            instances: 64,
            ..Capacity::default()
        };
    });
    let splats = scenes::named("crowd").splats;
    engine.upload(&splats, None).unwrap();
    engine.add_views(views()).unwrap();
    let sample = |k: usize| DepthSample {
        pixel: (9 * k) as u32,
        inverse_depth: 1.0 / (3.0 + 0.01 * k as f32),
        weight: 0.01,
    };
    engine
        .supervise_depth(ViewId(1), (0..60).map(sample).collect())
        .unwrap();
    for step in 1..=12 {
        engine
            .step(ViewId(step as usize % 3), &of_step(step))
            .unwrap();
        if step.is_multiple_of(4) {
            engine.densify(&plan(step)).unwrap();
        }
    }
    engine.finish().unwrap();
    engine
}

#[track_caller]
fn assert_same_training(of_step: fn(u32) -> StepSettings, plan: fn(u32) -> DensifyPlan) {
    let classes = [DeviceClass::Native, DeviceClass::WebGpuDefault];
    let [mut a, mut b] = classes.map(|class| trained(class, of_step, plan));
    assert_eq!(a.poll().unwrap(), b.poll().unwrap());
    let ((splats, state), (others, other_state)) = (a.download().unwrap(), b.download().unwrap());
    assert_eq!(splats.len(), others.len());
    assert!(splats == others, "the splats differ");
    assert!(state == other_state, "the optimizer states differ");
}

#[test]
fn a_training_is_that_of_any_other_device() {
    require_gpu!();
    assert_same_training(settings, plan);
}

#[test]
fn a_training_with_everything_is_too() {
    require_gpu!();
    assert_same_training(everything, plan);
}

/// Where workgroups share 16 KiB, the sums of the bilateral grid are computed in two halves. The additions and their
/// order are the same, but a compiler may round the products of the other code differently.
#[test]
fn appearance_is_learnt_there_too_but_for_rounding() {
    require_gpu!();
    let of_step = |step| {
        let mut settings = settings(step);
        settings.features.appearance = Some(AppearanceSettings {
            cells: [4, 3, 8],
            rate: 1e-2,
            smoothness: 10.0,
            identity: 0.1,
        });
        settings
    };
    let plan = |step| DensifyPlan {
        grow_gradient: None,
        prune_opacity: None,
        ..plan(step)
    };
    let classes = [DeviceClass::Native, DeviceClass::WebGpuDefault];
    let [a, b] = classes.map(|class| {
        trained(class, of_step, plan)
            .view_state()
            .unwrap()
            .appearance
    });
    assert_eq!((&a.seen, &b.seen), (&vec![4; 3], &vec![4; 3]));
    let start = AppearanceGrids::identity(a.cells, 3).coefficients;
    let (mut moved, mut apart) = (0.0f64, 0.0f64);
    for ((a, b), start) in a.coefficients.iter().zip(&b.coefficients).zip(&start) {
        moved += f64::from((a - start).powi(2));
        apart += f64::from((a - b).powi(2));
    }
    assert!(moved > 0.0 && apart <= 1e-10 * moved, "{apart} of {moved}");
}

#[test]
fn a_training_with_photometric_models_is_too() {
    require_gpu!();
    let of_step = |step| {
        let mut settings = settings(step);
        settings.features.photometric = Some(PhotometricSettings {
            rate: 1e-2,
            prior: 0.1,
        });
        settings
    };
    assert_same_training(of_step, plan);
}

#[test]
fn a_training_that_relocates_is_too() {
    require_gpu!();
    assert_same_training(settings, |step| DensifyPlan {
        relocate: Some(Relocation {
            dead_opacity: 0.2,
            add_permille: 50,
        }),
        ..plan(step)
    });
}

/// Returns cameras around the middle of a scene that have the whole scene in view.
fn around(splats: &Splats) -> Vec<Camera> {
    let n = splats.len() as f64;
    let mean = splats
        .means
        .iter()
        .map(|m| DVec3::from(m.map(f64::from)))
        .sum::<DVec3>()
        / n;
    let distance = |m: &[f32; 3]| (DVec3::from(m.map(f64::from)) - mean).length();
    let radius = splats.means.iter().map(distance).sum::<f64>() / n;
    let camera = |angle: f64| {
        let eye = mean + 3.0 * radius * DVec3::new(angle.sin(), -0.3, -angle.cos());
        Camera::pinhole(640, 480, 500.0, Pose::look_at(eye, mean, DVec3::NEG_Y))
    };
    (0..4).map(|k| camera(1.6 * f64::from(k))).collect()
}

#[test]
fn the_guitar_is_that_of_any_other_device() {
    require_gpu!();
    let Some(path) =
        dapple_scene::test_requirements::capture(env!("CARGO_MANIFEST_DIR"), "guitar/guitar.ply")
    else {
        return;
    };
    let splats = dapple_scene::ply::read(&path).unwrap();
    let mut engines = both();
    for engine in &mut engines {
        engine.upload(&splats, None).unwrap();
    }
    for camera in around(&splats) {
        for antialias in [false, true] {
            let settings = RenderSettings {
                antialias,
                ..RenderSettings::default()
            };
            assert_same_image(&mut engines, &camera, &settings);
        }
    }
}
