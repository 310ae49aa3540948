//! Several engines as one: a model in parts trains with the bits of a model in one engine.

use super::engines::{Make, growing};
use super::focus;
use super::training::{self, settings};
use crate::scenes::{self, TestScene};
use dapple_engine::{
    Batch, DensifyPlan, Engine, EngineExt, LossTerm, OptimizerState, Relocation, Rendered, Report,
    StepSettings, TrainView, ViewId,
};
use dapple_scene::{Result, Splats};
use glam::DVec3;

/// Views of a scene.
const VIEWS: u32 = 5;

/// Rounds of density control of the runs. On a GPU, numbers of [`Self::Some`] round otherwise in one engine than on ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounds {
    /// Rounds of both kinds.
    Some,
    /// Rounds of relocation.
    Relocations,
}

/// Checks that engines of `makes` train alike: steps in batches of several sizes, with dropout, noise, terms over
/// Gaussians and 3D filters; rounds of both kinds; renders; reports; a state that another of them continues.
pub fn ranks_train_alike(makes: &[Make<'_>], rounds: Rounds, scenes: &[&str]) {
    for name in scenes {
        let scene = scenes::named(name);
        for size in [1, 4] {
            let first = run([makes[0]; 2], &scene, size, rounds);
            let grew = first.splats.len() > scene.splats.len();
            assert!(grew, "{name}: Gaussians");
            for (i, make) in makes.iter().enumerate().skip(1) {
                let next = makes[(i + 1) % makes.len()];
                let case = format!("{name}, batches of {size}, engine {i}");
                first.check(&run([make, next], &scene, size, rounds), &case);
            }
        }
    }
}

/// Results of a run.
struct Trained {
    splats: Splats,
    state: OptimizerState,
    render: Rendered,
    reports: Vec<Report>,
}

impl Trained {
    fn check(&self, other: &Self, case: &str) {
        assert_eq!(self.reports.len(), other.reports.len(), "{case}");
        for (own, others) in self.reports.iter().zip(&other.reports) {
            assert_eq!(without_times(own), without_times(others), "{case}");
        }
        assert!(self.splats == other.splats, "{case}: other splats");
        assert!(self.state == other.state, "{case}: another state");
        assert!(self.render == other.render, "{case}: another render");
    }
}

fn without_times(report: &Report) -> Report {
    match report {
        Report::Step(report) => Report::Step(dapple_engine::StepReport {
            stages: Vec::new(),
            ..report.clone()
        }),
        other => other.clone(),
    }
}

/// A short run with steps and rounds, in segments. A run may go on in another engine after each.
pub struct ShortRun<'a> {
    /// Scene.
    pub scene: &'a TestScene,
    /// Views of a batch.
    pub size: u32,
    /// Rounds.
    pub rounds: Rounds,
}

impl ShortRun<'_> {
    /// Number of segments.
    pub const SEGMENTS: usize = 5;

    /// Gives an engine the views and Gaussians.
    ///
    /// # Errors
    /// Those of the engine, as for what follows.
    pub fn begin(
        &self,
        engine: &mut dyn Engine,
        splats: &Splats,
        state: Option<&OptimizerState>,
    ) -> Result<()> {
        engine.add_views(views(self.scene))?;
        engine.upload(splats, state)
    }

    /// Executes a segment.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn segment(&self, engine: &mut dyn Engine, number: usize) -> Result<()> {
        let (size, rounds) = (self.size, self.rounds);
        let (steps, batch) = match number {
            0 => (1..3 * size + 1, size),
            1 => (3 * size + 1..4 * size + 1, size),
            2 => (0..0, 1),
            3 => (48..52, 1),
            _ => (52..54, 1),
        };
        match number {
            1 if rounds == Rounds::Some => engine.densify(&growing())?,
            2 | 4 => engine.densify(&relocating(step_of(number)))?,
            _ => {}
        }
        for step in steps {
            engine.step(view(step), &settings_of(self.scene, step, batch))?;
        }
        engine.finish()
    }
}

/// Trains with an engine of `make`, then further with one of `next`.
fn run([make, next]: [Make<'_>; 2], scene: &TestScene, size: u32, rounds: Rounds) -> Trained {
    let run = ShortRun {
        scene,
        size,
        rounds,
    };
    let mut engine = make();
    run.begin(engine.as_mut(), &scene.splats, None).unwrap();
    run.segment(engine.as_mut(), 0).unwrap();
    run.segment(engine.as_mut(), 1).unwrap();
    let mut reports = engine.poll().unwrap();
    let (splats, state) = engine.download().unwrap();
    let mut engine = next();
    run.begin(engine.as_mut(), &splats, Some(&state)).unwrap();
    run.segment(engine.as_mut(), 2).unwrap();
    run.segment(engine.as_mut(), 3).unwrap();
    run.segment(engine.as_mut(), 4).unwrap();
    reports.extend(engine.poll().unwrap());
    let render = engine.render(&scene.camera, &scene.settings).unwrap();
    let (splats, state) = engine.download().unwrap();
    Trained {
        splats,
        state,
        render,
        reports,
    }
}

fn view(number: u32) -> ViewId {
    ViewId((number * 3 % VIEWS) as usize)
}

fn views(scene: &TestScene) -> Vec<TrainView> {
    training::views(scene, VIEWS, DVec3::new(0.05, -0.03, 0.02))
}

fn settings_of(scene: &TestScene, number: u32, size: u32) -> StepSettings {
    let plain = settings(scene, number);
    let mut settings = StepSettings {
        batch: Batch {
            index: (number - 1) % size,
            size,
        },
        losses: plain
            .losses
            .with(LossTerm::Opacity, 0.01)
            .with(LossTerm::Scale, 0.02),
        absolute_density: number.is_multiple_of(2),
        seed: 5,
        ..plain
    };
    settings.features.dropout.rate = 0.1;
    settings.features.noise.scale = 1e-3;
    settings.features.regularise.moved_only = size == 2;
    settings.render.antialias = size > 1;
    settings.features.antialias.refresh = number == 1;
    settings
}

/// Checks that engines of `makes` add the same Gaussians in a round that makes the model nine times as large.
pub fn ranks_grow_alike(makes: &[Make<'_>]) {
    let scene = scenes::named("crowd");
    let plan = DensifyPlan {
        relocate: Some(Relocation {
            dead_opacity: 0.2,
            add_permille: 8_000,
        }),
        ..relocating(200)
    };
    let grown = |make: Make<'_>| {
        let mut engine = make();
        engine.upload(&scene.splats, None).unwrap();
        engine.densify(&plan).unwrap();
        engine.finish().unwrap();
        (engine.poll().unwrap(), engine.download().unwrap())
    };
    let first = grown(makes[0]);
    assert_eq!(first.1.0.len(), 9 * scene.splats.len());
    for make in &makes[1..] {
        assert!(first == grown(make));
    }
}

/// Returns the step of a round of relocation.
fn step_of(segment: usize) -> u32 {
    100 * segment as u32
}

fn relocating(step: u32) -> DensifyPlan {
    DensifyPlan {
        step,
        seed: 9,
        focus: Some(focus::half_space()),
        relocate: Some(Relocation {
            dead_opacity: 0.2,
            add_permille: 50,
        }),
        ..DensifyPlan::NOTHING
    }
}
