//! A custom loss on tensors of the engine's device: the image and its derivative are never copied to the host.
#![allow(clippy::unwrap_used, reason = "tests")]

use dapple::DeviceBuffers;
use dapple::gpu::{GpuEngine, GpuEngineOptions};
use dapple::prelude::*;
use dapple::runtime::GpuOptions;
use dapple_tensor::{Context, DType, Plan, PlanOptions};

const WIDTH: u32 = 96;
const HEIGHT: u32 = 64;

fn engine() -> GpuEngine {
    let options = GpuEngineOptions {
        gpu: GpuOptions {
            choice: dapple::scene::test_requirements::test_gpu()
                .parse()
                .unwrap(),
            ..GpuOptions::default()
        },
        ..GpuEngineOptions::default()
    };
    // Fails without a driver, with a message: Mesa's needs no hardware.
    GpuEngine::new(options).unwrap()
}

#[test]
fn a_loss_of_tensors_trains_splats_and_nothing_of_the_image_comes_to_the_host() {
    let camera = synth::bench_camera(WIDTH, HEIGHT);
    let settings = RenderSettings::default();
    let truth = synth::splats(600, 3);
    let mut engine = engine();
    engine.upload(&truth, None).unwrap();
    let target = engine.render(&camera, &settings).unwrap().rgb;

    // The engine's image, [height, width, 4] with the transmittance last, and the derivative by it.
    let shape = [HEIGHT as usize, WIDTH as usize, 4];
    let count: usize = shape.iter().product();
    let gpu = engine.gpu().clone();
    let image = gpu.buffer("image", 4 * count as u64).unwrap();
    let derivative = gpu.buffer("derivative", 4 * count as u64).unwrap();
    let context = Context::gpu(&gpu);
    let x = context.external(DType::F32, &shape, &image, &image);
    let d = context.external(DType::F32, &shape, &derivative, &derivative);
    let four: Vec<f32> = target
        .chunks_exact(3)
        .flat_map(|rgb| [rgb[0], rgb[1], rgb[2], 0.0])
        .collect();
    let colours = context.tensor(&[4], &[1.0, 1.0, 1.0, 0.0]);
    let difference = x.mul(&colours).sub(context.tensor(&shape, &four));
    // Charbonnier loss: the absolute difference, smooth at zero.
    let loss = difference.mul(&difference).add(1e-4).sqrt().sum();
    let by_image = loss.gradients(&[&x]).remove(0);
    let updates = [(d, by_image)];
    let plan = PlanOptions {
        updates: &updates,
        ..PlanOptions::default()
    };
    let plan = Plan::compile_with(&[&loss], &plan).unwrap();

    let mut splats = truth.clone();
    splats.sh0.iter_mut().flatten().for_each(|c| *c *= 0.3);
    let mut losses = Vec::new();
    for step in 0..25 {
        engine.upload(&splats, None).unwrap();
        engine.render_to(&camera, &settings, &image).unwrap();
        while !engine.rendered_whole().unwrap() {
            engine.render_to(&camera, &settings, &image).unwrap();
        }
        let before = gpu.counters();
        plan.run().unwrap();
        let found = engine
            .backward_from(&camera, &settings, &derivative)
            .unwrap();
        if step == 0 {
            // Only the gradients' bytes, which are fewer than those of the image and of the state.
            let read = (gpu.counters() - before).bytes_read as usize;
            let rows = splats.len().div_ceil(256) * 256;
            assert!(read < rows * (14 + 45 + 2 + 4) * 4 + 4096, "{read}");
            assert_as_on_the_host(&mut engine, &camera, &settings, &target, &found);
        }
        losses.push(plan.read(0).unwrap()[0]);
        for (colour, gradient) in splats.sh0.iter_mut().zip(&found.sh0) {
            for (value, slope) in colour.iter_mut().zip(gradient) {
                *value -= 0.02 * slope.signum() * slope.abs().min(1.0);
            }
        }
    }
    assert!(losses[24] < 0.6 * losses[0], "{losses:?}");
}

/// Checks the loss and its gradients against the same loss on the host.
fn assert_as_on_the_host(
    engine: &mut GpuEngine,
    camera: &Camera,
    settings: &RenderSettings,
    target: &[f32],
    found: &Gradients<f32>,
) {
    let rgb = engine.render(camera, settings).unwrap().rgb;
    let pairs = rgb.iter().zip(target);
    let by_image: Vec<f32> = pairs
        .map(|(a, b)| (a - b) / ((a - b) * (a - b) + 1e-4).sqrt())
        .collect();
    let expected = engine.gradients(camera, settings, &by_image, None).unwrap();
    let scale = |g: &Gradients<f32>| g.means.iter().flatten().fold(0.0f32, |m, v| m.max(v.abs()));
    let most = scale(&expected);
    assert!(most > 0.0);
    for (a, b) in found
        .means
        .iter()
        .flatten()
        .zip(expected.means.iter().flatten())
    {
        assert!((a - b).abs() <= 1e-4 * most, "{a} {b}");
    }
    for (a, b) in found
        .sh0
        .iter()
        .flatten()
        .zip(expected.sh0.iter().flatten())
    {
        assert!((a - b).abs() <= 1e-4 * (1.0 + b.abs()), "{a} {b}");
    }
}
