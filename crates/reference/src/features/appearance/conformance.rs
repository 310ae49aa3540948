//! Steps that learn the bilateral grids, against the reference, and bit-identical results of repeated
//! runs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a suite of tests that engines share"
)]

use crate as reference;
use crate::Gaussian;
use crate::compare::{self, TOLERANCE};
use crate::conformance::engines::{Make, last_report};
use crate::conformance::parity::widened;
use crate::conformance::training::{learnt_models_repeat, masked_photo, photo, settings};
use crate::scenes::{self, Random, TestScene};
use dapple_engine::appearance::{AFFINE, grid_floats};
use dapple_engine::{
    Adam, AppearanceGrids, AppearanceSettings, Engine, EngineExt, LossTerm, OptimizerState, Report,
    StepFeatures, StepSettings, TrainView, ViewId,
};
use dapple_scene::Photo;
use std::sync::Arc;

/// Grid sizes: one cell, one along some axes, more than tiles, the default.
const GRIDS: [[u32; 3]; 5] = [[1, 1, 1], [5, 1, 3], [1, 4, 1], [9, 7, 2], [16, 16, 8]];

/// Scene with a view of its middle for the step, and a second photo without steps.
struct Bench<'a> {
    scene: &'a TestScene,
    photo: Photo,
    settings: StepSettings,
    appearance: AppearanceSettings,
}

fn appearance_settings(cells: [u32; 3]) -> AppearanceSettings {
    AppearanceSettings {
        cells,
        rate: 2e-3,
        smoothness: 0.7,
        identity: 0.3,
    }
}

/// Draws maps that differ from each other and from the identity.
fn drawn(cells: [u32; 3], views: usize) -> AppearanceGrids {
    let mut appearance = AppearanceGrids::identity(cells, views);
    let mut random = Random::new(23);
    for value in &mut appearance.coefficients {
        *value += random.uniform(-0.2, 0.2) as f32;
    }
    appearance
}

/// Results of a step in the reference: the loss of the corrected image, and its derivatives by the splats
/// and by the grid, with the regulariser's.
struct Expected {
    loss: f64,
    gradients: dapple_engine::Gradients<f64>,
    grid: Vec<f64>,
}

impl Bench<'_> {
    fn expected(&self, grid: &[f32]) -> Expected {
        let (scene, cells) = (self.scene, self.appearance.cells);
        let (splats, camera) = (&scene.splats, &scene.camera);
        let render = &self.settings.render;
        let (width, height) = (camera.width as usize, camera.height as usize);
        let grid = widened(grid);
        let gaussians = Gaussian::all(splats);
        let image = reference::render_gaussians(&gaussians, camera, render).unwrap();
        let corrected = reference::appearance(&grid, cells, &image.rgb, width, height);
        let target = reference::photo_target(&self.photo, render.background);
        let mask = reference::photo_mask(&self.photo);
        let weight = self.settings.losses[LossTerm::Ssim].into();
        let (loss, d_corrected) =
            reference::loss(&corrected, &target, width, height, mask.as_deref(), weight);
        let (d_rgb, mut d_grid) =
            reference::appearance_backward(&grid, cells, &image.rgb, width, height, &d_corrected);
        let (_, regulariser) = reference::appearance_regulariser(&grid, &self.appearance);
        for (sum, part) in d_grid.iter_mut().zip(regulariser) {
            *sum += part;
        }
        Expected {
            loss,
            gradients: reference::gradients(splats, camera, render, &d_rgb, None).unwrap(),
            grid: d_grid,
        }
    }

    /// Executes one step from `appearance` on its last view.
    fn step(&self, engine: &mut dyn Engine, appearance: &AppearanceGrids) -> (f32, OptimizerState) {
        engine.upload(&self.scene.splats, None).unwrap();
        let (_, mut state) = engine.download().unwrap();
        state.views.appearance = appearance.clone();
        engine.upload(&self.scene.splats, Some(&state)).unwrap();
        engine
            .step(
                ViewId(appearance.views() - 1),
                &self.settings_with_appearance(),
            )
            .unwrap();
        let Report::Step(report) = last_report(engine) else {
            panic!("no report of a step");
        };
        let (_, state) = engine.download().unwrap();
        assert_eq!(engine.view_state().unwrap(), state.views);
        (report.loss, state)
    }

    fn settings_with_appearance(&self) -> StepSettings {
        StepSettings {
            features: learning(self.appearance),
            ..self.settings
        }
    }

    /// Checks a step on one view of several.
    fn check(&self, engine: &mut dyn Engine, what: &str) {
        let cells = self.appearance.cells;
        let view = TrainView {
            camera: self.scene.camera,
            photo: Arc::new(self.photo.clone()),
        };
        let ids = engine.add_views(vec![view.clone(), view]).unwrap();
        let last = ids[1].0;
        let before = drawn(cells, last + 1);
        let (loss, state) = self.step(engine, &before);
        let expected = self.expected(before.grid(last));
        let relative = (f64::from(loss) / expected.loss - 1.0).abs();
        assert!(
            relative < 1e-5,
            "{what}: loss {loss}, not {}",
            expected.loss
        );

        // After one step the first moments are 0.1 times the gradient.
        let floats = grid_floats(cells);
        let after = &state.views.appearance;
        let (seen, others) = after.seen.split_last().unwrap();
        assert!(*seen == 1 && others.iter().all(|&n| n == 0), "{what}");
        let first = widened(&after.first_moments[last * floats..]);
        let first: Vec<f64> = first.iter().map(|m| 10.0 * m).collect();
        let mut errors = vec![("grid", compare::relative_l2(&first, &expected.grid))];
        let splats = [
            ("sh0", &state.first_moments.sh0),
            ("means", &state.first_moments.means),
        ];
        for (name, rows) in splats {
            let actual: Vec<f64> = rows
                .iter()
                .flatten()
                .map(|&m| 10.0 * f64::from(m))
                .collect();
            let tensors = expected.gradients.tensors();
            let (_, truth) = tensors.iter().find(|(other, _)| *other == name).unwrap();
            errors.push((name, compare::relative_l2(&actual, truth)));
        }
        for (name, error) in errors {
            println!("{what:24} {name:6} {error:.2e}");
            assert!(error < TOLERANCE, "{what} {name}: {error:.2e}");
        }
        self.check_adam(&before, after, what);
    }

    /// Checks that the step of the last view's grid follows from its moments, and that the other grids do
    /// not change.
    fn check_adam(&self, before: &AppearanceGrids, after: &AppearanceGrids, what: &str) {
        let last = before.views() - 1;
        let begin = last * grid_floats(before.cells);
        let held = |appearance: &AppearanceGrids| {
            [
                appearance.coefficients[..begin].to_vec(),
                appearance.first_moments[..begin].to_vec(),
            ]
        };
        assert!(held(before) == held(after), "{what}: another view's");
        for i in begin..before.coefficients.len() {
            let old = [
                before.coefficients[i],
                before.first_moments[i],
                before.second_moments[i],
            ]
            .map(f64::from);
            let first = f64::from(after.first_moments[i]);
            let beta1 = f64::from(Adam::default().beta1);
            let gradient = (first - beta1 * old[1]) / (1.0 - beta1);
            let rate = self.appearance.rate.into();
            let [value, _, second] =
                reference::adam(old, gradient, rate, &Adam::default(), after.seen[last]);
            let error = (f64::from(after.coefficients[i]) - value).abs();
            assert!(
                error < 1e-6,
                "{what}, coefficient {}: {error:e}",
                i % AFFINE
            );
            let second_error = (f64::from(after.second_moments[i]) - second).abs();
            assert!(second_error <= 1e-5 * second, "{what}: {second_error:e}");
        }
    }
}

/// Checks loss, first moments of splats and grid, and the step of the grid. The photos are opaque and
/// masked, the grids range from one cell to the default, and one image is smaller than the window of
/// SSIM. Then checks two more steps, whose bias correction counts the view's own steps.
pub fn appearance_matches_the_reference(make: Make<'_>) {
    let mut engine = make();
    for cells in GRIDS {
        let scene = scenes::named("random_sh3");
        let bench = Bench {
            scene: &scene,
            photo: photo(&scene),
            settings: settings(&scene, 7),
            appearance: appearance_settings(cells),
        };
        // The splats' moments are 0.1 times the gradient for any step number.
        bench.check(engine.as_mut(), &format!("{cells:?}"));
    }
    for (name, masked) in [
        ("random_sh3", true),
        ("background", false),
        ("tiny_image", false),
    ] {
        let scene = scenes::named(name);
        let bench = Bench {
            photo: if masked {
                masked_photo(&scene)
            } else {
                photo(&scene)
            },
            settings: settings(&scene, 1),
            appearance: appearance_settings([4, 3, 5]),
            scene: &scene,
        };
        bench.check(engine.as_mut(), &format!("{name}, masked: {masked}"));
    }
    its_own_steps_count(make);
}

/// Returns the numbers of a step that learns grids.
fn learning(appearance: AppearanceSettings) -> StepFeatures {
    StepFeatures {
        appearance: Some(appearance),
        ..StepFeatures::default()
    }
}

/// Checks that bias corrections count a grid's own steps, with splats that do not move. The first step
/// creates the grids.
fn its_own_steps_count(make: Make<'_>) {
    let scene = scenes::named("random_sh1");
    let bench = Bench {
        photo: photo(&scene),
        settings: settings(&scene, 1),
        appearance: appearance_settings([3, 2, 4]),
        scene: &scene,
    };
    let mut engine = make();
    let view = TrainView {
        camera: scene.camera,
        photo: Arc::new(bench.photo.clone()),
    };
    engine.upload(&scene.splats, None).unwrap();
    engine.add_views(vec![view.clone()]).unwrap();
    assert!(engine.view_state().unwrap().appearance.is_empty());
    // A step without the setting learns nothing.
    engine.step(ViewId(0), &bench.settings).unwrap();
    assert!(engine.view_state().unwrap().appearance.is_empty());
    engine
        .step(ViewId(0), &bench.settings_with_appearance())
        .unwrap();
    // A view that is added later starts at the identity.
    engine.add_views(vec![view]).unwrap();
    let mut before = engine.view_state().unwrap().appearance;
    before.extend_to(2);
    for (step, seen) in [(8, [1, 1]), (9, [1, 2]), (10, [1, 3])] {
        let settings = StepSettings {
            step,
            ..bench.settings_with_appearance()
        };
        engine.step(ViewId(1), &settings).unwrap();
        let after = engine.view_state().unwrap().appearance;
        assert_eq!(after.seen, seen);
        bench.check_adam(&before, &after, &format!("step {step}"));
        before = after;
    }
}

/// Checks steps over two views and a densification round. One run is downloaded after three steps and
/// resumed in another engine; whole runs use an engine of each of `makes`. Splats, moments and grids are
/// bit-identical.
pub fn appearance_repeats_itself(makes: &[Make<'_>]) {
    let scene = scenes::named("crowd");
    let view = TrainView {
        camera: scene.camera,
        photo: Arc::new(photo(&scene)),
    };
    let state = learnt_models_repeat(makes, &scene, &[view.clone(), view], |step| StepSettings {
        features: learning(appearance_settings([6, 5, 4])),
        ..settings(&scene, step)
    });
    assert_eq!(state.views.appearance.seen, [3, 3]);
    assert_ne!(
        state.views.appearance.grid(0),
        state.views.appearance.grid(1)
    );
}
