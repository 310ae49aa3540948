//! Compares every operation with `f64`, on the CPU and on a GPU, fused and not.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use dapple_tensor::{DType, Tensor};
use support::{bits, both, close, contexts, numbers, wide};

/// An operation of one operand, its `f64` formula, and its range in the test.
type One = (
    &'static str,
    fn(&Tensor) -> Tensor,
    fn(f64) -> f64,
    [f32; 2],
);

fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + (0.797_884_560_8 * (x + 0.044_715 * x * x * x)).tanh())
}

/// Computes the error function by its series, and as 1 for large arguments.
fn erf(x: f64) -> f64 {
    if x.abs() > 5.0 {
        return x.signum();
    }
    let mut term = x;
    let mut sum = x;
    for n in 1..200 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

const ONES: [One; 19] = [
    ("neg", |x| x.neg(), |x| -x, [-9.0, 9.0]),
    ("abs", |x| x.abs(), f64::abs, [-9.0, 9.0]),
    ("sign", |x| x.sign(), f64::signum, [-9.0, 9.0]),
    ("exp", |x| x.exp(), f64::exp, [-20.0, 20.0]),
    ("log", |x| x.log(), f64::ln, [1e-3, 50.0]),
    ("sqrt", |x| x.sqrt(), f64::sqrt, [0.0, 50.0]),
    ("sin", |x| x.sin(), f64::sin, [-300.0, 300.0]),
    ("cos", |x| x.cos(), f64::cos, [-300.0, 300.0]),
    ("tan", |x| x.tan(), f64::tan, [-1.5, 1.5]),
    (
        "sigmoid",
        |x| x.sigmoid(),
        |x| 1.0 / (1.0 + (-x).exp()),
        [-20.0, 20.0],
    ),
    ("tanh", |x| x.tanh(), f64::tanh, [-4.0, 4.0]),
    ("relu", |x| x.relu(), |x| x.max(0.0), [-9.0, 9.0]),
    ("gelu", |x| x.gelu(), gelu, [-9.0, 9.0]),
    (
        "gelu_erf",
        |x| x.gelu_erf(),
        |x| 0.5 * x * (1.0 + erf(x / 2f64.sqrt())),
        [-6.0, 6.0],
    ),
    ("square", |x| x.pow(2.0), |x| x * x, [-9.0, 9.0]),
    ("pow 2.5", |x| x.pow(2.5), |x| x.powf(2.5), [0.0, 9.0]),
    ("pow 5", |x| x.pow(5.0), |x| x.powi(5), [-3.0, 3.0]),
    (
        "clamp",
        |x| x.clamp(-1.0, 2.0),
        |x| x.clamp(-1.0, 2.0),
        [-9.0, 9.0],
    ),
    (
        "affine",
        |x| x.affine(2.5, -1.0),
        |x| 2.5 * x - 1.0,
        [-9.0, 9.0],
    ),
];

#[test]
fn operations_of_one_operand_are_what_they_say() {
    for context in contexts() {
        for (name, op, formula, [least, most]) in ONES {
            // A prime: no count of lanes divides it.
            let data: Vec<f32> = numbers(7, 1009)
                .iter()
                .map(|x| least + (x + 1.0) * 0.5 * (most - least))
                .collect();
            let expected: Vec<f64> = wide(&data).into_iter().map(formula).collect();
            let result = op(&context.tensor(&[1009], &data));
            let [fused, plain] = both(&result);
            close(&format!("{name} on {context:?}"), &fused, &expected, 1e-5);
            assert_eq!(bits(&fused), bits(&plain), "{name} on {context:?}");
            let half = context.tensor_of(DType::F16, &[1009], &data);
            let rounded = half.read().unwrap();
            let expected: Vec<f64> = wide(&rounded).into_iter().map(formula).collect();
            if expected.iter().all(|value| value.abs() < 65_000.0) {
                close(
                    &format!("{name} of f16 on {context:?}"),
                    &op(&half).read().unwrap(),
                    &expected,
                    2e-3,
                );
            }
        }
    }
}

#[test]
fn operations_of_two_operands_broadcast() {
    let (a, b) = (numbers(1, 5 * 7 * 3), numbers(2, 7));
    type Two = (
        &'static str,
        fn(&Tensor, &Tensor) -> Tensor,
        fn(f64, f64) -> f64,
    );
    let all: [Two; 8] = [
        ("add", |a, b| a.add(b), |a, b| a + b),
        ("sub", |a, b| a.sub(b), |a, b| a - b),
        ("mul", |a, b| a.mul(b), |a, b| a * b),
        ("div", |a, b| a.div(b), |a, b| a / b),
        ("maximum", |a, b| a.maximum(b), f64::max),
        ("minimum", |a, b| a.minimum(b), f64::min),
        (
            "greater",
            |a, b| a.greater(b),
            |a, b| f64::from(u8::from(a > b)),
        ),
        (
            "select",
            |a, b| a.greater(0.0).select(a, b),
            |a, b| if a > 0.0 { a } else { b },
        ),
    ];
    for context in contexts() {
        let x = context.tensor(&[5, 7, 3], &a);
        let y = context.tensor(&[7, 1], &b);
        for (name, op, formula) in all {
            let expected: Vec<f64> = (0..105)
                .map(|i| formula(f64::from(a[i]), f64::from(b[i / 3 % 7])))
                .collect();
            let [fused, plain] = both(&op(&x, &y));
            close(&format!("{name} on {context:?}"), &fused, &expected, 1e-6);
            assert_eq!(bits(&fused), bits(&plain), "{name}");
        }
        // Through a transposed view.
        let turned = x.permute(&[2, 0, 1]).add(context.tensor(&[5, 7], &a[..35]));
        let expected = |i: usize| f64::from(a[i % 35 * 3 + i / 35] + a[i % 35]);
        close(
            "permuted",
            &turned.read().unwrap(),
            &(0..105).map(expected).collect::<Vec<_>>(),
            1e-6,
        );
    }
}

#[test]
fn reductions_go_over_rows_columns_and_all() {
    for context in contexts() {
        for shape in [
            [3, 5, 7],
            [4, 64, 8],
            [2, 300, 12],
            [1, 1, 40_000],
            [2, 3, 20_011],
            [1, 1009, 4],
            [7, 513, 1],
        ] {
            let count: usize = shape.iter().product();
            let data = numbers(3, count);
            let x = context.tensor(&shape, &data);
            for axis in 0..3 {
                let inner: usize = shape[axis + 1..].iter().product();
                let n = shape[axis];
                let groups: Vec<Vec<f64>> = (0..count / n)
                    .map(|g| {
                        (0..n)
                            .map(|k| f64::from(data[(g / inner * n + k) * inner + g % inner]))
                            .collect()
                    })
                    .collect();
                let of =
                    |f: &dyn Fn(&[f64]) -> f64| groups.iter().map(|g| f(g)).collect::<Vec<f64>>();
                let what = format!("axis {axis} of {shape:?} on {context:?}");
                let mean = |g: &[f64]| g.iter().sum::<f64>() / n as f64;
                close(
                    &what,
                    &x.sum_axes(&[axis]).read().unwrap(),
                    &of(&|g| g.iter().sum()),
                    1e-5,
                );
                close(
                    &what,
                    &x.mean_axes(&[axis]).read().unwrap(),
                    &of(&mean),
                    1e-5,
                );
                close(
                    &what,
                    &x.max_keep(&[axis]).read().unwrap(),
                    &of(&|g| g.iter().copied().fold(f64::MIN, f64::max)),
                    0.0,
                );
                close(
                    &what,
                    &x.min_keep(&[axis]).read().unwrap(),
                    &of(&|g| g.iter().copied().fold(f64::MAX, f64::min)),
                    0.0,
                );
                let variance =
                    |g: &[f64]| g.iter().map(|v| (v - mean(g)).powi(2)).sum::<f64>() / n as f64;
                let [fused, plain] = both(&x.variance_keep(&[axis]));
                close(&what, &fused, &of(&variance), 1e-5);
                close(&what, &plain, &of(&variance), 1e-5);
                // The nodes before the reduction are merged.
                let squares = x.mul(&x).add(1.0).sum_axes(&[axis]);
                let [fused, plain] = both(&squares);
                close(
                    &what,
                    &fused,
                    &of(&|g| g.iter().map(|v| v * v + 1.0).sum()),
                    1e-5,
                );
                close(
                    &what,
                    &plain,
                    &of(&|g| g.iter().map(|v| v * v + 1.0).sum()),
                    1e-5,
                );
            }
            let sum = data.iter().map(|v| f64::from(*v)).sum::<f64>();
            let size = data.iter().map(|v| f64::from(v.abs())).sum::<f64>();
            let found = f64::from(x.sum().item().unwrap());
            assert!(
                (found - sum).abs() <= 1e-6 * size,
                "{shape:?} on {context:?}: {found} and {sum}"
            );
            let most = data.iter().copied().fold(f32::MIN, f32::max);
            assert_eq!(x.max().item().unwrap(), most);
        }
    }
}

/// Softmax, layer norm, RMS norm of a row.
fn normed(name: &str, row: &[f64]) -> Vec<f64> {
    let n = row.len() as f64;
    match name {
        "softmax" => {
            let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let e: Vec<f64> = row.iter().map(|x| (x - most).exp()).collect();
            let sum: f64 = e.iter().sum();
            e.iter().map(|e| e / sum).collect()
        }
        "layer_norm" => {
            let mean = row.iter().sum::<f64>() / n;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
            row.iter()
                .map(|x| (x - mean) / (variance + 1e-5).sqrt())
                .collect()
        }
        _ => {
            let size = (row.iter().map(|x| x * x).sum::<f64>() / n + 1e-5).sqrt();
            row.iter().map(|x| x / size).collect()
        }
    }
}

#[test]
fn softmax_and_norms_are_one_kernel() {
    type Norm = (&'static str, fn(&Tensor) -> Tensor);
    let norms: [Norm; 3] = [
        ("softmax", |x| x.softmax()),
        ("layer_norm", |x| x.layer_norm(1e-5)),
        ("rms_norm", |x| x.rms_norm(1e-5)),
    ];
    for context in contexts() {
        for (rows, n) in [
            (64, 1024),
            (5, 7),
            (3, 4096),
            (2, 9001),
            (300, 4),
            (4, 12_000),
        ] {
            let data: Vec<f32> = numbers(4, rows * n).iter().map(|x| x * 5.0).collect();
            let x = context.tensor(&[rows, n], &data);
            for (name, op) in norms {
                let expected: Vec<f64> = data
                    .chunks(n)
                    .flat_map(|row| normed(name, &wide(row)))
                    .collect();
                let y = op(&x);
                let [fused, plain] = both(&y);
                close(
                    &format!("{name} of {rows} rows of {n} on {context:?}"),
                    &fused,
                    &expected,
                    1e-5,
                );
                close(&format!("{name} unfused"), &plain, &expected, 1e-5);
                let plan = dapple_tensor::Plan::compile(&[&y]).unwrap();
                assert_eq!(plan.work().kernels, 1, "{name}: {}", plan.explain());
                let g = context.tensor(&[rows, n], &numbers(5, rows * n));
                let gradients = y.gradients_from(&g, &[&x]);
                let plan = dapple_tensor::Plan::compile(&[&gradients[0]]).unwrap();
                assert_eq!(
                    plan.work().kernels,
                    1,
                    "{name} backward: {}",
                    plan.explain()
                );
            }
        }
    }
}

#[test]
fn products_of_any_shape() {
    let shapes = [
        (1, 64, 64, 64),
        (1, 1, 1024, 8),
        (1, 1, 8, 1024),
        (1, 130, 70, 129),
        (3, 33, 17, 5),
        (1, 300, 40, 3),
        (1, 64, 4096, 32),
        (2, 128, 128, 256),
        (1, 2, 3, 1),
        (1, 3, 20_000, 2),
        // Few columns of a tall matrix.
        (1, 1000, 260, 8),
        (2, 300, 512, 16),
        (1, 258, 301, 5),
        // Medium and large tiles, full and not full.
        (1, 832, 32, 832),
        (1, 700, 21, 700),
        (1, 1024, 16, 1024),
        (1, 1800, 9, 1900),
    ];
    for context in contexts() {
        for (batch, m, k, n) in shapes {
            let (a, b) = (numbers(8, batch * m * k), numbers(9, batch * k * n));
            let mut expected = vec![0.0; batch * m * n];
            for (i, out) in expected.iter_mut().enumerate() {
                let (z, row, column) = (i / n / m, i / n % m, i % n);
                *out = (0..k)
                    .map(|j| {
                        f64::from(a[(z * m + row) * k + j]) * f64::from(b[(z * k + j) * n + column])
                    })
                    .sum();
            }
            let what = format!("[{batch}, {m}, {k}] by [{batch}, {k}, {n}] on {context:?}");
            let x = context.tensor(&[batch, m, k], &a);
            let y = context.tensor(&[batch, k, n], &b);
            let product = x.matmul(&y);
            close(&what, &product.read().unwrap(), &expected, 1e-5);
            if expected.len() > 1 << 20 {
                // Large enough for the largest tiles: one pass is enough.
                continue;
            }
            // The same product of transposed views of transposed copies.
            let (x_t, y_t) = (x.t().contiguous(), y.t().contiguous());
            close(
                &format!("transposed {what}"),
                &x_t.t().matmul(&y_t.t()).read().unwrap(),
                &expected,
                1e-5,
            );
            // Bias, activation and residual run in the same kernel.
            let bias = context.tensor(&[n], &numbers(10, n));
            let residual = context.tensor(&[batch, m, n], &numbers(11, batch * m * n));
            let y = product.add(&bias).relu().add(&residual);
            let finished: Vec<f64> = (0..expected.len())
                .map(|i| (expected[i] + f64::from(numbers(10, n)[i % n])).max(0.0))
                .zip(wide(&numbers(11, batch * m * n)))
                .map(|(a, b)| a + b)
                .collect();
            let [fused, plain] = both(&y);
            close(&what, &fused, &finished, 1e-5);
            close(&what, &plain, &finished, 1e-5);
            // 16-bit storage adds its own error to that of the rounded operands.
            let [x16, y16] = [&x, &context.tensor(&[batch, k, n], &b)].map(|t| t.to(DType::F16));
            let product = x16.matmul(&y16);
            assert_eq!(product.dtype(), DType::F16);
            close(
                &format!("f16 {what}"),
                &product.read().unwrap(),
                &expected,
                2e-3,
            );
        }
    }
}

/// Large and small tiles, plain and transposed, in batches, with elementwise operations, if the device has cooperative
/// matrices and uses them. On other devices both plans are equal.
#[test]
fn products_of_16_bit_matrices_with_and_without_cooperative_matrices() {
    for context in contexts() {
        let cooperates = context.cooperates().unwrap();
        let of = |shape: &[usize], seed| {
            let values = numbers(seed, shape.iter().product());
            context.tensor_of(DType::F16, shape, &values)
        };
        let bias = of(&[192], 5);
        let mut graphs = vec![
            of(&[128, 96], 1)
                .matmul(&of(&[96, 192], 2))
                .add(&bias)
                .gelu(),
            of(&[96, 128], 1).t().matmul(&of(&[192, 96], 2).t()),
            of(&[2, 64, 192], 1).matmul(&of(&[2, 192, 64], 2)),
            of(&[3, 64, 64], 1)
                .t()
                .matmul(&of(&[64, 128], 2).expand(&[3, 64, 128])),
        ];
        if cooperates {
            graphs.push(of(&[1280, 64], 1).matmul(&of(&[64, 2560], 2)));
            graphs.push(
                of(&[64, 1280], 1)
                    .t()
                    .matmul(&of(&[2560, 64], 2).t())
                    .relu(),
            );
        }
        for graph in &graphs {
            let run = |cooperative: bool| {
                let options = dapple_tensor::PlanOptions {
                    cooperative,
                    ..Default::default()
                };
                let plan = dapple_tensor::Plan::compile_with(&[graph], &options).unwrap();
                let uses = plan
                    .sources()
                    .iter()
                    .any(|wgsl| wgsl.contains("coopMultiplyAdd"));
                assert_eq!(uses, cooperative && cooperates, "{}", plan.explain());
                plan.run().unwrap();
                let found = plan.read(0).unwrap();
                plan.run().unwrap();
                assert_eq!(bits(&found), bits(&plan.read(0).unwrap()), "{graph:?}");
                found
            };
            let name = format!("{:?} on {context:?}", graph.shape());
            close(&name, &run(true), &wide(&run(false)), 2e-3);
        }
    }
}

/// Gradients of weights: `[k, m]` transposed by `[k, n]`, whose long sums are cut into parts, with and without a
/// remainder.
#[test]
fn products_of_tall_matrices() {
    let shapes = [
        (20_000, 64, 64),
        (18_432, 32, 3),
        (16_411, 5, 7),
        (17_408, 128, 124),
        (16_640, 1, 36),
        (20_011, 60, 128),
    ];
    for context in contexts() {
        for (k, m, n) in shapes {
            for dtype in [DType::F32, DType::F16] {
                let a = context.tensor_of(dtype, &[k, m], &numbers(k as u64, k * m));
                let b = context.tensor_of(dtype, &[k, n], &numbers(m as u64, k * n));
                let [wide_a, wide_b] = [&a, &b].map(|x| wide(&x.read().unwrap()));
                let mut expected = vec![0.0; m * n];
                for (a, b) in wide_a.chunks(m).zip(wide_b.chunks(n)) {
                    for (a, line) in a.iter().zip(expected.chunks_mut(n)) {
                        line.iter_mut().zip(b).for_each(|(sum, b)| *sum += a * b);
                    }
                }
                let name = format!("{k} rows of {m} and {n} {dtype:?} on {context:?}");
                // Operations after the sum are part of its last kernel.
                let y = a.t().matmul(&b).to(DType::F32).mul(0.5);
                let expected: Vec<f64> = expected.iter().map(|x| 0.5 * x).collect();
                let tolerance = if dtype == DType::F32 { 1e-5 } else { 2e-3 };
                for found in both(&y) {
                    close(&name, &found, &expected, tolerance);
                }
                let again = y.read().unwrap();
                assert_eq!(bits(&again), bits(&y.read().unwrap()), "{name}");
            }
        }
    }
}

#[test]
fn cat_slices_and_embeddings() {
    for context in contexts() {
        let data = numbers(12, 4 * 6);
        let x = context.tensor(&[4, 6], &data);
        let parts: Vec<Tensor> = (0..3).map(|i| x.slice(1, 2 * i, 2)).collect();
        let refs: Vec<&Tensor> = parts.iter().collect();
        assert_eq!(Tensor::cat(&refs, 1).read().unwrap(), data);
        let rows = Tensor::cat(&[&x.slice(0, 2, 2), &x.slice(0, 0, 2)], 0);
        assert_eq!(rows.read().unwrap(), [&data[12..], &data[..12]].concat());
        let many: Vec<Tensor> = (0..17).map(|i| x.slice(0, i % 4, 1)).collect();
        let many = Tensor::cat(&many.iter().collect::<Vec<_>>(), 0);
        let expected: Vec<f32> = (0..17)
            .flat_map(|i| data[i % 4 * 6..(i % 4 + 1) * 6].to_vec())
            .collect();
        assert_eq!(many.read().unwrap(), expected);
        let none = Tensor::cat(&[], 0).read().unwrap_err().to_string();
        assert!(
            none.contains("cat of no tensors") && none.contains("hint:"),
            "{none}"
        );

        let numbers = context.indices(&[5], &[3, 0, 3, 1, 9]);
        let found = x.embedding(&numbers).read().unwrap();
        assert_eq!(found[..6], data[18..]);
        assert_eq!(found[6..12], data[..6]);
        assert!(found[24..].iter().all(|value| value.is_nan()));
        let half = x.to(DType::F16);
        let expected = half.read().unwrap();
        assert_eq!(
            half.embedding(&numbers).read().unwrap()[..6],
            expected[18..]
        );
    }
}
