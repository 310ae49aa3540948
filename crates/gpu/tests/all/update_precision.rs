//! Sixteen-bit storage of SH coefficients and moments: exact in the mean, correct to its last
//! place, equal in every run.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;
use crate::support::gaussians;

use dapple_engine::Adam;
use dapple_gpu::layout::Step;
use dapple_gpu::precision::MOMENT_SCALE;
use dapple_gpu::{Precision, Storage};
use dapple_reference as reference;
use dapple_reference::scenes::{self, TestScene};
use gaussians::{Fixture, Slots, Stages, gradient_planes, sh_planes};
use support::context;

const ALL: [Storage; 3] = [Storage::F32, Storage::F16, Storage::Bf16];

const RATE: f32 = 1e-4;

fn step(number: u32) -> Step {
    let adam = Adam::default();
    let correction = |beta: f32| 1.0 - f64::from(beta).powi(number as i32);
    Step {
        number,
        sh_degree: 3,
        near: 0.01,
        rates: [(f64::from(RATE) / correction(adam.beta1)) as f32; 6],
        beta1: adam.beta1,
        beta2: adam.beta2,
        epsilon: adam.epsilon,
        inverse_correction2: (1.0 / correction(adam.beta2)) as f32,
        seed: [5, 6],
        ..Step::default()
    }
}

/// Returns the number that is stored for a value, and the distance of its neighbours.
fn place(storage: Storage, kind: usize, value: f64) -> (f64, f64) {
    let scale = f64::from(MOMENT_SCALE);
    let stored = match (storage, kind) {
        (Storage::F16, 1) => value * scale,
        (Storage::F16, 2) => value.sqrt() * scale,
        _ => value,
    };
    let exponent = stored.abs().max(1e-40).log2().floor() as i32;
    let quantum = match storage {
        Storage::F32 => 2f64.powi(exponent - 23),
        Storage::F16 => 2f64.powi((exponent - 10).max(-24)),
        Storage::Bf16 => 2f64.powi(exponent - 7),
    };
    (stored, quantum)
}

fn storage_of(precision: Precision, kind: usize, plane: usize) -> Storage {
    match (kind, plane) {
        (0, 0..14) => Storage::F32,
        (0, _) => precision.sh,
        _ => precision.moments,
    }
}

#[test]
fn every_precision_is_right_to_its_last_place() {
    require_gpu!();
    let scene = scenes::named("random_sh3");
    let (slots, expected) = Slots::of_scene(&scene, |_| 2);
    for sh in ALL {
        for moments in ALL {
            let precision = Precision { sh, moments };
            let fixture = Fixture::new(&Stages::new(context(), precision), &scene, &slots);
            let step = step(1);
            // Gradients of the stored numbers; the colour's clamp was decided for the unrounded
            // numbers.
            let gradients = fixture.gradients(&step);
            let gradient = gradient_planes(&gradients);
            let errors = dapple_reference::compare::compare_gradients(&gradients, &expected);
            println!("{sh} {moments}: {errors:?}");
            let before = fixture.planes();
            fixture.update(&step);
            let after = fixture.planes();
            for i in 0..before[0].len() {
                let state = [before[0][i], before[1][i], before[2][i]].map(f64::from);
                let g = f64::from(gradient[i]);
                let expected = reference::adam(state, g, RATE.into(), &Adam::default(), 1);
                for (kind, &value) in expected.iter().enumerate() {
                    let storage = storage_of(precision, kind, i / fixture.n);
                    let (stored, quantum) = place(storage, kind, value);
                    let (actual, _) = place(storage, kind, after[kind][i].into());
                    // One place, and the error of f32 before rounding: the gradient comes from
                    // another kernel, whose multiply-adds a compiler may fuse otherwise.
                    let allowed = quantum * 1.0001 + stored.abs() * 5e-5 + 1e-30;
                    assert!(
                        (actual - stored).abs() <= allowed,
                        "{sh} {moments}: plane {} kind {kind}: {actual:e} for {stored:e}",
                        i / fixture.n
                    );
                }
            }
        }
    }
}

/// Returns thousands of copies of one visible Gaussian, with tiny gradients.
fn copies(n: usize, scale: f64) -> (TestScene, Slots) {
    let mut scene = scenes::named("random_sh3");
    let (slots, _) = Slots::of_scene(&scene, |_| 1);
    let at = (0..scene.splats.len())
        .find(|&i| slots.counts[i] > 0 && slots.colours[i].iter().all(|&c| c > 0.0))
        .unwrap();
    let start = 9 * slots.starts[at] as usize;
    let values: Vec<f32> = slots.values[start..start + 9]
        .iter()
        .map(|v| (f64::from(*v) * scale) as f32)
        .collect();
    let stride = scene.splats.sh_rest_stride();
    let splats = &mut scene.splats;
    splats.sh_rest = splats.sh_rest[at * stride..(at + 1) * stride].repeat(n);
    splats.means = vec![splats.means[at]; n];
    splats.scales = vec![splats.scales[at]; n];
    splats.quats = vec![splats.quats[at]; n];
    splats.opacities = vec![splats.opacities[at]; n];
    splats.sh0 = vec![splats.sh0[at]; n];
    let slots = Slots {
        counts: vec![1; n],
        starts: vec![0; n],
        values,
        colours: vec![slots.colours[at]; n],
    };
    (scene, slots)
}

const COPIES: usize = 2048;

#[test]
fn rounding_is_right_in_the_mean() {
    require_gpu!();
    let (scene, slots) = copies(COPIES, 1e-3);
    let exact = Fixture::new(
        &Stages::new(context(), Precision::default()),
        &scene,
        &slots,
    );
    for storage in [Storage::F16, Storage::Bf16] {
        let precision = Precision {
            sh: storage,
            moments: storage,
        };
        let fixture = Fixture::new(&Stages::new(context(), precision), &scene, &slots);
        let before = fixture.planes();
        let gradient = gradient_planes(&fixture.gradients(&step(1)));
        fixture.update(&step(1));
        let after = fixture.planes();
        for p in 0..14 + sh_planes(3) {
            let i = p * COPIES;
            let state = [before[0][i], before[1][i], before[2][i]].map(f64::from);
            let g = f64::from(gradient[i]);
            let expected = reference::adam(state, g, RATE.into(), &Adam::default(), 1);
            for (kind, &value) in expected.iter().enumerate() {
                let storage = storage_of(precision, kind, p);
                let (stored, quantum) = place(storage, kind, value);
                let mean = after[kind][i..i + COPIES]
                    .iter()
                    .map(|&v| place(storage, kind, v.into()).0)
                    .sum::<f64>()
                    / COPIES as f64;
                // A fair choice between neighbours has a deviation of half a quantum; five standard
                // deviations.
                let noise = 5.0 * 0.5 * quantum / (COPIES as f64).sqrt();
                assert!(
                    (mean - stored).abs() <= noise + stored.abs() * 3e-6,
                    "{storage} plane {p} kind {kind}: {mean:e} for {stored:e}, quantum {quantum:e}"
                );
            }
        }
        // Small steps add up: twenty of them move the coefficients as they do in f32.
        for number in 2..21 {
            fixture.update(&step(number));
            if storage == Storage::F16 {
                exact.update(&step(number));
            }
        }
        let (moved, wanted) = (fixture.planes(), exact.planes());
        for p in 14..14 + sh_planes(3) {
            let mean = |planes: &[f32]| {
                let plane = &planes[p * COPIES..(p + 1) * COPIES];
                plane.iter().map(|&v| f64::from(v)).sum::<f64>() / COPIES as f64
            };
            let start = f64::from(before[0][p * COPIES]);
            let first = f64::from(scene.splats.sh_rest[p - 14]);
            let (moved, wanted) = (mean(&moved[0]) - start, mean(&wanted[0]) - first);
            assert!(
                (moved - wanted).abs() < 0.05 * wanted.abs() + 2e-4,
                "{storage} plane {p}: {moved:e} for {wanted:e}"
            );
        }
    }
}

#[test]
fn gradients_of_a_billionth_train() {
    require_gpu!();
    // dL/dSH of about 1e-9.
    let (scene, slots) = copies(512, 1.0);
    let largest = slots.values[6..9]
        .iter()
        .fold(0.0f32, |a, v| a.max(v.abs()));
    let (scene, slots) = (
        scene,
        Slots {
            values: slots.values.iter().map(|v| v * (4e-9 / largest)).collect(),
            ..slots
        },
    );
    for storage in ALL {
        let precision = Precision {
            sh: Storage::F32,
            moments: storage,
        };
        let fixture = Fixture::new(&Stages::new(context(), precision), &scene, &slots);
        let before = fixture.planes()[0].clone();
        for number in 1..31 {
            fixture.update(&step(number));
        }
        let after = fixture.planes()[0].clone();
        let n = fixture.n;
        // SH 0, the channel with the largest gradient: a steady gradient moves it by the rate in
        // each step.
        let moved = (11..14)
            .map(|p| {
                let range = p * n..(p + 1) * n;
                let sum: f64 = range
                    .map(|i| f64::from(after[i]) - f64::from(before[i]))
                    .sum();
                (sum / n as f64).abs()
            })
            .fold(0.0, f64::max);
        let steps = moved / f64::from(RATE);
        println!("{storage}: {steps} steps of 30");
        assert!(
            (27.0..33.0).contains(&steps),
            "{storage}: {steps} steps of 30"
        );
    }
}

#[test]
fn a_vanishing_root_does_not_launch_a_gaussian() {
    require_gpu!();
    // First moments of a few quanta, second moments of zero: only rounding produces this.
    let (scene, mut slots) = copies(512, 1.0);
    slots.counts.fill(0);
    for storage in [Storage::F16, Storage::Bf16] {
        let precision = Precision {
            sh: storage,
            moments: storage,
        };
        let mut fixture = Fixture::new(&Stages::new(context(), precision), &scene, &slots);
        let first = vec![1e-10; 14 * fixture.capacity];
        fixture.put_moments(&first, &vec![0.0; 14 * fixture.capacity]);
        let before = fixture.planes()[0].clone();
        fixture.update(&step(100));
        let after = fixture.planes()[0].clone();
        let most = after
            .iter()
            .zip(&before)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f32::max);
        assert!(most < 10.0 * RATE, "{storage}: {most}");
    }
}

#[test]
fn rounding_is_alike_in_every_run_and_leaves_what_can_be_stored() {
    require_gpu!();
    let (scene, slots) = copies(300, 1.0);
    for storage in [Storage::F16, Storage::Bf16] {
        let precision = Precision {
            sh: storage,
            moments: storage,
        };
        let stages = Stages::new(context(), precision);
        let run = |number: u32| {
            let fixture = Fixture::new(&stages, &scene, &slots);
            fixture.update(&step(number));
            fixture.words()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));

        let unseen = Slots {
            counts: vec![0; 300],
            ..slots.clone()
        };
        let fixture = Fixture::new(&stages, &scene, &unseen);
        let before = fixture.words();
        fixture.update(&step(3));
        assert_eq!(fixture.words(), before);
    }
}

#[test]
fn half_a_pair_is_left_alone() {
    require_gpu!();
    // Degree 1 ends with coefficient 3; coefficient 4 shares a word with it.
    let scene = scenes::named("random_sh3");
    let (slots, _) = Slots::of_scene(&scene, |_| 1);
    for storage in [Storage::F16, Storage::Bf16] {
        let precision = Precision {
            sh: storage,
            moments: storage,
        };
        let mut fixture = Fixture::new(&Stages::new(context(), precision), &scene, &slots);
        let rest = sh_planes(3);
        let values: Vec<f32> = (0..rest * fixture.capacity)
            .map(|i| 1e-6 * (i % 97) as f32)
            .collect();
        fixture.put_sh_moments(&values, &values);
        let before = fixture.planes();
        fixture.update(&Step {
            sh_degree: 1,
            ..step(1)
        });
        let after = fixture.planes();
        let unused = (14 + sh_planes(1)) * fixture.n;
        for kind in 0..3 {
            assert_eq!(
                after[kind][unused..],
                before[kind][unused..],
                "{storage} {kind}"
            );
            assert_ne!(
                after[kind][14 * fixture.n..unused],
                before[kind][14 * fixture.n..unused]
            );
        }
    }
}
