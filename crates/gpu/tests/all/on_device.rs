//! Renders and derivatives that stay on the device are bit-identical to those copied to the host.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use dapple_device::{BackwardAsks, BoxedEngine, DeviceBuffers, RowsOf, row_floats};
use dapple_engine::{
    Call, CallListener, Engine, EngineExt, GradientParts, Gradients, ImageDerivative,
    RenderSettings, TrainView,
};
use dapple_gpu::{Capacity, GpuEngine, GpuEngineOptions};
use dapple_reference::scenes::{self, TestScene};
use dapple_runtime::{Pooled, wgpu};
use dapple_scene::{Photo, Result};
use std::sync::{Arc, Mutex};
use support::{options, settings};

/// Gradients of one camera.
const ALL_ROWS: RowsOf = RowsOf {
    camera: 0,
    parameters: true,
    absolute: None,
};

fn engine(change: impl FnOnce(&mut GpuEngineOptions)) -> GpuEngine {
    let mut own = GpuEngineOptions {
        gpu: options(false),
        ..GpuEngineOptions::default()
    };
    change(&mut own);
    support::engine_on(own)
}

fn pixels(scene: &TestScene) -> usize {
    scene.camera.width as usize * scene.camera.height as usize
}

/// Returns the image in the caller's buffer, whose size and earlier contents do not matter.
fn rendered_to(
    engine: &mut GpuEngine,
    scene: &TestScene,
    settings: &RenderSettings,
) -> Vec<[f32; 4]> {
    let before = vec![[f32::NAN; 4]; pixels(scene) + 3];
    let target = engine.gpu().upload("target", &before).unwrap();
    loop {
        engine.render_to(&scene.camera, settings, &target).unwrap();
        if engine.rendered_whole().unwrap() {
            break;
        }
    }
    let image: Vec<[f32; 4]> = engine.gpu().read(&target, before.len()).unwrap();
    assert!(image[pixels(scene)..].iter().flatten().all(|v| v.is_nan()));
    image[..pixels(scene)].to_vec()
}

fn assert_same_image(engine: &mut GpuEngine, scene: &TestScene, settings: &RenderSettings) {
    let expected = engine.render(&scene.camera, settings).unwrap();
    let image = rendered_to(engine, scene, settings);
    for (i, pixel) in image.iter().enumerate() {
        assert_eq!(
            pixel[..3],
            expected.rgb[3 * i..3 * i + 3],
            "{}, pixel {i}",
            scene.name
        );
        assert_eq!(
            1.0 - pixel[3],
            expected.alpha[i],
            "{}, pixel {i}",
            scene.name
        );
    }
}

#[test]
fn a_render_into_a_buffer_is_that_of_the_host() {
    require_gpu!();
    let mut engine = engine(|_| {});
    for name in ["random_sh3", "lens_opencv", "background", "crowd"] {
        let scene = scenes::named(name);
        engine.upload(&scene.splats, None).unwrap();
        assert_same_image(&mut engine, &scene, &scene.settings);
        let antialias = RenderSettings {
            antialias: true,
            ..scene.settings
        };
        assert_same_image(&mut engine, &scene, &antialias);
    }
}

#[test]
fn views_at_once_go_into_their_buffers_with_one_wait() {
    require_gpu!();
    let scene = scenes::named("crowd");
    let mut engine = engine(|_| {});
    engine.upload(&scene.splats, None).unwrap();
    let mut small = scene.camera;
    small.width -= 9;
    let mut cameras = vec![small];
    cameras.extend((0..5).map(|i| {
        let mut camera = scene.camera;
        camera.camera_from_world.translation.x += 0.1 * f64::from(i);
        camera
    }));
    let target = || {
        let bytes = 16 * pixels(&scene) as u64;
        let made = engine.gpu().buffer("target", bytes).unwrap();
        (*made).clone()
    };
    let targets: Vec<wgpu::Buffer> = cameras.iter().map(|_| target()).collect();
    for round in 0..2 {
        let before = engine.counters().waits;
        engine
            .forward_each_to(&cameras, &scene.settings, &targets)
            .unwrap();
        let waits = engine.counters().waits - before;
        assert!(round == 0 || waits == 2, "{waits} waits");
    }
    for (camera, target) in cameras.iter().zip(&targets) {
        let expected = engine.render(camera, &scene.settings).unwrap();
        let count = expected.alpha.len();
        let image: Vec<[f32; 4]> = engine.gpu().read(target, count).unwrap();
        let rgb: Vec<f32> = image.iter().flat_map(|p| [p[0], p[1], p[2]]).collect();
        assert_eq!(rgb, expected.rgb);
    }
    let too_few = engine.forward_each_to(&cameras, &scene.settings, &targets[1..]);
    assert!(too_few.is_err());
}

#[test]
fn a_warm_render_into_a_buffer_waits_for_nothing() {
    require_gpu!();
    let mut engine = engine(|_| {});
    let scene = scenes::named("random_sh3");
    engine.upload(&scene.splats, None).unwrap();
    let target = engine
        .gpu()
        .buffer("target", 16 * pixels(&scene) as u64)
        .unwrap();
    let render = |engine: &mut GpuEngine| {
        let settings = &scene.settings;
        engine.render_to(&scene.camera, settings, &target).unwrap();
    };
    render(&mut engine);
    assert!(engine.rendered_whole().unwrap());
    let before = engine.counters();
    for _ in 0..5 {
        render(&mut engine);
    }
    let after = engine.counters();
    assert_eq!(after.waits, before.waits);
    assert_eq!(after.buffers_created, before.buffers_created);
    assert!(engine.rendered_whole().unwrap());
    assert!(engine.counters().waits > after.waits, "asking waits");
}

/// Returns an engine with less capacity than any scene needs.
fn tiny() -> GpuEngine {
    engine(|o| {
        o.first_capacity = Capacity {
            visible: 1,
            instances: 1,
            ..Capacity::default()
        };
    })
}

#[test]
fn buffers_that_are_too_small_grow_when_it_is_asked() {
    require_gpu!();
    let scene = scenes::named("crowd");
    let mut engine = tiny();
    engine.upload(&scene.splats, None).unwrap();
    let bytes = 16 * pixels(&scene) as u64;
    let target = engine.gpu().buffer("target", bytes).unwrap();
    let (camera, settings) = (&scene.camera, &scene.settings);
    engine.render_to(camera, settings, &target).unwrap();
    assert!(!engine.rendered_whole().unwrap(), "everything fits");
    assert_same_image(&mut engine, &scene, settings);
}

/// `rendered_whole` refers to the image before the step, though the step has grown the buffers
/// since.
#[test]
fn an_image_that_is_not_whole_stays_so_and_harms_no_step() {
    require_gpu!();
    let scene = scenes::named("crowd");
    let bytes = 16 * pixels(&scene) as u64;
    let trained = |mut engine: GpuEngine, renders: bool| {
        engine.upload(&scene.splats, None).unwrap();
        let (width, height) = (scene.camera.width, scene.camera.height);
        let photo = Photo::from_rgb(width, height, vec![90; 3 * pixels(&scene)]);
        let view = TrainView {
            camera: scene.camera,
            photo: Arc::new(photo),
        };
        let id = engine.add_views(vec![view]).unwrap()[0];
        let target = engine.gpu().buffer("target", bytes).unwrap();
        if renders {
            let (camera, settings) = (&scene.camera, &scene.settings);
            engine.render_to(camera, settings, &target).unwrap();
        }
        engine.step(id, &settings(1)).unwrap();
        engine.finish().unwrap();
        if renders {
            assert!(!engine.rendered_whole().unwrap());
            assert_same_image(&mut engine, &scene, &scene.settings);
        }
        engine.step(id, &settings(2)).unwrap();
        engine.download().unwrap()
    };
    let with = trained(tiny(), true);
    assert!(with == trained(engine(|_| {}), false));
}

#[test]
fn gradients_from_a_buffer_are_those_of_the_host() {
    require_gpu!();
    let mut engine = engine(|_| {});
    for name in ["random_sh3", "lens_opencv"] {
        let scene = scenes::named(name);
        engine.upload(&scene.splats, None).unwrap();
        let wave = |i: usize| (0.37 * i as f32).sin();
        let rgb: Vec<f32> = (0..3 * pixels(&scene)).map(wave).collect();
        let alpha: Vec<f32> = (0..pixels(&scene)).map(|i| wave(7 * i)).collect();
        let expected: Gradients<f32> = engine
            .gradients(&scene.camera, &scene.settings, &rgb, Some(&alpha))
            .unwrap();
        let four: Vec<[f32; 4]> = (0..pixels(&scene))
            .map(|i| [rgb[3 * i], rgb[3 * i + 1], rgb[3 * i + 2], -alpha[i]])
            .collect();
        let derivative = engine.gpu().upload("derivative", &four).unwrap();
        let gradients = engine
            .backward_from(&scene.camera, &scene.settings, &derivative)
            .unwrap();
        assert!(gradients == expected, "{name}");
        assert!(gradients.opacities.iter().any(|&g| g != 0.0));
        assert_planes(&mut engine, &scene, &derivative, &expected);
    }
}

/// Asserts that gradients that stay on the device are the same numbers, without a wait.
fn assert_planes(
    engine: &mut GpuEngine,
    scene: &TestScene,
    derivative: &wgpu::Buffer,
    expected: &Gradients<f32>,
) {
    let gpu = engine.gpu().clone();
    let before = gpu.counters();
    engine
        .backward_to(
            &scene.camera,
            &scene.settings,
            derivative,
            BackwardAsks::default(),
        )
        .unwrap();
    let there = engine.gradient_buffers().unwrap();
    let cost = gpu.counters() - before;
    assert_eq!((cost.waits, cost.buffers_created), (1, 0), "{cost:?}");
    let (n, stride) = (scene.splats.len(), there.stride);
    // Later commands on the same queue find them: here a copy into a buffer of the caller.
    let own = gpu.buffer("own", there.geometry.size()).unwrap();
    let mut encoder = gpu.encoder();
    encoder.copy_buffer_to_buffer(there.geometry, 0, &own, 0, None);
    gpu.submit(encoder);
    let geometry: Vec<f32> = gpu.read(&own, 14 * stride).unwrap();
    let plane = |p: usize| geometry[p * stride..p * stride + n].to_vec();
    let column = |rows: &[[f32; 3]], k: usize| rows.iter().map(|row| row[k]).collect::<Vec<_>>();
    for k in 0..3 {
        assert_eq!(plane(k), column(&expected.means, k));
        assert_eq!(plane(3 + k), column(&expected.scales, k));
        assert_eq!(plane(11 + k), column(&expected.sh0, k));
    }
    assert_eq!(plane(10), expected.opacities);
    let planes = expected.sh_rest.len() / n;
    let rest: Vec<f32> = gpu.read(there.sh_rest, planes * stride).unwrap();
    for (i, row) in expected.sh_rest.chunks_exact(planes.max(1)).enumerate() {
        assert!((0..planes).all(|p| rest[p * stride + i] == row[p]));
    }
    let means2d: Vec<f32> = gpu.read(there.means2d, 2 * stride).unwrap();
    for (i, by_mean) in expected.means2d.iter().enumerate() {
        assert_eq!([means2d[i], means2d[stride + i]], *by_mean);
    }
    let parts: Vec<[f32; 6]> = gpu.read(there.pose, n.div_ceil(256)).unwrap();
    for (k, sum) in expected.pose.iter().enumerate() {
        assert_eq!(
            parts.iter().map(|part| f64::from(part[k])).sum::<f64>(),
            *sum
        );
    }
}

#[test]
fn buffers_that_do_not_do_are_refused() {
    require_gpu!();
    let mut engine = engine(|_| {});
    let scene = scenes::named("random_sh3");
    engine.upload(&scene.splats, None).unwrap();
    let (camera, settings) = (&scene.camera, &scene.settings);
    let small = engine
        .gpu()
        .buffer("small", 16 * pixels(&scene) as u64 - 16)
        .unwrap();
    let error = engine.render_to(camera, settings, &small).unwrap_err();
    assert!(error.to_string().contains("bytes"), "{error}");
    let error = engine.backward_from(camera, settings, &small).unwrap_err();
    assert!(error.to_string().contains("bytes"), "{error}");
    let bytes = 16 * pixels(&scene) as u64;
    let usage = wgpu::BufferUsages::STORAGE;
    let closed = engine.gpu().buffer_with("closed", bytes, usage).unwrap();
    let error = engine.render_to(camera, settings, &closed).unwrap_err();
    assert!(error.to_string().contains("COPY_DST"), "{error}");
    let error = engine.backward_from(camera, settings, &closed).unwrap_err();
    assert!(error.to_string().contains("COPY_SRC"), "{error}");
}

/// Records the names of the methods on the device.
struct Names(Arc<Mutex<Vec<&'static str>>>);

impl CallListener for Names {
    fn on_call<E: Engine + ?Sized, R>(
        &self,
        call: &Call<'_>,
        engine: &mut E,
        run: impl FnOnce(&mut E) -> Result<R>,
    ) -> Result<R> {
        if let Call::OnDevice(name) = call {
            self.0.lock().unwrap().push(name);
        }
        run(engine)
    }
}

#[test]
fn methods_on_the_device_pass_the_listener() {
    require_gpu!();
    let names = Arc::new(Mutex::new(Vec::new()));
    let mut inside = engine(|_| {});
    let scene = scenes::named("random_sh3");
    inside.upload(&scene.splats, None).unwrap();
    let expected = inside.render(&scene.camera, &scene.settings).unwrap();
    let boxed = BoxedEngine::device(inside).observed(Names(Arc::clone(&names)));
    let BoxedEngine::Device(mut engine) = boxed else {
        panic!("an observed engine has the device of the engine inside");
    };
    let bytes = 16 * expected.alpha.len() as u64;
    let target = engine.gpu().buffer("target", bytes).unwrap();
    let (camera, settings) = (&scene.camera, &scene.settings);
    engine.set_crop_routine(None).unwrap();
    engine.render_to(camera, settings, &target).unwrap();
    assert!(engine.rendered_whole().unwrap());
    let gradients = engine.backward_from(camera, settings, &target).unwrap();
    engine
        .backward_to(camera, settings, &target, BackwardAsks::default())
        .unwrap();
    let n = scene.splats.len();
    assert_eq!(gradients.opacities.len(), n);
    assert!(engine.gradient_buffers().unwrap().stride >= n);
    engine.forward_to(camera, settings, &target, true).unwrap();
    let rows = engine.gpu().upload("rows", &rows_of(&scene)).unwrap();
    let by = engine
        .gpu()
        .buffer("by", rows.size() + 8 * n as u64)
        .unwrap();
    engine.load_rows(&rows, n).unwrap();
    engine.gradient_rows(&rows, n, &by, ALL_ROWS).unwrap();
    let all = [
        "set_crop_routine",
        "render_to",
        "rendered_whole",
        "backward_from",
        "backward_to",
        "forward_to",
        "load_rows",
        "gradient_rows",
    ];
    assert_eq!(*names.lock().unwrap(), all);
}

/// Returns the splats of a scene in rows, as gsplat has them.
fn rows_of(scene: &TestScene) -> Vec<f32> {
    let splats = &scene.splats;
    let mut rows = Vec::new();
    rows.extend(splats.means.as_flattened());
    rows.extend(splats.quats.as_flattened());
    rows.extend(splats.scales.as_flattened().iter().map(|s| s.exp()));
    let sigmoid = |x: &f32| 1.0 / (1.0 + (-x).exp());
    rows.extend(splats.opacities.iter().map(sigmoid));
    let rest = splats.sh_rest.len() / splats.len();
    for (i, first) in splats.sh0.iter().enumerate() {
        rows.extend(first);
        rows.extend(&splats.sh_rest[i * rest..(i + 1) * rest]);
    }
    assert_eq!(rows.len(), row_floats(splats.len(), splats.sh_degree));
    rows
}

/// Derivatives by colours and transmittance.
fn wave(scene: &TestScene) -> Vec<[f32; 4]> {
    let wave = |i: usize| (0.37 * i as f32).sin();
    (0..pixels(scene))
        .map(|i| std::array::from_fn(|k| wave(4 * i + k)))
        .collect()
}

fn derivative_of(engine: &GpuEngine, scene: &TestScene) -> Arc<Pooled> {
    engine.gpu().upload("derivative", &wave(scene)).unwrap()
}

/// Returns the absolute gradients that the engine computes from derivatives of the host.
fn absolute_of_host(engine: &mut GpuEngine, scene: &TestScene) -> Vec<[f32; 2]> {
    let wave = wave(scene);
    let rgb: Vec<f32> = wave.iter().flat_map(|&[r, g, b, _]| [r, g, b]).collect();
    let alpha: Vec<f32> = wave.iter().map(|&[.., t]| -t).collect();
    let derivative = ImageDerivative {
        rgb: &rgb,
        alpha: Some(&alpha),
        depth: None,
    };
    let parts = GradientParts::AllAndAbsolute;
    let found = engine.differentiate(&scene.camera, &scene.settings, &derivative, parts);
    found.unwrap().absolute2d
}

/// Asserts that numbers are the same except for rounding.
fn assert_close(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|x| x * x).sum::<f64>().sqrt();
    let mut off = found.iter().zip(expected).map(|(a, b)| f64::from(a - b));
    let mut all = expected.iter().map(|&v| f64::from(v));
    let (off, all) = (norm(&mut off), norm(&mut all));
    assert!(off <= 1e-4 * all, "{what}: {off} of {all}");
}

#[test]
fn parameters_in_rows_render_and_differentiate_like_uploaded_splats() {
    require_gpu!();
    // More than one workgroup of rows, all degrees.
    for name in ["random_sh3", "background", "crowd"] {
        let mut engine = engine(|_| {});
        let scene = scenes::named(name);
        let n = scene.splats.len();
        engine.upload(&scene.splats, None).unwrap();
        let derivative = derivative_of(&engine, &scene);
        let expected = engine
            .backward_from(&scene.camera, &scene.settings, &derivative)
            .unwrap();
        let mut other = scene.splats.clone();
        other.opacities.fill(-9.0);
        other.means.fill([0.0; 3]);
        engine.upload(&other, None).unwrap();
        let values = rows_of(&scene);
        let rows = engine.gpu().upload("rows", &values).unwrap();
        engine.load_rows(&rows, n).unwrap();
        let loaded = engine.download().unwrap().0;
        assert_eq!(loaded.means, scene.splats.means);
        assert_eq!(loaded.quats, scene.splats.quats);
        assert_eq!(loaded.sh0, scene.splats.sh0);
        assert_eq!(loaded.sh_rest, scene.splats.sh_rest);
        assert_close(&loaded.opacities, &scene.splats.opacities, "opacities");
        let by = engine
            .gpu()
            .buffer("by", rows.size() + 16 * n as u64)
            .unwrap();
        let absolute = RowsOf {
            absolute: Some(1),
            ..ALL_ROWS
        };
        assert!(engine.gradient_rows(&rows, n, &by, absolute).is_err());
        let asks = BackwardAsks {
            absolute: true,
            ..BackwardAsks::default()
        };
        engine
            .backward_to(&scene.camera, &scene.settings, &derivative, asks)
            .unwrap();
        engine.gradient_rows(&rows, n, &by, absolute).unwrap();
        let found: Vec<f32> = engine.gpu().read(&by, values.len() + 4 * n).unwrap();
        let coefficients = values.len() - 11 * n;
        let mut rest = found.as_slice();
        let mut take = |count: usize| rest.split_off(..count).unwrap();
        assert_close(take(3 * n), expected.means.as_flattened(), "means");
        assert_close(take(4 * n), expected.quats.as_flattened(), "quats");
        let scales: Vec<f32> = expected.scales.as_flattened().to_vec();
        let scales = scales.iter().zip(&values[7 * n..]).map(|(g, s)| g / s);
        assert_close(take(3 * n), &scales.collect::<Vec<f32>>(), "scales");
        let by_opacity = expected.opacities.iter().zip(&values[10 * n..]);
        let by_opacity = by_opacity.map(|(g, o)| g / (o * (1.0 - o)));
        assert_close(take(n), &by_opacity.collect::<Vec<f32>>(), "opacities");
        let words = coefficients / n - 3;
        let mut colours = Vec::new();
        for (i, first) in expected.sh0.iter().enumerate() {
            colours.extend(first);
            colours.extend(&expected.sh_rest[i * words..(i + 1) * words]);
        }
        assert_close(take(coefficients), &colours, "coefficients");
        assert_close(take(2 * n), expected.means2d.as_flattened(), "means2d");
        let sums = absolute_of_host(&mut engine, &scene);
        assert_close(take(2 * n), sums.as_flattened(), "absolute2d");
    }
}

#[test]
fn a_backward_pass_after_its_forward_pass_renders_once() {
    require_gpu!();
    let scene = scenes::named("random_sh3");
    let (camera, settings) = (&scene.camera, &scene.settings);
    let mut engine = tiny();
    engine.upload(&scene.splats, None).unwrap();
    let derivative = derivative_of(&engine, &scene);
    let expected = engine.backward_from(camera, settings, &derivative).unwrap();
    let target = engine
        .gpu()
        .buffer("target", 16 * pixels(&scene) as u64)
        .unwrap();
    let n = scene.splats.len();
    let planes_of_host = |by: &Gradients<f32>| by.opacities.clone();
    let planes_of = |engine: &mut GpuEngine| {
        let there = engine.gradient_buffers().unwrap();
        let at = (10 * there.stride * 4) as u64;
        engine.gpu().read_at::<f32>(there.geometry, at, n).unwrap()
    };
    let gradients = |engine: &mut GpuEngine| {
        let before = engine.counters();
        engine
            .backward_to(camera, settings, &derivative, BackwardAsks::default())
            .unwrap();
        let waits = engine.counters().waits - before.waits;
        (waits, planes_of(engine))
    };
    engine.forward_to(camera, settings, &target, true).unwrap();
    let whole: Vec<[f32; 4]> = engine.gpu().read(&target, pixels(&scene)).unwrap();
    let expected = planes_of_host(&expected);
    assert!(gradients(&mut engine) == (0, expected.clone()), "kept");
    // Not kept any more, but known to fit.
    assert!(gradients(&mut engine) == (0, expected.clone()), "used up");
    // Every other render in between overwrites it.
    engine.forward_to(camera, settings, &target, true).unwrap();
    let mut other = *settings;
    other.near *= 2.0;
    engine.render(camera, &other).unwrap();
    assert!(gradients(&mut engine) == (0, expected.clone()), "rendered");
    engine.forward_to(camera, settings, &target, true).unwrap();
    engine.upload(&scene.splats, None).unwrap();
    assert!(gradients(&mut engine) == (1, expected), "uploaded");
    assert_eq!(rendered_to(&mut engine, &scene, settings), whole);
}

#[test]
fn gradients_in_rows_add_up_over_cameras() {
    require_gpu!();
    let mut engine = engine(|_| {});
    let scene = scenes::named("random_sh3");
    let (n, settings) = (scene.splats.len(), scene.settings);
    engine.upload(&scene.splats, None).unwrap();
    let mut moved = scene.camera;
    moved.camera_from_world.translation[0] += 0.1;
    let cameras = [scene.camera, moved];
    let derivative = derivative_of(&engine, &scene);
    let image = engine.gpu().buffer("image", derivative.size()).unwrap();
    let values = rows_of(&scene);
    let rows = engine.gpu().upload("rows", &values).unwrap();
    let by = engine
        .gpu()
        .buffer("by", rows.size() + 16 * n as u64)
        .unwrap();
    let of = |engine: &mut GpuEngine, camera: usize, adds: bool, of: RowsOf| -> Vec<f32> {
        engine
            .backward_to(
                &cameras[camera],
                &settings,
                &derivative,
                BackwardAsks {
                    adds,
                    absolute: false,
                },
            )
            .unwrap();
        engine.gradient_rows(&rows, n, &by, of).unwrap();
        engine.gpu().read(&by, values.len() + 4 * n).unwrap()
    };
    let [one, other] = [0, 1].map(|camera| of(&mut engine, camera, false, ALL_ROWS));
    // Both are rendered before: the last is kept, and the other renders again without a wait.
    engine.load_rows(&rows, n).unwrap();
    for camera in &cameras {
        engine.forward_to(camera, &settings, &image, true).unwrap();
    }
    let centres_alone = RowsOf {
        camera: 1,
        parameters: false,
        absolute: None,
    };
    let last = of(&mut engine, 1, false, centres_alone);
    let both = of(&mut engine, 0, true, ALL_ROWS);
    let parameters = values.len();
    assert_eq!(last[..parameters], other[..parameters], "not written");
    let sums: Vec<f32> = one.iter().zip(&other).map(|(a, b)| a + b).collect();
    assert_close(&both[..parameters], &sums[..parameters], "the sum");
    let centres = |from: &[f32], camera: usize| {
        from[parameters + 2 * n * camera..parameters + 2 * n * (camera + 1)].to_vec()
    };
    assert_close(
        &centres(&both, 0),
        &centres(&one, 0),
        "centres of the first",
    );
    assert_close(
        &centres(&both, 1),
        &centres(&other, 0),
        "centres of the last",
    );
    assert_ne!(centres(&one, 0), centres(&other, 0));
    // A buffer with place for one camera.
    let small = engine
        .gpu()
        .buffer("small", rows.size() + 8 * n as u64)
        .unwrap();
    let beyond = RowsOf {
        camera: 1,
        parameters: true,
        absolute: None,
    };
    assert!(engine.gradient_rows(&rows, n, &small, beyond).is_err());
}
