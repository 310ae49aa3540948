//! LPIPS by tensors, on the GPU of an engine.
//!
//! 1. Once: copy the weights to the device.
//! 2. For each size of images compile one plan: scale colours for the network, run the convolutions of both images,
//!    scale features to length 1, square their differences, weight them and sum over channels.
//! 3. Each place has a share of its layer's mean: one over the number of places that count, or 0 where a mask hides it.
//!    The sum over places and layers is the distance.
//! 4. For each view upload two images, and shares if it has a mask; read back one number.
//!
//! The order of sums depends only on the size: the same images give the same bytes. The sums are `f32` in another order
//! than those of the CPU version, which agrees within 1e-4 (`tests/all/lpips_device.rs`).

use super::backbone::Backbone;
use super::network::Window;
use super::{DEVIATION, EPSILON, Lpips, MEAN, is_shown};
use dapple_engine::score::mask_counts;
use dapple_scene::{Error, Result};
use dapple_tensor::layers::Conv2d;
use dapple_tensor::{Context, Device, Plan, Tensor, Windows};

/// A distance as tensors, its weights on their device; see [`Lpips::on`].
#[derive(Debug)]
pub struct DeviceLpips {
    context: Context,
    backbone: Backbone,
    layers: Vec<DeviceLayer>,
    /// Most bytes of one tensor.
    pub(super) binding_bytes: u64,
    /// Plan of the last size: the images of a capture have one size, and a plan holds much memory.
    sized: Option<Sized>,
}

#[derive(Debug)]
struct DeviceLayer {
    pool: Option<Window>,
    window: Window,
    inputs: usize,
    outputs: usize,
    convolution: Conv2d,
    /// `[1, outputs, 1, 1]` if the distance uses the layer.
    linear: Option<Tensor>,
}

/// Places (width, height) of each layer that the distance uses, and their shares, `[1, 1, height, width]`.
pub(super) type Shares = Vec<((usize, usize), Tensor)>;

/// How the lengths of features are computed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Root {
    /// As in the definition of LPIPS; has no derivative where all features are 0.
    Exact,
    /// With a derivative everywhere.
    Smooth,
}

/// Plan and tensors for one size.
#[derive(Debug)]
struct Sized {
    width: usize,
    height: usize,
    /// `[height, width, 3]` in 0..1: the image and its target.
    pictures: [Tensor; 2],
    shares: Shares,
    /// True if the shares are those of a mask.
    masked: bool,
    plan: Plan,
}

impl Lpips {
    /// Returns this distance computed by tensors of `context`, to which the weights are copied.
    ///
    /// # Errors
    /// A device without memory for the weights.
    pub fn on(&self, context: &Context) -> Result<DeviceLpips> {
        let mut linear = self.linear.iter();
        let mut layers = Vec::with_capacity(self.layers.len());
        for layer in &self.layers {
            let size = layer.window.size;
            let shape = [layer.outputs, layer.inputs, size, size];
            let weight = context.tensor(
                &shape,
                &outputs_first(&layer.weights, layer.outputs, layer.inputs),
            );
            let bias = context.tensor(&[layer.outputs], &layer.bias);
            let linear = match layer.is_looked_at {
                true => linear.next(),
                false => None,
            };
            let linear = linear.map(|values| context.tensor(&[1, layer.outputs, 1, 1], values));
            for leaf in [&weight, &bias].into_iter().chain(&linear) {
                leaf.check()?;
            }
            layers.push(DeviceLayer {
                pool: layer.pool,
                window: layer.window,
                inputs: layer.inputs,
                outputs: layer.outputs,
                convolution: Conv2d {
                    weight,
                    bias: Some(bias),
                    windows: Windows::new(layer.window.stride, layer.window.padding),
                },
                linear,
            });
        }
        Ok(DeviceLpips {
            context: context.clone(),
            backbone: self.backbone,
            layers,
            binding_bytes: match context.device() {
                Device::Cpu => u64::MAX,
                Device::Gpu(gpu) => gpu.granted().binding_bytes,
            },
            sized: None,
        })
    }
}

impl DeviceLpips {
    /// Compiles the plan for images of this size, unless the last images had it.
    ///
    /// # Errors
    /// Images are too small for the network's strides, a layer exceeds the largest binding of the device, or all layers
    /// exceed its memory.
    pub fn prepare(&mut self, width: usize, height: usize) -> Result<()> {
        self.backbone.check_size(width, height)?;
        if let Some(sized) = &self.sized
            && (sized.width, sized.height) == (width, height)
        {
            return Ok(());
        }
        let largest = self.largest_bytes(width, height);
        if largest > self.binding_bytes {
            return Err(Error::unsupported(format!(
                "LPIPS with {} of {width} x {height} pixels needs tensors of {largest} bytes, and {} binds {}",
                self.backbone.name(),
                self.context.name(),
                self.binding_bytes
            ))
            .hint("score smaller photos, or compute LPIPS on the CPU"));
        }
        // Free the memory of the last size first.
        self.sized = None;
        self.sized = Some(self.compile(width, height)?);
        Ok(())
    }

    /// Computes the distance of [`Lpips::distance`] on the device.
    ///
    /// # Errors
    /// See [`Self::prepare`]; a lost device.
    pub fn distance(
        &mut self,
        image: &[f32],
        target: &[f32],
        width: usize,
        height: usize,
        mask: Option<&[u8]>,
    ) -> Result<f64> {
        self.prepare(width, height)?;
        let Some(sized) = &mut self.sized else {
            return Err(Error::internal("a plan that was made is gone"));
        };
        let [a, b] = &sized.pictures;
        match mask {
            None => a.write(image)?,
            Some(mask) => {
                let mut seen = image.to_vec();
                let pixels = seen.chunks_exact_mut(3).zip(target.chunks_exact(3));
                for ((seen, target), _) in pixels.zip(mask).filter(|(_, m)| !mask_counts(**m)) {
                    seen.copy_from_slice(target);
                }
                a.write(&seen)?;
            }
        }
        b.write(target)?;
        if mask.is_some() || sized.masked {
            for (places, shares) in &sized.shares {
                shares.write(&shares_of(*places, (width, height), mask))?;
            }
            sized.masked = mask.is_some();
        }
        sized.plan.run()?;
        let distance = sized.plan.read(0)?;
        Ok(distance.iter().copied().map(f64::from).sum())
    }

    /// Bytes of the largest tensor.
    fn largest_bytes(&self, width: usize, height: usize) -> u64 {
        let bytes = |channels: usize, (width, height): (usize, usize)| {
            (channels * width * height * size_of::<f32>()) as u64
        };
        let mut size = (width, height);
        let mut largest = bytes(3, size);
        for layer in &self.layers {
            for (window, channels) in layer.steps() {
                size = (window.places(size.0), window.places(size.1));
                largest = largest.max(bytes(channels, size));
            }
        }
        largest
    }

    /// Compiles steps 2 and 3 as a graph.
    fn compile(&self, width: usize, height: usize) -> Result<Sized> {
        let context = &self.context;
        let picture = || context.tensor(&[height, width, 3], &vec![0.0; height * width * 3]);
        let pictures = [picture(), picture()];
        let (total, shares) = self.distance_of(&pictures, Root::Exact)?;
        Ok(Sized {
            plan: Plan::compile(&[&total])?,
            width,
            height,
            pictures,
            shares,
            masked: false,
        })
    }

    /// Returns the distance of two images `[height, width, 3]`, and for each layer that the distance uses its places
    /// (width, height) with their shares.
    pub(super) fn distance_of(
        &self,
        pictures: &[Tensor; 2],
        root: Root,
    ) -> Result<(Tensor, Shares)> {
        let context = &self.context;
        let &[height, width, _] = pictures[0].shape() else {
            return Err(Error::internal("a picture is of rows, columns and colours"));
        };
        let scale = context.tensor(&[3], &DEVIATION.map(|deviation| 2.0 / deviation));
        let shift: [f32; 3] = std::array::from_fn(|c| -(1.0 + MEAN[c]) / DEVIATION[c]);
        let shift = context.tensor(&[3], &shift);
        let [mut a, mut b] = [0, 1].map(|i: usize| {
            let scaled = pictures[i].affine(&scale, &shift).permute(&[2, 0, 1]);
            scaled.unsqueeze(0).contiguous()
        });
        let mut size = (width, height);
        let mut shares = Vec::new();
        let mut total: Option<Tensor> = None;
        for layer in &self.layers {
            for (window, _) in layer.steps() {
                size = (window.places(size.0), window.places(size.1));
            }
            (a, b) = (layer.forward(&a), layer.forward(&b));
            if let Some(linear) = &layer.linear {
                let share = shares_of(size, (width, height), None);
                let share = context.tensor(&[1, 1, size.1, size.0], &share);
                let distance = difference(&a, &b, linear, root).mul(&share).sum();
                total = Some(match total {
                    Some(total) => total.add(&distance),
                    None => distance,
                });
                shares.push((size, share));
            }
        }
        let total = total
            .ok_or_else(|| Error::internal("a network without layers that the distance uses"))?;
        Ok((total, shares))
    }
}

impl DeviceLayer {
    /// Returns the windows that slide over the input, and the output channels of each.
    fn steps(&self) -> impl Iterator<Item = (Window, usize)> {
        let pool = self.pool.map(|pool| (pool, self.inputs));
        pool.into_iter().chain([(self.window, self.outputs)])
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        let convolved = match self.pool {
            Some(pool) => {
                let windows = Windows::new(pool.stride, pool.padding);
                let pooled = x.max_pool2d([pool.size; 2], windows);
                self.convolution.forward(&pooled)
            }
            None => self.convolution.forward(x),
        };
        convolved.relu()
    }
}

/// Returns `[1, 1, rows, columns]` from features `[1, channels, rows, columns]`: the difference at each place.
fn difference(a: &Tensor, b: &Tensor, linear: &Tensor, root: Root) -> Tensor {
    let unit = |x: &Tensor| {
        let squares = x.mul(x).sum_keep(&[1]);
        let length = match root {
            Root::Exact => squares.sqrt().add(EPSILON),
            Root::Smooth => squares.add(EPSILON).sqrt(),
        };
        x.div(&length)
    };
    let apart = unit(a).sub(unit(b));
    apart.mul(&apart).mul(linear).sum_keep(&[1])
}

/// Step 3: returns the shares of a layer's places, row-major.
fn shares_of(places: (usize, usize), image: (usize, usize), mask: Option<&[u8]>) -> Vec<f32> {
    let all = places.0 * places.1;
    let shown = |i: usize| is_shown((i % places.0, i / places.0), places, image, mask);
    let shown: Vec<bool> = (0..all).map(shown).collect();
    match shown.iter().filter(|shown| **shown).count() {
        // The layer is so coarse that every place is centred in a hole of the mask.
        0 => vec![1.0 / all as f32; all],
        count => {
            let share = |shown: &bool| if *shown { 1.0 / count as f32 } else { 0.0 };
            shown.iter().map(share).collect()
        }
    }
}

/// Reorders `[row, column, input, output]` to `[output, input, row, column]`, the order in files.
fn outputs_first(weights: &[f32], outputs: usize, inputs: usize) -> Vec<f32> {
    let places = weights.len() / (outputs * inputs);
    let mut turned = Vec::with_capacity(weights.len());
    for output in 0..outputs {
        for input in 0..inputs {
            let at = |place: usize| weights[(place * inputs + input) * outputs + output];
            turned.extend((0..places).map(at));
        }
    }
    turned
}
