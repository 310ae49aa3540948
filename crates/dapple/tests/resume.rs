//! A run that is stopped and goes on ends with the bytes of one that was not, on both engines.
#![allow(clippy::unwrap_used, reason = "tests")]

use dapple::contract::{DensifyReport, Engine};
use dapple::gpu::Precision;
use dapple::prelude::*;
use dapple::scene::{Tracks, lacking};
use dapple::train::config::{AppearancePatch, Background, DensifyConfig, DensifyPatch, EvalConfig};
use dapple::train::{
    AppearanceModel, Checkpoint, ConfigPatch, DepthSource, EvalRow, LossRow, Metrics, Strategy,
    Verdict, train_into,
};
use dapple::{EngineOptions, Point, open};
use std::path::Path;
use std::sync::LazyLock;

/// What a run leaves that does not depend on how long it took.
#[derive(Debug, PartialEq)]
struct Left {
    ply: Vec<u8>,
    appearance: Option<Vec<u8>>,
    losses: Vec<(u32, f32, u64)>,
    evals: Vec<(u32, f64, f64, u64)>,
    /// Where poses are refined.
    cameras: Option<Vec<u8>>,
    aligned: Option<f64>,
    rounds: Vec<DensifyReport>,
    csv_rows: usize,
}

fn metrics(folder: &RunFolder) -> Metrics {
    serde_json::from_slice(&std::fs::read(folder.metrics_path()).unwrap()).unwrap()
}

fn left(folder: &RunFolder) -> Left {
    let metrics = metrics(folder);
    let loss = |row: &LossRow| (row.step, row.loss, row.gaussians);
    let eval = |row: &EvalRow| (row.step, row.psnr, row.ssim, row.gaussians);
    let csv = std::fs::read_to_string(folder.csv_path()).unwrap();
    Left {
        ply: std::fs::read(folder.splats_path()).unwrap(),
        appearance: std::fs::read(folder.appearance_path()).ok(),
        losses: metrics.losses.iter().map(loss).collect(),
        evals: metrics.evals.iter().map(eval).collect(),
        cameras: std::fs::read(folder.cameras_path()).ok(),
        aligned: metrics.aligned_psnr,
        rounds: metrics.densify,
        csv_rows: csv.lines().count(),
    }
}

/// Seen from 13 places, two of them held out.
static CAPTURE: LazyLock<Dataset> = LazyLock::new(|| ball(13, 0.7));

/// A ball of coloured Gaussians and sparse points on it, seen from so many places with a turn between each.
fn ball(places: usize, turn: f64) -> Dataset {
    let mut truth = Splats::empty(0);
    for i in 0..150 {
        let t = (i as f32 + 0.5) / 150.0;
        let (z, angle) = (1.0 - 2.0 * t, 2.399_963_2 * i as f32);
        let r = (1.0 - z * z).sqrt();
        truth.means.push([r * angle.cos(), r * angle.sin(), z]);
        truth.scales.push([-1.9, -2.2, -2.6]);
        truth.quats.push([angle.cos(), angle.sin(), t, 0.3]);
        truth.opacities.push(3.0);
        let band = if i % 5 < 2 { 0.9 } else { 0.2 };
        let colour = [band, t, 1.0 - t];
        truth.sh0.push(colour.map(|v| (v - 0.5) / SH_C0));
    }
    let mut engine = cpu();
    engine.upload(&truth, None).unwrap();
    let view = |i: usize| {
        let angle = i as f64 * turn;
        let eye = DVec3::new(3.5 * angle.cos(), 0.4 * (i % 3) as f64, 3.5 * angle.sin());
        let camera = Camera::pinhole(40, 32, 38.0, Pose::look_at(eye, DVec3::ZERO, DVec3::Y));
        let rendered = engine.render(&camera, &RenderSettings::default()).unwrap();
        let bytes = rendered.rgb.iter().map(|v| (v * 255.0 + 0.5) as u8);
        View {
            name: format!("{i:02}.png"),
            camera,
            source_model: "PINHOLE".to_owned(),
            photo: Photo::from_rgb(40, 32, bytes.collect()).into(),
            depth: None,
        }
    };
    let views = (0..places).map(view).collect();
    let point = |i: usize| Point {
        position: truth.means[i].map(|v| v + 0.03 * (7.0 * v + i as f32).sin()),
        rgb: truth.sh0[i].map(|v| ((0.5 + v * SH_C0) * 255.0) as u8),
    };
    Dataset {
        points: (0..150).step_by(2).map(point).collect(),
        views,
        ..Dataset::default()
    }
}

/// 300 steps with everything that changes on the way: density control on both sides of step 150,
/// opacity resets at 100 and 200, SH degrees from 60, 120 and 180 on, a scoring at 140 and at 200,
/// another background each step.
fn config() -> TrainConfig {
    let base = Preset::M9.config_for(300);
    TrainConfig {
        seed: 5,
        sh_every: 60,
        max_gaussians: 500,
        background: Background::Random,
        checkpoint_minutes: 0.0,
        densify: DensifyConfig {
            start: 20,
            stop: 260,
            every: 20,
            reset_every: 100,
            ..base.densify.clone()
        },
        eval: EvalConfig {
            every: 0,
            steps: vec![140, 200],
            ..EvalConfig::default()
        },
        ..base
    }
}

/// The same, and poses are refined.
fn refining() -> TrainConfig {
    let mut config = config();
    config.poses.refine = true;
    config
}

/// The same with a small grid of colour maps for each photo.
fn with_appearance() -> TrainConfig {
    learning(AppearancePatch {
        model: Some(AppearanceModel::Bilateral),
        grid: Some([5, 4, 3]),
        ..AppearancePatch::default()
    })
}

/// The same with a look of each photo, learnt from step 11 on: Gaussians' features go through rounds of density control.
fn with_looks() -> TrainConfig {
    learning(AppearancePatch {
        model: Some(AppearanceModel::Mlp),
        ..AppearancePatch::default()
    })
}

/// The same, and this of the photos is learnt.
fn learning(appearance: AppearancePatch) -> TrainConfig {
    let patch = ConfigPatch {
        steps: Some(300),
        appearance,
        ..ConfigPatch::default()
    };
    let named = TrainConfig::resolve(None, None, patch).unwrap();
    TrainConfig {
        appearance: named.appearance,
        ..config()
    }
}

/// Runs until `stop_at`, from the checkpoint in the folder if there is one.
fn run(
    folder: &Path,
    config: &TrainConfig,
    engine: Box<dyn Engine>,
    stop_at: Option<u32>,
) -> RunFolder {
    run_on(&CAPTURE, folder, config, engine, stop_at)
}

fn run_on(
    capture: &Dataset,
    folder: &Path,
    config: &TrainConfig,
    engine: Box<dyn Engine>,
    stop_at: Option<u32>,
) -> RunFolder {
    let folder = RunFolder::create(folder).unwrap();
    let mut trainer = if folder.checkpoint_path().exists() {
        Trainer::resume(capture, folder.read_checkpoint().unwrap(), engine).unwrap()
    } else {
        Trainer::new(capture, config.clone(), engine).unwrap()
    };
    trainer.stop_at(stop_at);
    train_into(&folder, &mut trainer, &mut Silent).unwrap();
    let says = |word: &str| trainer.notes().iter().all(|note| note.contains(word));
    assert!(says("background"), "{:?}", trainer.notes());
    // Without the lock, which would keep the next run out.
    RunFolder::open(folder.path())
}

#[track_caller]
fn goes_on_bit_for_bit(config: &TrainConfig, engine: &dyn Fn() -> Box<dyn Engine>) {
    let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let whole = left(&run(whole.path(), config, engine(), None));
    let steps: Vec<u32> = whole.evals.iter().map(|row| row.0).collect();
    assert_eq!(steps, [140, 200, 300]);
    assert!(whole.rounds.len() > 10);
    assert!(whole.rounds.iter().any(|round| round.split > 0));

    let half = run(parts.path(), config, engine(), Some(150));
    // Stopped in an epoch, between two rounds, with statistics gathered.
    let checkpoint = half.read_checkpoint().unwrap();
    assert_eq!(checkpoint.step, 150);
    let counts = &checkpoint.state.visible_counts;
    assert!(counts.iter().any(|&count| count > 0.0));
    let filters = &checkpoint.state.smoothing;
    assert_eq!(filters.iter().any(|&d| d > 0.0), config.antialias);
    // Once more, at a scoring, a round and a reset.
    let later = run(parts.path(), config, engine(), Some(200));
    let scored_at_200 = metrics(&later).evals.into_iter();
    assert_eq!(scored_at_200.filter(|row| row.step == 200).count(), 1);
    let folder = run(parts.path(), config, engine(), None);
    let parts = left(&folder);
    assert!(parts.ply == whole.ply, "other splats");
    assert!(parts.appearance == whole.appearance, "another appearance");
    assert_eq!(whole.appearance.is_some(), config.appearance.is_on());
    assert_eq!(
        Left {
            ply: Vec::new(),
            appearance: None,
            ..parts
        },
        Left {
            ply: Vec::new(),
            appearance: None,
            ..whole
        }
    );
    let metrics = metrics(&folder);
    let before = checkpoint.history.seconds;
    assert!(before.train > 0.0 && metrics.seconds.train > before.train);
    assert_eq!(metrics.steps, 300);
    assert!(!folder.checkpoint_path().exists());
}

fn cpu() -> Box<dyn Engine> {
    dapple::engine(Device::Cpu).unwrap()
}

/// The GPU that tests take; `None` where there is no driver.
fn gpu(precision: &str) -> Option<Box<dyn Engine>> {
    if dapple::runtime::adapters().is_empty() {
        lacking::skipped("gpu", "no GPU driver on this machine");
        return None;
    }
    let options = EngineOptions {
        precision: precision.parse::<Precision>().unwrap(),
        ..EngineOptions::default()
    };
    let opened = open(&lacking::test_gpu().parse().unwrap(), &options).unwrap();
    Some(opened.engine.into_engine())
}

#[test]
fn on_the_processor() {
    goes_on_bit_for_bit(&config(), &cpu);
}

#[test]
fn with_poses_that_are_refined() {
    goes_on_bit_for_bit(&refining(), &cpu);
    if gpu("f32").is_some() {
        goes_on_bit_for_bit(&refining(), &|| gpu("f32").unwrap());
    }
}

#[test]
fn with_the_appearance_of_photos() {
    goes_on_bit_for_bit(&with_appearance(), &cpu);
    if gpu("f32").is_some() {
        goes_on_bit_for_bit(&with_appearance(), &|| gpu("f32").unwrap());
    }
}

#[test]
fn with_the_looks_of_photos() {
    // On a GPU the engine's own tests do it with fewer steps: in software these take seven minutes.
    goes_on_bit_for_bit(&with_looks(), &cpu);
}

/// Opacities are reset shortly before the end, which spoils the last splats: a watched run ends with
/// those of an earlier step, and with what it had learnt of the photos by then.
#[track_caller]
fn keeps_what_belongs_together(engine: &dyn Fn() -> Box<dyn Engine>) {
    let mut config = with_appearance();
    config.data.watch_every = 4;
    config.densify.stop = 300;
    config.densify.reset_every = 95;
    let begin = || Trainer::new(&CAPTURE, config.clone(), engine()).unwrap();
    let kept = |trainer: &mut Trainer| {
        trainer.stop_at(None);
        trainer.run(&mut Silent).unwrap();
        let kept_step = trainer.watch_report().unwrap().kept_step;
        let left = (trainer.splats().unwrap(), trainer.appearance().unwrap());
        (kept_step.unwrap(), left)
    };
    let (step, whole) = kept(&mut begin());
    assert!((15..285).contains(&step), "{step}");

    // Stopped there, and once more between there and the end.
    let mut trainer = begin();
    trainer.stop_at(Some(step));
    trainer.run(&mut Silent).unwrap();
    let then = (trainer.splats().unwrap(), trainer.appearance().unwrap());
    assert!(whole.0 == then.0, "splats of another step");
    assert!(whole.1 == then.1, "the appearance of another step");
    trainer.stop_at(Some(290));
    trainer.run(&mut Silent).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.safetensors");
    trainer.checkpoint().unwrap().write(&path).unwrap();
    let checkpoint = Checkpoint::read(&path).unwrap();
    assert!(
        checkpoint.state.views.appearance != then.1,
        "it has not changed"
    );
    let mut resumed = Trainer::resume(&CAPTURE, checkpoint, engine()).unwrap();
    assert!(kept(&mut resumed) == (step, then), "not as without a stop");
}

#[test]
fn with_an_appearance_and_a_watch() {
    keeps_what_belongs_together(&cpu);
    if gpu("f32").is_some() {
        keeps_what_belongs_together(&|| gpu("f32").unwrap());
    }
}

#[test]
fn on_a_gpu_however_it_stores() {
    for precision in ["f32", "f16,bf16"] {
        if gpu(precision).is_none() {
            return;
        }
        goes_on_bit_for_bit(&config(), &|| gpu(precision).unwrap());
    }
}

/// Stopped between two settings of the 3D filters, which are part of the state, and not of the file of
/// splats, into whose scales they go.
#[test]
fn anti_aliased() {
    let config = TrainConfig {
        antialias: true,
        ..config()
    };
    goes_on_bit_for_bit(&config, &cpu);
    if gpu("f32").is_some() {
        goes_on_bit_for_bit(&config, &|| gpu("f32").unwrap());
    }
}

/// The GPU engine sorts Gaussians along a curve at step 5000. Ten steps make a checkpoint that says it
/// is of step 4990, to get there sooner.
#[test]
fn across_the_order_of_gaussians_on_a_gpu() {
    let precision = "bf16,f16";
    let Some(engine) = gpu(precision) else {
        return;
    };
    let late = TrainConfig {
        steps: 6000,
        densify: DensifyConfig {
            stop: 6000,
            ..config().densify
        },
        ..config()
    };
    let mut trainer = Trainer::new(&CAPTURE, late, engine).unwrap();
    for _ in 0..10 {
        trainer.step().unwrap();
    }
    let mut start = trainer.checkpoint().unwrap();
    start.step = 4990;
    let advance = |from: Checkpoint, steps: u32| {
        let mut trainer = Trainer::resume(&CAPTURE, from, gpu(precision).unwrap()).unwrap();
        for _ in 0..steps {
            trainer.step().unwrap();
        }
        trainer.checkpoint().unwrap()
    };
    let whole = advance(start.clone(), 20);
    for first in [9, 10, 13] {
        let parts = advance(advance(start.clone(), first), 20 - first);
        assert_eq!((parts.step, whole.step), (5010, 5010));
        let same = parts.splats == whole.splats && parts.state == whole.state;
        assert!(same, "stopped after {first}");
    }
}

/// The capture with tracks: a point of the ball is found from where it is seen.
fn capture_with_tracks() -> Dataset {
    let mut capture = CAPTURE.clone();
    let mut tracks = Tracks::default();
    for point in &capture.points {
        let position = DVec3::from(point.position.map(f64::from));
        let views = capture.views.iter().zip(0u32..);
        let sees = |view: &View| position.dot(view.camera.camera_from_world.centre()) > 1.2;
        let found = views.filter(|(view, _)| sees(view)).map(|(_, i)| i);
        tracks.push(0.5, found);
    }
    capture.tracks = Some(tracks);
    capture
}

/// Depths are a function of capture, configuration and step: nothing of them is in a checkpoint.
#[track_caller]
fn goes_on_with_depths(engine: &dyn Fn() -> Box<dyn Engine>) {
    let capture = capture_with_tracks();
    let mut supervised = config();
    supervised.depth.from = DepthSource::Points;
    let begin = |config| Trainer::new(&capture, config, engine()).unwrap();
    let advance = |mut trainer: Trainer, steps: u32| {
        for _ in 0..steps {
            trainer.step().unwrap();
        }
        trainer.checkpoint().unwrap()
    };
    let go_on = |from: Checkpoint| Trainer::resume(&capture, from, engine()).unwrap();
    let whole = advance(begin(supervised.clone()), 50);
    let parts = advance(go_on(advance(begin(supervised), 23)), 27);
    assert!(parts.splats == whole.splats && parts.state == whole.state);
    let plain = advance(begin(config()), 50);
    assert!(plain.splats != whole.splats, "depths change nothing");
}

#[test]
fn with_depths_on_both_engines() {
    goes_on_with_depths(&cpu);
    if gpu("f32").is_some() {
        goes_on_with_depths(&|| gpu("f32").unwrap());
    }
}

#[test]
fn on_another_device_it_says_so() {
    let Some(engine) = gpu("f32") else {
        return;
    };
    let mut trainer = Trainer::new(&CAPTURE, config(), cpu()).unwrap();
    trainer.step().unwrap();
    let checkpoint = trainer.checkpoint().unwrap();
    let trainer = Trainer::resume(&CAPTURE, checkpoint, engine).unwrap();
    assert!(trainer.notes()[0].contains("the run began on cpu"));
}

/// From so many places that those set aside lie between others.
static WIDE: LazyLock<Dataset> = LazyLock::new(|| ball(60, 0.11));

/// A run that photos set aside extend to twice its steps, with more Gaussians than it began to plan for.
fn extending() -> TrainConfig {
    let patch = ConfigPatch {
        steps: Some(400),
        extensions: Some(1),
        sh_degree: Some(1),
        sh_every: Some(60),
        checkpoint_minutes: Some(0.0),
        densify: DensifyPatch {
            strategy: Some(Strategy::Mcmc),
            start: Some(10),
            stop: Some(165),
            every: Some(10),
            ..DensifyPatch::default()
        },
        ..ConfigPatch::default()
    };
    let mut config = TrainConfig::resolve(None, None, patch).unwrap();
    // So that there is something to gain until the end.
    config.learning_rates.means_final = config.learning_rates.means;
    config.learning_rates.decay = 1.0;
    config
}

/// Stopped while photos are set aside, and after the extension: nobody sees it. And what the configuration
/// notes repeats the run.
#[track_caller]
fn is_extended_bit_for_bit(engine: &dyn Fn() -> Box<dyn Engine>, repeated_too: bool) {
    let folder = || tempfile::tempdir().unwrap();
    let (whole, parts, repeated) = (folder(), folder(), folder());
    let ended = run_on(&WIDE, whole.path(), &extending(), engine(), None);
    let said = metrics(&ended);
    let outlook = said.outlooks[0];
    assert_eq!(outlook.verdict, Verdict::Extend, "{outlook:?}");
    let [after, steps, most] = said.config.extended[0];
    assert_eq!((after, steps, said.steps), (300, 800, 800));
    let planned = said.budget.unwrap().gaussians as u64;
    // Photos have gained much.
    assert_eq!(u64::from(most), 2 * planned);
    assert!(said.gaussians > planned, "{} of {planned}", said.gaussians);
    assert_eq!(outlook.steps, [220, 300]);
    let whole = left(&ended);

    for stop in [250, 299, 301, 500] {
        let stopped = run_on(&WIDE, parts.path(), &extending(), engine(), Some(stop));
        let left = stopped.read_checkpoint().unwrap();
        assert_eq!(left.step, stop);
        assert_eq!(left.outlook_before.is_some(), stop < 300);
        assert_eq!(left.outlooks.len(), usize::from(stop > 300));
    }
    let parts = run_on(&WIDE, parts.path(), &extending(), engine(), None);
    assert!(left(&parts) == whole, "a stop is seen");
    assert_eq!(metrics(&parts).outlooks, [outlook]);

    if !repeated_too {
        return;
    }
    let config = TrainConfig::resolve(None, Some(&ended.config_path()), ConfigPatch::default());
    let config = config.unwrap();
    assert_eq!(config.extended, [[300, 800, most]]);
    let again = run_on(&WIDE, repeated.path(), &config, engine(), None);
    assert!(
        left(&again) == whole,
        "the configuration repeats another run"
    );
}

#[test]
fn that_photos_extend() {
    is_extended_bit_for_bit(&cpu, true);
    if gpu("f32").is_some() {
        // What a configuration says no engine knows, and a software GPU takes minutes for each run.
        is_extended_bit_for_bit(&|| gpu("f32").unwrap(), false);
    }
}
