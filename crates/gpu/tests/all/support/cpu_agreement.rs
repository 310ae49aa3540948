//! Cases and tolerances of the comparison of stages.

#![allow(clippy::unwrap_used, clippy::panic, dead_code, reason = "tests")]

use dapple_cpu::{CpuEngine, CpuOptions};
use dapple_engine::{
    Engine, EngineExt, LearningRates, OptimizerState, Stage, StepSettings, Trace, TracedSplat,
    TrainView, ViewId,
};
use dapple_gpu::GpuEngine;
use dapple_reference::compare::relative_l2;
use dapple_reference::scenes::{self, Random, TestScene};
use dapple_reference::{PixelRect, Projected, least_power_in_rect};
use dapple_scene::{Camera, Photo, Splats};
use glam::{DVec2, DVec3};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Relative L2 within which the CPU and GPU versions agree.
pub const TWINS: f64 = 1e-5;

/// An ellipse whose edge comes this close to a tile's, in units of ln alpha, may or may not be listed there: beyond the
/// margins and rounding of either engine.
const BORDER: f64 = 1e-3;

/// Returns the stages of every step.
pub fn stages() -> impl Iterator<Item = Stage> {
    let all = Stage::ALL.into_iter();
    all.filter(|s| !matches!(s, Stage::Appearance | Stage::Densify))
}

/// A step to compare: the state of both engines before it, and the CPU engine's results.
pub struct Case {
    pub name: String,
    pub scene: TestScene,
    pub view: TrainView,
    pub settings: StepSettings,
    /// Before the step.
    pub splats: Splats,
    pub state: OptimizerState,
    pub truth: Trace,
}

impl Case {
    /// Runs two steps for moments that are not zero, then the step to compare.
    pub fn new(name: &str, scene: TestScene, photo: Photo) -> Self {
        let view = TrainView {
            camera: scene.camera,
            photo: Arc::new(photo),
        };
        let mut cpu = CpuEngine::new(CpuOptions::default()).unwrap();
        cpu.upload(&scene.splats, None).unwrap();
        let id = cpu.add_views(vec![view.clone()]).unwrap()[0];
        for step in 1..=2 {
            cpu.step(id, &settings(&scene, step)).unwrap();
        }
        let (splats, state) = cpu.download().unwrap();
        let settings = settings(&scene, 3);
        let truth = cpu.trace(id, &settings).unwrap();
        Self {
            name: name.to_owned(),
            scene,
            view,
            settings,
            splats,
            state,
            truth,
        }
    }

    /// Uploads the case's splats and view to a GPU engine.
    pub fn upload(&self, gpu: &mut GpuEngine) -> ViewId {
        gpu.upload(&self.splats, Some(&self.state)).unwrap();
        gpu.add_views(vec![self.view.clone()]).unwrap()[0]
    }

    /// Returns the faults of a stage's part of a trace.
    pub fn faults(&self, stage: Stage, actual: &Trace) -> Vec<String> {
        self.faults_within(stage, actual, TWINS)
    }

    pub fn faults_within(&self, stage: Stage, actual: &Trace, tolerance: f64) -> Vec<String> {
        let mut check = Check {
            tolerance,
            faults: Vec::new(),
            name: format!("{} {stage}", self.name),
        };
        let (a, e) = (actual, &self.truth);
        match stage {
            Stage::Project => self.check_projected(&mut check, a),
            Stage::Order => check.same("order", &a.order, &e.order),
            Stage::Emit => self.check_instances(&mut check, a),
            Stage::Sort => check.same("places", &a.sorted, &e.sorted),
            Stage::Ranges => check.same("tiles", &a.tiles, &e.tiles),
            Stage::Blend => {
                check.near("rgb", rgb(&a.image), rgb(&e.image));
                check.near("transmittance", fourth(&a.image), fourth(&e.image));
            }
            Stage::Loss => {
                check.near("loss", [a.loss], [e.loss]);
                let gradients = [&a.image_gradient, &e.image_gradient];
                check.near("gradient", rgb(gradients[0]), rgb(gradients[1]));
                check.near("fourth", fourth(gradients[0]), fourth(gradients[1]));
            }
            Stage::BlendBackward => {
                for (k, what) in SLOT_FIELDS.into_iter().enumerate() {
                    let field = |t: &Trace| t.slots.iter().map(|s| s[k]).collect::<Vec<_>>();
                    check.near(what, field(a), field(e));
                }
            }
            Stage::Update => check_update(&mut check, a, e),
            Stage::Appearance | Stage::Densify => panic!("densify is no stage of a step"),
        }
        check.faults
    }

    fn check_projected(&self, check: &mut Check, actual: &Trace) {
        let by_index = |t: &Trace| -> BTreeMap<u32, TracedSplat> {
            t.projected.iter().map(|s| (s.gaussian, *s)).collect()
        };
        let (ours, theirs) = (by_index(actual), by_index(&self.truth));
        let mut pairs = Vec::new();
        for i in 0..self.splats.len() as u32 {
            match (ours.get(&i), theirs.get(&i)) {
                (Some(a), Some(e)) => {
                    if a.tiles != e.tiles && !is_borderline(e, &self.scene.camera) {
                        check.fault(format!("Gaussian {i} touches {} tiles", a.tiles));
                    }
                    pairs.push((*a, *e));
                }
                (None, None) => {}
                (Some(one), None) | (None, Some(one)) => {
                    if !is_borderline(one, &self.scene.camera) {
                        check.fault(format!("Gaussian {i} is visible in one of them"));
                    }
                }
            }
        }
        let fields: [(&str, Field); 6] = [
            ("mean2d", |s| s.mean2d.to_vec()),
            ("form", |s| s.form.to_vec()),
            ("log2 opacity", |s| vec![s.log2_opacity]),
            ("rgb", |s| s.rgb.to_vec()),
            ("depth", |s| vec![s.depth]),
            ("radius", |s| s.radius.to_vec()),
        ];
        for (what, field) in fields {
            let actual = pairs.iter().flat_map(|(a, _)| field(a));
            check.near(what, actual, pairs.iter().flat_map(|(_, e)| field(e)));
        }
    }

    /// Compares Gaussian by Gaussian: a Gaussian with a borderline tile may differ, and such Gaussians are few.
    fn check_instances(&self, check: &mut Check, actual: &Trace) {
        let (ours, theirs) = (&actual.instances, &self.truth.instances);
        let gaussians = |list: &[[u32; 2]]| list.iter().map(|i| i[0]).collect::<Vec<_>>();
        check.same(
            "Gaussians of instances",
            &gaussians(ours),
            &gaussians(theirs),
        );
        let mut excused = 0;
        for splat in &self.truth.projected {
            let tiles = |list: &[[u32; 2]]| -> Vec<u32> {
                let own = list.iter().filter(|i| i[0] == splat.gaussian);
                own.map(|i| i[1]).collect()
            };
            if tiles(ours) != tiles(theirs) {
                if is_borderline(splat, &self.scene.camera) {
                    excused += 1;
                } else {
                    check.fault(format!("tiles of Gaussian {}", splat.gaussian));
                }
            }
        }
        if excused * 200 > self.truth.projected.len() {
            check.fault(format!("{excused} Gaussians differ on borderline tiles"));
        }
    }
}

/// Numbers of a splat.
type Field = fn(&TracedSplat) -> Vec<f32>;

const SLOT_FIELDS: [&str; 9] = [
    "s", "s dx", "s dy", "s dx2", "s dxdy", "s dy2", "red", "green", "blue",
];

struct Check {
    tolerance: f64,
    faults: Vec<String>,
    name: String,
}

impl Check {
    fn fault(&mut self, what: String) {
        self.faults.push(format!("{}: {what}", self.name));
    }

    fn same<T: PartialEq>(&mut self, what: &str, actual: &[T], expected: &[T]) {
        if actual.len() != expected.len() {
            let (a, e) = (actual.len(), expected.len());
            self.fault(format!("{a} {what} instead of {e}"));
        } else if let Some(i) = (0..actual.len()).find(|&i| actual[i] != expected[i]) {
            self.fault(format!("{what} differ from {i} on"));
        }
    }

    fn near(
        &mut self,
        what: &str,
        actual: impl IntoIterator<Item = f32>,
        expected: impl IntoIterator<Item = f32>,
    ) {
        let actual: Vec<f64> = actual.into_iter().map(f64::from).collect();
        let expected: Vec<f64> = expected.into_iter().map(f64::from).collect();
        let error = relative_l2(&actual, &expected);
        println!("{:34} {what:14} {error:.1e}", self.name);
        if error > self.tolerance {
            self.fault(format!("{what} off by {error:.1e}"));
        }
    }
}

fn check_update(check: &mut Check, actual: &Trace, expected: &Trace) {
    for (whose, a, e) in [
        ("", &actual.splats, &expected.splats),
        (
            "m ",
            &actual.state.first_moments,
            &expected.state.first_moments,
        ),
        (
            "v ",
            &actual.state.second_moments,
            &expected.state.second_moments,
        ),
    ] {
        for ((what, a), (_, e)) in tensors(a).into_iter().zip(tensors(e)) {
            check.near(&format!("{whose}{what}"), a, e);
        }
    }
    let (a, e) = (&actual.state, &expected.state);
    check.near("sums", a.gradient_sums.clone(), e.gradient_sums.clone());
    check.same("counts", &a.visible_counts, &e.visible_counts);
}

fn tensors(splats: &Splats) -> [(&'static str, Vec<f32>); 6] {
    [
        ("means", splats.means.concat()),
        ("scales", splats.scales.concat()),
        ("quats", splats.quats.concat()),
        ("opacities", splats.opacities.clone()),
        ("sh0", splats.sh0.concat()),
        ("sh_rest", splats.sh_rest.clone()),
    ]
}

fn rgb(pixels: &[[f32; 4]]) -> Vec<f32> {
    pixels.iter().flat_map(|p| p[..3].to_vec()).collect()
}

fn fourth(pixels: &[[f32; 4]]) -> Vec<f32> {
    pixels.iter().map(|p| p[3]).collect()
}

/// Returns true if the ellipse's edge comes within [`BORDER`] of a tile's.
fn is_borderline(splat: &TracedSplat, camera: &Camera) -> bool {
    let [a, b, c] = splat
        .form
        .map(|v| f64::from(v) / (-0.5 * std::f64::consts::LOG2_E));
    let projected = Projected {
        index: 0,
        centre: DVec2::from(splat.mean2d.map(f64::from)),
        depth: 0.0,
        period: 0.0,
        covariance: [0.0; 3],
        conic: [a, 0.5 * b, c],
        opacity: f64::from(splat.log2_opacity).exp2(),
        colour: DVec3::ZERO,
    };
    let level = (255.0 * projected.opacity).ln();
    let tiles = [camera.width, camera.height].map(|side| side.div_ceil(16));
    (0..tiles[1]).any(|y| {
        (0..tiles[0]).any(|x| {
            let least = least_power_in_rect(&projected, PixelRect::of_tile(x, y, camera));
            (least - level).abs() < BORDER
        })
    })
}

fn settings(scene: &TestScene, step: u32) -> StepSettings {
    let common = crate::support::settings(step);
    StepSettings {
        render: scene.settings,
        learning_rates: LearningRates {
            opacities: 4e-3,
            sh0: 5e-3,
            ..common.learning_rates
        },
        ..common
    }
}

/// Returns a photo of noise.
pub fn photo(camera: &Camera) -> Photo {
    let mut random = Random::new(11);
    let values = 3 * camera.width as usize * camera.height as usize;
    let rgb = (0..values).map(|_| random.uniform(0.0, 255.0) as u8);
    Photo::from_rgb(camera.width, camera.height, rgb.collect())
}

/// Returns two thousand Gaussians on an image of 200 x 120 pixels, and a per-tile limit that cuts some lists.
fn synthetic() -> TestScene {
    let mut scene = scenes::named("crowd");
    scene.camera = scene.camera.resized(200, 120);
    scene.settings.max_gaussians_per_tile = 150;
    scene
}

/// Returns the cases.
pub fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for name in ["random_sh3", "crowd"] {
        let scene = scenes::named(name);
        let photo = photo(&scene.camera);
        all.push(Case::new(name, scene, photo));
    }
    let scene = scenes::named("background");
    let mut masked = photo(&scene.camera);
    let (width, height) = (masked.width, masked.height);
    let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
    let mask = pixels.map(|(x, y)| if (x / 9 + y / 7) % 3 == 0 { 0 } else { 255 });
    masked.mask = Some(mask.collect());
    all.push(Case::new("background, masked", scene, masked));
    let scene = synthetic();
    let photo = photo(&scene.camera);
    all.push(Case::new("two thousand, capped", scene, photo));
    all
}
