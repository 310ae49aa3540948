//! Engines that return before a step is done, and engines that fail in the middle of a run.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use crate::fake;

use dapple_device::BoxedEngine;
use dapple_scene::{ErrorKind, ply};
use dapple_train::config::EvalPatch;
use dapple_train::{
    ConfigPatch, Ending, Metrics, Preset, RunFolder, Silent, TrainConfig, Trainer, train_into,
};
use fake::{FakeEngine, Listener, Log, capture};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const STEP: Duration = Duration::from_millis(2);

/// 50 steps without density control; scored at the end and after `scored`.
fn config(checkpoint_every: u32, scored: Option<u32>) -> TrainConfig {
    let flags = ConfigPatch {
        preset: Some(Preset::M8Smoke),
        checkpoint_every: Some(checkpoint_every),
        checkpoint_minutes: Some(0.0),
        eval: EvalPatch {
            steps: scored.map(|step| vec![step]),
            ..EvalPatch::default()
        },
        ..ConfigPatch::default()
    };
    TrainConfig::resolve(None, None, flags).unwrap()
}

fn trainer(config: TrainConfig, engine: FakeEngine) -> Trainer {
    Trainer::new(&capture(24), config, BoxedEngine::host(engine)).unwrap()
}

fn queued(log: &Arc<Mutex<Log>>) -> FakeEngine {
    FakeEngine {
        log: log.clone(),
        step_time: STEP,
        ..FakeEngine::default()
    }
}

#[test]
fn training_time_and_rate_are_those_of_the_device() {
    let mut trainer = trainer(config(0, Some(25)), queued(&Arc::default()));
    let mut listener = Listener::default();
    let started = Instant::now();
    let outcome = trainer.run(&mut listener).unwrap();
    let wall = started.elapsed().as_secs_f64();
    assert_eq!((outcome.ending, outcome.steps), (Ending::Finished, 50));
    let least = 50.0 * STEP.as_secs_f64();
    let seconds = trainer.history().seconds;
    assert!(
        seconds.train >= least && seconds.train <= wall,
        "{seconds:?}, at least {least}, wall {wall}"
    );
    assert!(seconds.train + seconds.eval <= wall, "counted twice");
    assert_eq!(listener.evals, [25, 50]);
    assert_eq!(listener.steps.len(), 50);
    // A busy machine makes it slower; nothing makes it faster.
    let last = listener.steps[49];
    assert_eq!((last.step, last.eta_seconds), (50, 0.0));
    for progress in &listener.steps {
        let rate = progress.steps_per_second;
        assert!(rate > 0.0 && rate < 1.05 / STEP.as_secs_f64(), "{rate}");
    }
    // By the time of the first scoring, half of it.
    let first = trainer.history().evals[0].train_seconds;
    assert!(first >= 0.5 * least && first < seconds.train, "{first}");
}

#[test]
fn steps_taken_one_by_one_are_waited_for() {
    let mut trainer = trainer(config(0, None), queued(&Arc::default()));
    for _ in 0..20 {
        trainer.step().unwrap();
    }
    assert!(trainer.history().losses.len() < 20, "nothing is late");
    trainer.wait().unwrap();
    assert_eq!(trainer.history().losses.len(), 20);
    assert!(trainer.history().seconds.train >= 20.0 * STEP.as_secs_f64());
}

#[test]
fn a_lost_device_leaves_the_last_copy() {
    let folder = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(folder.path()).unwrap();
    let engine = FakeEngine {
        fail_at: 40,
        ..queued(&Arc::default())
    };
    let mut trainer = trainer(config(25, None), engine);
    let error = train_into(&folder, &mut trainer, &mut Silent).unwrap_err();
    let told = error.to_string();
    for words in [
        "the device is lost",
        "after step 25 are saved",
        "the 14 steps after it are lost",
        "splats.ply",
        "hint: plug it in",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let saved = ply::read(&folder.splats_path()).unwrap();
    assert_eq!((saved.len(), saved.opacities[0]), (20, 25.0));
    assert_eq!(trainer.splats().unwrap(), saved);
    let json = std::fs::read_to_string(folder.metrics_path()).unwrap();
    let metrics: Metrics = serde_json::from_str(&json).unwrap();
    assert_eq!((metrics.ending, metrics.steps), (Ending::Failed(25), 25));
    assert_eq!(metrics.failure.as_deref(), Some("the device is lost"));
    assert_eq!(metrics.gaussians, 20);
    // The run stays failed, and the recovered splats stay.
    let again = trainer.run(&mut Silent).unwrap();
    assert_eq!((again.ending, again.eval), (Ending::Failed(25), None));
}

#[test]
fn copies_are_made_as_often_as_asked_for() {
    let log = Arc::default();
    let engine = FakeEngine {
        fail_at: 40,
        ..queued(&log)
    };
    let mut run = trainer(config(1, None), engine);
    let outcome = run.run(&mut Silent).unwrap();
    assert_eq!((outcome.ending, outcome.steps), (Ending::Failed(39), 39));
    assert_eq!(log.lock().unwrap().downloads, 39);
    assert_eq!(run.splats().unwrap().opacities[0], 39.0);

    // An engine without a queue cannot lose steps, but parameters can become non-finite: scorings and the end are
    // copied.
    let log = Arc::default();
    let engine = FakeEngine {
        step_time: Duration::ZERO,
        ..queued(&log)
    };
    let mut run = trainer(config(1, Some(25)), engine);
    assert_eq!(run.run(&mut Silent).unwrap().ending, Ending::Finished);
    assert_eq!(log.lock().unwrap().downloads, 2);
}

#[test]
fn an_engine_that_still_answers_loses_nothing() {
    for step_time in [Duration::ZERO, STEP] {
        let engine = FakeEngine {
            fail_at: 40,
            answers_after_failure: true,
            step_time,
            ..queued(&Arc::default())
        };
        let mut run = trainer(config(0, Some(25)), engine);
        let outcome = run.run(&mut Silent).unwrap();
        assert_eq!((outcome.ending, outcome.steps), (Ending::Failed(39), 39));
        assert_eq!(run.splats().unwrap().opacities[0], 39.0);
        assert!(run.failure().unwrap().hint_text().is_some());
    }
}

#[test]
fn without_a_copy_the_error_is_all_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(folder.path()).unwrap();
    let engine = FakeEngine {
        fail_at: 5,
        ..queued(&Arc::default())
    };
    let mut trainer = trainer(config(0, None), engine);
    let error = train_into(&folder, &mut trainer, &mut Silent).unwrap_err();
    assert_eq!(error.what(), "the device is lost");
    assert!(!folder.splats_path().exists());
}
