//! Weights in safetensors files.

use super::arguments;
use super::node::{self, PyTensor};
use super::owner::owner_of;
use dapple_tensor::{Tensor, weights};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Reads a safetensors file with values of float32 and float16: a dictionary of leaves by name.
#[pyfunction]
#[pyo3(signature = (path, device = None))]
pub fn load<'py>(
    py: Python<'py>,
    path: &Bound<'py, PyAny>,
    device: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let path = arguments::path(path, "path")?;
    let owner = owner_of(py, device)?;
    let context = owner.context(py)?;
    let found = owner.work(py, "path", || weights::load(context, &path))?;
    let all = PyDict::new(py);
    for (name, tensor) in found {
        all.set_item(name, PyTensor::made(py, &owner, "path", tensor)?)?;
    }
    Ok(all)
}

/// Writes a dictionary of tensors to a safetensors file, completely or not at all. Computes those that are no leaves.
#[pyfunction]
pub fn save<'py>(path: &Bound<'py, PyAny>, tensors: &Bound<'py, PyAny>) -> PyResult<()> {
    let py = path.py();
    let path = arguments::path(path, "path")?;
    let Ok(all) = tensors.cast::<PyDict>() else {
        let hint = "give names and tensors: {\"a\": lora.a, \"b\": lora.b}";
        return Err(arguments::mistyped(
            tensors,
            "tensors",
            "a dictionary",
            hint,
        ));
    };
    let mut named = Vec::new();
    for (name, tensor) in all {
        let name = arguments::text(&name, "tensors", "name each tensor by a string")?;
        named.push((name, node::tensor(&tensor, "tensors")?));
    }
    let Some((_, first)) = named.first() else {
        return Err(arguments::refused(
            py,
            "tensors is empty",
            "tensors",
            "give one tensor or more",
        ));
    };
    let rows: Vec<(&str, &Tensor)> = named
        .iter()
        .map(|(name, tensor)| Ok((name.as_str(), tensor.get().get(py)?)))
        .collect::<PyResult<_>>()?;
    first
        .get()
        .owner()
        .work(py, "tensors", || weights::save(&path, &rows))
}
