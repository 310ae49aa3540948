//! Layers: parameters with their forward pass.

use crate::{Context, DType, Tensor, Windows};
use dapple_base::{Error, Result};

/// Numbers from a seed: the same on every device.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_add(0x9e37_79b9_7f4a_7c15))
    }

    /// Returns the next number of SplitMix64 (Steele, Lea, Flood 2014).
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number from 0 to 1, without 1.
    fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a number of mean 0 and deviation 1 (Box and Muller).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// Returns values of mean 0 and this deviation, equal for equal seeds.
pub fn normal(
    context: &Context,
    dtype: DType,
    shape: &[usize],
    deviation: f64,
    seed: u64,
) -> Tensor {
    let mut random = Random::new(seed);
    let count: usize = shape.iter().product();
    let data: Vec<f32> = (0..count)
        .map(|_| (deviation * random.normal()) as f32)
        .collect();
    context.tensor_of(dtype, shape, &data)
}

/// `x W + b`: `[.., inputs]` to `[.., outputs]`.
#[derive(Debug, Clone)]
pub struct Linear {
    /// `[inputs, outputs]`.
    pub weight: Tensor,
    /// `[outputs]`.
    pub bias: Option<Tensor>,
}

impl Linear {
    /// Creates weights of deviation `sqrt(2 / inputs)` (He et al. 2015) and biases of 0.
    pub fn new(context: &Context, inputs: usize, outputs: usize, seed: u64) -> Self {
        let deviation = (2.0 / inputs.max(1) as f64).sqrt();
        Self {
            weight: normal(context, DType::F32, &[inputs, outputs], deviation, seed),
            bias: Some(context.zeros(DType::F32, &[outputs])),
        }
    }

    /// Returns the output for `x`.
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let y = x.matmul(&self.weight);
        match &self.bias {
            Some(bias) => y.add(bias),
            None => y,
        }
    }

    /// Returns the trainable tensors.
    pub fn parameters(&self) -> Vec<&Tensor> {
        std::iter::once(&self.weight).chain(&self.bias).collect()
    }
}

/// A low-rank addition to a linear layer (Hu et al. 2021): `alpha / rank (x A) B`.
#[derive(Debug, Clone)]
pub struct Lora {
    /// `[inputs, rank]`, of deviation `1 / sqrt(rank)`.
    pub a: Tensor,
    /// `[rank, outputs]`, 0 at first.
    pub b: Tensor,
    scale: f32,
    dropout: f32,
}

/// Options of a [`Lora`].
#[derive(Debug, Clone, Copy)]
pub struct LoraOptions {
    /// Columns of A, rows of B.
    pub rank: usize,
    /// Weight of the addition, together with the rank.
    pub alpha: f32,
    /// Share of the inputs that training drops, by the mask that [`Lora::forward`] takes.
    pub dropout: f32,
    /// Seed of A.
    pub seed: u64,
}

impl Default for LoraOptions {
    fn default() -> Self {
        Self {
            rank: 8,
            alpha: 16.0,
            dropout: 0.0,
            seed: 0,
        }
    }
}

impl Lora {
    /// Creates an addition of 0.
    ///
    /// # Errors
    /// A rank of 0 or above the layer's sizes, an alpha that is not above 0, a dropout outside of 0 to 1.
    pub fn new(
        context: &Context,
        inputs: usize,
        outputs: usize,
        options: &LoraOptions,
    ) -> Result<Self> {
        let LoraOptions {
            rank,
            alpha,
            dropout,
            seed,
        } = *options;
        if rank == 0 || rank > inputs.min(outputs) {
            let what = format!("rank {rank} of a LoRA from {inputs} to {outputs}");
            return Err(Error::input(what).hint(format!("a rank is 1 to {}", inputs.min(outputs))));
        }
        if !(alpha > 0.0 && alpha.is_finite()) {
            return Err(Error::input(format!("alpha {alpha} of a LoRA"))
                .hint("alpha is above 0, often twice the rank"));
        }
        if !(0.0..1.0).contains(&dropout) {
            return Err(Error::input(format!("dropout {dropout} of a LoRA"))
                .hint("a dropout is 0 or more, and below 1"));
        }
        let deviation = 1.0 / (rank as f64).sqrt();
        Ok(Self {
            a: normal(context, DType::F32, &[inputs, rank], deviation, seed),
            b: context.zeros(DType::F32, &[rank, outputs]),
            scale: alpha / rank as f32,
            dropout,
        })
    }

    /// Returns the addition for `x` of `[.., inputs]`: two products.
    pub fn delta(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.a).matmul(&self.b).mul(self.scale)
    }

    /// [`Self::delta`] in training: `kept` (of the shape of `x`) is 0 for dropped inputs and 1 elsewhere. The other
    /// inputs weigh more by the dropped share. [`Self::mask`] creates `kept`.
    pub fn delta_of_kept(&self, x: &Tensor, kept: &Tensor) -> Tensor {
        self.delta(&x.mul(kept).mul(1.0 / (1.0 - self.dropout)))
    }

    /// Returns the mask of inputs for one step. Write a new mask with another seed for each step.
    pub fn mask(&self, shape: &[usize], seed: u64) -> Vec<f32> {
        let mut random = Random::new(seed);
        let count: usize = shape.iter().product();
        let kept =
            (0..count).map(|_| f32::from(u8::from(random.uniform() >= f64::from(self.dropout))));
        kept.collect()
    }

    /// Returns the output of the layer with the addition, which is computed as the base's product is stored. In
    /// training with a dropout above 0, `kept` is a mask of the shape of `x` (see [`Self::delta_of_kept`]). For
    /// evaluation it is `None`: no input is dropped.
    pub fn forward(&self, base: &Linear, x: &Tensor, kept: Option<&Tensor>) -> Tensor {
        let delta = match kept {
            Some(kept) => self.delta_of_kept(x, kept),
            None => self.delta(x),
        };
        base.forward(x).add(delta)
    }

    /// Returns the base with the addition merged into its weight, so that this addition is not needed any more.
    pub fn merged(&self, base: &Linear) -> Linear {
        Linear {
            weight: base.weight.add(self.a.matmul(&self.b).mul(self.scale)),
            bias: base.bias.clone(),
        }
    }

    /// Returns the trainable tensors.
    pub fn parameters(&self) -> Vec<&Tensor> {
        vec![&self.a, &self.b]
    }
}

/// A convolution with a bias: `[n, inputs, ..]` to `[n, outputs, ..]`.
#[derive(Debug, Clone)]
pub struct Conv2d {
    /// `[outputs, inputs, rows, columns]`.
    pub weight: Tensor,
    /// `[outputs]`.
    pub bias: Option<Tensor>,
    /// Windows on the image.
    pub windows: Windows,
}

impl Conv2d {
    /// Creates weights of deviation `sqrt(2 / (inputs kernel^2))` (He et al. 2015) and biases of 0; a square kernel.
    pub fn new(
        context: &Context,
        [inputs, outputs, kernel]: [usize; 3],
        windows: Windows,
        seed: u64,
    ) -> Self {
        let taps = inputs * kernel * kernel;
        let deviation = (2.0 / taps.max(1) as f64).sqrt();
        let shape = [outputs, inputs, kernel, kernel];
        Self {
            weight: normal(context, DType::F32, &shape, deviation, seed),
            bias: Some(context.zeros(DType::F32, &[outputs])),
            windows,
        }
    }

    /// Returns the output for `x`: [`Tensor::conv2d`], with the bias added as it is stored.
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let y = x.conv2d(&self.weight, self.windows);
        match &self.bias {
            Some(bias) => y.add(bias.reshape(&[bias.count(), 1, 1])),
            None => y,
        }
    }

    /// Returns the trainable tensors.
    pub fn parameters(&self) -> Vec<&Tensor> {
        std::iter::once(&self.weight).chain(&self.bias).collect()
    }
}

/// Embedding: rows by their numbers.
#[derive(Debug, Clone)]
pub struct Embedding {
    /// `[rows, width]`.
    pub table: Tensor,
}

impl Embedding {
    /// Creates rows of deviation 1.
    pub fn new(context: &Context, rows: usize, width: usize, seed: u64) -> Self {
        Self {
            table: normal(context, DType::F32, &[rows, width], 1.0, seed),
        }
    }

    /// See [`Tensor::embedding`].
    pub fn forward(&self, numbers: &Tensor) -> Tensor {
        self.table.embedding(numbers)
    }
}

/// Linear layers with ReLU between them.
#[derive(Debug, Clone)]
pub struct Mlp {
    /// Layers in order.
    pub layers: Vec<Linear>,
}

impl Mlp {
    /// Creates layers from each of the sizes to the next.
    pub fn new(context: &Context, sizes: &[usize], seed: u64) -> Self {
        let pairs = sizes.windows(2).enumerate();
        let layers = pairs
            .map(|(i, pair)| Linear::new(context, pair[0], pair[1], seed.wrapping_add(i as u64)));
        Self {
            layers: layers.collect(),
        }
    }

    /// Returns the output for `x`.
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let mut y = x.clone();
        for (i, layer) in self.layers.iter().enumerate() {
            y = layer.forward(&y);
            if i + 1 < self.layers.len() {
                y = y.relu();
            }
        }
        y
    }

    /// Returns the trainable tensors.
    pub fn parameters(&self) -> Vec<&Tensor> {
        self.layers.iter().flat_map(Linear::parameters).collect()
    }
}
