//! Helpers of checks: engines with splats, their last report, and a plan.

use dapple_engine::{DensifyPlan, Engine, EngineExt, Report};
use dapple_scene::Splats;

/// Constructor of an engine without splats.
pub type Make<'a> = &'a dyn Fn() -> Box<dyn Engine>;

/// Creates an engine with splats.
pub(crate) fn with_splats(make: Make<'_>, splats: &Splats) -> Box<dyn Engine> {
    let mut engine = make();
    engine.upload(splats, None).unwrap();
    engine
}

/// Returns the last report, after all enqueued work is done.
pub(crate) fn last_report(engine: &mut dyn Engine) -> Report {
    engine.download().unwrap();
    engine.poll().unwrap().pop().expect("no report came")
}

/// Returns the loss of the step that was enqueued last.
pub(crate) fn last_loss(engine: &mut dyn Engine) -> f32 {
    match last_report(engine) {
        Report::Step(report) => report.loss,
        other => panic!("no report of a step but {other:?}"),
    }
}

/// Returns the plan of a round in which all visible Gaussians grow.
pub(crate) fn growing() -> DensifyPlan {
    DensifyPlan {
        step: 100,
        seed: 3,
        grow_gradient: Some(1e-6),
        split_scale: 0.02,
        prune_opacity: Some(0.005),
        prune_scale: None,
        max_gaussians: usize::MAX,
        room_share: 1.0,
        reset_opacity: None,
        ..DensifyPlan::NOTHING
    }
}
