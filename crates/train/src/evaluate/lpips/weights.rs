//! Weights of LPIPS from a safetensors file.
//!
//! 1. The shape of the first convolution determines the network.
//! 2. Its convolutions are searched under both of their names: `features.N` in torchvision, `net.sliceS.N` in the
//!    package `lpips`, where S counts the layers that the distance uses.
//! 3. Linear layers are `linL.model.1.weight`.

use super::Lpips;
use super::backbone::Backbone;
use super::network::Layer;
use dapple_scene::{Error, Result, bounded};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::path::Path;

const HINT: &str = "make the file as docs/EVALUATION.md shows: \
                    save_file of lpips.LPIPS(net=\"alex\").state_dict()";

impl Lpips {
    /// Reads weights from a safetensors file: the state of the package `lpips`' module
    /// (`net.slice1.0.weight`, `lin0.model.1.weight`), or torchvision's features with `lpips`' linear
    /// layers (`features.0.weight`, `lin0.model.1.weight`). Shapes tell AlexNet from VGG-16.
    ///
    /// # Errors
    /// The file cannot be read or is not safetensors; a tensor is missing or has another type or shape; a weight is not
    /// finite.
    pub fn read(path: &Path) -> Result<Self> {
        let most = bounded::CAMERAS_BYTES;
        let bytes = bounded::read("cannot read the LPIPS weights", path, most)?;
        Self::parse(&bytes).map_err(|e| match e.place() {
            Some(place) => {
                let place = format!("{}, {place}", path.display());
                e.at(place)
            }
            None => e.at_path(path),
        })
    }

    /// Reads weights from the bytes of such a file.
    ///
    /// # Errors
    /// See [`Self::read`].
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        parse(bytes)
    }
}

/// Steps 1 to 3.
fn parse(bytes: &[u8]) -> Result<Lpips> {
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
