//! Relocation, noise and regularisers of the reference against their definitions.

#![allow(clippy::unwrap_used, reason = "tests")]

use dapple_engine::{DensifyPlan, LossOf, LossTerm, LossWeights, Relocation};
use dapple_reference::scenes;
use dapple_reference::{
    Gaussian, REGULARISERS, perturbation, regularisers, regularisers_backward, relocate, relocated,
};
use glam::{DMat3, DVec3};

/// Returns the opacity of `copies` Gaussians at one place, summed along a line through their
/// centre.
fn opaque_length(opacity: f64, scale: f64, copies: i32) -> f64 {
    let step = 0.01;
    (-2000..=2000)
        .map(|i| {
            let x = f64::from(i) * step / scale;
            1.0 - (1.0 - opacity * (-0.5 * x * x).exp()).powi(copies)
        })
        .sum::<f64>()
        * step
}

#[test]
fn copies_look_like_what_they_replace() {
    for opacity in [0.006, 0.1, 0.5, 0.9, 0.99] {
        for copies in [1, 2, 3, 7, 20] {
            let (each, ratio) = relocated(opacity, copies);
            let together = 1.0 - (1.0 - each).powi(copies as i32);
            assert!((together / opacity - 1.0).abs() < 1e-9);
            let before = opaque_length(opacity, 1.3, 1);
            let after = opaque_length(each, 1.3 * ratio, copies as i32);
            assert!(
                (after / before - 1.0).abs() < 1e-6,
                "{opacity} / {copies}: {after}, not {before}"
            );
        }
    }
}

/// Every regulariser is in the reference's list, once.
#[test]
fn no_regulariser_is_missing() {
    let mut listed: Vec<LossTerm> = REGULARISERS.iter().map(|term| term.term()).collect();
    let mut all: Vec<LossTerm> = LossTerm::ALL.to_vec();
    all.retain(|term| term.of() == LossOf::Gaussians);
    listed.sort_by_key(|&term| term as usize);
    assert_eq!(listed, all);
}

#[test]
fn regularisers_have_the_slope_that_finite_differences_find() {
    let splats = scenes::named("random_sh0").splats;
    let gaussians = Gaussian::all(&splats);
    let h = 1e-5;
    for (which, term) in REGULARISERS.iter().enumerate() {
        let name = term.term().name();
        let weights = LossWeights::default().with(term.term(), 0.3 + which as f32);
        let difference = |i: usize, change: &dyn Fn(&mut Gaussian, f64)| {
            let at = |by: f64| {
                let mut moved = gaussians.clone();
                change(&mut moved[i], by);
                regularisers(&moved, &weights)
            };
            (at(h) - at(-h)) / (2.0 * h)
        };
        let mut steepest: f64 = 0.0;
        for i in [0, gaussians.len() / 2, gaussians.len() - 1] {
            let slope = regularisers_backward(&gaussians[i], gaussians.len(), &weights);
            let mut check = |slope: f64, found: f64, what: &str| {
                steepest = steepest.max(slope.abs());
                let error = (slope - found).abs();
                let most = 1e-5 * found.abs() + 1e-12;
                assert!(error < most, "{name}, {i}, {what}: {slope} {found}");
            };
            check(
                slope.opacity,
                difference(i, &|g, by| g.opacity += by),
                "opacity",
            );
            for k in 0..3 {
                check(
                    slope.scale[k],
                    difference(i, &|g, by| g.scale[k] += by),
                    "scale",
                );
            }
            for k in 0..4 {
                check(
                    slope.quat[k],
                    difference(i, &|g, by| g.quat[k] += by),
                    "quat",
                );
            }
        }
        assert!(steepest > 1e-6, "{name} is flat");
    }
}

fn needle(opacity: f64) -> Gaussian {
    Gaussian {
        mean: DVec3::ZERO,
        scale: [0.5, -1.0, -0.2],
        quat: [0.7, 0.4, -0.3, 0.6],
        opacity: (opacity / (1.0 - opacity)).ln(),
        shown: 1.0,
        sh: vec![DVec3::ZERO],
    }
}

#[test]
fn noise_follows_the_shape() {
    let gaussian = needle(0.004);
    let [w, x, y, z] = gaussian.quat;
    let turn = DMat3::from_quat(glam::DQuat::from_xyzw(x, y, z, w).normalize());
    let (mut mean, mut squares) = (DVec3::ZERO, DVec3::ZERO);
    let mut crossed: f64 = 0.0;
    let n = 40_000;
    for i in 0..n {
        // In the Gaussian's own axes.
        let moved = turn.transpose() * perturbation(&gaussian, 2.0, 5, 700, i);
        mean += moved / f64::from(n);
        squares += moved * moved / f64::from(n);
        crossed += moved.x * moved.z / f64::from(n);
    }
    // sigmoid(100 (0.005 - 0.004)).
    let still = 1.0 / (1.0 + (-0.1f64).exp());
    for k in 0..3 {
        let deviation = 2.0 * still * (2.0 * gaussian.scale[k]).exp();
        assert!(mean[k].abs() < 0.02 * deviation, "{k}: {mean}");
        let ratio = squares[k].sqrt() / deviation;
        assert!((ratio - 1.0).abs() < 0.02, "{k}: {ratio}");
    }
    assert!(crossed.abs() < 0.02 * (squares.x * squares.z).sqrt());
}

#[test]
fn noise_stops_where_a_gaussian_is_opaque() {
    let length = |opacity| perturbation(&needle(opacity), 1.0, 5, 700, 3).length();
    let ratio = length(0.1) / length(0.005);
    let expected = 2.0 / (1.0 + (100.0 * 0.095f64).exp());
    assert!((ratio / expected - 1.0).abs() < 1e-6, "{ratio}");
}

#[test]
fn draws_go_by_opacity_and_never_to_the_dead() {
    let mut splats = scenes::named("crowd").splats;
    let n = splats.len();
    for (i, logit) in splats.opacities.iter_mut().enumerate() {
        *logit = if i % 2 == 0 { -9.0 } else { -1.5 };
    }
    // Opacity 0.2 for all Gaussians except one of 0.8.
    splats.opacities[1] = 4.0f32.ln();
    let relocation = Relocation {
        dead_opacity: 0.005,
        add_permille: 50,
    };
    let mut favourite = 0;
    let mut draws = 0;
    for step in 0..200 {
        let plan = DensifyPlan {
            step,
            seed: 9,
            max_gaussians: n + n / 100,
            ..DensifyPlan::NOTHING
        };
        let round = relocate(&splats, &plan, &relocation);
        assert_eq!(round.relocated, n.div_ceil(2));
        assert_eq!(round.added, n / 100);
        assert!(round.source.iter().all(|i| i % 2 == 1));
        favourite += round.copies[1] - 1;
        draws += round.relocated + round.added;
    }
    let living = (n / 2) as f64;
    // Opacities of 0.182 and 0.8.
    let share = 0.8 / (0.8 + 0.182_426 * (living - 1.0));
    let expected = share * draws as f64;
    let off = (f64::from(favourite) - expected).abs();
    assert!(off < 4.0 * expected.sqrt(), "{favourite}, not {expected}");
}
