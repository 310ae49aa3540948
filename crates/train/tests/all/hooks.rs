//! Hooks of a run: the order of their calls, and what they may do.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::fake;

use dapple_device::BoxedEngine;
use dapple_scene::{Error, Result};
use dapple_train::{
    Amendment, Change, DeviceRequirements, Event, Next, PausedRun, Preset, RunHook, Silent, Trainer,
};
use fake::{FakeEngine, Log, capture, fake};
use std::sync::{Arc, Mutex};

/// Records events and calls after one step.
struct Recorder {
    step: u32,
    seen: Vec<String>,
    /// Return values of the calls after that step, the last first.
    returns: Vec<Next>,
}

impl Recorder {
    fn at(step: u32, returns: Vec<Next>) -> Self {
        Self {
            step,
            seen: Vec::new(),
            returns,
        }
    }
}

impl RunHook for Recorder {
    fn name(&self) -> &'static str {
        "recorder"
    }

    fn needs(&self) -> DeviceRequirements {
        DeviceRequirements {
            checkpoints: true,
            ..DeviceRequirements::default()
        }
    }

    fn on(&mut self, event: &Event<'_>) -> Result<()> {
        let (step, text) = match event {
            Event::Step(progress) => (progress.step, "step"),
            Event::Densify(report) => (report.step, "densify"),
            Event::ExtensionCheck(check) => (check.steps[1], "extension check"),
            Event::Amended(amendment) => (amendment.after, "amended"),
            Event::Eval(step, _) => (*step, "eval"),
            Event::Checkpoint(checkpoint) => (checkpoint.step, "checkpoint"),
            Event::Saved(step, _) => (*step, "saved"),
            _ => return Ok(()),
        };
        if step == self.step {
            self.seen.push(text.to_owned());
        }
        Ok(())
    }

    fn after_step(&mut self, run: &mut PausedRun<'_>) -> Result<Next> {
        if run.step() != self.step {
            return Ok(Next::Continue);
        }
        self.seen.push(format!("called, to {}", run.steps()));
        Ok(self.returns.pop().unwrap_or(Next::Continue))
    }
}

/// The step is reported first. The extension check waits for the engine and amends the plan before held-out photos are
/// scored, and the caller's hook sees the new last step. The checkpoint is last.
#[test]
fn a_check_amends_the_run_before_it_is_scored_and_saved() {
    let engine = FakeEngine {
        shown: vec![(0, 0.51), (2400, 0.507)],
        ..FakeEngine::default()
    };
    let mut config = Preset::Standard.config_for(4000);
    (config.max_extensions, config.eval.steps) = (1, vec![3000]);
    (config.checkpoint_every, config.eval.every) = (1000, 0);
    let mut trainer =
        Trainer::new(&capture(48), config.clone(), BoxedEngine::host(engine)).unwrap();
    let mut recorder = Recorder::at(3000, Vec::new());
    trainer.run(&mut recorder).unwrap();
    let round = recorder.seen.iter().filter(|text| *text != "densify");
    let seen: Vec<&str> = round.map(String::as_str).collect();
    assert_eq!(
        seen,
        [
            "step",
            "extension check",
            "amended",
            "eval",
            "called, to 6000",
            "checkpoint",
            "saved"
        ]
    );
    // The configuration has not changed.
    config.max_gaussians = trainer.config().max_gaussians;
    (config.near, config.densify.add) = (trainer.config().near, trainer.config().densify.add);
    config.sky = trainer.config().sky;
    assert_eq!(trainer.config(), &config);
}

/// A hook that wants a checkpoint is called again after it. An amendment applies before the next hook is called.
#[test]
fn a_hook_makes_checkpoints_and_amends_the_run() {
    let log: Arc<Mutex<Log>> = Arc::default();
    let change = Change::StepRate { last: 60 };
    let mut first = Recorder::at(40, vec![Next::Amend(change), Next::Checkpoint]);
    let mut second = Recorder::at(40, Vec::new());
    let config = Preset::M8Smoke.config_for(100);
    let mut trainer = Trainer::new(&capture(8), config, fake(&log, 0, 0)).unwrap();
    let outcome = trainer.run_with(&mut [&mut first, &mut second]).unwrap();
    assert_eq!(outcome.steps, 60);
    let calls = ["called, to 100", "checkpoint", "saved", "called, to 100"];
    let own = first
        .seen
        .iter()
        .filter(|text| !["densify", "eval"].contains(&text.as_str()));
    let own: Vec<&str> = own.map(String::as_str).collect();
    assert_eq!(own[1..5], calls);
    assert_eq!(second.seen.last().unwrap(), "called, to 60");
    let amendments = vec![Amendment::step_rate(40, 60)].into();
    assert_eq!(trainer.plan().amendments(), &amendments);

    // The plan repeats the run.
    let repeated: Arc<Mutex<Log>> = Arc::default();
    let config = trainer.plan().to_config();
    let mut again = Trainer::new(&capture(8), config, fake(&repeated, 0, 0)).unwrap();
    again.run(&mut Silent).unwrap();
    assert!(log.lock().unwrap().steps == repeated.lock().unwrap().steps);
}

#[test]
fn an_amendment_that_cannot_be_ends_the_run_with_its_splats() {
    let change = Change::StepRate { last: 30 };
    let mut recorder = Recorder::at(40, vec![Next::Amend(change)]);
    let config = Preset::M8Smoke.config_for(100);
    let engine = fake(&Arc::default(), 0, 0);
    let mut trainer = Trainer::new(&capture(8), config, engine).unwrap();
    let outcome = trainer.run(&mut recorder).unwrap();
    assert_eq!(outcome.steps, 40);
    let failure: &Error = trainer.failure().unwrap();
    assert!(failure.what().contains("cannot be"), "{failure}");
    assert!(trainer.plan().amendments().is_empty());
}

/// A hook that is added is called before the hook of the call.
#[test]
fn added_hooks_come_first() {
    struct Stop(u32);
    impl RunHook for Stop {
        fn name(&self) -> &'static str {
            "stop"
        }
        fn on(&mut self, event: &Event<'_>) -> Result<()> {
            if let Event::Step(progress) = event {
                self.0 = progress.step;
            }
            Ok(())
        }
        fn should_stop(&self) -> bool {
            self.0 >= 7
        }
    }
    let config = Preset::M8Smoke.config_for(100);
    let engine = fake(&Arc::default(), 0, 0);
    let trainer = Trainer::new(&capture(8), config, engine).unwrap();
    let mut trainer = trainer.with_hook(Stop(0));
    let mut recorder = Recorder::at(7, Vec::new());
    assert_eq!(trainer.run(&mut recorder).unwrap().steps, 7);
    assert_eq!(recorder.seen.first().unwrap(), "step");
}
