//! Edge cases: sums in 16 bits, rows of infinities, empty axes, more workgroups than a dispatch has, NaN, mistakes.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use dapple_tensor::{Context, DType, Plan, Tensor, Windows};
use support::{bits, close, contexts, numbers, wide};

#[test]
fn a_million_16_bit_ones_are_a_million() {
    for context in contexts() {
        let ones = context.tensor_of(DType::F16, &[1_000_000], &vec![1.0; 1_000_000]);
        assert_eq!(ones.sum().item().unwrap(), 1e6, "{context:?}");
        assert_eq!(ones.mean().item().unwrap(), 1.0);
        let square = ones.reshape(&[1000, 1000]);
        assert!(
            square
                .sum_axes(&[0])
                .read()
                .unwrap()
                .iter()
                .all(|sum| *sum == 1000.0)
        );
    }
}

#[test]
fn rows_of_infinities_and_of_large_numbers() {
    const INF: f32 = f32::INFINITY;
    let rows = [
        [-INF, -INF, 0.0, 0.0],
        [1e4, 1e4, 1e4, 1e4],
        [-1e4, 1e4, 0.0, 0.0],
        [-INF, -INF, -INF, -INF],
        [f32::NAN, 1.0, 2.0, 3.0],
        [7.0, 7.0, 7.0, 7.0],
    ];
    for context in contexts() {
        let x = context.tensor(&[6, 4], rows.as_flattened());
        let y = x.softmax().read().unwrap();
        assert_eq!(
            y[..12],
            [
                0.0, 0.0, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.0, 1.0, 0.0, 0.0
            ],
            "{context:?}"
        );
        assert!(
            y[12..20].iter().all(|value| value.is_nan()),
            "{context:?}: {y:?}"
        );
        assert_eq!(y[20..], [0.25; 4]);
        let normed = x.layer_norm(1e-5).read().unwrap();
        assert_eq!(normed[4..8], [0.0; 4], "a constant row");
        assert_eq!(normed[20..], [0.0; 4]);
        assert_eq!(x.max_keep(&[1]).read().unwrap()[..4], [0.0, 1e4, 1e4, -INF]);
        assert!(x.max_keep(&[1]).read().unwrap()[4].is_nan());
        assert!(x.max().item().unwrap().is_nan());
    }
}

#[test]
fn activations_at_the_ends() {
    let data = [
        1e4,
        -1e4,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        0.0,
        -0.0,
        1e-6,
    ];
    for context in contexts() {
        let x = context.tensor(&[8], &data);
        let gelu = x.gelu().read().unwrap();
        assert_eq!(gelu[..4], [1e4, 0.0, f32::INFINITY, 0.0], "{context:?}");
        assert!(gelu[4].is_nan());
        let tanh = x.tanh().read().unwrap();
        assert_eq!(tanh[..4], [1.0, -1.0, 1.0, -1.0]);
        assert!(tanh[4].is_nan() && tanh[7] == 1e-6, "{tanh:?}");
        let relu = x.relu().read().unwrap();
        assert_eq!(relu[..4], [1e4, 0.0, f32::INFINITY, 0.0]);
        assert!(relu[4].is_nan());
        let sigmoid = x.sigmoid().read().unwrap();
        assert_eq!(sigmoid[..4], [1.0, 0.0, 1.0, 0.0]);
        assert!(x.maximum(0.0).read().unwrap()[4].is_nan());
        let full = context.full(&[3], f32::NEG_INFINITY).exp().read().unwrap();
        assert_eq!(full, [0.0; 3]);
    }
}

#[test]
fn empty_axes() {
    for context in contexts() {
        let none = context.tensor(&[0, 4], &[]);
        assert_eq!(none.add(1.0).relu().read().unwrap(), [0.0f32; 0]);
        assert_eq!(none.sum_axes(&[0]).read().unwrap(), [0.0; 4]);
        assert_eq!(none.sum().item().unwrap(), 0.0);
        assert_eq!(none.softmax().read().unwrap(), [0.0f32; 0]);
        assert_eq!(none.max_keep(&[0]).read().unwrap(), [f32::NEG_INFINITY; 4]);
        assert!(none.mean().item().unwrap().is_nan());
        let thin = context.tensor(&[4, 0], &[]);
        assert_eq!(thin.matmul(&none).read().unwrap(), [0.0; 16]);
        assert_eq!(thin.sum_axes(&[1]).read().unwrap(), [0.0; 4]);
        // Rows without elements, fused and not: a row's sum exists, its elements do not.
        let rows = context.tensor(&[3, 0], &[]);
        for norm in [
            rows.softmax(),
            rows.log_softmax(),
            rows.layer_norm(1e-5),
            rows.rms_norm(1e-5),
        ] {
            let gradient = norm.sum().gradients(&[&rows]).remove(0);
            for tensor in [&norm, &gradient, &norm.exp().add(&norm)] {
                assert!(
                    support::both(tensor).iter().all(Vec::is_empty),
                    "{context:?}"
                );
            }
            let sums = norm.sum_axes(&[1]);
            let plan = Plan::compile(&[&norm, &sums]).unwrap();
            plan.run().unwrap();
            assert_eq!(
                (plan.read(0).unwrap(), plan.read(1).unwrap()),
                (vec![], vec![0.0; 3])
            );
        }
        let nothing = context.tensor(&[0, 0], &[]);
        for norm in [nothing.layer_norm(1e-5), nothing.softmax()] {
            assert_eq!(norm.sum().item().unwrap(), 0.0, "{context:?}");
        }
        let (image, kernel) = (
            context.tensor(&[1, 0, 4, 4], &[]),
            context.tensor(&[2, 0, 3, 3], &[]),
        );
        let convolved = image.conv2d(&kernel, Windows::default());
        let refused = convolved.read().unwrap_err().to_string();
        assert!(refused.contains("at least one channel"), "{refused}");
        let some = context.tensor(&[2, 4], &[1.0; 8]);
        assert_eq!(Tensor::cat(&[&none, &some], 0).read().unwrap(), [1.0; 8]);
        // No column of a wider tensor, whose rows are apart.
        let no_column = some.slice(1, 1, 0);
        let last = some.slice(1, 3, 1);
        let joined = Tensor::cat(&[&no_column, &last], 1);
        assert_eq!(joined.read().unwrap(), [1.0; 2]);
    }
}

#[test]
fn convolutions_of_no_images_have_gradients() {
    for context in contexts() {
        let image = context.tensor(&[0, 3, 8, 8], &[]);
        let weight = context.tensor(&[4, 3, 3, 3], &numbers(1, 108));
        let y = image.conv2d(&weight, Windows::new(1, 1));
        assert_eq!(y.read().unwrap(), [0.0f32; 0]);
        let gradients = y.sum().gradients(&[&weight, &image]);
        assert_eq!(gradients[0].read().unwrap(), [0.0; 108], "{context:?}");
        assert_eq!(gradients[1].read().unwrap(), [0.0f32; 0]);
        let pooled = image.max_pool2d([2, 2], Windows::new(2, 0));
        let gradient = pooled.sum().gradients(&[&image]).remove(0);
        assert_eq!(gradient.read().unwrap(), [0.0f32; 0]);
    }
}

#[test]
fn more_workgroups_than_one_dimension_has() {
    for context in contexts() {
        // 70 001 rows of 1 024 lanes would be too large: rows of 257 numbers are one workgroup each.
        let (rows, n) = (70_001, 257);
        let data = numbers(1, rows * n);
        let x = context.tensor(&[rows, n], &data);
        let expected: Vec<f64> = data.chunks(n).map(|row| wide(row).iter().sum()).collect();
        close(
            &format!("{context:?}"),
            &x.sum_axes(&[1]).read().unwrap(),
            &expected,
            1e-5,
        );
        let doubled = x.add(&x).read().unwrap();
        assert!(doubled.iter().zip(&data).all(|(found, x)| *found == x + x));
    }
}

#[test]
fn runs_give_the_same_bytes() {
    for context in contexts() {
        let x = context.tensor(&[64, 300], &numbers(2, 64 * 300));
        let w = context.tensor(&[300, 100], &numbers(3, 300 * 100));
        let y = x.matmul(&w).softmax();
        let loss = y.mul(&y).sum();
        let gradients = loss.gradients(&[&x, &w]);
        let plan = Plan::compile(&[&loss, &gradients[0], &gradients[1]]).unwrap();
        let run = || {
            plan.run().unwrap();
            (0..3)
                .flat_map(|i| bits(&plan.read(i).unwrap()))
                .collect::<Vec<u32>>()
        };
        let first = run();
        assert!((0..3).all(|_| run() == first), "{context:?}");
    }
}

#[test]
fn a_replay_makes_nothing_and_waits_for_nothing() {
    let Some(gpu) = support::gpu() else { return };
    let context = Context::gpu(&gpu);
    let x = context.tensor(&[32, 64], &numbers(2, 2048));
    let w = context.tensor(&[64, 64], &numbers(3, 4096));
    let loss = x.matmul(&w).gelu().layer_norm(1e-5).sum();
    let gradients = loss.gradients(&[&w]);
    let plan = Plan::compile(&[&loss, &gradients[0]]).unwrap();
    plan.run().unwrap();
    gpu.wait().unwrap();
    let before = gpu.counters();
    for _ in 0..100 {
        plan.run().unwrap();
    }
    let after = gpu.counters();
    assert_eq!(after.buffers_created, before.buffers_created);
    assert_eq!(after.bindings_created, before.bindings_created);
    assert_eq!(after.waits, before.waits);
    assert_eq!(
        after.dispatches - before.dispatches,
        100 * plan.work().kernels as u64
    );
    // Small runs share submissions.
    assert!((1..=100).contains(&(after.submissions - before.submissions)));
    assert_eq!(after.bytes_written, before.bytes_written);
}

#[test]
fn mistakes_name_both_operands_and_say_what_to_do() {
    for context in contexts() {
        let a = context.tensor(&[2, 3], &[0.0; 6]).named("a");
        let b = context.tensor(&[4, 5], &[0.0; 20]).named("b");
        let says = |tensor: Tensor, words: &[&str]| {
            // Later operations pass the first mistake on.
            let error = tensor.relu().sum().read().unwrap_err().to_string();
            for word in words.iter().chain(&["hint:"]) {
                assert!(error.contains(word), "{error}: {word}");
            }
        };
        says(a.add(&b), &["add", "\"a\" f32[2, 3]", "\"b\" f32[4, 5]"]);
        says(a.matmul(&b), &["matmul", "\"a\"", "\"b\""]);
        says(
            a.matmul(&context.tensor(&[3], &[0.0; 3])),
            &["matmul", "two axes"],
        );
        says(a.reshape(&[7]), &["reshaped to [7]"]);
        says(a.sum_axes(&[2]), &["sum over axis 2", "2 axes"]);
        says(a.sum_axes(&[1, 1]), &["sum over axis 1", "twice"]);
        says(a.mean_keep(&[0, 1, 0]), &["sum over axis 0", "twice"]);
        let indices = context.indices(&[2, 2], &[0, 1, 2, 3]);
        says(indices.t().reshape(&[4]).add(0.0), &["indices"]);
        says(a.slice(1, 2, 2), &["axis 1", "it has 3"]);
        says(a.permute(&[0, 0]), &["permuted"]);
        says(a.expand(&[2, 4]), &["expanded to [2, 4]"]);
        says(Tensor::cat(&[&a, &b], 0), &["cat", "\"a\"", "\"b\""]);
        says(a.embedding(&b), &["embedding", "indices"]);
        says(context.tensor(&[2], &[1.0]), &["1 values", "[2]"]);
        says(context.indices(&[1], &[1]).add(&a), &["indices"]);
        says(context.constant(0.0).softmax(), &["softmax"]);
        let other = Context::cpu().tensor(&[2, 3], &[0.0; 6]).named("other");
        says(a.add(&other), &["add", "\"a\"", "\"other\"", "the CPU"]);
        assert!(
            a.gradients(&[&a])[0]
                .read()
                .unwrap_err()
                .to_string()
                .contains("only one number")
        );
        assert!(
            a.add(1.0)
                .write(&[0.0; 6])
                .unwrap_err()
                .to_string()
                .contains("is computed")
        );
        assert!(
            a.write(&[0.0; 5])
                .unwrap_err()
                .to_string()
                .contains("5 values")
        );
        assert!(Plan::compile(&[]).is_err());
        assert!(
            Plan::compile(&[&a, &other])
                .unwrap_err()
                .to_string()
                .contains("two contexts")
        );
    }
}

#[test]
fn a_long_chain_is_dropped_and_planned() {
    let context = Context::cpu();
    let mut x = context.tensor(&[4], &[0.0; 4]);
    for _ in 0..50_000 {
        x = x.add(1.0);
    }
    assert_eq!(x.read().unwrap(), [50_000.0; 4]);
}
