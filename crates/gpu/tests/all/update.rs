//! `update` and `gradients` against the f64 reference, from slots made on the host.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;
use crate::support::gaussians;

use dapple_engine::{Adam, PosedCamera};
use dapple_gpu::Precision;
use dapple_gpu::layout::{FLAG_DENSITY, HALT_INSTANCES, Step};
use dapple_reference::scenes::{self, TestScene};
use dapple_reference::{self as reference, compare};
use dapple_scene::Lens;
use gaussians::{Fixture, Slots, Stages, gradient_planes};
use support::context;

fn stages() -> Stages {
    Stages::new(context(), Precision::default())
}

/// Learning rates by tensor, all different.
const RATES: [f32; 6] = [1.6e-4, 5e-3, 1e-3, 5e-2, 2.5e-3, 1.25e-4];

/// Returns a step of training, with bias corrections like the host's.
fn step(scene: &TestScene, number: u32, flags: u32) -> Step {
    let adam = Adam::default();
    let correction = |beta: f32| 1.0 - f64::from(beta).powi(number as i32);
    Step {
        number,
        flags,
        sh_degree: scene.settings.sh_degree.into(),
        near: scene.settings.near,
        rates: RATES.map(|rate| (f64::from(rate) / correction(adam.beta1)) as f32),
        beta1: adam.beta1,
        beta2: adam.beta2,
        epsilon: adam.epsilon,
        inverse_correction2: (1.0 / correction(adam.beta2)) as f32,
        seed: [3, 4],
        ..Step::default()
    }
}

fn rate_of_plane(p: usize) -> f32 {
    RATES[match p {
        0..3 => 0,
        3..6 => 1,
        6..10 => 2,
        10 => 3,
        11..14 => 4,
        _ => 5,
    }]
}

fn few(i: usize) -> u32 {
    1 + (i as u32 * 7) % 5
}

/// Checks relative L2 per tensor and of the pose; absent Gaussians.
fn check_gradients(
    stages: &Stages,
    scene: &TestScene,
    count: impl Fn(usize) -> u32,
    failures: &mut Vec<String>,
) {
    let (slots, expected) = Slots::of_scene(scene, count);
    let fixture = Fixture::new(stages, scene, &slots);
    let actual = fixture.gradients(&step(scene, 1, 0));
    let mut errors = compare::compare_gradients(&actual, &expected);
    errors.push(("pose", compare::compare_pose(&actual, &expected)));
    for (what, error) in errors {
        println!("{:28} {what:10} {error:.2e}", scene.name);
        if error > compare::TOLERANCE {
            failures.push(format!("{} {what}: {error:.2e}", scene.name));
        }
    }
    let absent = reference::absent(&scene.splats, &scene.camera, &scene.settings).unwrap();
    let strays = compare::stray_gradients(&actual, &absent);
    if !strays.is_empty() {
        failures.push(format!("{}: absent Gaussians {strays:?} move", scene.name));
    }
}

#[test]
fn gradients_match_the_reference() {
    require_gpu!();
    let stages = stages();
    let mut failures = Vec::new();
    // Pinholes: through lenses whole engines are compared (`conformance`).
    for scene in scenes::all()
        .into_iter()
        .filter(|s| s.camera.lens == Lens::Pinhole)
    {
        check_gradients(&stages, &scene, few, &mut failures);
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn any_number_of_slots_adds_up() {
    require_gpu!();
    let stages = stages();
    let mut failures = Vec::new();
    let scene = scenes::named("random_sh1");
    // Around the sizes of one invocation, one job and one round; then all of the above.
    let sizes = [1, 16, 17, 31, 33, 300, 511, 512, 513, 3000, 8200];
    check_gradients(
        &stages,
        &scene,
        |i| if i % 9 == 0 { sizes[i / 9 % 11] } else { 2 },
        &mut failures,
    );
    check_gradients(&stages, &scene, |i| 17 + (i % 3) as u32, &mut failures);
    check_gradients(
        &stages,
        &scene,
        |i| if i == 255 { 5000 } else { 1 },
        &mut failures,
    );
    assert!(failures.is_empty(), "{failures:#?}");
}

/// A parameter or moment before, after, and by the reference.
type Number = [f64; 3];

#[test]
fn steps_are_those_of_the_reference() {
    require_gpu!();
    let stages = stages();
    for name in [
        "random_sh0",
        "active_degree_below_stored",
        "random_sh2",
        "random_sh3",
    ] {
        let scene = scenes::named(name);
        let (mut slots, _) = Slots::of_scene(&scene, few);
        // Some become invisible, and their moments continue to change.
        for i in (0..scene.splats.len()).step_by(4) {
            slots.counts[i] = 0;
        }
        let mut fixture = Fixture::new(&stages, &scene, &slots);
        let (n, capacity) = (fixture.n, fixture.capacity);
        let moments = |k: f32, planes: usize| -> Vec<f32> {
            (0..planes * capacity)
                .map(|i| k * (1.0 + (i % 7) as f32))
                .collect()
        };
        fixture.put_moments(&moments(1e-5, 14), &moments(1e-10, 14));
        let rest = gaussians::sh_planes(fixture.sh_degree);
        fixture.put_sh_moments(&moments(-1e-6, rest), &moments(1e-12, rest));

        let [before, first, second] = fixture.planes();
        let active = (14 + gaussians::sh_planes(scene.settings.sh_degree)) * n;
        let mut numbers: Vec<Number> = (0..before.len())
            .map(|i| [before[i], first[i], second[i]].map(f64::from))
            .collect();
        for number in 10..14 {
            let step = step(&scene, number, 0);
            let gradient = gradient_planes(&fixture.gradients(&step));
            for (i, state) in numbers[..active].iter_mut().enumerate() {
                let rate = f64::from(rate_of_plane(i / n));
                *state =
                    reference::adam(*state, gradient[i].into(), rate, &Adam::default(), number);
            }
            fixture.update(&step);
        }
        let [after, first_after, second_after] = fixture.planes();
        // Beyond the active degree nothing changes.
        assert_eq!(after[active..], before[active..], "{name}");
        assert_eq!(first_after[active..], first[active..], "{name}");
        for (p, chunk) in numbers[..active].chunks_exact(n).enumerate() {
            let at = p * n..(p + 1) * n;
            let error = |values: &[f32], k: usize| {
                let expected: Vec<f64> = chunk.iter().map(|state| state[k]).collect();
                support::relative_l2(&values[at.clone()], &expected)
            };
            let moved: Vec<f32> = at.clone().map(|i| after[i] - before[i]).collect();
            let expected: Vec<f64> = at
                .clone()
                .map(|i| numbers[i][0] - f64::from(before[i]))
                .collect();
            // Parameters are of order 1 and steps of order 1e-4 times the number of steps. So their
            // difference has a relative error of 1e-3.
            let of_step = support::relative_l2(&moved, &expected);
            assert!(of_step < 2e-3, "{name} plane {p}: step {of_step:.1e}");
            assert!(error(&after, 0) < 1e-6, "{name} plane {p}");
            assert!(
                error(&first_after, 1) < 1e-5,
                "{name} plane {p}: {:.1e}",
                error(&first_after, 1)
            );
            assert!(error(&second_after, 2) < 1e-5, "{name} plane {p}");
        }
    }
}

#[test]
fn tiny_moments_are_flushed() {
    require_gpu!();
    let scene = scenes::named("random_sh1");
    let (mut slots, _) = Slots::of_scene(&scene, few);
    slots.counts.fill(0);
    let mut fixture = Fixture::new(&stages(), &scene, &slots);
    let tiny = vec![1.05e-30; 14 * fixture.capacity];
    fixture.put_moments(&tiny, &tiny);
    fixture.update(&step(&scene, 5, 0));
    let [_, first, second] = fixture.planes();
    assert!(first.iter().all(|&m| m == 0.0));
    // 1.05e-30 * 0.999 is still above the threshold.
    assert!(second[..14 * fixture.n].iter().all(|&v| v > 0.0));
}

#[test]
fn density_statistics_add_up() {
    require_gpu!();
    let scene = scenes::named("out_of_sight");
    let (slots, expected) = Slots::of_scene(&scene, few);
    let fixture = Fixture::new(&stages(), &scene, &slots);
    let (n, capacity) = (fixture.n, fixture.capacity);
    // Rates of zero: every step has the same gradients.
    let still = Step {
        rates: [0.0; 6],
        ..step(&scene, 1, FLAG_DENSITY)
    };
    fixture.update(&still);
    fixture.update(&Step { flags: 0, ..still });
    fixture.update(&still);
    let stats: Vec<f32> = fixture.read("stats", 2 * capacity);
    let size = PosedCamera::new(&scene.camera).unwrap().size.map(f64::from);
    let sums: Vec<f64> = expected
        .means2d
        .iter()
        .map(|[x, y]| 2.0 * (x * size[0] * 0.5).hypot(y * size[1] * 0.5))
        .collect();
    let error = support::relative_l2(&stats[..n], &sums);
    assert!(error < compare::TOLERANCE, "{error:.1e}");
    for i in 0..n {
        let seen = if slots.counts[i] > 0 { 2.0 } else { 0.0 };
        assert_eq!(stats[capacity + i], seen, "{i}");
    }
    assert!(slots.counts.contains(&0));
}

#[test]
fn a_halted_engine_changes_nothing() {
    require_gpu!();
    let scene = scenes::named("random_sh3");
    let (slots, _) = Slots::of_scene(&scene, few);
    let mut fixture = Fixture::new(&stages(), &scene, &slots);
    let before = fixture.words();
    fixture.set_state(HALT_INSTANCES);
    fixture.update(&step(&scene, 1, FLAG_DENSITY));
    assert_eq!(fixture.words(), before);
    fixture.set_state(0);
    fixture.update(&step(&scene, 1, FLAG_DENSITY));
    assert_ne!(fixture.words(), before);
}

#[test]
fn nothing_is_written_beyond_the_gaussians() {
    require_gpu!();
    let scene = scenes::named("random_sh3");
    let (slots, _) = Slots::of_scene(&scene, few);
    let fixture = Fixture::new(&stages(), &scene, &slots);
    fixture.update(&step(&scene, 1, FLAG_DENSITY));
    let words = fixture.words();
    for plane in words.chunks_exact(fixture.capacity) {
        assert!(plane[fixture.n..].iter().all(|&word| word == 0));
    }
}

#[test]
fn runs_are_bit_identical() {
    require_gpu!();
    let scene = scenes::named("crowd");
    let (slots, _) = Slots::of_scene(&scene, |i| if i % 50 == 0 { 700 } else { 3 });
    let stages = stages();
    let run = || {
        let fixture = Fixture::new(&stages, &scene, &slots);
        for number in 1..4 {
            fixture.update(&step(&scene, number, FLAG_DENSITY));
        }
        fixture.words()
    };
    assert_eq!(run(), run());
}
