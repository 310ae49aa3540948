//! Weights of LPIPS from a safetensors file.
//!
//! 1. The shape of the first convolution determines the network.
//! 2. Its convolutions are searched under both of their names: `features.N` in torchvision, `net.sliceS.N` in the
//!    package `lpips`, where S counts the layers that the distance uses.
//! 3. Linear layers are `linL.model.1.weight`.

use super::Lpips;
use super::network::{Layer, Window};
use dapple_scene::{Error, Result};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

const HINT: &str = "make the file as docs/EVALUATION.md shows: \
                    save_file of lpips.LPIPS(net=\"alex\").state_dict()";

/// Network whose features are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backbone {
    /// AlexNet (Krizhevsky 2014, arXiv:1404.5997): fast; the paper's authors use it for scores.
    Alex,
    /// VGG-16 (Simonyan & Zisserman 2014, arXiv:1409.1556): the network of scores in 3DGS papers.
    Vgg,
}

/// A convolution of a network, with the max pooling before it and a rectifier after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Convolution {
    /// Its number among torchvision's `features`.
    pub number: usize,
    /// Channels in and out.
    pub channels: [usize; 2],
    /// Window of the convolution.
    pub window: Window,
    /// Window of the pooling before it.
    pub pool: Option<Window>,
    /// True if LPIPS compares its output.
    pub is_looked_at: bool,
}

const fn window(size: usize, stride: usize, padding: usize) -> Window {
    Window {
        size,
        stride,
        padding,
    }
}

impl Backbone {
    /// Returns the display name: AlexNet, VGG-16.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alex => "AlexNet",
            Self::Vgg => "VGG-16",
        }
    }

    /// Returns the edge of the smallest image with a pixel in the last layer.
    pub const fn least_edge(self) -> usize {
        match self {
            // 31 -> 7 -> 3 -> 1.
            Self::Alex => 31,
            // Halved four times.
            Self::Vgg => 16,
        }
    }

    /// Returns the convolutions up to the last that LPIPS compares, in order.
    pub fn convolutions(self) -> Vec<Convolution> {
        match self {
            Self::Alex => {
                let pool = Some(window(3, 2, 0));
                [
                    (0, [3, 64], window(11, 4, 2), None),
                    (3, [64, 192], window(5, 1, 2), pool),
                    (6, [192, 384], window(3, 1, 1), pool),
                    (8, [384, 256], window(3, 1, 1), None),
                    (10, [256, 256], window(3, 1, 1), None),
                ]
                .map(|(number, channels, window, pool)| Convolution {
                    number,
                    channels,
                    window,
                    pool,
                    is_looked_at: true,
                })
                .into()
            }
            Self::Vgg => {
                // Convolutions in each of the five blocks, and their outputs.
                let blocks = [(2, 64), (2, 128), (3, 256), (3, 512), (3, 512)];
                let (mut number, mut inputs) = (0, 3);
                let mut convolutions = Vec::new();
                for (block, (length, outputs)) in blocks.into_iter().enumerate() {
                    for i in 0..length {
                        convolutions.push(Convolution {
                            number,
                            channels: [inputs, outputs],
                            window: window(3, 1, 1),
                            pool: (block > 0 && i == 0).then_some(window(2, 2, 0)),
                            is_looked_at: i + 1 == length,
                        });
                        // A rectifier follows each, pooling each block.
                        number += 2;
                        inputs = outputs;
                    }
                    number += 1;
                }
                convolutions
            }
        }
    }
}

/// Steps 1 to 3.
pub(super) fn parse(bytes: &[u8]) -> Result<Lpips> {
    let file = SafeTensors::deserialize(bytes).map_err(|e| {
        Error::input(format!("the LPIPS weights are no safetensors file: {e}")).hint(HINT)
    })?;
    let first = find(&file, &["features.0.weight", "net.slice1.0.weight"])?;
    let backbone = match first.1.shape() {
        [64, 3, 11, 11] => Backbone::Alex,
        [64, 3, 3, 3] => Backbone::Vgg,
        other => {
            return Err(Error::unsupported(format!(
                "the LPIPS weights are of no network that is known: {} has the shape {other:?}",
                first.0
            ))
            .hint("AlexNet begins with [64, 3, 11, 11], VGG-16 with [64, 3, 3, 3]"));
        }
    };
    let (mut layers, mut linear) = (Vec::new(), Vec::new());
    for layer in backbone.convolutions() {
        let slice = linear.len() + 1;
        let number = layer.number;
        let values = |what: &str, shape: &[usize]| {
            let names = [
                format!("features.{number}.{what}"),
                format!("net.slice{slice}.{number}.{what}"),
            ];
            read(&file, &names, shape)
        };
        let [inputs, outputs] = layer.channels;
        let size = layer.window.size;
        layers.push(Layer {
            weights: outputs_last(
                &values("weight", &[outputs, inputs, size, size])?,
                outputs,
                inputs,
            ),
            bias: values("bias", &[outputs])?,
            pool: layer.pool,
            window: layer.window,
            inputs,
            outputs,
            is_looked_at: layer.is_looked_at,
        });
        if layer.is_looked_at {
            let names = [format!("lin{}.model.1.weight", linear.len())];
            linear.push(read(&file, &names, &[1, outputs, 1, 1])?);
        }
    }
    Ok(Lpips {
        backbone,
        layers,
        linear,
    })
}

/// Reorders `[output, input, row, column]` to `[row, column, input, output]`.
fn outputs_last(weights: &[f32], outputs: usize, inputs: usize) -> Vec<f32> {
    let places = weights.len() / (outputs * inputs);
    let mut turned = Vec::with_capacity(weights.len());
    for place in 0..places {
        for input in 0..inputs {
            for output in 0..outputs {
                turned.push(weights[(output * inputs + input) * places + place]);
            }
        }
    }
    turned
}

/// Returns the first tensor of these names.
fn find<'a>(file: &'a SafeTensors<'_>, names: &[&str]) -> Result<(String, TensorView<'a>)> {
    for name in names {
        if let Ok(tensor) = file.tensor(name) {
            return Ok(((*name).to_owned(), tensor));
        }
    }
    Err(Error::input(format!(
        "the LPIPS weights have no tensor {}",
        names.join(" or ")
    ))
    .hint(HINT))
}

/// Returns the values of the first tensor of these names, which must be finite `f32` in this shape.
fn read(file: &SafeTensors<'_>, names: &[String], shape: &[usize]) -> Result<Vec<f32>> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (name, tensor) = find(file, &names)?;
    if tensor.dtype() != Dtype::F32 || tensor.shape() != shape {
        return Err(Error::input(format!(
            "the LPIPS weights' tensor {name} is {:?} {:?}, and F32 {shape:?} is expected",
            tensor.dtype(),
            tensor.shape()
        ))
        .hint(HINT));
    }
    let (bytes, _) = tensor.data().as_chunks::<4>();
    let values: Vec<f32> = bytes
        .iter()
        .map(|&bytes| f32::from_le_bytes(bytes))
        .collect();
    if values.iter().any(|value| !value.is_finite()) {
        return Err(Error::input(format!(
            "the LPIPS weights' tensor {name} has a value that is not a finite number"
        ))
        .hint("the file is damaged: make it again"));
    }
    Ok(values)
}
