//! LPIPS loss of crops, on both engines: its derivative reaches the Gaussians, and training with it works.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::lpips_weights;
use crate::resume::running::gpu;

use dapple::BoxedEngine;
use dapple::contract::{
    AppearanceSettings, CropLoss, LossTerm, LossWeights, StepFeatures, StepSettings, TrainView,
    ViewId, crops,
};
use dapple::prelude::*;
use dapple::train::config::EvalConfig;
use dapple::train::evaluate::Lpips;
use lpips_weights::{ALEX, file, random};
use std::path::Path;

const WIDTH: u32 = 70;
const HEIGHT: u32 = 52;
const SIDE: u32 = 34;

fn lpips() -> Lpips {
    Lpips::parse(&file(&random(ALEX, false))).unwrap()
}

/// Sets the loss over crops of an engine, for its device.
fn set_loss(engine: &mut BoxedEngine) {
    match engine {
        BoxedEngine::Host(engine) => {
            let loss = lpips().crops(SIDE).unwrap();
            engine.set_crop_loss(Some(Box::new(loss))).unwrap();
        }
        BoxedEngine::Device(engine) => {
            let loss = lpips().crop_routine(SIDE, engine.gpu()).unwrap();
            engine.set_crop_routine(Some(loss)).unwrap();
        }
    }
}

/// Returns the CPU engine and the GPU for tests.
fn engines() -> Vec<BoxedEngine> {
    let mut engines = vec![dapple::engine(Device::Cpu).unwrap()];
    engines.extend(gpu("f32"));
    engines
}

fn camera() -> Camera {
    synth::bench_camera(WIDTH, HEIGHT)
}

/// Returns the target of the Gaussians, partly transparent, partly masked.
fn photo() -> Photo {
    let mut engine = dapple::engine(Device::Cpu).unwrap();
    engine.upload(&synth::splats(500, 8), None).unwrap();
    let rendered = engine
        .render(&camera(), &RenderSettings::default())
        .unwrap();
    let mut photo = rendered.photo();
    let each = |value: fn(u32, u32) -> u8| {
        let pixels = (0..WIDTH * HEIGHT).map(|i| value(i % WIDTH, i / WIDTH));
        Some(pixels.collect())
    };
    photo.alpha = each(|x, y| if x + y < 50 { 120 } else { 255 });
    photo.mask = each(|x, y| {
        if (20..34).contains(&x) && y > 25 {
            0
        } else {
            255
        }
    });
    photo
}

/// Returns settings of a step that changes moments and no parameter.
fn step_settings(weight: f32, appearance: Option<AppearanceSettings>) -> StepSettings {
    let render = RenderSettings {
        background: [0.2, 0.5, 0.7],
        ..RenderSettings::default()
    };
    StepSettings {
        losses: LossWeights::default()
            .with(LossTerm::Ssim, 0.2)
            .with(LossTerm::Perceptual, weight),
        features: StepFeatures {
            perceptual: dapple::contract::features::perceptual::Step {
                crop: [1 << 31, 3 << 30],
            },
            appearance,
            ..StepFeatures::default()
        },
        ..StepSettings::new(1, render)
    }
}

/// Returns the gradients of the loss in several steps, from the changes of Adam's first moments.
fn gradients<const N: usize>(
    engine: &mut dyn Engine,
    splats: &Splats,
    settings: &StepSettings,
) -> [Vec<f64>; N] {
    engine.upload(splats, None).unwrap();
    let keeps = f64::from(settings.adam.beta1);
    let mut before = Vec::new();
    std::array::from_fn(|_| {
        engine.step(ViewId(0), settings).unwrap();
        let (_, state) = engine.download().unwrap();
        let moments = flat(
            [
                state.first_moments.means,
                state.first_moments.scales,
                state.first_moments.sh0,
            ],
            state.first_moments.opacities,
        );
        before.resize(moments.len(), 0.0);
        let gained = moments.iter().zip(&before).map(|(m, b)| m - keeps * b);
        let gradient = gained.map(|m| m / (1.0 - keeps)).collect();
        before = moments;
        gradient
    })
}

fn flat(rows: [Vec<[f32; 3]>; 3], rest: Vec<f32>) -> Vec<f64> {
    let rows = rows.into_iter().flatten().flatten();
    rows.chain(rest).map(f64::from).collect()
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    let square = |v: f64| v * v;
    let apart: f64 = a.iter().zip(b).map(|(a, b)| square(a - b)).sum();
    let length: f64 = b.iter().map(|b| square(*b)).sum();
    assert!(length > 0.0);
    (apart / length).sqrt()
}

/// Returns the derivative by the image that steps should add: that of the crop, computed on the CPU, at its place.
fn expected(rgb: &[f32], photo: &Photo, settings: &StepSettings) -> Vec<f32> {
    let [left, top] =
        crops::origin(settings.features.perceptual.crop, [WIDTH, HEIGHT], SIDE).unwrap();
    assert_eq!([left, top], [18, 14]);
    let pixels: Vec<usize> = (0..SIDE * SIDE)
        .map(|i| ((top + i / SIDE) * WIDTH + left + i % SIDE) as usize)
        .collect();
    let (alpha, mask) = (photo.alpha.as_ref().unwrap(), photo.mask.as_ref().unwrap());
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for &pixel in &pixels {
        for (c, behind) in settings.render.background.iter().enumerate() {
            let opacity = f32::from(alpha[pixel]) / 255.0;
            let colour = f32::from(photo.rgb[3 * pixel + c]) / 255.0;
            let target = colour * opacity + behind * (1.0 - opacity);
            b.push(target);
            a.push(if mask[pixel] < 128 {
                target
            } else {
                rgb[3 * pixel + c]
            });
        }
    }
    let mut loss = lpips().crops(SIDE).unwrap();
    let mut derivative = vec![0.0; a.len()];
    loss.differentiate(&a, &b, &mut derivative).unwrap();
    let mut image = vec![0.0; rgb.len()];
    for (&pixel, slope) in pixels.iter().zip(derivative.chunks(3)) {
        if mask[pixel] >= 128 {
            image[3 * pixel..3 * pixel + 3].copy_from_slice(slope);
        }
    }
    image
}

#[test]
fn the_derivative_of_a_crop_reaches_the_gaussians() {
    let (splats, photo) = (synth::splats(500, 3), photo());
    let mut found = Vec::new();
    for mut engine in engines() {
        let view = TrainView {
            camera: camera(),
            photo: photo.clone().into(),
        };
        engine.add_views(vec![view]).unwrap();
        engine.upload(&splats, None).unwrap();
        let with = step_settings(30.0, None);
        assert!(
            engine.step(ViewId(0), &with).is_err(),
            "compared by nothing"
        );
        set_loss(&mut engine);
        let [plain] = gradients(engine.as_mut(), &splats, &step_settings(0.0, None));
        let [both] = gradients(engine.as_mut(), &splats, &with);
        let part: Vec<f64> = both.iter().zip(&plain).map(|(a, b)| a - b).collect();
        engine.upload(&splats, None).unwrap();
        let rendered = engine.render(&camera(), &with.render).unwrap();
        let mut by_image = expected(&rendered.rgb, &photo, &with);
        by_image.iter_mut().for_each(|slope| *slope *= 30.0);
        let truth = engine
            .gradients(&camera(), &with.render, &by_image, None)
            .unwrap();
        let truth = flat([truth.means, truth.scales, truth.sh0], truth.opacities);
        let apart = distance(&part, &truth);
        println!("{}: {apart:.1e}", engine.description());
        assert!(apart < 1e-3, "{apart}");
        let [again] = gradients(engine.as_mut(), &splats, &with);
        assert_eq!(both, again, "not the same twice");
        // With a learnt appearance, the crop is cut after the bilateral grid, and the derivative passes through the
        // grid.
        let learnt = AppearanceSettings {
            cells: [2, 2, 2],
            rate: 0.5,
            smoothness: 0.0,
            identity: 0.0,
        };
        let learning = step_settings(30.0, Some(learnt));
        let [first, second] = gradients(engine.as_mut(), &splats, &learning);
        assert!(
            distance(&first, &both) < 1e-4,
            "the first map changes nothing"
        );
        assert!(distance(&second, &both) > 1e-2, "the second is another");
        found.push([both, second]);
        let engine = engine.as_mut();
        engine.set_crop_loss(None).unwrap();
        assert!(engine.step(ViewId(0), &with).is_err(), "it was taken away");
    }
    for pair in found.windows(2) {
        for (a, b) in pair[0].iter().zip(&pair[1]) {
            let apart = distance(a, b);
            assert!(apart < 1e-3, "engines differ: {apart}");
        }
    }
}

fn capture() -> Dataset {
    let mut engine = dapple::engine(Device::Cpu).unwrap();
    let truth = synth::splats(400, 5);
    engine.upload(&truth, None).unwrap();
    let settings = RenderSettings::default();
    let bench = camera();
    let view = |i: usize| {
        let mut camera = bench;
        let turn = DVec3::new(0.06 * (i % 3) as f64, 0.05 * (i / 3) as f64, 0.0);
        camera.camera_from_world.translation += turn;
        let rendered = engine.render(&camera, &settings).unwrap();
        // A pattern that few Gaussians can reproduce, so that the choice of the loss matters.
        let bytes = rendered.rgb.iter().enumerate().map(|(i, v)| {
            let (x, y) = (i / 3 % WIDTH as usize, i / 3 / WIDTH as usize);
            let shade = if (x / 5 + y / 4) % 2 == 0 { 0.45 } else { 1.0 };
            (v * shade * 255.0 + 0.5) as u8
        });
        View::new(
            format!("{i}.png"),
            camera,
            Photo::from_rgb(WIDTH, HEIGHT, bytes.collect()),
        )
    };
    let views = (0..9).map(view).collect();
    let point = |i: usize| dapple::Point {
        position: truth.means[i],
        rgb: [128; 3],
    };
    Dataset {
        points: (0..400).step_by(10).map(point).collect(),
        views,
        ..Dataset::default()
    }
}

fn config(weights: &Path, weight: f64) -> TrainConfig {
    TrainConfig {
        lpips_weight: weight,
        lpips_crop: 40,
        checkpoint_minutes: 0.0,
        eval: EvalConfig {
            every: 0,
            lpips: weights.to_owned(),
            ..EvalConfig::default()
        },
        ..Preset::M8Smoke.config_for(60)
    }
}

#[test]
fn runs_train_by_it_and_go_on_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let weights = folder.path().join("alex.safetensors");
    std::fs::write(&weights, file(&random(ALEX, false))).unwrap();
    let capture = capture();
    for engine in 0..engines().len() {
        let begin = |weight| {
            let engine = engines().swap_remove(engine);
            Trainer::new(&capture, config(&weights, weight), engine).unwrap()
        };
        let run = |weight| {
            let mut trainer = begin(weight);
            let outcome = trainer.run(&mut Silent).unwrap();
            (
                trainer.splats().unwrap(),
                outcome.eval.unwrap().lpips.unwrap(),
            )
        };
        let (plain, without) = run(0.0);
        let (splats, with) = run(1.0);
        println!("LPIPS {without:.4} without, {with:.4} with");
        assert!(with < 0.97 * without, "{with} {without}");
        assert!(splats != plain);
        let mut half = begin(1.0);
        half.stop_at(Some(25));
        half.run(&mut Silent).unwrap();
        let engine = engines().swap_remove(engine);
        let mut rest = Trainer::resume(&capture, half.checkpoint().unwrap(), engine).unwrap();
        rest.run(&mut Silent).unwrap();
        assert!(rest.splats().unwrap() == splats, "other bytes after a stop");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let weights = folder.path().join("alex.safetensors");
    std::fs::write(&weights, file(&random(ALEX, false))).unwrap();
    let error = config(Path::new(""), 0.1).validate().unwrap_err();
    assert!(error.to_string().contains("eval.lpips"), "{error}");
    assert!(
        error
            .hint_text()
            .is_some_and(|hint| hint.contains("--lpips"))
    );
    let small = TrainConfig {
        lpips_crop: 20,
        ..config(&weights, 0.1)
    };
    let engine = dapple::engine(Device::Cpu).unwrap();
    let error = Trainer::new(&capture(), small, engine).err().unwrap();
    assert!(error.to_string().contains("20 x 20"), "{error}");
    let error = config(&weights, -1.0).validate().unwrap_err();
    assert!(error.to_string().contains("lpips_weight"), "{error}");
}
