//! Photos that do not fit into memory change nothing. The splats have the bytes of a run with all photos
//! in memory, on both engines, also after a stop and a resume.
#![allow(clippy::unwrap_used, reason = "tests")]

use dapple::BoxedEngine;
use dapple::gpu::{Capacity, GpuEngine, GpuEngineOptions};
use dapple::prelude::*;
use dapple::scene::{NoProgress, load};
use dapple::train::config::{DensifyConfig, EvalConfig};
use dapple::train::{Metrics, train_into};
use std::path::Path;

/// Writes a capture of photos of three sizes from three cameras, one of them with a lens that distorts,
/// some with alpha and some with a mask. Edges are `scale` times 24 to 32 and 16 to 30 pixels.
fn write_capture(folder: &Path, photos: usize, scale: u32) {
    let images = folder.join("images");
    let masks = folder.join("masks");
    std::fs::create_dir_all(&images).unwrap();
    std::fs::create_dir_all(&masks).unwrap();
    let mut frames = Vec::new();
    for i in 0..photos {
        let (width, height, k1) = [(24, 18, 0.0), (16, 30, 0.0), (32, 20, -0.15)][i % 3];
        let (width, height) = (scale * width, scale * height);
        let focal = 25.0 * f64::from(scale);
        let name = format!("{i:04}.png");
        let alpha = if i % 5 == 0 { 90 } else { 255 };
        let pixel = |x: u32, y: u32| {
            let wave =
                |k: u32| (128.0 + 100.0 * (f64::from(k / scale) * 0.7 + i as f64).sin()) as u8;
            image::Rgba([
                wave(x),
                wave(y),
                wave(x + y),
                if x < 5 * scale { alpha } else { 255 },
            ])
        };
        let photo = image::RgbaImage::from_fn(width, height, pixel);
        photo.save(images.join(&name)).unwrap();
        if i % 4 == 0 {
            let mask = image::GrayImage::from_fn(width, height, |x, _| {
                image::Luma([if x > width / 2 { 255 } else { 0 }])
            });
            mask.save(masks.join(&name)).unwrap();
        }
        let angle = i as f64 * 2.4;
        let (sin, cos) = angle.sin_cos();
        // On a circle around the origin, facing it; OpenGL's axes.
        let pose = [
            [cos, 0.0, sin, 3.5 * sin],
            [0.0, 1.0, 0.0, 0.1 * (i % 3) as f64],
            [-sin, 0.0, cos, 3.5 * cos],
            [0.0, 0.0, 0.0, 1.0],
        ];
        frames.push(serde_json::json!({
            "file_path": format!("images/{name}"), "transform_matrix": pose,
            "w": width, "h": height, "fl_x": focal, "fl_y": focal, "k1": k1,
            "cx": f64::from(width) / 2.0, "cy": f64::from(height) / 2.0,
        }));
    }
    let json = serde_json::json!({ "camera_model": "OPENCV", "frames": frames }).to_string();
    std::fs::write(folder.join("transforms.json"), json).unwrap();
}

fn config(steps: u32) -> TrainConfig {
    let base = Preset::M9.config_for(steps);
    TrainConfig {
        seed: 5,
        initial_gaussians: 60,
        random_start: true,
        max_gaussians: 400,
        sh_every: steps / 5,
        checkpoint_minutes: 0.0,
        densify: DensifyConfig {
            start: 10,
            stop: steps - 10,
            every: 10,
            reset_every: 40,
            ..base.densify.clone()
        },
        eval: EvalConfig {
            every: 0,
            steps: vec![steps / 2],
            ..base.eval.clone()
        },
        ..base
    }
}

fn run(
    folder: &Path,
    dataset: &Dataset,
    config: TrainConfig,
    engine: BoxedEngine,
    stop: Option<u32>,
) {
    let folder = RunFolder::create(folder).unwrap();
    let mut trainer = if folder.checkpoint_path().exists() {
        Trainer::resume(dataset, folder.read_checkpoint().unwrap(), engine).unwrap()
    } else {
        Trainer::new(dataset, config, engine).unwrap()
    };
    trainer.stop_at(stop);
    train_into(&folder, &mut trainer, &mut Silent).unwrap();
}

/// Returns the bytes of the largest photo with alpha and a mask, as counted before its pixels are read.
fn largest(dataset: &Dataset) -> u64 {
    let most = |view: &View| 5 * view.photo.size().map(u64::from).iter().product::<u64>();
    dataset.views.iter().map(most).max().unwrap()
}

fn bytes(folder: &Path) -> Vec<u8> {
    std::fs::read(folder.join("splats.ply")).unwrap()
}

fn metrics(folder: &Path) -> Metrics {
    serde_json::from_slice(&std::fs::read(folder.join("metrics.json")).unwrap()).unwrap()
}

#[track_caller]
fn same_bytes(
    (photos, scale): (usize, u32),
    config: &TrainConfig,
    engine: &dyn Fn(Option<u64>) -> BoxedEngine,
) {
    let steps = config.steps;
    let root = tempfile::tempdir().unwrap();
    let capture = root.path().join("capture");
    write_capture(&capture, photos, scale);
    let held = load(&capture, &LoadOptions::default(), &NoProgress).unwrap();
    let largest = largest(&held);
    let budget = 6 * largest;
    let options = LoadOptions {
        photo_memory_bytes: Some(budget),
        ..LoadOptions::default()
    };
    let streamed = load(&capture, &options, &NoProgress).unwrap();
    assert!(streamed.views.iter().all(|view| view.photo.is_file()));
    for (a, b) in held.views.iter().zip(&streamed.views) {
        assert_eq!((a.camera, a.photo.size()), (b.camera, b.photo.size()));
        assert_eq!(
            a.photo.read().unwrap(),
            b.photo.read().unwrap(),
            "{}",
            a.name
        );
        assert!(a.photo.bytes() <= b.photo.bytes() && b.photo.bytes() <= largest);
    }
    assert!(
        held.views
            .iter()
            .any(|v| v.photo.read().unwrap().mask.is_some())
    );

    let at = |name: &str| root.path().join(name);
    let go = |name: &str, dataset: &Dataset, limit: Option<u64>, stop: Option<u32>| {
        run(&at(name), dataset, config.clone(), engine(limit), stop);
    };
    go("held", &held, None, None);
    go("streamed", &streamed, Some(budget), None);
    go("parts", &streamed, Some(budget), Some(steps / 3));
    go("parts", &streamed, Some(budget), None);
    let (whole, streamed) = (metrics(&at("held")), metrics(&at("streamed")));
    assert!(whole.gaussians > 60, "nothing was densified");
    assert!(bytes(&at("streamed")) == bytes(&at("held")), "other splats");
    assert!(
        bytes(&at("parts")) == bytes(&at("held")),
        "other splats when it went on"
    );
    assert_eq!(streamed.images, whole.images);
    assert_eq!(whole.photos, None);
    let traffic = streamed.photos.unwrap();
    assert!(traffic.peak_bytes <= budget, "{traffic:?}");
    assert_eq!(traffic.ready + traffic.waits, u64::from(steps));
    assert!(
        traffic.reads > photos.min(steps as usize) as u64 / 2,
        "{traffic:?}"
    );
}

#[test]
fn a_thousand_photos_on_the_processor() {
    same_bytes((1000, 1), &config(1050), &|_| {
        dapple::engine(Device::Cpu).unwrap()
    });
}

/// The first photos at half the size are read, held and dropped as the others are.
#[test]
fn the_first_photos_at_half_the_size() {
    let mut config = config(45);
    config.data.coarse_until = 0.5;
    same_bytes((9, 17), &config, &|_| dapple::engine(Device::Cpu).unwrap());
}

/// The GPU drops photos too, and steps are submitted again after a buffer was too small: their photos
/// must still be on the GPU.
#[test]
fn on_a_gpu_that_holds_a_few_and_grows() {
    if dapple::runtime::adapters().is_empty() {
        dapple::scene::test_requirements::skipped("gpu", "no GPU driver on this machine");
        return;
    }
    let name = dapple::scene::test_requirements::test_gpu();
    let Device::Gpu(choice) = name.parse().unwrap() else {
        panic!("{name} is no GPU");
    };
    same_bytes((20, 1), &config(90), &|limit| {
        let mut options = GpuEngineOptions::default();
        options.gpu.choice = choice.clone();
        if let Some(limit) = limit {
            options.photo_budget_bytes = limit;
            options.first_capacity = Capacity {
                gaussians: 64,
                visible: 16,
                instances: 64,
                buckets: 16,
                ..Capacity::default()
            };
        }
        BoxedEngine::device(GpuEngine::new(options).unwrap())
    });
}

/// A photo that becomes unreadable during training ends the run after a checkpoint. After the repair,
/// the resumed run has the bytes of an uninterrupted run.
#[test]
fn a_photo_that_breaks_and_is_mended_costs_nothing() {
    let root = tempfile::tempdir().unwrap();
    let capture = root.path().join("capture");
    write_capture(&capture, 14, 1);
    let at = |name: &str| root.path().join(name);
    let cpu = || dapple::engine(Device::Cpu).unwrap();
    let held = load(&capture, &LoadOptions::default(), &NoProgress).unwrap();
    run(&at("held"), &held, config(60), cpu(), None);
    let options = LoadOptions {
        photo_memory_bytes: Some(4 * largest(&held)),
        ..LoadOptions::default()
    };
    let streamed = load(&capture, &options, &NoProgress).unwrap();
    assert!(streamed.photo_memory_bytes.is_some());
    run(&at("streamed"), &streamed, config(60), cpu(), Some(20));
    let photo = capture.join("images/0005.png");
    let whole = std::fs::read(&photo).unwrap();
    // The header is intact.
    let mut broken = whole.clone();
    let middle = broken.len() / 2;
    broken[middle..middle + 8].fill(0);
    std::fs::write(&photo, broken).unwrap();
    let folder = RunFolder::create(&at("streamed")).unwrap();
    let checkpoint = folder.read_checkpoint().unwrap();
    let mut trainer = Trainer::resume(&streamed, checkpoint, cpu()).unwrap();
    let error = train_into(&folder, &mut trainer, &mut Silent).unwrap_err();
    assert!(error.place().unwrap().contains("0005.png"), "{error}");
    assert!(error.hint_text().unwrap().contains("--resume"), "{error}");
    std::fs::write(&photo, whole).unwrap();
    assert!(folder.read_checkpoint().unwrap().step > 20);
    // With its lock, which would block the next run.
    drop(folder);
    run(&at("streamed"), &streamed, config(60), cpu(), None);
    assert!(bytes(&at("streamed")) == bytes(&at("held")), "other splats");
}
