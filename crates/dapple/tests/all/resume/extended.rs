//! Runs with validation photos: they are extended, or use dropout.

use crate::resume::captures::ball;
use crate::resume::running::{cpu, gpu, left, metrics, run_on};
use dapple::BoxedEngine;
use dapple::prelude::*;
use dapple::train::config::DensifyPatch;
use dapple::train::{Amendment, Amendments, ConfigPatch, ExtensionDecision, Strategy};
use std::sync::LazyLock;

/// Capture from places so close together that withheld photos are between others.
static WIDE: LazyLock<Dataset> = LazyLock::new(|| ball(60, 0.11));

/// Returns the configuration of a run that an extension check doubles, with more Gaussians than first planned.
fn extending() -> TrainConfig {
    let patch = ConfigPatch {
        steps: Some(300),
        max_extensions: Some(1),
        sh_degree: Some(1),
        sh_every: Some(60),
        checkpoint_minutes: Some(0.0),
        densify: DensifyPatch {
            strategy: Some(Strategy::Mcmc),
            start: Some(10),
            stop: Some(125),
            every: Some(10),
            ..DensifyPatch::default()
        },
        ..ConfigPatch::default()
    };
    let mut config = TrainConfig::resolve(None, None, patch).unwrap();
    // So that the loss can fall until the end.
    config.learning_rates.means_final = config.learning_rates.means;
    config.learning_rates.decay = 1.0;
    config
}

/// Capture from few places with inverted colours in every second photo, so that the run overfits.
static CONTRADICTORY: LazyLock<Dataset> = LazyLock::new(|| {
    let mut capture = ball(14, 0.45);
    for view in capture.views.iter_mut().step_by(2) {
        let photo = view.photo.read().unwrap();
        let inverted = photo.rgb.iter().map(|value| 255 - value).collect();
        view.photo = Photo::from_rgb(photo.width, photo.height, inverted).into();
    }
    capture
});

/// Checks that stops are without effect, while photos are withheld and after the extension, and that the configuration
/// of the finished run repeats it.
#[track_caller]
fn is_extended_bit_for_bit(engine: &dyn Fn() -> BoxedEngine, repeated_too: bool) {
    let folder = || tempfile::tempdir().unwrap();
    let (whole, parts, repeated) = (folder(), folder(), folder());
    let ended = run_on(&WIDE, whole.path(), &extending(), engine(), None);
    let said = metrics(&ended);
    let check = said.extension_checks[0];
    assert_eq!(check.decision, ExtensionDecision::Extend, "{check:?}");
    let (after, steps, most) = said.config.amendments.extensions().next().unwrap();
    assert_eq!((after, steps, said.steps), (225, 600, 600));
    let planned = said.budget.unwrap().gaussians as u64;
    // The loss on the photos fell by much.
    assert_eq!(u64::from(most), 2 * planned);
    assert!(said.gaussians > planned, "{} of {planned}", said.gaussians);
    assert_eq!(check.steps, [165, 225]);
    let whole = left(&ended);

    for stop in [190, 224, 226, 375] {
        let stopped = run_on(&WIDE, parts.path(), &extending(), engine(), Some(stop));
        let left = stopped.read_checkpoint().unwrap();
        assert_eq!(left.step, stop);
        assert_eq!(left.loss_before_check.is_some(), stop < 225);
        assert_eq!(left.extension_checks.len(), usize::from(stop > 225));
    }
    let parts = run_on(&WIDE, parts.path(), &extending(), engine(), None);
    assert!(left(&parts) == whole, "a stop is seen");
    assert_eq!(metrics(&parts).extension_checks, [check]);

    if !repeated_too {
        return;
    }
    let config = TrainConfig::resolve(None, Some(&ended.config_path()), ConfigPatch::default());
    let config = config.unwrap();
    assert_eq!(
        config.amendments,
        vec![Amendment::extension(225, 600, most)].into()
    );
    let again = run_on(&WIDE, repeated.path(), &config, engine(), None);
    assert!(
        left(&again) == whole,
        "the configuration repeats another run"
    );
}

/// Checks that an overfitting run uses dropout for its remaining steps, that stops are without effect, and that the
/// configuration of the finished run repeats it.
#[test]
fn what_is_learnt_by_heart_leaves_gaussians_out() {
    let folder = || tempfile::tempdir().unwrap();
    let (whole, parts, repeated, unasked) = (folder(), folder(), folder(), folder());
    let capture = &CONTRADICTORY;
    let ended = run_on(capture, whole.path(), &extending(), cpu(), None);
    let said = metrics(&ended);
    let check = said.extension_checks[0];
    assert_eq!(check.decision, ExtensionDecision::NotShared, "{check:?}");
    let drops: Amendments = vec![Amendment::dropout(225, 0.1)].into();
    assert_eq!(
        (said.config.dropout, &said.config.amendments),
        (0.0, &drops)
    );
    assert_eq!(said.steps, 300);
    let whole = left(&ended);

    for stop in [190, 224, 226, 260] {
        let stopped = run_on(capture, parts.path(), &extending(), cpu(), Some(stop));
        let config = stopped.read_checkpoint().unwrap().config;
        assert_eq!(config.amendments.is_empty(), stop < 225);
    }
    let parts = run_on(capture, parts.path(), &extending(), cpu(), None);
    assert!(left(&parts) == whole, "a stop is seen");

    let config = TrainConfig::resolve(None, Some(&ended.config_path()), ConfigPatch::default());
    let config = config.unwrap();
    assert_eq!(config.amendments, drops);
    let again = run_on(capture, repeated.path(), &config, cpu(), None);
    assert!(
        left(&again) == whole,
        "the configuration repeats another run"
    );
    // The same steps without a check: only dropout and the withheld photos make the difference.
    let config = TrainConfig {
        max_extensions: 0,
        amendments: Amendments::default(),
        ..config
    };
    let unasked = run_on(capture, unasked.path(), &config, cpu(), None);
    assert!(left(&unasked) != whole);
}

#[test]
fn that_photos_extend() {
    is_extended_bit_for_bit(&cpu, true);
    if gpu("f32").is_some() {
        // The configuration does not depend on the engine, and a software GPU takes minutes for each run.
        is_extended_bit_for_bit(&|| gpu("f32").unwrap(), false);
    }
}
