//! A run with a live viewer.

#![allow(clippy::unwrap_used, reason = "tests")]

use dapple::live::{LiveHook, LiveOptions};
use dapple::prelude::*;
use dapple::train::{Joined, JoinedPhotos};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

fn capture() -> Dataset {
    synth::dataset(&SynthOptions {
        photos: 6,
        width: 48,
        height: 36,
        points: 200,
        ..SynthOptions::default()
    })
    .unwrap()
}

fn trainer(dataset: &Dataset) -> Trainer {
    let engine = dapple::engine(Device::Cpu).unwrap();
    Trainer::new(dataset, Preset::Micro.config_for(30), engine).unwrap()
}

/// The viewer is one call, and the run has the same bytes as without it.
#[test]
fn a_run_with_a_viewer_is_the_same_run() {
    let dataset = capture();
    let mut alone = trainer(&dataset);
    alone.run(&mut Silent).unwrap();

    let mut shown = trainer(&dataset);
    let mut live = LiveHook::serve(&dataset, &shown, LiveOptions::default()).unwrap();
    assert!(live.url().contains("token="), "{}", live.url());
    shown.run(&mut live).unwrap();
    assert!(shown.splats().unwrap() == alone.splats().unwrap());
}

/// Photos that joined the run later move no other photo between training and held-out ones.
#[test]
fn the_page_marks_the_photos_that_training_held_out() {
    let dataset = capture();
    let mut config = Preset::Micro.config_for(30);
    config.data.eval_every = 2;
    let held_out = |config: &TrainConfig| {
        let entries = dapple::live::entries(&dataset, config, &[]);
        let held_out = entries.into_iter().filter(|entry| entry.held_out);
        held_out.map(|entry| entry.name).collect::<Vec<String>>()
    };
    assert_eq!(held_out(&config), ["000.png", "002.png", "004.png"]);
    let part = Joined {
        after: 10,
        new: vec!["001.png".to_owned()],
        ..Joined::default()
    };
    config.data.joined = JoinedPhotos::default().with(part);
    assert_eq!(held_out(&config), ["000.png", "003.png", "005.png"]);
}

/// The viewer can be added to a trainer, and its program can stop the run.
#[test]
fn a_viewer_that_was_added_stops_the_run() {
    let dataset = capture();
    let trainer = trainer(&dataset);
    let asked = Arc::new(AtomicU32::new(0));
    let counter = asked.clone();
    let options = LiveOptions {
        should_stop: Box::new(move || counter.fetch_add(1, Ordering::Relaxed) >= 10),
        ..LiveOptions::default()
    };
    let live = LiveHook::serve(&dataset, &trainer, options).unwrap();
    let mut trainer = trainer.with_hook(live);
    let outcome = trainer.run(&mut Silent).unwrap();
    assert_eq!(outcome.steps, 10);
}
