//! Tests of layers, optimizers and weights.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use dapple_tensor::layers::{Embedding, Linear, Lora, LoraOptions, Mlp};
use dapple_tensor::optimizer::Adam;
use dapple_tensor::{Context, DType, Plan, PlanOptions, weights};
use support::{bits, both, close, contexts, numbers, wide};

#[test]
fn a_lora_that_has_not_learned_changes_no_bit() {
    for context in contexts() {
        let x = context.tensor(&[3, 40], &numbers(1, 120));
        let base = Linear::new(&context, 40, 24, 1);
        let lora = Lora::new(&context, 40, 24, &LoraOptions::default()).unwrap();
        let plain = base.forward(&x).read().unwrap();
        assert_eq!(
            bits(&lora.forward(&base, &x, None).read().unwrap()),
            bits(&plain)
        );
        // With a B that is not 0, merging gives the same result within rounding.
        lora.b.write(&numbers(2, 8 * 24)).unwrap();
        let added = lora.forward(&base, &x, None).read().unwrap();
        assert_ne!(bits(&added), bits(&plain));
        close(
            "merged",
            &lora.merged(&base).forward(&x).read().unwrap(),
            &wide(&added),
            1e-5,
        );
        let delta: Vec<f64> = added
            .iter()
            .zip(&plain)
            .map(|(a, b)| f64::from(a - b))
            .collect();
        close("delta", &lora.delta(&x).read().unwrap(), &delta, 1e-5);
    }
}

/// The base's sum continues with the addition's: equal within the rounding of another order.
#[test]
fn base_and_addition_are_one_product() {
    let shapes = [
        // Rows, inputs, outputs, rank: thin, tiled, with remainders, on both sides.
        (1, 64, 48, 8),
        (3, 40, 24, 1),
        (1, 36, 7, 3),
        (70, 64, 96, 8),
        (33, 52, 35, 5),
        (130, 128, 132, 64),
        (300, 256, 64, 16),
    ];
    for context in contexts() {
        for (rows, inputs, outputs, rank) in shapes {
            let base = Linear::new(&context, inputs, outputs, 1);
            let bias = base.bias.as_ref().unwrap();
            bias.write(&numbers(3, outputs)).unwrap();
            let options = LoraOptions {
                rank,
                ..LoraOptions::default()
            };
            let lora = Lora::new(&context, inputs, outputs, &options).unwrap();
            lora.b.write(&numbers(2, rank * outputs)).unwrap();
            let x = context.tensor(&[rows, inputs], &numbers(4, rows * inputs));
            let y = lora.forward(&base, &x, None).relu();
            let plan = Plan::compile(&[&y]).unwrap();
            assert_eq!(plan.work().kernels, 2, "{}", plan.explain());
            let name = format!("{rows} rows, {inputs} to {outputs}, rank {rank}, on {context:?}");
            let [fused, unfused] = both(&y);
            close(&name, &fused, &wide(&unfused), 2e-6);
            // Forward and backward in one plan.
            let loss = y.mul(&y).mean();
            let gradients = loss.gradients(&lora.parameters());
            for gradient in gradients {
                let [fused, unfused] = both(&gradient);
                close(&name, &fused, &wide(&unfused), 1e-5);
            }
            // If the addition itself is a result, a separate kernel computes it: a chain for many rows and few columns.
            let chained = rows >= 64 && inputs.max(outputs) <= 128;
            let delta = lora.delta(&x);
            let both = base.forward(&x).add(&delta);
            let plan = Plan::compile(&[&both, &delta]).unwrap();
            let kernels = if chained { 2 } else { 3 };
            assert_eq!(plan.work().kernels, kernels, "{}", plan.explain());
        }
    }
}

#[test]
fn a_lora_of_one_row_is_two_kernels() {
    for context in contexts() {
        let x = context.tensor(&[1, 512], &numbers(1, 512));
        let lora = Lora::new(&context, 512, 512, &LoraOptions::default()).unwrap();
        assert_eq!(Plan::compile(&[&lora.delta(&x)]).unwrap().work().kernels, 2);
    }
}

#[test]
fn dropout_leaves_out_and_weighs_the_rest() {
    let context = Context::cpu();
    let options = LoraOptions {
        dropout: 0.25,
        ..LoraOptions::default()
    };
    let lora = Lora::new(&context, 1000, 10, &options).unwrap();
    lora.b.write(&numbers(2, 80)).unwrap();
    let mask = lora.mask(&[4, 1000], 7);
    let kept = mask.iter().filter(|kept| **kept == 1.0).count();
    assert!((2850..3150).contains(&kept), "{kept} of 4000");
    assert_ne!(mask, lora.mask(&[4, 1000], 8));
    let x = context.tensor(&[4, 1000], &numbers(1, 4000));
    let kept = context.tensor(&[4, 1000], &mask);
    let by_hand: Vec<f32> = numbers(1, 4000)
        .iter()
        .zip(&mask)
        .map(|(x, m)| x * m / 0.75)
        .collect();
    let expected = lora
        .delta(&context.tensor(&[4, 1000], &by_hand))
        .read()
        .unwrap();
    close(
        "dropout",
        &lora.delta_of_kept(&x, &kept).read().unwrap(),
        &wide(&expected),
        1e-5,
    );
    // The layer drops inputs of the addition with a mask, and none without a mask.
    let base = Linear::new(&context, 1000, 10, 1);
    let plain = wide(&base.forward(&x).read().unwrap());
    let without = wide(&lora.delta(&x).read().unwrap());
    for (mask, delta) in [(Some(&kept), wide(&expected)), (None, without)] {
        let sum: Vec<f64> = plain.iter().zip(&delta).map(|(a, b)| a + b).collect();
        let found = lora.forward(&base, &x, mask).read().unwrap();
        close("forward", &found, &sum, 1e-5);
    }
}

#[test]
fn a_lora_that_makes_no_sense_is_refused() {
    let context = Context::cpu();
    let of = |rank: usize, alpha: f32, dropout: f32| {
        let options = LoraOptions {
            rank,
            alpha,
            dropout,
            seed: 0,
        };
        Lora::new(&context, 16, 12, &options)
            .map(|_| ())
            .map_err(|e| e.to_string())
    };
    assert!(of(12, 1.0, 0.0).is_ok());
    for (wrong, word) in [
        (of(0, 1.0, 0.0), "rank 0"),
        (of(13, 1.0, 0.0), "1 to 12"),
        (of(4, 0.0, 0.0), "alpha 0"),
        (of(4, f32::NAN, 0.0), "alpha NaN"),
        (of(4, 1.0, 1.0), "dropout 1"),
        (of(4, 1.0, -0.1), "dropout -0.1"),
    ] {
        let error = wrong.unwrap_err();
        assert!(error.contains(word) && error.contains("hint:"), "{error}");
    }
}

/// A step of Adam in `f64`.
fn adam(adam: &Adam, x: &mut f64, g: f64, [m, v]: &mut [f64; 2], step: i32) {
    let (b1, b2) = (f64::from(adam.beta1), f64::from(adam.beta2));
    let rate = f64::from(adam.learning_rate);
    *m = b1 * *m + (1.0 - b1) * g;
    *v = b2 * *v + (1.0 - b2) * g * g;
    *x -= rate * f64::from(adam.weight_decay) * *x;
    let (m, v) = (*m / (1.0 - b1.powi(step)), *v / (1.0 - b2.powi(step)));
    *x -= rate * m / (v.sqrt() + f64::from(adam.epsilon));
}

#[test]
fn adam_does_what_its_paper_says() {
    for context in contexts() {
        let options = Adam {
            learning_rate: 0.05,
            weight_decay: 0.1,
            ..Adam::default()
        };
        let start = numbers(1, 9);
        let target = numbers(2, 9);
        let x = context.tensor(&[9], &start);
        let y = context.tensor(&[9], &target);
        let loss = x.sub(&y).pow(2.0).sum();
        let gradients = loss.gradients(&[&x]);
        let state = options.state(&context, &[&x]);
        let updates = options.step(&state, &[&x], &gradients);
        let plan_options = PlanOptions {
            updates: &updates,
            ..PlanOptions::default()
        };
        let plan = Plan::compile_with(&[&loss], &plan_options).unwrap();
        let mut expected = wide(&start);
        let mut moments = [[0.0; 2]; 9];
        for step in 1..=50 {
            plan.run().unwrap();
            for i in 0..9 {
                let g = 2.0 * (expected[i] - f64::from(target[i]));
                adam(&options, &mut expected[i], g, &mut moments[i], step);
            }
        }
        close(
            &format!("Adam on {context:?}"),
            &x.read().unwrap(),
            &expected,
            1e-4,
        );
        assert_eq!(state.steps.read().unwrap(), [50.0]);
    }
}

/// Trains a small network. Returns its loss before and after, and its weights' bits.
fn trained(context: &Context) -> (f32, f32, Vec<u32>) {
    let net = Mlp::new(context, &[3, 16, 16, 1], 5);
    let embedding = Embedding::new(context, 4, 3, 6);
    let ids: Vec<u32> = (0..64).map(|i| i % 4).collect();
    let x = context
        .tensor(&[64, 3], &numbers(1, 192))
        .add(embedding.forward(&context.indices(&[64], &ids)));
    let target = context.tensor(&[64, 1], &numbers(2, 64));
    let loss = net.forward(&x).sub(&target).pow(2.0).mean();
    let mut parameters = net.parameters();
    parameters.push(&embedding.table);
    let gradients = loss.gradients(&parameters);
    let adam = Adam {
        learning_rate: 0.01,
        ..Adam::default()
    };
    let state = adam.state(context, &parameters);
    let updates = adam.step(&state, &parameters, &gradients);
    let options = PlanOptions {
        updates: &updates,
        ..PlanOptions::default()
    };
    let plan = Plan::compile_with(&[&loss], &options).unwrap();
    plan.run().unwrap();
    let before = plan.read(0).unwrap()[0];
    (0..100).for_each(|_| plan.run().unwrap());
    let after = plan.read(0).unwrap()[0];
    let all = parameters
        .iter()
        .flat_map(|p| bits(&p.read().unwrap()))
        .collect();
    (before, after, all)
}

#[test]
fn a_network_learns_and_does_so_again() {
    for context in contexts() {
        let (before, after, weights) = trained(&context);
        assert!(after < 0.5 * before, "{context:?}: {before} to {after}");
        assert_eq!(
            trained(&context).2,
            weights,
            "the same seed gives the same bytes"
        );
    }
}

#[test]
fn weights_come_back_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("weights.safetensors");
    for context in contexts() {
        let a = context.tensor(&[2, 3], &numbers(1, 6));
        let b = context.tensor_of(DType::F16, &[5], &numbers(2, 5));
        weights::save(&file, &[("b", &b), ("a", &a)]).unwrap();
        let found = weights::load(&context, &file).unwrap();
        assert_eq!(found.len(), 2);
        for ((name, found), (expected, tensor)) in found.iter().zip([("a", &a), ("b", &b)]) {
            assert_eq!(
                (name.as_str(), found.dtype(), found.shape()),
                (expected, tensor.dtype(), tensor.shape())
            );
            assert_eq!(bits(&found.read().unwrap()), bits(&tensor.read().unwrap()));
        }
        assert!(
            weights::save(&file, &[("a", &a), ("a", &b)])
                .unwrap_err()
                .to_string()
                .contains("two weights")
        );
        let whole = std::fs::read(&file).unwrap();
        for cut in [0, 4, 20, whole.len() - 1] {
            let cut_file = folder.path().join("cut.safetensors");
            std::fs::write(&cut_file, &whole[..cut]).unwrap();
            let error = weights::load(&context, &cut_file).unwrap_err().to_string();
            assert!(
                error.contains("hint:") && error.contains("cut.safetensors"),
                "{error}"
            );
        }
        assert!(weights::load(&context, &folder.path().join("none")).is_err());
    }
}
