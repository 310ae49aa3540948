//! A resumed run ends with the bytes of an uninterrupted run, on both engines.
#![allow(clippy::unwrap_used, reason = "tests")]

mod captures;
mod extended;
pub mod running;

use captures::{CAPTURE, capture_with_tracks};
use dapple::BoxedEngine;
use dapple::contract::AppearanceGrids;
use dapple::contract::features::photometric::Photometric;
use dapple::prelude::*;
use dapple::train::config::{AppearancePatch, Background, DensifyConfig, EvalConfig};
use dapple::train::{AppearanceModel, Checkpoint, ConfigPatch, DepthSource};
use running::{Left, cpu, gpu, left, metrics, on_both_engines, run};

/// Returns a configuration of 120 steps in which everything changes. Density control runs on both sides of step 60, and
/// opacities are reset at 40 and 80. SH degrees rise at 24, 48 and 72, and photos are scored at 56 and at 80. The
/// background changes each step.
fn config() -> TrainConfig {
    let base = Preset::M9.config_for(120);
    TrainConfig {
        seed: 5,
        sh_every: 24,
        max_gaussians: 500,
        background: Background::Random,
        checkpoint_minutes: 0.0,
        densify: DensifyConfig {
            start: 8,
            stop: 104,
            every: 8,
            reset_every: 40,
            ..base.densify.clone()
        },
        eval: EvalConfig {
            every: 0,
            steps: vec![56, 80],
            ..EvalConfig::default()
        },
        ..base
    }
}

/// Returns this configuration with pose refinement.
fn refining() -> TrainConfig {
    let mut config = config();
    config.poses.refine = true;
    config
}

/// Returns this configuration with a small bilateral grid for each photo.
fn with_appearance() -> TrainConfig {
    learning(AppearancePatch {
        model: Some(AppearanceModel::Bilateral),
        grid: Some([5, 4, 3]),
        ..AppearancePatch::default()
    })
}

/// Returns this configuration with a photometric model.
fn with_photometric() -> TrainConfig {
    learning(AppearancePatch {
        model: Some(AppearanceModel::Photometric),
        ..AppearancePatch::default()
    })
}

/// Returns this configuration with an appearance MLP, learnt from step 11 on: Gaussians' features pass through
/// densification rounds.
fn with_looks() -> TrainConfig {
    learning(AppearancePatch {
        model: Some(AppearanceModel::Mlp),
        ..AppearancePatch::default()
    })
}

/// Returns this configuration with an appearance model.
fn learning(appearance: AppearancePatch) -> TrainConfig {
    let patch = ConfigPatch {
        steps: Some(120),
        appearance,
        ..ConfigPatch::default()
    };
    let named = TrainConfig::resolve(None, None, patch).unwrap();
    TrainConfig {
        appearance: named.appearance,
        ..config()
    }
}

#[track_caller]
fn goes_on_bit_for_bit(config: &TrainConfig, engine: &dyn Fn() -> BoxedEngine) {
    let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let whole = left(&run(whole.path(), config, engine(), None));
    let steps: Vec<u32> = whole.evals.iter().map(|row| row.0).collect();
    assert_eq!(steps, [56, 80, 120]);
    assert!(whole.rounds.len() > 10);
    assert!(whole.rounds.iter().any(|round| round.split > 0));

    let half = run(parts.path(), config, engine(), Some(60));
    // Stopped within an epoch, between two rounds, with density statistics.
    let checkpoint = half.read_checkpoint().unwrap();
    assert_eq!(checkpoint.step, 60);
    let counts = &checkpoint.state.visible_counts;
    assert!(counts.iter().any(|&count| count > 0.0));
    let filters = &checkpoint.state.filter_3d;
    assert_eq!(filters.iter().any(|&d| d > 0.0), config.antialias);
    // Stopped again, at a scoring, a round and a reset.
    let later = run(parts.path(), config, engine(), Some(80));
    let scored_at_80 = metrics(&later).evals.into_iter();
    assert_eq!(scored_at_80.filter(|row| row.step == 80).count(), 1);
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
    assert_eq!(metrics.steps, 120);
    assert!(!folder.checkpoint_path().exists());
}

#[test]
fn on_the_processor() {
    goes_on_bit_for_bit(&config(), &cpu);
}

#[test]
fn with_poses_that_are_refined() {
    on_both_engines(|engine| goes_on_bit_for_bit(&refining(), engine));
}

#[test]
fn with_the_appearance_of_photos() {
    on_both_engines(|engine| goes_on_bit_for_bit(&with_appearance(), engine));
}

#[test]
fn with_the_photometric_models_of_photos() {
    on_both_engines(|engine| goes_on_bit_for_bit(&with_photometric(), engine));
}

#[test]
fn with_the_looks_of_photos() {
    // On a GPU, the engine's own tests check it with fewer steps, because a software GPU takes seven minutes for these.
    goes_on_bit_for_bit(&with_looks(), &cpu);
}

/// Returns the grids and the photometric models of a run.
fn learnt(trainer: &mut Trainer) -> (AppearanceGrids, Photometric) {
    (
        trainer.view_state().unwrap().appearance,
        trainer.view_state().unwrap().photometric,
    )
}

/// Opacities are reset shortly before the end, which spoils the last splats. A run with validation ends with the splats
/// of an earlier step, and with the appearance of that step.
#[track_caller]
fn keeps_what_belongs_together(mut config: TrainConfig, engine: &dyn Fn() -> BoxedEngine) {
    config.data.validate_every = 4;
    config.densify.stop = 120;
    config.densify.reset_every = 38;
    let begin = || Trainer::new(&CAPTURE, config.clone(), engine()).unwrap();
    let kept = |trainer: &mut Trainer| {
        trainer.stop_at(None);
        trainer.run(&mut Silent).unwrap();
        let kept_step = trainer.watch_report().unwrap().kept_step;
        let left = (trainer.splats().unwrap(), learnt(trainer));
        (kept_step.unwrap(), left)
    };
    let (step, whole) = kept(&mut begin());
    assert!((6..114).contains(&step), "{step}");

    // Stopped there, and again between there and the end.
    let mut trainer = begin();
    trainer.stop_at(Some(step));
    trainer.run(&mut Silent).unwrap();
    let then = (trainer.splats().unwrap(), learnt(&mut trainer));
    assert!(whole.0 == then.0, "splats of another step");
    assert!(whole.1 == then.1, "the appearance of another step");
    trainer.stop_at(Some(116));
    trainer.run(&mut Silent).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.safetensors");
    trainer.checkpoint().unwrap().write(&path).unwrap();
    let checkpoint = Checkpoint::read(&path).unwrap();
    let views = &checkpoint.state.views;
    let now = (views.appearance.clone(), views.photometric.clone());
    assert!(now != then.1, "it has not changed");
    let mut resumed = Trainer::resume(&CAPTURE, checkpoint, engine()).unwrap();
    assert!(kept(&mut resumed) == (step, then), "not as without a stop");
}

#[test]
fn with_an_appearance_and_a_watch() {
    on_both_engines(|engine| keeps_what_belongs_together(with_appearance(), engine));
    keeps_what_belongs_together(with_photometric(), &cpu);
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

/// Stopped between two settings of the 3D filters. The filters are part of the state. The splat file has them baked
/// into its scales.
#[test]
fn anti_aliased() {
    let config = TrainConfig {
        antialias: true,
        ..config()
    };
    on_both_engines(|engine| goes_on_bit_for_bit(&config, engine));
}

/// The GPU engine sorts Gaussians along a curve at step 5000. To reach it sooner, ten steps write a checkpoint whose
/// step is set to 4990.
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

/// Depths are a function of capture, configuration and step: the checkpoint does not contain them.
#[track_caller]
fn goes_on_with_depths(engine: &dyn Fn() -> BoxedEngine) {
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
    on_both_engines(|engine| goes_on_with_depths(engine));
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
