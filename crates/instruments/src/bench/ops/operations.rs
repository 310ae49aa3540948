//! Operations and shapes of the benchmarks.

use super::{Case, Options};
use dapple_base::Result;
use dapple_tensor::layers::{Linear, Lora, LoraOptions, Mlp, normal};
use dapple_tensor::optimizer::Adam;
use dapple_tensor::{Context, DType, Plan, Tensor};

/// Creates a case on a device.
pub(crate) type Make = Box<dyn Fn(&Context) -> Case>;

/// Returns the families that `only` may name.
pub fn families() -> &'static [&'static str] {
    &[
        "elements", "fused", "reduce", "norms", "matmul", "linear", "lora", "mlp", "adam", "cat",
        "conv", "lpips", "training", "transfer", "pool",
    ]
}

/// Numbers of elements in each series of sizes.
const SIZES: [usize; 6] = [1_000, 10_000, 100_000, 1_000_000, 16_777_216, 67_108_864];
/// Limit of elements for measurements run by run.
const SMALL: usize = 10_000;
/// Sides of square products.
const SQUARES: [usize; 8] = [64, 128, 256, 512, 1024, 2048, 4096, 8192];

pub(crate) struct Cases<'a> {
    options: &'a Options,
    all: Vec<Make>,
}

/// Returns all cases that options name.
pub(crate) fn cases(options: &Options) -> Result<Vec<Make>> {
    options.check()?;
    let mut cases = Cases {
        options,
        all: Vec::new(),
    };
    for &dtype in &options.dtypes {
        cases.elements(dtype);
        cases.reductions(dtype);
        cases.norms(dtype);
        cases.matmul(dtype);
    }
    cases.convolutions();
    cases.lpips();
    cases.lora();
    cases.mlp();
    cases.training();
    cases.others();
    Ok(cases.all)
}

/// Block size: large tensors repeat a block of this size, on the device.
const BLOCK: usize = 1 << 16;

pub(crate) fn values(context: &Context, dtype: DType, shape: &[usize], seed: u32) -> Tensor {
    let count: usize = shape.iter().product();
    if count > 16 * BLOCK && count.is_multiple_of(BLOCK) {
        let block = values(context, dtype, &[1, BLOCK], seed);
        let plan = Plan::compile(&[&block.expand(&[count / BLOCK, BLOCK]).reshape(shape)]);
        let repeated = plan.and_then(|plan| plan.run().and_then(|()| plan.output(0)));
        // Without memory, the next operation reports the error.
        if let Ok(repeated) = repeated {
            return repeated;
        }
    }
    // Cheap, and different for neighbours.
    let each = |i: u32| {
        let mixed = (i.wrapping_add(seed)).wrapping_mul(2_654_435_761) >> 8;
        mixed as f32 / (1u32 << 23) as f32 - 1.0
    };
    let data: Vec<f32> = (0..count as u32).map(each).collect();
    context.tensor_of(dtype, shape, &data)
}

fn shown(count: usize) -> String {
    match count {
        c if c >= 1 << 20 && c.is_multiple_of(1 << 20) => format!("{} Mi", c >> 20),
        c if c.is_multiple_of(1_000_000) => format!("{} M", c / 1_000_000),
        c if c.is_multiple_of(1_000) => format!("{} k", c / 1_000),
        c => c.to_string(),
    }
}

/// Creates a LoRA layer of `d` inputs and outputs.
fn lora_layer(context: &Context, d: usize, rank: usize) -> Option<Lora> {
    let options = LoraOptions {
        rank,
        alpha: 2.0 * rank as f32,
        ..LoraOptions::default()
    };
    let mut lora = Lora::new(context, d, d, &options).ok()?;
    // Not 0, so that no work is saved by accident.
    lora.b = normal(context, DType::F32, &[rank, d], 0.1, 9);
    Some(lora)
}

impl Cases<'_> {
    /// Returns the storage types of elements.
    pub(super) fn dtypes(&self) -> Vec<DType> {
        self.options.dtypes.clone()
    }

    pub(super) fn push(
        &mut self,
        family: &'static str,
        name: String,
        (dtype, elements): (DType, usize),
        outputs: impl Fn(&Context) -> Vec<Tensor> + 'static,
    ) {
        self.push_updating(family, name, (dtype, elements), move |context| {
            (outputs(context), Vec::new())
        });
    }

    pub(super) fn push_updating(
        &mut self,
        family: &'static str,
        name: String,
        (dtype, elements): (DType, usize),
        make: impl Fn(&Context) -> (Vec<Tensor>, Vec<(Tensor, Tensor)>) + 'static,
    ) {
        let only = &self.options.only;
        let is_named = only.is_empty() || only.iter().any(|wanted| wanted == family);
        if !is_named || elements > self.options.most {
            return;
        }
        self.all.push(Box::new(move |context| {
            let (outputs, updates) = make(context);
            Case {
                family,
                name: name.clone(),
                dtype,
                outputs,
                updates,
                latencies: elements <= SMALL,
            }
        }));
    }

    fn elements(&mut self, dtype: DType) {
        type One = (&'static str, fn(&Tensor, &Tensor) -> Tensor);
        let plain: [One; 6] = [
            ("add", |a, b| a.add(b)),
            ("mul", |a, b| a.mul(b)),
            ("relu", |a, _| a.relu()),
            ("gelu", |a, _| a.gelu()),
            ("exp", |a, _| a.exp()),
            ("sigmoid", |a, _| a.sigmoid()),
        ];
        let fused: [One; 4] = [
            ("add + relu", |a, b| a.add(b).relu()),
            ("mul + relu", |a, b| a.mul(b).relu()),
            ("affine", |a, b| a.affine(b, b)),
            ("gelu(affine) * sigmoid", |a, b| {
                a.affine(b, b).gelu().mul(a.sigmoid())
            }),
        ];
        for count in SIZES {
            let both = plain
                .iter()
                .map(|one| ("elements", one))
                .chain(fused.iter().map(|one| ("fused", one)));
            for (family, &(name, op)) in both {
                self.push(
                    family,
                    format!("{name} {}", shown(count)),
                    (dtype, count),
                    move |context| {
                        let (a, b) = (
                            values(context, dtype, &[count], 1),
                            values(context, dtype, &[count], 2),
                        );
                        vec![op(&a, &b)]
                    },
                );
            }
        }
    }

    fn reductions(&mut self, dtype: DType) {
        type One = (&'static str, fn(&Tensor) -> Tensor);
        let all: [One; 4] = [
            ("sum", |x| x.sum()),
            ("max", |x| x.max()),
            ("mean", |x| x.mean()),
            ("variance", |x| x.variance()),
        ];
        for count in SIZES {
            for (name, op) in all {
                self.push(
                    "reduce",
                    format!("{name} {}", shown(count)),
                    (dtype, count),
                    move |context| vec![op(&values(context, dtype, &[count], 1))],
                );
            }
        }
        let square: [One; 4] = [
            ("sum of rows", |x| x.sum_axes(&[1])),
            ("sum of columns", |x| x.sum_axes(&[0])),
            ("variance of rows", |x| x.variance_keep(&[1])),
            ("variance of columns", |x| x.variance_keep(&[0])),
        ];
        for (name, op) in square {
            self.push(
                "reduce",
                format!("{name} 4096^2"),
                (dtype, 1 << 24),
                move |context| vec![op(&values(context, dtype, &[4096, 4096], 1))],
            );
        }
    }

    fn norms(&mut self, dtype: DType) {
        type One = (&'static str, fn(&Tensor) -> Tensor);
        let all: [One; 3] = [
            ("softmax", |x| x.softmax()),
            ("layer norm", |x| x.layer_norm(1e-5)),
            ("RMS norm", |x| x.rms_norm(1e-5)),
        ];
        for shape in [vec![4, 16, 1024], vec![4096, 4096]] {
            let count: usize = shape.iter().product();
            for (name, op) in all {
                let of = shape.clone();
                self.push(
                    "norms",
                    format!("{name} {shape:?}"),
                    (dtype, count),
                    move |context| vec![op(&values(context, dtype, &of, 1))],
                );
                let of = shape.clone();
                self.push(
                    "norms",
                    format!("{name} backward {shape:?}"),
                    (dtype, count),
                    move |context| {
                        let x = values(context, dtype, &of, 1);
                        // The backward pass of softmax reads its output, which exists already.
                        let y = op(&x);
                        let g = values(context, dtype, &of, 2);
                        y.gradients_from(&g, &[&x])
                    },
                );
            }
        }
    }

    fn matmul(&mut self, dtype: DType) {
        for side in SQUARES {
            // Number of elements that would take the same time.
            let size = side * side * (side / 64).max(1);
            self.push(
                "matmul",
                format!("matmul {side}^3"),
                (dtype, size),
                move |context| {
                    let (a, b) = (
                        values(context, dtype, &[side, side], 1),
                        values(context, dtype, &[side, side], 2),
                    );
                    vec![a.matmul(&b)]
                },
            );
        }
        for (m, k, n) in [
            (16, 128, 128),
            (64, 128, 128),
            (256, 128, 128),
            (4096, 1024, 1024),
        ] {
            let size = m * n * (k / 64).max(1);
            self.push(
                "linear",
                format!("linear [{m}, {k}] to {n}, bias, gelu"),
                (dtype, size),
                move |context| {
                    let x = values(context, dtype, &[m, k], 1);
                    let w = values(context, dtype, &[k, n], 2);
                    let bias = values(context, dtype, &[n], 3);
                    vec![x.matmul(&w).add(&bias).gelu()]
                },
            );
        }
    }

    fn lora(&mut self) {
        let f32 = DType::F32;
        let shapes: [&[usize]; 4] = [&[1], &[4, 16], &[2, 32], &[4096]];
        for (d, rank) in [
            (512, 8),
            (1024, 8),
            (2048, 8),
            (512, 16),
            (1024, 4),
            (1024, 16),
            (1024, 32),
            (1024, 64),
        ] {
            for rows in shapes {
                let shape: Vec<usize> = rows.iter().copied().chain([d]).collect();
                let count: usize = shape.iter().product();
                if (rows == [4096] && (d, rank) != (1024, 8))
                    || (rows == [2, 32] && d != 1024)
                    || (rows == [4, 16] && rank > 16)
                {
                    continue;
                }
                let of = shape.clone();
                self.push(
                    "lora",
                    format!("LoRA delta {shape:?} r{rank}"),
                    (f32, count),
                    move |context| {
                        lora_layer(context, d, rank)
                            .map(|lora| lora.delta(&values(context, f32, &of, 1)))
                            .into_iter()
                            .collect()
                    },
                );
                if rank == 8 {
                    self.lora_with_base((d, rank), &shape);
                }
            }
        }
    }

    /// Adds three cases: the base layer alone, with LoRA, and with LoRA and the backward pass.
    fn lora_with_base(&mut self, (d, rank): (usize, usize), shape: &[usize]) {
        let f32 = DType::F32;
        let count: usize = shape.iter().product();
        let of = shape.to_vec();
        self.push(
            "lora",
            format!("base alone {shape:?}"),
            (f32, count),
            move |context| {
                vec![Linear::new(context, d, d, 1).forward(&values(context, f32, &of, 1))]
            },
        );
        let of = shape.to_vec();
        self.push(
            "lora",
            format!("base + LoRA {shape:?} r{rank}"),
            (f32, count),
            move |context| {
                let base = Linear::new(context, d, d, 1);
                let lora = lora_layer(context, d, rank);
                lora.map(|lora| lora.forward(&base, &values(context, f32, &of, 1), None))
                    .into_iter()
                    .collect()
            },
        );
        let of = shape.to_vec();
        self.push(
            "lora",
            format!("LoRA forward + backward {shape:?} r{rank}"),
            (f32, count),
            move |context| {
                let base = Linear::new(context, d, d, 1);
                let Some(lora) = lora_layer(context, d, rank) else {
                    return Vec::new();
                };
                let y = lora.forward(&base, &values(context, f32, &of, 1), None);
                let loss = y.mul(&y).mean();
                let mut outputs = loss.gradients(&lora.parameters());
                outputs.push(loss);
                outputs
            },
        );
    }

    fn mlp(&mut self) {
        for count in [16_384, 1_048_576] {
            let make = move |context: &Context| {
                let net = Mlp::new(context, &[32, 64, 64, 3], 1);
                (net, values(context, DType::F32, &[count, 32], 1))
            };
            let name = shown(count);
            self.push(
                "mlp",
                format!("MLP 32-64-64-3 on {name}"),
                (DType::F32, count * 32),
                move |context| {
                    let (net, x) = make(context);
                    vec![net.forward(&x)]
                },
            );
            self.push(
                "mlp",
                format!("MLP 32-64-64-3 on {name}, with backward"),
                (DType::F32, count * 32),
                move |context| {
                    let (net, x) = make(context);
                    let y = net.forward(&x);
                    let loss = y.mul(&y).mean();
                    let mut outputs = loss.gradients(&net.parameters());
                    outputs.push(loss);
                    outputs
                },
            );
        }
    }

    fn others(&mut self) {
        for side in [512, 4096] {
            let name = format!("AdamW {side}^2");
            self.push_updating("adam", name, (DType::F32, side * side), move |context| {
                let adam = Adam {
                    weight_decay: 0.01,
                    ..Adam::default()
                };
                let parameter = values(context, DType::F32, &[side, side], 1);
                let gradient = values(context, DType::F32, &[side, side], 2);
                let state = adam.state(context, &[&parameter]);
                (Vec::new(), adam.step(&state, &[&parameter], &[gradient]))
            });
        }
        self.push(
            "cat",
            "cat of 4, 1 M each".to_owned(),
            (DType::F32, 4_000_000),
            move |context| {
                let parts: Vec<Tensor> = (0..4)
                    .map(|i| values(context, DType::F32, &[1000, 1000], i))
                    .collect();
                vec![Tensor::cat(&parts.iter().collect::<Vec<_>>(), 1)]
            },
        );
    }
}
