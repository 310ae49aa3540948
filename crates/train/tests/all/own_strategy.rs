//! Density strategies of the caller's own: only they decide, and a run resumes only with the strategy it began with.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use crate::fake;

use dapple_cpu::{CpuEngine, CpuOptions};
use dapple_device::BoxedEngine;
use dapple_engine::{DensifyPlan, Extras, LearningRates};
use dapple_scene::{Dataset, Splats};
use dapple_synth::{self as synth, SynthOptions};
use dapple_train::{Checkpoint, DensityStrategy, Preset, Schedule, Silent, TrainConfig, Trainer};
use fake::{FakeEngine, Log, capture, fake};
use std::sync::{Arc, Mutex};

/// Grows after every seventh step and moves centres at random in every step.
#[derive(Debug)]
struct Sevens(&'static str);

impl DensityStrategy for Sevens {
    fn name(&self) -> &str {
        self.0
    }

    fn plan(&self, step: u32) -> Option<DensifyPlan> {
        step.is_multiple_of(7).then_some(DensifyPlan {
            step,
            seed: 9,
            grow_gradient: Some(0.0),
            split_scale: 0.1,
            prune_opacity: None,
            prune_scale: None,
            max_gaussians: 600 + step as usize,
            room_share: 1.0,
            reset_opacity: None,
            ..DensifyPlan::NOTHING
        })
    }

    fn accumulates(&self, step: u32) -> bool {
        step.is_multiple_of(2)
    }

    fn extras(&self, step: u32, _: &LearningRates) -> Extras {
        Extras {
            noise: 1e-6 * step as f32,
            ..Extras::default()
        }
    }
}

#[test]
fn the_callers_strategy_alone_decides() {
    let log: Arc<Mutex<Log>> = Arc::default();
    // Micro's own strategy would have rounds after 25, 50 and 75.
    let trainer = Trainer::new(&capture(24), Preset::Micro.config(), fake(&log, 0, 0)).unwrap();
    let mut trainer = trainer.with_strategy(Sevens("sevens")).unwrap();
    trainer.run(&mut Silent).unwrap();
    let log = log.lock().unwrap();
    let plans: Vec<u32> = log.plans.iter().map(|plan| plan.step).collect();
    assert_eq!(plans, (7..=100).step_by(7).collect::<Vec<_>>());
    assert!(log.plans.iter().all(|plan| plan.seed == 9));
    for (_, settings) in &log.steps {
        let step = settings.step;
        assert_eq!(settings.accumulate_density, step.is_multiple_of(2));
        assert_eq!(settings.features.noise.scale, 1e-6 * step as f32);
    }
}

fn small() -> Dataset {
    synth::dataset(&SynthOptions {
        photos: 6,
        width: 48,
        height: 36,
        points: 200,
        ..SynthOptions::default()
    })
    .unwrap()
}

fn cpu() -> BoxedEngine {
    BoxedEngine::host(CpuEngine::new(CpuOptions::default()).unwrap())
}

fn config() -> TrainConfig {
    Preset::Micro.config_for(40)
}

fn finished(mut trainer: Trainer) -> Splats {
    trainer.run(&mut Silent).unwrap();
    trainer.splats().unwrap()
}

/// Returns a checkpoint after ten steps, written to and read from bytes.
fn stopped(dataset: &Dataset, strategy: Option<Sevens>) -> Checkpoint {
    let mut trainer = Trainer::new(dataset, config(), cpu()).unwrap();
    if let Some(strategy) = strategy {
        trainer = trainer.with_strategy(strategy).unwrap();
    }
    for _ in 0..10 {
        trainer.step().unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint.safetensors");
    trainer.checkpoint().unwrap().write(&path).unwrap();
    Checkpoint::read(&path).unwrap()
}

#[test]
fn a_run_goes_on_with_the_strategy_it_began_with_and_no_other() {
    let dataset = small();
    let whole = Trainer::new(&dataset, config(), cpu()).unwrap();
    let whole = finished(whole.with_strategy(Sevens("sevens")).unwrap());
    assert!(whole.len() > 600, "nothing grew: {}", whole.len());

    let checkpoint = stopped(&dataset, Some(Sevens("sevens")));
    assert_eq!(checkpoint.strategy.as_deref(), Some("sevens"));
    let resume =
        |checkpoint: &Checkpoint| Trainer::resume(&dataset, checkpoint.clone(), cpu()).unwrap();
    let goes_on = resume(&checkpoint).with_strategy(Sevens("sevens")).unwrap();
    assert!(finished(goes_on) == whole, "it is another run");

    // The run does not resume without the strategy, nor with a different one.
    let mut without = resume(&checkpoint);
    for error in [
        without.run(&mut Silent).unwrap_err(),
        without.step().unwrap_err(),
    ] {
        assert!(error.to_string().contains("\"sevens\""), "{error}");
    }
    let Err(error) = resume(&checkpoint).with_strategy(Sevens("eights")) else {
        panic!("another strategy was taken")
    };
    let text = error.to_string();
    assert!(
        text.contains("\"sevens\"") && text.contains("\"eights\""),
        "{text}"
    );
}

#[test]
fn a_run_that_began_without_one_takes_none() {
    let dataset = small();
    let checkpoint = stopped(&dataset, None);
    assert_eq!(checkpoint.strategy, None);
    let trainer = Trainer::resume(&dataset, checkpoint, cpu()).unwrap();
    let Err(error) = trainer.with_strategy(Sevens("sevens")) else {
        panic!("a strategy was taken in the middle of a run")
    };
    assert!(error.to_string().contains("10 steps"), "{error}");
}

/// An extension makes a longer schedule: the caller's strategy decides in it too, whether the run extends itself or
/// its configuration names the extension.
#[test]
fn the_callers_strategy_survives_an_extension() {
    let log: Arc<Mutex<Log>> = Arc::default();
    let engine = FakeEngine {
        log: log.clone(),
        shown: vec![(0, 0.51), (2400, 0.507)],
        ..FakeEngine::default()
    };
    let mut config = Preset::Standard.config_for(4000);
    config.max_extensions = 1;
    let trainer = Trainer::new(&capture(48), config, BoxedEngine::host(engine)).unwrap();
    let mut trainer = trainer.with_strategy(Sevens("sevens")).unwrap();
    trainer.run(&mut Silent).unwrap();
    let config = trainer.plan().to_config();
    let (after, last, _) = config.amendments.extensions().next().unwrap();
    assert_eq!((after, last), (3000, 6000));
    let log = log.lock().unwrap();
    let plans: Vec<u32> = log.plans.iter().map(|plan| plan.step).collect();
    assert_eq!(plans, (7..=6000).step_by(7).collect::<Vec<_>>());
    let repeated = Schedule::new(config, 1.0).with_strategy(Arc::new(Sevens("sevens")));
    assert!(repeated.densify_plan(3500).is_some() && repeated.densify_plan(3600).is_none());
}

/// A configuration of which only the steps were set has the schedule of another run.
#[test]
fn a_schedule_of_a_longer_run_is_refused() {
    let log: Arc<Mutex<Log>> = Arc::default();
    let bases = [
        TrainConfig::default(),
        Preset::Standard.config(),
        Preset::M10.config(),
    ];
    for base in bases {
        let config = TrainConfig { steps: 500, ..base };
        let Err(error) = Trainer::new(&capture(24), config, fake(&log, 0, 0)) else {
            panic!("the run begins");
        };
        assert!(error.what().contains("500 steps"), "{error}");
        let hint = error.hint_text().unwrap();
        assert!(hint.contains("config_for(500)"), "{hint}");
    }
    for config in [
        Preset::Standard.config_for(500),
        TrainConfig {
            steps: 60_000,
            ..TrainConfig::default()
        },
        // A schedule of the caller's own.
        TrainConfig {
            steps: 500,
            sh_every: 100,
            ..TrainConfig::default()
        },
    ] {
        assert!(Trainer::new(&capture(24), config, fake(&log, 0, 0)).is_ok());
    }
}
