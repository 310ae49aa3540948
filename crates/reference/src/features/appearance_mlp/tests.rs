//! Appearance MLP of the reference against finite differences of itself, and the engines' shared formulas against
//! it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use crate::finite_differences::{assert_close, central_difference, weights};
use crate::scenes::Random;
use crate::{AppearanceMlpReference, Gaussian};
use dapple_engine::appearance_mlp::{self, EMBEDDING, NETWORK};
use dapple_engine::{AppearanceMlp, Gradients};
use dapple_scene::Splats;
use glam::DVec3;

/// Returns Gaussians of SH degree 1, inside the frame and outside of it.
fn splats() -> Splats {
    let mut random = Random::new(5);
    let mut splats = dapple_engine::groups::zeros(9, 1);
    let mut draw = |size: f64| random.uniform(-size, size) as f32;
    for i in 0..splats.len() {
        splats.means[i] = std::array::from_fn(|_| draw(3.0));
        splats.sh0[i] = std::array::from_fn(|_| draw(1.0));
    }
    splats.sh_rest.iter_mut().for_each(|v| *v = draw(1.0));
    splats
}

fn drawn() -> AppearanceMlp {
    let mut random = Random::new(6);
    let mut mlp = AppearanceMlp::new([0.3, -0.2, 0.1], 1.7, 2, 9, 3);
    mlp.embeddings
        .iter_mut()
        .chain(&mut mlp.features)
        .for_each(|v| *v = random.uniform(-0.6, 0.6) as f32);
    mlp
}

/// Returns the sum of all colours with fixed weights; the weights are its derivative.
fn value(gaussians: &[Gaussian], by: &[f64]) -> f64 {
    let numbers = gaussians
        .iter()
        .flat_map(|g| g.sh.iter().flat_map(|c| c.to_array()));
    numbers.zip(by).map(|(v, w)| v * w).sum()
}

#[test]
fn the_way_back_agrees_with_finite_differences() {
    let gaussians = Gaussian::all(&splats());
    let model = AppearanceMlpReference::new(&drawn(), 1);
    let by = weights(8, gaussians.len() * 12);
    let mut by_looked = Gradients::<f64>::zeros(gaussians.len(), 9);
    for i in 0..gaussians.len() {
        by_looked.sh0[i] = std::array::from_fn(|c| by[12 * i + c]);
        by_looked.sh_rest[9 * i..9 * (i + 1)].copy_from_slice(&by[12 * i + 3..12 * (i + 1)]);
    }
    let (by_own, by_look) = model.backward(&gaussians, by_looked);
    let numeric: Vec<f64> = (0..NETWORK)
        .map(|i| {
            central_difference(|step| {
                let mut moved = model.clone();
                moved.network[i] += step;
                value(&moved.looked(&gaussians), &by)
            })
        })
        .collect();
    assert_close("network", &by_look.network, &numeric);
    let numeric: Vec<f64> = (0..EMBEDDING)
        .map(|i| {
            central_difference(|step| {
                let mut moved = model.clone();
                moved.code[i] += step;
                value(&moved.looked(&gaussians), &by)
            })
        })
        .collect();
    assert_close("code", &by_look.code, &numeric);
    let numeric: Vec<f64> = (0..model.features.len())
        .map(|i| {
            central_difference(|step| {
                let mut moved = model.clone();
                moved.features[i] += step;
                value(&moved.looked(&gaussians), &by)
            })
        })
        .collect();
    assert_close("features", &by_look.features, &numeric);
    let mut own = Vec::new();
    let mut numeric = Vec::new();
    for i in 0..gaussians.len() {
        own.extend(by_own.sh0[i]);
        own.extend(&by_own.sh_rest[9 * i..9 * (i + 1)]);
        for k in 0..4 {
            for c in 0..3 {
                numeric.push(central_difference(|step| {
                    let mut moved = gaussians.clone();
                    moved[i].sh[k][c] += step;
                    value(&model.looked(&moved), &by)
                }));
            }
        }
    }
    assert_close("colours", &own, &numeric);
}

/// The formulas of engines and splat files, in `f32`.
#[test]
fn baked_splats_are_the_references() {
    let (mlp, mut baked) = (drawn(), splats());
    let expected = AppearanceMlpReference::new(&mlp, 1).looked(&Gaussian::all(&baked));
    appearance_mlp::bake(&mut baked, &mlp, &mlp.embedding(1));
    for (found, expected) in Gaussian::all(&baked).iter().zip(&expected) {
        for (a, b) in found.sh.iter().zip(&expected.sh) {
            assert!(a.distance(*b) < 2e-5 * (1.0 + b.length()), "{a} {b}");
        }
    }
}

#[test]
fn a_code_of_zeros_changes_nothing() {
    let mlp = AppearanceMlp::new([0.0; 3], 2.0, 1, 9, 9);
    let mut baked = splats();
    appearance_mlp::bake(&mut baked, &mlp, &mlp.embedding(0));
    assert_eq!(baked, splats());
}

/// By hand: one unit that is active left of the middle, and doubles red.
#[test]
fn a_known_look() {
    let mut model = AppearanceMlpReference::new(&AppearanceMlp::new([0.0; 3], 1.0, 1, 1, 0), 0);
    model.network.fill(0.0);
    model.network[1] = -4.0;
    model.network[appearance_mlp::HIDDEN * appearance_mlp::ENCODED] = 0.5;
    model.code[0] = 1.0;
    let none = [0.0; appearance_mlp::FEATURES];
    assert_eq!(model.affine(DVec3::new(-0.5, 0.6, 0.0), &none)[0], 1.0);
    assert_eq!(model.affine(DVec3::new(0.5, 0.2, 0.0), &none), [0.0; 6]);
    model.code[appearance_mlp::HIDDEN] = 3.0;
    assert_eq!(model.affine(DVec3::new(0.5, 0.2, 0.0), &none)[0], 0.5);
    // And for Gaussians with the learnt feature: their second number, twice.
    model.network[appearance_mlp::WAVES + 1] = 2.0;
    let own = [9.0, 0.5, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0];
    assert_eq!(model.affine(DVec3::new(0.5, 0.2, 0.0), &own)[0], 1.0);
}
