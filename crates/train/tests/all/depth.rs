//! Supervision by depths: the samples passed to the engine, the schedule, and refused captures.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::fake;

use dapple_engine::LossTerm;
use dapple_synth::{self as synth, SynthOptions};
use dapple_train::{DepthSource, Preset, Schedule, TrainConfig, Trainer};
use fake::{Log, fake};
use std::sync::{Arc, Mutex};

fn config(from: DepthSource) -> TrainConfig {
    let mut config = Preset::M8Smoke.config_for(4);
    config.depth.from = from;
    config
}

#[test]
fn every_photo_that_is_trained_on_gets_its_depths() {
    let options = SynthOptions {
        photos: 9,
        width: 48,
        height: 36,
        points: 200,
        ..SynthOptions::default()
    };
    let dataset = synth::dataset(&options).unwrap();
    let log = Arc::new(Mutex::new(Log::default()));
    let engine = fake(&log, 0, 0);
    let mut trainer = Trainer::new(&dataset, config(DepthSource::Points), engine).unwrap();
    assert!(trainer.notes()[0].contains("known from points"));
    trainer.step().unwrap();
    let log = log.lock().unwrap();
    // Two of nine are held out.
    let views: Vec<usize> = log.depths.iter().map(|(view, _)| *view).collect();
    assert_eq!(views, [0, 1, 2, 3, 4, 5, 6]);
    assert!(log.depths.iter().all(|(_, samples)| samples.len() > 10));
    assert_eq!(log.steps[0].1.losses[LossTerm::Depth], 0.1);
}

#[test]
fn a_run_without_depths_tells_nothing() {
    let log = Arc::new(Mutex::new(Log::default()));
    let engine = fake(&log, 0, 0);
    let mut trainer = Trainer::new(&fake::capture(9), config(DepthSource::None), engine).unwrap();
    trainer.step().unwrap();
    let log = log.lock().unwrap();
    assert!(log.depths.is_empty() && log.steps[0].1.losses[LossTerm::Depth] == 0.0);
}

#[test]
fn the_weight_falls_log_linearly_to_its_hundredth() {
    let mut config = TrainConfig::default();
    assert_eq!(
        Schedule::new(config.clone(), 1.0).losses(1)[LossTerm::Depth],
        0.0
    );
    config.depth.from = DepthSource::Images;
    config.depth.weight = 0.5;
    let schedule = Schedule::new(config, 1.0);
    let weight = |step| f64::from(schedule.losses(step)[LossTerm::Depth]);
    assert!((weight(1) - 0.5).abs() < 1e-6);
    assert!((weight(15_001) - 0.05).abs() < 1e-6, "geometric middle");
    assert!((weight(30_001) - 0.005).abs() < 1e-7);
}

#[test]
fn contradictions_are_refused_with_what_to_do() {
    type Change = fn(&mut TrainConfig);
    let changes: [(&str, Change); 6] = [
        ("depth.folder", |c| c.depth.folder = "depths".into()),
        ("depth.relative", |c| c.depth.relative = true),
        ("depth.weight", |c| c.depth.weight = 0.0),
        ("depth.weight", |c| c.depth.weight = f64::NAN),
        ("depth.decay", |c| c.depth.decay = 0.0),
        ("depth.unit", |c| c.depth.unit = -1.0),
    ];
    for (key, change) in changes {
        let mut config = config(DepthSource::Points);
        change(&mut config);
        let error = config.validate().unwrap_err();
        assert!(error.what().contains(key), "{key}: {error}");
        assert!(error.hint_text().is_some(), "{key}");
    }
    // A capture without records of the photos that found a point.
    let log = Arc::new(Mutex::new(Log::default()));
    let told = Trainer::new(
        &fake::capture(9),
        config(DepthSource::Points),
        fake(&log, 0, 0),
    );
    assert!(told.err().unwrap().hint_text().is_some());
}

#[test]
fn a_printed_configuration_keeps_them() {
    let mut config = config(DepthSource::Images);
    config.depth.folder = "some where".into();
    config.depth.relative = true;
    let text = config.to_toml().unwrap();
    assert!(
        text.contains("[depth]") && text.contains("from = \"images\""),
        "{text}"
    );
    assert_eq!(TrainConfig::parse(&text, "here").unwrap(), config);
    let options = config.training_load_options();
    assert!(options.depths && options.depth_folder == Some("some where".into()));
    assert!(!config.load_options().depths, "scoring needs no depths");
}
