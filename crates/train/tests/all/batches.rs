//! Runs whose Gaussians move by the mean gradient of several photos: `views_per_step`.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::fake;

use dapple_device::BoxedEngine;
use dapple_engine::Batch;
use dapple_scene::Result;
use dapple_train::{
    Amendment, Ending, Next, PausedRun, Preset, RunHook, Schedule, Silent, TrainConfig, Trainer,
};
use fake::{Log, capture, fake};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};

fn config(views_per_step: u32) -> TrainConfig {
    let mut config = Preset::Standard.config_for(1000);
    config.views_per_step = views_per_step;
    config.max_extensions = 0;
    config
}

fn trainer(config: TrainConfig, log: &Arc<Mutex<Log>>) -> Trainer {
    Trainer::new(&capture(24), config, fake(log, 0, 0)).unwrap()
}

/// Records the batches after which it is called.
#[derive(Default)]
struct Recorder(Vec<RangeInclusive<u32>>);

impl RunHook for Recorder {
    fn name(&self) -> &'static str {
        "recorder"
    }

    fn after_step(&mut self, run: &mut PausedRun<'_>) -> Result<Next> {
        assert_eq!(*run.last_batch().end(), run.step());
        self.0.push(run.last_batch());
        Ok(Next::Continue)
    }
}

#[test]
fn batches_begin_with_segments_and_end_with_the_run() {
    let mut config = config(4);
    config.amendments = vec![Amendment::dropout(402, 0.1), Amendment::step_rate(500, 601)].into();
    let schedule = Schedule::new(config, 1.0);
    let of = |index, size| Batch { index, size };
    assert_eq!(schedule.batch(1), of(0, 4));
    assert_eq!(schedule.batch(400), of(3, 4));
    // Two steps are left before the amendment.
    assert_eq!(
        [401, 402].map(|step| schedule.batch(step)),
        [of(0, 2), of(1, 2)]
    );
    assert_eq!(schedule.batch(403), of(0, 4));
    assert_eq!(schedule.batch(500), of(1, 2));
    assert_eq!(schedule.batch(601), of(0, 1));
    assert_eq!(schedule.step_settings(401).batch, of(0, 2));
    let single = Schedule::new(TrainConfig::default(), 1.0);
    assert!((1..2000).all(|step| single.batch(step) == Batch::ONE));
}

#[test]
fn what_follows_a_step_follows_its_batch() {
    let mut config = config(7);
    (config.eval.every, config.checkpoint_every) = (100, 0);
    let log = Arc::default();
    let mut trainer = trainer(config.clone(), &log);
    let mut recorder = Recorder::default();
    trainer.run(&mut recorder).unwrap();
    let log = log.lock().unwrap();
    // Every step took a photo.
    assert_eq!(log.steps.len(), 1000);
    let single = Schedule::new(self::config(1), 1.0);
    let photos = log.steps.iter().map(|(view, _)| *view);
    let mut other = dapple_train::ViewOrder::new(config.seed, photos.clone().max().unwrap() + 1);
    assert!(photos.eq((1..=1000).map(|step| other.view_at(step))));
    // Rounds come once for every round of single steps, at the end of its batch.
    let due = (1..=1000).filter(|&step| single.densify_plan(step).is_some());
    let due: Vec<u32> = due.map(|step: u32| step.div_ceil(7) * 7).collect();
    assert!(due.len() > 3);
    assert_eq!(
        log.plans.iter().map(|plan| plan.step).collect::<Vec<_>>(),
        due
    );
    let first = recorder.0.first().cloned();
    assert_eq!((first, recorder.0.len()), (Some(1..=7), 143));
    assert_eq!(recorder.0.last(), Some(&(995..=1000)));
    let scored = trainer.history().evals.iter().map(|row| row.step);
    assert_eq!(scored.take(3).collect::<Vec<_>>(), [105, 203, 301]);
}

#[test]
fn a_run_stops_and_saves_between_batches() {
    let log = Arc::default();
    let mut trainer = trainer(config(8), &log);
    trainer.stop_at(Some(100));
    let outcome = trainer.run(&mut Silent).unwrap();
    assert_eq!(outcome.ending, Ending::Stopped(104));
    assert_eq!(trainer.checkpoint().unwrap().step, 104);
    trainer.step().unwrap();
    let error = trainer.checkpoint().unwrap_err();
    assert!(
        error.to_string().contains("step 105 is in the middle"),
        "{error}"
    );
    trainer.stop_at(None);
    assert_eq!(trainer.run(&mut Silent).unwrap().ending, Ending::Finished);
}

#[test]
fn a_cap_beyond_the_memory_of_the_device_gets_a_note() {
    let notes_of = |max_gaussians: usize, fitting: Option<usize>, by_buffer: bool| {
        let engine = fake::FakeEngine {
            fitting,
            by_buffer,
            ..fake::FakeEngine::default()
        };
        let config = TrainConfig {
            max_gaussians,
            ..config(1)
        };
        let trainer = Trainer::new(&capture(24), config, BoxedEngine::host(engine)).unwrap();
        let notes = trainer.notes().iter();
        let of_memory = notes.filter(|note| note.contains("ends early"));
        of_memory.cloned().collect::<Vec<String>>()
    };
    let notes = |most: usize, fitting: Option<usize>| notes_of(most, fitting, false);
    // A Gaussian of this engine takes a mebibyte.
    let expected = "max_gaussians = 3072 take 3.0 GiB, and the 1.0 GiB that this device has for them hold about \
                    1024: a run that grows further ends early; --precision f16 fits about 2048, or lower \
                    --max-gaussians or --sh-degree";
    assert_eq!(notes(3072, Some(1024)), [expected]);
    // Two engines hold 512 each.
    let by_buffer = notes_of(3072, Some(1024), true);
    let expected = "max_gaussians = 3072 take 3.0 GiB, and if a photo shows one in 2, the largest buffers of 2 ranks \
                    hold about 1024: a run that grows further ends early; --precision f16 fits about 2048, or \
                    --ranks-in-process 6 shares them, or lower --max-gaussians or --sh-degree";
    assert_eq!(by_buffer, [expected]);
    assert!(notes(1024, Some(1024)).is_empty());
    assert!(notes(3072, None).is_empty());
    // The computed cap respects the memory.
    assert!(notes(0, Some(1000)).is_empty());
}

/// Two engines hold three Gaussians each.
#[test]
fn first_gaussians_that_buffers_do_not_hold_are_refused() {
    let start = |max_gaussians: usize| {
        let engine = fake::FakeEngine {
            fitting: Some(3),
            by_buffer: true,
            ..fake::FakeEngine::default()
        };
        let config = TrainConfig {
            max_gaussians,
            ..config(1)
        };
        Trainer::new(&capture(24), config, BoxedEngine::host(engine)).map(drop)
    };
    let error = start(7).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("begins with 7 Gaussians, and the buffers of"),
        "{text}"
    );
    assert!(text.contains("hold 6"), "{text}");
    assert!(error.hint_text().unwrap().contains("--ranks-in-process 3"));
    start(6).unwrap();
}

#[test]
fn a_batch_is_at_most_all_photos() {
    let mut config = config(22);
    config.data.eval_every = 8;
    let log = Arc::default();
    let engine: BoxedEngine = fake(&log, 0, 0);
    let error = Trainer::new(&capture(24), config.clone(), engine)
        .err()
        .unwrap();
    assert!(
        error
            .to_string()
            .contains("the capture has 21 training photos")
    );
    assert!(error.to_string().contains("--views-per-step to at most 21"));
    config.views_per_step = 21;
    trainer(config, &log);
}
