//! Small networks as chains of products: one kernel forward, one backward. Results are equal to those of unfused plans
//! and of `f64`, within the limits of every device.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use dapple_runtime::{DeviceClass, Gpu, GpuOptions};
use dapple_tensor::layers::Mlp;
use dapple_tensor::{Context, DType, Plan, PlanOptions, Tensor};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use support::gradients::{Case, case, check};
use support::{both, close, contexts, error, numbers, wide};

/// Operation after each product except the last.
#[derive(Debug, Clone, Copy)]
enum Activation {
    Nothing,
    Relu,
    Gelu,
    Silu,
    Tanh,
}

impl Activation {
    const ALL: [Self; 5] = [
        Self::Nothing,
        Self::Relu,
        Self::Gelu,
        Self::Silu,
        Self::Tanh,
    ];

    fn tensor(self, x: &Tensor) -> Tensor {
        match self {
            Self::Nothing => x.clone(),
            Self::Relu => x.relu(),
            Self::Gelu => x.gelu(),
            Self::Silu => x.mul(x.sigmoid()),
            Self::Tanh => x.tanh(),
        }
    }

    fn number(self, x: f64) -> f64 {
        match self {
            Self::Nothing => x,
            Self::Relu => x.max(0.0),
            Self::Gelu => {
                let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
                0.5 * x * (1.0 + inner.tanh())
            }
            Self::Silu => x / (1.0 + (-x).exp()),
            Self::Tanh => x.tanh(),
        }
    }
}

/// A network: rows, widths, true if layers have biases, operation between products.
#[derive(Debug, Clone)]
struct Net {
    rows: usize,
    widths: Vec<usize>,
    biases: bool,
    activation: Activation,
    dtype: DType,
}

impl Net {
    fn layers(&self) -> usize {
        self.widths.len() - 1
    }

    /// Returns the shapes of the input, and of each layer's weights and bias.
    fn shapes(&self) -> Vec<Vec<usize>> {
        let mut all = vec![vec![self.rows, self.widths[0]]];
        for pair in self.widths.windows(2) {
            all.push(pair.to_vec());
            if self.biases {
                all.push(vec![pair[1]]);
            }
        }
        all
    }

    /// Returns values; weights are scaled so that intermediate values keep their magnitude.
    fn data(&self) -> Vec<Vec<f32>> {
        let shapes = self.shapes();
        let made = shapes.iter().enumerate().map(|(seed, shape)| {
            let values = numbers(seed as u64 + 5, shape.iter().product());
            let is_matrix = seed > 0 && shape.len() == 2;
            let scale = if is_matrix {
                (3.0 / shape[0] as f32).sqrt()
            } else {
                1.0
            };
            values.iter().map(|value| value * scale).collect()
        });
        made.collect()
    }

    fn leaves(&self, context: &Context) -> Vec<Tensor> {
        let pairs = self.shapes().into_iter().zip(self.data());
        pairs
            .map(|(shape, data)| context.tensor_of(self.dtype, &shape, &data))
            .collect()
    }

    fn graph(&self, leaves: &[Tensor]) -> Tensor {
        let mut rest = leaves.iter();
        let mut y = rest.next().unwrap().clone();
        for layer in 0..self.layers() {
            y = y.matmul(rest.next().unwrap());
            if self.biases {
                y = y.add(rest.next().unwrap());
            }
            if layer + 1 < self.layers() {
                y = self.activation.tensor(&y);
            }
        }
        y
    }

    fn formula(&self, inputs: &[Vec<f64>]) -> Vec<f64> {
        let mut rest = inputs.iter();
        let mut y = rest.next().unwrap().clone();
        for (layer, pair) in self.widths.windows(2).enumerate() {
            let (k, n) = (pair[0], pair[1]);
            let weights = rest.next().unwrap();
            let bias = self.biases.then(|| rest.next().unwrap());
            let is_last = layer + 1 == self.layers();
            let mut next = vec![0.0; self.rows * n];
            for (i, next) in next.iter_mut().enumerate() {
                let (row, column) = (i / n, i % n);
                let terms = (0..k).map(|j| y[row * k + j] * weights[j * n + column]);
                let sum = terms.sum::<f64>() + bias.map_or(0.0, |bias| bias[column]);
                *next = if is_last {
                    sum
                } else {
                    self.activation.number(sum)
                };
            }
            y = next;
        }
        y
    }
}

fn plan(outputs: &[&Tensor]) -> Plan {
    Plan::compile(outputs).unwrap()
}

/// Compares the fused plan, the unfused plan and the formula.
fn compare(context: &Context, net: &Net) {
    let leaves = net.leaves(context);
    let y = net.graph(&leaves);
    let name = format!("{net:?} on {context:?}");
    let fused = plan(&[&y]);
    assert_eq!(fused.work().kernels, 1, "{name}: {}", fused.explain());
    assert!(
        fused.explain().contains("through a chain of"),
        "{name}: {}",
        fused.explain()
    );
    let inputs: Vec<Vec<f64>> = leaves
        .iter()
        .map(|leaf| wide(&leaf.read().unwrap()))
        .collect();
    let expected = net.formula(&inputs);
    let [fused, unfused] = both(&y);
    let (apart, off) = match net.dtype {
        DType::F32 => (2e-6, 1e-5),
        // A sum with another last bit may round to the neighbouring value.
        _ => (3e-4, 2e-3),
    };
    let between = error(&fused, &wide(&unfused));
    assert!(between <= apart, "{name}: off the unfused by {between:e}");
    close(&name, &fused, &expected, off);
}

#[test]
fn networks_are_one_kernel_and_what_they_are_by_parts() {
    for context in contexts() {
        // A software renderer takes seconds to compile one.
        let cases = if context == Context::cpu() { 64 } else { 8 };
        let mut runner = TestRunner::new(Config {
            cases,
            failure_persistence: None,
            ..Config::default()
        });
        let net = (
            64..300_usize,
            prop::collection::vec(1..129_usize, 3..5),
            any::<bool>(),
            prop::sample::select(Activation::ALL.to_vec()),
            any::<bool>(),
        );
        let result = runner.run(&net, |(rows, widths, biases, activation, half)| {
            // 16-bit results are stored in fours.
            let round = |width: &usize| match half {
                true => width.next_multiple_of(4),
                false => *width,
            };
            let net = Net {
                rows,
                widths: widths.iter().map(round).collect(),
                biases,
                activation,
                dtype: if half { DType::F16 } else { DType::F32 },
            };
            compare(&context, &net);
            Ok(())
        });
        result.unwrap_or_else(|e| panic!("{context:?}: {e}"));
    }
}

/// Opens a device with the limits of browsers.
fn browser() -> Option<Context> {
    let options = GpuOptions {
        choice: dapple_base::test_requirements::test_gpu().parse().unwrap(),
        validate: true,
        class: DeviceClass::WebGpuDefault,
        ..GpuOptions::default()
    };
    match Gpu::open(&options) {
        Ok(gpu) => Some(Context::gpu(&gpu)),
        Err(error) => {
            dapple_base::test_requirements::skipped("gpu", &error.to_string());
            None
        }
    }
}

#[test]
fn browsers_grant_enough_for_them() {
    let Some(context) = browser() else { return };
    for widths in [[32, 64, 64, 3], [128, 128, 128, 128], [3, 128, 5, 64]] {
        for dtype in [DType::F32, DType::F16] {
            let round = |width: usize| match dtype {
                DType::F16 => width.next_multiple_of(4),
                _ => width,
            };
            let net = Net {
                rows: 131,
                widths: widths.map(round).to_vec(),
                biases: true,
                activation: Activation::Relu,
                dtype,
            };
            compare(&context, &net);
        }
    }
    // Enough rows for larger tiles, if the device permits them.
    let net = Net {
        rows: 64 * 200 + 1,
        widths: vec![5, 33, 2],
        biases: true,
        activation: Activation::Tanh,
        dtype: DType::F32,
    };
    for context in contexts().iter().chain([&context]) {
        compare(context, &net);
    }
}

#[test]
fn the_same_rows_are_the_same_bits_whatever_the_tile() {
    let Some(small) = browser() else { return };
    let net = Net {
        rows: 64 * 200,
        widths: vec![16, 64, 64, 3],
        biases: true,
        activation: Activation::Gelu,
        dtype: DType::F32,
    };
    let run = |context: &Context| net.graph(&net.leaves(context)).read().unwrap();
    let large = Context::gpu(&support::gpu().unwrap());
    assert_eq!(support::bits(&run(&small)), support::bits(&run(&large)));
}

#[test]
fn training_is_a_chain_each_way() {
    for context in contexts() {
        let net = Mlp::new(&context, &[8, 16, 12, 3], 1);
        let rows = 150;
        let x = context.tensor(&[rows, 8], &numbers(1, rows * 8));
        let y = net.forward(&x);
        let loss = y.mul(&y).mean();
        let gradients = loss.gradients(&net.parameters());
        let mut outputs: Vec<&Tensor> = gradients.iter().collect();
        outputs.push(&loss);
        let fused = plan(&outputs);
        let text = fused.explain();
        assert!(text.contains("3 products 8-16-12-3"), "{text}");
        assert!(text.contains("2 products 3-12-16"), "{text}");
        let options = PlanOptions {
            fuse: false,
            ..PlanOptions::default()
        };
        let unfused = Plan::compile_with(&outputs, &options).unwrap();
        assert!(!unfused.explain().contains("chain"));
        fused.run().unwrap();
        unfused.run().unwrap();
        for output in 0..outputs.len() {
            let expected = wide(&unfused.read(output).unwrap());
            let name = format!("output {output} on {context:?}");
            close(&name, &fused.read(output).unwrap(), &expected, 5e-6);
        }
    }
}

fn perceptron(name: &'static str, widths: &[usize], biases: bool, activation: Activation) -> Case {
    let net = Net {
        rows: 65,
        widths: widths.to_vec(),
        biases,
        activation,
        dtype: DType::F32,
    };
    let shapes = net.shapes();
    let shapes: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
    let other = net.clone();
    case(
        name,
        &shapes,
        [-1.0, 1.0],
        move |x| net.graph(x),
        move |x| other.formula(x),
    )
}

#[test]
fn chains_have_the_gradients_of_their_formulas() {
    let cases = [
        perceptron("gelu", &[5, 7, 2], true, Activation::Gelu),
        perceptron("silu", &[4, 8, 4, 1], true, Activation::Silu),
        perceptron("tanh", &[3, 5, 6], false, Activation::Tanh),
        perceptron("nothing", &[2, 9, 3], true, Activation::Nothing),
    ];
    for context in contexts() {
        cases.iter().for_each(|case| check(&context, case));
    }
}

#[test]
fn what_others_read_is_stored_and_nobody_waits_for_himself() {
    for context in contexts() {
        let of =
            |seed, shape: &[usize]| context.tensor(shape, &numbers(seed, shape.iter().product()));
        let (x, a, b) = (of(1, &[100, 6]), of(2, &[6, 8]), of(3, &[8, 8]));
        let compare = |outputs: &[&Tensor], kernels: usize| {
            let fused = plan(outputs);
            assert_eq!(fused.work().kernels, kernels, "{}", fused.explain());
            fused.run().unwrap();
            let options = PlanOptions {
                fuse: false,
                ..PlanOptions::default()
            };
            let unfused = Plan::compile_with(outputs, &options).unwrap();
            unfused.run().unwrap();
            for output in 0..outputs.len() {
                let expected = wide(&unfused.read(output).unwrap());
                let found = fused.read(output).unwrap();
                close("a chain that is stored", &found, &expected, 2e-6);
            }
        };
        let hidden = x.matmul(&a).relu();
        let y = hidden.matmul(&b);
        compare(&[&y, &hidden], 1);
        // Two heads: one continues the chain, the other reads the stored values.
        compare(&[&y, &hidden.matmul(&of(4, &[8, 3]))], 2);
        // A skip connection: the second product's kernel reads the first's result again, and is a separate kernel.
        compare(&[&y.add(&hidden)], 2);
        // The addition after the second product needs the whole result of the first.
        compare(&[&y.add(hidden.sum_axes(&[0]))], 3);
        compare(&[&y.add(hidden.softmax())], 3);
        // Another kernel of rows in between, which the chain cannot include.
        compare(&[&hidden.softmax().matmul(&b)], 3);
        // The chain is created before an input that only its first link depends on.
        let late = x.exp();
        compare(&[&late.matmul(&a).relu().matmul(&b).matmul(&b.t())], 2);
        // Weights that are computed from values of the chain.
        let own = hidden.slice(0, 0, 8);
        compare(&[&hidden.matmul(&own)], 2);
        // Few rows form no chain.
        let few = of(5, &[10, 6]).matmul(&a).relu().matmul(&b);
        compare(&[&few], 2);
    }
}
