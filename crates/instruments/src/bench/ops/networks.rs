//! Cases of networks: convolutions, and training steps with a loss.

use super::operations::{Cases, values};
use dapple::train::evaluate::{Backbone, Convolution};
use dapple_tensor::layers::{Conv2d, Linear, Lora, LoraOptions, normal};
use dapple_tensor::optimizer::Adam;
use dapple_tensor::{Context, DType, Tensor, Windows};

/// Converts the values of a leaf to another type, so that no plan converts them.
fn stored(leaf: &Tensor, dtype: DType) -> Tensor {
    match leaf.read() {
        Ok(values) => leaf.context().tensor_of(dtype, leaf.shape(), &values),
        // The next operation reports the error.
        Err(_) => leaf.to(dtype),
    }
}

/// Returns the pooled input of a layer: `x` itself if nothing is pooled.
fn pooled(layer: &Convolution, x: &Tensor) -> Tensor {
    layer.pool.map_or_else(
        || x.clone(),
        |pool| x.max_pool2d([pool.size; 2], Windows::new(pool.stride, pool.padding)),
    )
}

/// Returns a layer with random weights.
fn random(context: &Context, layer: &Convolution, number: usize) -> Conv2d {
    let ([inputs, outputs], window) = (layer.channels, layer.window);
    let windows = Windows::new(window.stride, window.padding);
    Conv2d::new(
        context,
        [inputs, outputs, window.size],
        windows,
        number as u64,
    )
}

/// Returns VGG-16's features of an image, after the last convolution of each of its five parts.
fn vgg(image: &Tensor, dtype: DType) -> Vec<Tensor> {
    let mut x = image.clone();
    let mut features = Vec::new();
    for (number, convolution) in Backbone::Vgg.convolutions().iter().enumerate() {
        let layer = random(image.context(), convolution, number);
        let layer = Conv2d {
            weight: stored(&layer.weight, dtype),
            bias: layer.bias.map(|bias| stored(&bias, dtype)),
            ..layer
        };
        x = layer.forward(&pooled(convolution, &x)).relu();
        if convolution.is_looked_at {
            features.push(x.clone());
        }
    }
    features
}

/// Returns LPIPS of a pair of images (Zhang et al. 2018): the distance of AlexNet's features. Features of each pixel
/// are divided by their length, squared, weighted, and averaged.
fn lpips(images: [&Tensor; 2]) -> Tensor {
    let context = images[0].context();
    let mut seen = images.map(Clone::clone);
    let mut total = context.constant(0.0);
    for (number, convolution) in Backbone::Alex.convolutions().iter().enumerate() {
        let layer = random(context, convolution, number);
        let forward = |x: &Tensor| layer.forward(&pooled(convolution, x)).relu();
        seen = [forward(&seen[0]), forward(&seen[1])];
        let unit = |x: &Tensor| x.div(x.mul(x).sum_keep(&[1]).sqrt().add(1e-10));
        let apart = unit(&seen[0]).sub(unit(&seen[1]));
        let outputs = convolution.channels[1];
        let weights = normal(context, DType::F32, &[1, outputs, 1, 1], 0.1, 7);
        let places = apart.mul(&apart).mul(&weights).sum_keep(&[1]);
        total = total.add(places.mean());
    }
    total
}

/// Creates shares of classes: one class for each row.
fn one_of(context: &Context, rows: usize, classes: usize) -> Tensor {
    let mut wanted = vec![0.0; rows * classes];
    (0..rows).for_each(|row| wanted[row * classes + row * 37 % classes] = 1.0);
    context.tensor(&[rows, classes], &wanted)
}

/// Returns a layer with an addition whose B is not 0.
fn adapted(context: &Context, d: usize) -> Option<(Linear, Lora)> {
    let mut lora = Lora::new(context, d, d, &LoraOptions::default()).ok()?;
    lora.b = normal(context, DType::F32, &[8, d], 0.1, 9);
    Some((Linear::new(context, d, d, 1), lora))
}

/// Returns the loss of `x[rows, d]`.
fn loss(context: &Context, base: &Linear, lora: &Lora, rows: usize, d: usize) -> Tensor {
    let x = values(context, DType::F32, &[rows, d], 1);
    let y = lora.forward(base, &x, None);
    y.cross_entropy(&one_of(context, rows, d))
}

impl Cases<'_> {
    pub fn convolutions(&mut self) {
        for dtype in self.dtypes() {
            for (channels, outputs, [h, w]) in [
                (16, 16, [32, 48]),
                (3, 64, [224, 224]),
                (64, 64, [112, 112]),
                (256, 256, [56, 56]),
            ] {
                // Number of elements that would take the same time.
                let size = outputs * h * w * (channels * 9 / 64).max(1);
                let name = format!("conv 3x3 {channels} to {outputs}, {w}x{h}, bias, relu");
                let make = move |context: &Context| {
                    let layer = Conv2d::new(context, [channels, outputs, 3], Windows::new(1, 1), 1);
                    let layer = Conv2d {
                        weight: stored(&layer.weight, dtype),
                        bias: layer.bias.map(|bias| stored(&bias, dtype)),
                        ..layer
                    };
                    (layer, values(context, dtype, &[1, channels, h, w], 1))
                };
                self.push("conv", name.clone(), (dtype, size), move |context| {
                    let (layer, x) = make(context);
                    vec![layer.forward(&x).relu()]
                });
                let name = format!("{name}, with backward");
                self.push("conv", name, (dtype, 3 * size), move |context| {
                    let (layer, x) = make(context);
                    let y = layer.forward(&x).relu().to(DType::F32);
                    y.mul(&y).mean().gradients(&[&layer.weight, &x])
                });
            }
            for [h, w] in [[64, 96], [256, 384], [1080, 1920]] {
                let name = format!("VGG-16 features of {w}x{h}");
                self.push("conv", name, (dtype, 1500 * h * w), move |context| {
                    vgg(&values(context, dtype, &[1, 3, h, w], 1), dtype)
                });
            }
        }
    }

    pub fn lpips(&mut self) {
        for [h, w] in [[64, 96], [256, 384], [1080, 1920]] {
            let name = format!("LPIPS (AlexNet) of a pair of {w}x{h}");
            self.push("lpips", name, (DType::F32, 300 * h * w), move |context| {
                let image = |seed| values(context, DType::F32, &[1, 3, h, w], seed);
                vec![lpips([&image(1), &image(2)])]
            });
        }
    }

    pub fn training(&mut self) {
        let f32 = DType::F32;
        let name = "gradients of LoRA [2, 16, 512] r8".to_owned();
        self.push("training", name, (f32, 32 * 512), |context| {
            let Some((base, lora)) = adapted(context, 512) else {
                return Vec::new();
            };
            let loss = loss(context, &base, &lora, 32, 512);
            let mut outputs = loss.gradients(&lora.parameters());
            outputs.push(loss);
            outputs
        });
        let name = "training step of LoRA [4, 64, 512] r8".to_owned();
        self.push_updating("training", name, (f32, 256 * 512), |context| {
            let Some((base, lora)) = adapted(context, 512) else {
                return (Vec::new(), Vec::new());
            };
            let adam = Adam {
                weight_decay: 0.01,
                ..Adam::default()
            };
            let parameters = lora.parameters();
            let loss = loss(context, &base, &lora, 256, 512);
            let gradients = loss.gradients(&parameters);
            let state = adam.state(context, &parameters);
            let updates = adam.step(&state, &parameters, &gradients);
            (vec![loss], updates)
        });
    }
}
