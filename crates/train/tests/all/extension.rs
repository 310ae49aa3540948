//! Extension checks: withheld photos, and their effect on the length of a run.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::fake;

use dapple_device::BoxedEngine;
use dapple_train::{Amendment, ExtensionDecision, Preset, RunFolder, Silent, Trainer, train_into};
use fake::{FakeEngine, Listener, Log, capture, fake};
use std::sync::{Arc, Mutex};

/// During a check some photos are excluded and others take their steps. On an engine that learns nothing the run keeps
/// its length. Hooks receive the check.
#[test]
fn photos_are_set_aside_for_a_while_and_given_back() {
    let log: Arc<Mutex<Log>> = Arc::default();
    let mut config = Preset::Standard.config_for(4000);
    config.max_extensions = 1;
    let mut trainer = Trainer::new(&capture(48), config, fake(&log, 0, 0)).unwrap();
    assert_eq!(trainer.train_view_count(), 42);
    let folder = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(folder.path()).unwrap();
    let mut listener = Listener::default();
    let outcome = train_into(&folder, &mut trainer, &mut listener).unwrap();
    assert_eq!(outcome.steps, 4000);
    assert_eq!(listener.extension_checks, [3000]);
    let [said] = trainer.extension_checks() else {
        panic!("{:?}", trainer.extension_checks());
    };
    assert_eq!(
        (said.steps, said.decision),
        ([2200, 3000], ExtensionDecision::NotShared)
    );
    let withheld = [6, 18, 30];
    let log = log.lock().unwrap();
    let taken = |from: usize, to: usize| {
        let mut times = [0; 42];
        for (view, _) in &log.steps[from..to] {
            times[*view] += 1;
        }
        times
    };
    for (view, &times) in taken(2200, 3000).iter().enumerate() {
        assert_eq!(times == 0, withheld.contains(&view), "view {view}");
        // 19 or 20 of its own, and a few steps of withheld photos: no photo takes all steps of another.
        assert!(times < 30, "view {view} {times} times");
    }
    // 2184 is the last step of an epoch.
    assert!(taken(2100, 2184).iter().all(|&times| times == 2));
    // They are taken more often until the end: 19 more each than the others' 22 to 24.
    for (view, &times) in taken(3000, 4000).iter().enumerate() {
        let usual = if withheld.contains(&view) {
            36..52
        } else {
            18..25
        };
        assert!(usual.contains(&times), "view {view} {times} times");
    }
    // The check finds overfitting: from here on steps use dropout.
    let part = |step: usize| log.steps[step - 1].1.features.dropout.rate;
    assert!((1..=3000).all(|step| part(step) == 0.0));
    assert!((3001..=4000).all(|step| part(step) == 0.1));
    assert_eq!(trainer.config().dropout, 0.0);
    let plan = trainer.plan();
    assert_eq!(
        plan.amendments(),
        &vec![Amendment::dropout(3000, 0.1)].into()
    );
}

/// A dropout rate that the user sets stays, whatever the checks find. With a cap that the user sets, no Gaussians are
/// dropped.
#[test]
fn what_is_named_is_left_as_it_is() {
    for (dropout, max_gaussians) in [(0.125, 0), (0.0, 100)] {
        let log: Arc<Mutex<Log>> = Arc::default();
        let mut config = Preset::Standard.config_for(4000);
        config.max_extensions = 1;
        (config.dropout, config.max_gaussians) = (dropout, max_gaussians);
        let mut trainer = Trainer::new(&capture(48), config, fake(&log, 0, 0)).unwrap();
        trainer.run(&mut Silent).unwrap();
        assert_eq!(
            trainer.extension_checks()[0].decision,
            ExtensionDecision::NotShared
        );
        assert!(trainer.plan().amendments().is_empty());
        let log = log.lock().unwrap();
        let mut parts = log.steps.iter().map(|(_, step)| step.features.dropout.rate);
        assert!(parts.all(|part| part == dropout as f32));
    }
}

/// If the loss of withheld photos falls, half as many steps again follow. If it falls by much, twice as many follow,
/// with another check before the new end.
#[test]
fn photos_that_gain_extend_the_run_by_what_they_gain() {
    use ExtensionDecision::{Extend, LittleGained, NotShared};
    let run = |shown: &[(u32, f32)]| {
        let log: Arc<Mutex<Log>> = Arc::default();
        let engine = FakeEngine {
            log: log.clone(),
            shown: shown.to_vec(),
            ..FakeEngine::default()
        };
        let mut config = Preset::Standard.config_for(4000);
        config.max_extensions = 2;
        let mut trainer = Trainer::new(&capture(48), config, BoxedEngine::host(engine)).unwrap();
        let planned = trainer.config().max_gaussians as u32;
        let steps = trainer.run(&mut Silent).unwrap().steps;
        let decisions: Vec<ExtensionDecision> = trainer
            .extension_checks()
            .iter()
            .map(|o| o.decision)
            .collect();
        let extended: Vec<(u32, u32, u32)> = trainer
            .plan()
            .amendments()
            .extensions()
            .map(|(after, steps, most)| (after, steps, most / planned))
            .collect();
        let log = log.lock().unwrap();
        assert_eq!(log.steps.len(), steps as usize);
        // No dropout follows a falling loss.
        let left_out = log
            .steps
            .iter()
            .position(|(_, step)| step.features.dropout.rate > 0.0);
        let not_shared = trainer
            .extension_checks()
            .iter()
            .find(|o| o.decision == NotShared);
        assert_eq!(left_out, not_shared.map(|o| o.steps[1] as usize));
        // The photo that is withheld first, and the period of more than three epochs without it.
        let taken = log
            .steps
            .iter()
            .enumerate()
            .filter(|(_, (view, _))| *view == 6);
        let taken: Vec<usize> = taken.map(|(step, _)| step).collect();
        let gaps = taken.windows(2).filter(|pair| pair[1] - pair[0] > 126);
        let gaps: Vec<usize> = gaps.map(|pair| pair[0] / 100).collect();
        (steps, decisions, extended, gaps)
    };
    let little = run(&[(0, 0.51), (2400, 0.507)]);
    assert_eq!(
        little,
        (6000, vec![Extend], vec![(3000, 6000, 1)], vec![21])
    );
    let much = run(&[(0, 0.54), (2400, 0.52)]);
    let doubled = (3000, 8000, 2);
    assert_eq!(
        much,
        (8000, vec![Extend, NotShared], vec![doubled], vec![21, 43])
    );
    // The whole extension reduces the loss by less than a seventh.
    let late = run(&[(0, 0.54), (2400, 0.52), (5000, 0.519)]);
    assert_eq!(
        late,
        (
            8000,
            vec![Extend, LittleGained],
            vec![doubled],
            vec![21, 43]
        )
    );
    let on = run(&[(0, 0.9), (2400, 0.85), (4000, 0.6), (5000, 0.595)]);
    let again = (6000, 16_000, 2);
    assert_eq!(
        on,
        (
            16_000,
            vec![Extend, Extend],
            vec![doubled, again],
            vec![21, 43]
        )
    );
}
