//! Compares gradients with differences of `f64` formulas, for fused and unfused plans.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use dapple_tensor::{CustomOp, DType, Plan, Tensor};
use std::sync::Arc;
use support::gradients::{Case, Formula, case, check, differences, weight};
use support::{close, contexts, numbers, wide};

fn one(
    name: &'static str,
    range: [f32; 2],
    graph: fn(&Tensor) -> Tensor,
    formula: fn(f64) -> f64,
) -> Case {
    case(
        name,
        &[&[3, 7]],
        range,
        move |x| graph(&x[0]),
        move |x| x[0].iter().map(|x| formula(*x)).collect(),
    )
}

fn two(
    name: &'static str,
    graph: fn(&Tensor, &Tensor) -> Tensor,
    formula: fn(f64, f64) -> f64,
) -> Case {
    case(
        name,
        &[&[3, 7], &[7]],
        [0.3, 2.0],
        move |x| graph(&x[0], &x[1]),
        move |x| {
            x[0].iter()
                .enumerate()
                .map(|(i, a)| formula(*a, x[1][i % 7]))
                .collect()
        },
    )
}

fn erf(x: f64) -> f64 {
    let mut term = x;
    let mut sum = x;
    for n in 1..100 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + (0.797_884_560_8 * (x + 0.044_715 * x * x * x)).tanh())
}

fn elements() -> Vec<Case> {
    vec![
        one("neg", [-2.0, 2.0], |x| x.neg(), |x| -x),
        one("abs", [-2.0, 2.0], |x| x.abs(), f64::abs),
        one("exp", [-2.0, 2.0], |x| x.exp(), f64::exp),
        one("log", [0.5, 2.0], |x| x.log(), f64::ln),
        one("sqrt", [0.5, 2.0], |x| x.sqrt(), f64::sqrt),
        one("sin", [-4.0, 4.0], |x| x.sin(), f64::sin),
        one("cos", [-4.0, 4.0], |x| x.cos(), f64::cos),
        one("tan", [-1.0, 1.0], |x| x.tan(), f64::tan),
        one(
            "sigmoid",
            [-3.0, 3.0],
            |x| x.sigmoid(),
            |x| 1.0 / (1.0 + (-x).exp()),
        ),
        one("tanh", [-2.0, 2.0], |x| x.tanh(), f64::tanh),
        one("relu", [-2.0, 2.0], |x| x.relu(), |x| x.max(0.0)),
        one("gelu", [-3.0, 3.0], |x| x.gelu(), gelu),
        one(
            "gelu_erf",
            [-3.0, 3.0],
            |x| x.gelu_erf(),
            |x| 0.5 * x * (1.0 + erf(x / 2f64.sqrt())),
        ),
        one("pow 2.5", [0.5, 2.0], |x| x.pow(2.5), |x| x.powf(2.5)),
        one("pow 3", [-2.0, 2.0], |x| x.pow(3.0), |x| x.powi(3)),
        one(
            "clamp",
            [-2.0, 2.0],
            |x| x.clamp(-1.0, 0.5),
            |x| x.clamp(-1.0, 0.5),
        ),
        two("add", |a, b| a.add(b), |a, b| a + b),
        two("sub", |a, b| a.sub(b), |a, b| a - b),
        two("mul", |a, b| a.mul(b), |a, b| a * b),
        two("div", |a, b| a.div(b), |a, b| a / b),
        two("maximum", |a, b| a.maximum(b), f64::max),
        two("minimum", |a, b| a.minimum(b), f64::min),
        two(
            "select",
            |a, b| a.greater(1.0).select(a.mul(b), b),
            |a, b| if a > 1.0 { a * b } else { b },
        ),
        two(
            "add + relu",
            |a, b| a.sub(1.0).add(b).sub(1.0).relu(),
            |a, b| (a + b - 2.0).max(0.0),
        ),
        two(
            "mul + relu",
            |a, b| a.mul(b).sub(1.0).relu(),
            |a, b| (a * b - 1.0).max(0.0),
        ),
        two("affine", |a, b| a.affine(b, b), |a, b| a * b + b),
        two(
            "gelu(affine) * sigmoid",
            |a, b| a.affine(b, b).gelu().mul(a.sigmoid()),
            |a, b| gelu(a * b + b) / (1.0 + (-a).exp()),
        ),
    ]
}

/// Rows of 5.
fn by_rows(x: &[f64], f: impl Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
    x.chunks(5).flat_map(f).collect()
}

fn mean(row: &[f64]) -> f64 {
    row.iter().sum::<f64>() / row.len() as f64
}

fn variance(row: &[f64]) -> f64 {
    let m = mean(row);
    row.iter().map(|x| (x - m) * (x - m)).sum::<f64>() / row.len() as f64
}

fn rows() -> Vec<Case> {
    let shape: &[&[usize]] = &[&[4, 5]];
    let range = [-2.0, 2.0];
    vec![
        case(
            "sum of rows",
            shape,
            range,
            |x| x[0].sum_axes(&[1]),
            |x| by_rows(&x[0], |r| vec![r.iter().sum()]),
        ),
        case(
            "sum of columns",
            shape,
            range,
            |x| x[0].sum_axes(&[0]),
            |x| {
                (0..5)
                    .map(|c| (0..4).map(|r| x[0][r * 5 + c]).sum())
                    .collect()
            },
        ),
        case("mean", shape, range, |x| x[0].mean(), |x| vec![mean(&x[0])]),
        case(
            "variance",
            shape,
            range,
            |x| x[0].variance_keep(&[1]),
            |x| by_rows(&x[0], |r| vec![variance(r)]),
        ),
        case(
            "max of rows",
            shape,
            range,
            |x| x[0].max_keep(&[1]),
            |x| by_rows(&x[0], |r| vec![r.iter().copied().fold(f64::MIN, f64::max)]),
        ),
        case(
            "min of columns",
            shape,
            range,
            |x| x[0].min_keep(&[0]),
            |x| {
                (0..5)
                    .map(|c| (0..4).map(|r| x[0][r * 5 + c]).fold(f64::MAX, f64::min))
                    .collect()
            },
        ),
        case(
            "softmax",
            shape,
            range,
            |x| x[0].softmax(),
            |x| {
                by_rows(&x[0], |r| {
                    let sum: f64 = r.iter().map(|x| x.exp()).sum();
                    r.iter().map(|x| x.exp() / sum).collect()
                })
            },
        ),
        case(
            "layer norm",
            shape,
            range,
            |x| x[0].layer_norm(1e-5),
            |x| {
                by_rows(&x[0], |r| {
                    let (m, s) = (mean(r), (variance(r) + 1e-5).sqrt());
                    r.iter().map(|x| (x - m) / s).collect()
                })
            },
        ),
        case(
            "RMS norm",
            shape,
            range,
            |x| x[0].rms_norm(1e-5),
            |x| {
                by_rows(&x[0], |r| {
                    let size = (r.iter().map(|x| x * x).sum::<f64>() / 5.0 + 1e-5).sqrt();
                    r.iter().map(|x| x / size).collect()
                })
            },
        ),
        case(
            "square + softmax of scaled rows",
            shape,
            range,
            |x| x[0].mul(&x[0]).softmax().mul(3.0),
            |x| {
                by_rows(&x[0], |r| {
                    let sum: f64 = r.iter().map(|x| (x * x).exp()).sum();
                    r.iter().map(|x| 3.0 * (x * x).exp() / sum).collect()
                })
            },
        ),
    ]
}

/// `[m, k]` by `[k, n]`.
fn product(a: &[f64], b: &[f64], [m, k, n]: [usize; 3]) -> Vec<f64> {
    (0..m * n)
        .map(|i| (0..k).map(|j| a[i / n * k + j] * b[j * n + i % n]).sum())
        .collect()
}

fn structure() -> Vec<Case> {
    let range = [-1.0, 1.0];
    vec![
        case(
            "matmul",
            &[&[6, 5], &[5, 7]],
            range,
            |x| x[0].matmul(&x[1]),
            |x| product(&x[0], &x[1], [6, 5, 7]),
        ),
        case(
            "matmul of batches and one",
            &[&[2, 3, 5], &[1, 5, 4]],
            range,
            |x| x[0].matmul(&x[1]),
            |x| {
                x[0].chunks(15)
                    .flat_map(|a| product(a, &x[1], [3, 5, 4]))
                    .collect()
            },
        ),
        case(
            "linear",
            &[&[2, 3, 5], &[5, 4], &[4]],
            range,
            |x| x[0].matmul(&x[1]).add(&x[2]).tanh(),
            |x| {
                let y = product(&x[0], &x[1], [6, 5, 4]);
                y.iter()
                    .enumerate()
                    .map(|(i, y)| (y + x[2][i % 4]).tanh())
                    .collect()
            },
        ),
        case(
            "transposed",
            &[&[3, 4]],
            range,
            |x| x[0].t().mul(x[0].t()),
            |x| (0..12).map(|i| x[0][i % 3 * 4 + i / 3].powi(2)).collect(),
        ),
        case(
            "slice",
            &[&[4, 6]],
            range,
            |x| x[0].slice(1, 2, 3).exp(),
            |x| (0..12).map(|i| x[0][i / 3 * 6 + 2 + i % 3].exp()).collect(),
        ),
        case(
            "cat",
            &[&[2, 3], &[2, 2]],
            range,
            |x| Tensor::cat(&[&x[0], &x[1], &x[0]], 1).pow(2.0),
            |x| {
                let row = |r: usize| {
                    [
                        &x[0][r * 3..r * 3 + 3],
                        &x[1][r * 2..r * 2 + 2],
                        &x[0][r * 3..r * 3 + 3],
                    ]
                    .concat()
                };
                (0..2).flat_map(row).map(|v| v * v).collect()
            },
        ),
        case(
            "embedding",
            &[&[4, 3]],
            range,
            |x| {
                x[0].embedding(&x[0].context().indices(&[5], &[1, 3, 1, 0, 1]))
                    .exp()
            },
            |x| {
                [1, 3, 1, 0, 1]
                    .iter()
                    .flat_map(|r| x[0][r * 3..r * 3 + 3].to_vec())
                    .map(f64::exp)
                    .collect()
            },
        ),
        case(
            "reshape and expand",
            &[&[6]],
            range,
            |x| x[0].reshape(&[2, 1, 3]).expand(&[2, 4, 3]).sin(),
            |x| (0..24).map(|i| x[0][i / 12 * 3 + i % 3].sin()).collect(),
        ),
        case(
            "a small network",
            &[&[8, 4], &[4, 6], &[6], &[6, 3]],
            range,
            |x| x[0].matmul(&x[1]).add(&x[2]).tanh().matmul(&x[3]).softmax(),
            |x| {
                let h = product(&x[0], &x[1], [8, 4, 6]);
                let h: Vec<f64> = h
                    .iter()
                    .enumerate()
                    .map(|(i, h)| (h + x[2][i % 6]).tanh())
                    .collect();
                let y = product(&h, &x[3], [8, 6, 3]);
                y.chunks(3)
                    .flat_map(|r| {
                        let sum: f64 = r.iter().map(|x| x.exp()).sum();
                        r.iter().map(move |x| x.exp() / sum).collect::<Vec<_>>()
                    })
                    .collect()
            },
        ),
    ]
}

#[test]
fn elements_have_the_gradients_of_their_formulas() {
    for context in contexts() {
        elements().iter().for_each(|case| check(&context, case));
    }
}

#[test]
fn rows_have_the_gradients_of_their_formulas() {
    for context in contexts() {
        rows().iter().for_each(|case| check(&context, case));
    }
}

#[test]
fn products_and_views_have_the_gradients_of_their_formulas() {
    for context in contexts() {
        structure().iter().for_each(|case| check(&context, case));
    }
}

struct Cube;

impl CustomOp for Cube {
    fn name(&self) -> &str {
        "cube"
    }

    fn forward(&self, inputs: &[Tensor]) -> Tensor {
        inputs[0].mul(&inputs[0]).mul(&inputs[0])
    }

    // Wrong intentionally, so that its use is visible.
    fn backward(&self, _: &[Tensor], output: &Tensor, gradient: &Tensor) -> Vec<Option<Tensor>> {
        vec![Some(gradient.mul(output).mul(10.0))]
    }
}

#[test]
fn custom_operations_have_backwards_of_their_own() {
    for context in contexts() {
        let x = context.tensor(&[3], &[1.0, 2.0, 3.0]);
        let y = Tensor::custom(Arc::new(Cube), &[&x]);
        assert_eq!(y.read().unwrap(), [1.0, 8.0, 27.0]);
        let gradient = y.sum().gradients(&[&x]);
        assert_eq!(gradient[0].read().unwrap(), [10.0, 80.0, 270.0]);
    }
}

/// PyTorch 2.5: `clamp` passes gradients where `min <= x <= max`, and none at NaN.
#[test]
fn clamp_passes_gradients_at_its_bounds() {
    for context in contexts() {
        for dtype in [DType::F32, DType::F16] {
            let data = [-2.0, -1.0, -0.5, 0.0, 1.0, 1.5, f32::NAN];
            let x = context.tensor_of(dtype, &[7], &data);
            let y = x.clamp(-1.0, 1.0);
            let found = y.read().unwrap();
            assert_eq!(found[..6], [-1.0, -1.0, -0.5, 0.0, 1.0, 1.0], "{context:?}");
            assert!(found[6].is_nan());
            let gradient = y.to(DType::F32).sum().gradients(&[&x]).remove(0);
            let expected = [0.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0];
            assert_eq!(gradient.read().unwrap(), expected, "{context:?}");
        }
    }
}

/// PyTorch 2.5: the exponent's gradient is `x^y log(x)`, and 0 where `x` is 0 and `y >= 0`; the base's is 0 where `y`
/// is 0.
#[test]
fn powers_of_tensors_have_both_gradients() {
    let power = case(
        "power",
        &[&[3, 7], &[7]],
        [0.3, 2.0],
        |x| x[0].power(&x[1]),
        |x| (0..21).map(|i| x[0][i].powf(x[1][i % 7])).collect(),
    );
    for context in contexts() {
        check(&context, &power);
        let x = context.tensor(&[5], &[0.0, 0.0, 0.0, -2.0, 3.0]);
        let y = context.tensor(&[5], &[2.0, 0.0, 1.0, 2.0, 0.0]);
        let gradients = x.power(&y).sum().gradients(&[&x, &y]);
        let by_base = gradients[0].read().unwrap();
        assert_eq!(by_base[..3], [0.0, 0.0, 1.0], "{context:?}");
        assert!(
            (by_base[3] + 4.0).abs() < 1e-4 && by_base[4] == 0.0,
            "{by_base:?}"
        );
        let by_exponent = gradients[1].read().unwrap();
        assert_eq!(by_exponent[..3], [0.0; 3], "{context:?}");
        assert!(by_exponent[3].is_nan(), "{by_exponent:?}");
        assert!(
            (by_exponent[4] - 3.0_f32.ln()).abs() < 1e-5,
            "{by_exponent:?}"
        );
        let gradient = x.pow(0.0).sum().gradients(&[&x]).remove(0);
        assert_eq!(gradient.read().unwrap(), [0.0; 5]);
    }
}

#[test]
fn what_a_loss_does_not_depend_on_has_no_gradient() {
    for context in contexts() {
        let x = context.tensor(&[2], &[1.0, 2.0]);
        let other = context.tensor_of(DType::F16, &[3], &[1.0; 3]);
        let loss = x.mul(x.detach()).sum();
        let gradients = loss.gradients(&[&x, &other]);
        assert_eq!(gradients[0].read().unwrap(), [1.0, 2.0]);
        assert_eq!(gradients[1].read().unwrap(), [0.0; 3]);
        assert_eq!(gradients[1].dtype(), DType::F16);
    }
}

#[test]
fn gradients_that_are_constants_go_through_products_and_tables() {
    for context in contexts() {
        let x = context.tensor(&[2, 3], &numbers(1, 6));
        let w = context.tensor(&[3, 4], &numbers(2, 12));
        let gradients = x.matmul(&w).sum().gradients(&[&x, &w]);
        let sums: Vec<f64> = (0..6)
            .map(|i| {
                (0..4)
                    .map(|n| f64::from(numbers(2, 12)[i % 3 * 4 + n]))
                    .sum()
            })
            .collect();
        close("x", &gradients[0].read().unwrap(), &sums, 1e-5);
        let sums: Vec<f64> = (0..12)
            .map(|i| {
                (0..2)
                    .map(|m| f64::from(numbers(1, 6)[m * 3 + i / 4]))
                    .sum()
            })
            .collect();
        close("w", &gradients[1].read().unwrap(), &sums, 1e-5);
        let numbers = context.indices(&[4], &[2, 0, 2, 2]);
        let gradient = w.embedding(&numbers).sum().gradients(&[&w]);
        let counts = [1.0f32, 0.0, 3.0]
            .into_iter()
            .flat_map(|count| [count; 4])
            .collect::<Vec<_>>();
        assert_eq!(gradient[0].read().unwrap(), counts, "{context:?}");
        let ones = context.full(&[2, 2], 1.0);
        assert_eq!(ones.matmul(&ones).read().unwrap(), [2.0; 4]);
        assert_eq!(
            context
                .full(&[3, 2], 5.0)
                .embedding(&numbers)
                .sum()
                .item()
                .unwrap(),
            40.0
        );
    }
}

#[test]
fn gradients_of_16_bit_leaves_are_near() {
    for context in contexts() {
        let (a, b) = (numbers(1, 12 * 8), numbers(2, 8 * 12));
        let x = context.tensor_of(DType::F16, &[12, 8], &a);
        let w = context.tensor_of(DType::F16, &[8, 12], &b);
        let gradients = x
            .matmul(&w)
            .tanh()
            .to(DType::F32)
            .sum()
            .gradients(&[&x, &w]);
        let plan = Plan::compile(&gradients.iter().collect::<Vec<_>>()).unwrap();
        plan.run().unwrap();
        let (a, b) = (wide(&x.read().unwrap()), wide(&w.read().unwrap()));
        let formula: Formula = Box::new(|x| {
            product(&x[0], &x[1], [12, 8, 12])
                .iter()
                .map(|y| y.tanh())
                .collect()
        });
        let flat: Formula = Box::new(move |x| {
            formula(x)
                .iter()
                .enumerate()
                .map(|(i, y)| y / weight(i))
                .collect()
        });
        let expected = differences(&flat, &[a, b]);
        for (output, expected) in expected.iter().enumerate() {
            close("f16", &plan.read(output).unwrap(), expected, 4e-3);
        }
    }
}
