//! Weights in files: safetensors, `F32` and `F16`. Files are read and written completely or not at all.

use crate::context::{Context, Values};
use crate::graph::tensor::{DType, Tensor};
use dapple_base::atomic::write_atomically;
use dapple_base::{Error, Result};
use half::f16;
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, serialize};
use std::path::Path;

/// Maximum bytes of a file: weights of small networks are far below.
const MOST_BYTES: u64 = 4 << 30;

/// Writes tensors under their names; waits for their values.
///
/// # Errors
/// A tensor that could not be created, one of indices, two with one name; a file that cannot be written.
pub fn save(file: &Path, tensors: &[(&str, &Tensor)]) -> Result<()> {
    let mut bytes: Vec<(&str, Dtype, &[usize], Vec<u8>)> = Vec::new();
    for (name, tensor) in tensors {
        if bytes.iter().any(|other| other.0 == *name) {
            return Err(Error::input(format!("two weights are named \"{name}\""))
                .at_path(file)
                .hint("give each a name of its own"));
        }
        let values = tensor.read()?;
        let (dtype, data) = match Values::from_f32(tensor.dtype(), &values) {
            Values::F32(values) => (
                Dtype::F32,
                values
                    .iter()
                    .flat_map(|value| value.to_le_bytes())
                    .collect(),
            ),
            Values::F16(values) => (
                Dtype::F16,
                values
                    .iter()
                    .flat_map(|value| value.to_le_bytes())
                    .collect(),
            ),
            Values::U32(_) => {
                let what = format!("{} is of indices", tensor.describe());
                return Err(Error::input(what)
                    .at_path(file)
                    .hint("weights are f32 or f16"));
            }
        };
        bytes.push((name, dtype, tensor.shape(), data));
    }
    let refused = |e: safetensors::SafeTensorError| {
        Error::input(format!("these weights cannot be written: {e}"))
            .at_path(file)
            .hint("name them otherwise")
    };
    let mut views = Vec::new();
    for (name, dtype, shape, data) in &bytes {
        views.push((
            *name,
            TensorView::new(*dtype, shape.to_vec(), data).map_err(refused)?,
        ));
    }
    let all = serialize(views, None).map_err(refused)?;
    write_atomically(file, |out| out.write_all(&all))
}

/// Reads all tensors of a file, by name, in the names' order.
///
/// # Errors
/// A file that cannot be read, is damaged, or holds other types than `F32` and `F16`.
pub fn load(context: &Context, file: &Path) -> Result<Vec<(String, Tensor)>> {
    let size = std::fs::metadata(file)
        .map_err(|e| Error::io("cannot read", file, e))?
        .len();
    if size > MOST_BYTES {
        let what = format!("{size} bytes of weights");
        return Err(Error::unsupported(what)
            .at_path(file)
            .hint("files up to 4 GiB are read"));
    }
    let bytes = std::fs::read(file).map_err(|e| Error::io("cannot read", file, e))?;
    let damaged = |e: safetensors::SafeTensorError| {
        Error::input(format!("this is no whole safetensors file: {e}"))
            .at_path(file)
            .hint("copy or save it again")
    };
    let parsed = SafeTensors::deserialize(&bytes).map_err(damaged)?;
    let mut all = Vec::new();
    for (name, view) in parsed.tensors() {
        let data = view.data();
        let (dtype, values): (DType, Vec<f32>) = match view.dtype() {
            Dtype::F32 => {
                let each = data
                    .chunks_exact(4)
                    .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
                (DType::F32, each.collect())
            }
            Dtype::F16 => {
                let each = data
                    .chunks_exact(2)
                    .map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32());
                (DType::F16, each.collect())
            }
            other => {
                let what = format!("\"{name}\" is stored as {other:?}");
                return Err(Error::unsupported(what)
                    .at_path(file)
                    .hint("weights are F32 or F16: convert it"));
            }
        };
        let tensor = context.tensor_of(dtype, view.shape(), &values).named(&name);
        tensor.check()?;
        all.push((name, tensor));
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(all)
}
