//! Functions that create tensors.

use super::arguments::{self, Any, refused};
use super::arrays;
use super::node::{self, PyTensor};
use super::owner::owner_of;
use dapple_tensor::{Context, DType, Tensor, layers};
use pyo3::prelude::*;

fn dtype_or(dtype: Option<Any<'_, '_>>, default: DType) -> PyResult<DType> {
    dtype.map_or(Ok(default), arguments::dtype)
}

/// Creates a tensor on a device. `place` is the argument in errors.
fn on_device(
    py: Python<'_>,
    device: Option<Any<'_, '_>>,
    place: &str,
    make: impl FnOnce(&Context) -> Tensor + Send,
) -> PyResult<PyTensor> {
    let owner = owner_of(py, device)?;
    let context = owner.context(py)?;
    let made = owner.work(py, place, || Ok(make(context)))?;
    PyTensor::made(py, &owner, place, made)
}

/// Creates a leaf from an array of float32 or float16, or a number. The values are copied. `dtype` is that of the
/// array, or "float32" or "float16"; `name` is shown in errors.
#[pyfunction]
#[pyo3(signature = (array, dtype = None, device = None, name = None))]
pub fn tensor<'py>(
    py: Python<'py>,
    array: &Bound<'py, PyAny>,
    dtype: Option<&Bound<'py, PyAny>>,
    device: Option<&Bound<'py, PyAny>>,
    name: Option<&Bound<'py, PyAny>>,
) -> PyResult<PyTensor> {
    let values = arrays::values(array, "array")?;
    let dtype = dtype_or(dtype, values.dtype)?;
    let name = name.map(|name| arguments::text(name, "name", "give a string"));
    let name = name.transpose()?;
    let (shape, numbers) = (values.shape(), values.numbers());
    on_device(py, device, "array", |context| {
        let made = context.tensor_of(dtype, shape, numbers);
        match name {
            Some(name) => made.named(&name),
            None => made,
        }
    })
}

/// Creates a leaf of zeros.
#[pyfunction]
#[pyo3(signature = (shape, dtype = None, device = None), text_signature = "(shape, dtype=\"float32\", device=None)")]
pub fn zeros<'py>(
    py: Python<'py>,
    shape: &Bound<'py, PyAny>,
    dtype: Option<&Bound<'py, PyAny>>,
    device: Option<&Bound<'py, PyAny>>,
) -> PyResult<PyTensor> {
    let (shape, dtype) = (arguments::shape(shape)?, dtype_or(dtype, DType::F32)?);
    on_device(py, device, "shape", |context| context.zeros(dtype, &shape))
}

/// Creates a tensor with the same number everywhere. It costs no memory and is no leaf: it cannot be written.
#[pyfunction]
#[pyo3(signature = (shape, value, device = None))]
pub fn full<'py>(
    py: Python<'py>,
    shape: &Bound<'py, PyAny>,
    value: &Bound<'py, PyAny>,
    device: Option<&Bound<'py, PyAny>>,
) -> PyResult<PyTensor> {
    let (shape, value) = (arguments::shape(shape)?, arguments::number(value, "value")?);
    on_device(py, device, "shape", |context| context.full(&shape, value))
}

/// Creates a leaf of random values with mean 0; equal seeds give equal values on every device.
#[pyfunction]
#[pyo3(
    signature = (shape, deviation = None, seed = None, device = None),
    text_signature = "(shape, deviation=1.0, seed=0, device=None)"
)]
pub fn normal<'py>(
    py: Python<'py>,
    shape: &Bound<'py, PyAny>,
    deviation: Option<&Bound<'py, PyAny>>,
    seed: Option<&Bound<'py, PyAny>>,
    device: Option<&Bound<'py, PyAny>>,
) -> PyResult<PyTensor> {
    let shape = arguments::shape(shape)?;
    let deviation = f64::from(arguments::number_or(deviation, "deviation", 1.0)?);
    let seed = arguments::whole_or(seed, "seed", 0)? as u64;
    on_device(py, device, "shape", |context| {
        layers::normal(context, DType::F32, &shape, deviation, seed)
    })
}

/// Creates a leaf of indices for `embedding` and `cross_entropy` from an array of integers, which are not negative.
#[pyfunction]
#[pyo3(signature = (array, device = None))]
pub fn indices<'py>(
    py: Python<'py>,
    array: &Bound<'py, PyAny>,
    device: Option<&Bound<'py, PyAny>>,
) -> PyResult<PyTensor> {
    let (shape, numbers) = arrays::whole_numbers(array)?;
    on_device(py, device, "array", |context| {
        context.indices(&shape, &numbers)
    })
}

/// Concatenates tensors along an axis; their other sizes are equal.
#[pyfunction]
#[pyo3(signature = (tensors, axis = None), text_signature = "(tensors, axis=0)")]
pub fn cat<'py>(
    py: Python<'py>,
    tensors: &Bound<'py, PyAny>,
    axis: Option<&Bound<'py, PyAny>>,
) -> PyResult<PyTensor> {
    let all = node::tensors(tensors, "tensors")?;
    let Some(first) = all.first().map(|first| first.get()) else {
        return Err(refused(
            py,
            "tensors is empty",
            "tensors",
            "give one tensor or more",
        ));
    };
    let rank = first.get(py)?.rank();
    let axis = axis.map_or(Ok(0), |axis| arguments::axis(axis, "axis", rank))?;
    let all: Vec<&Tensor> = all
        .iter()
        .map(|one| one.get().get(py))
        .collect::<PyResult<_>>()?;
    first.result(py, "tensors", Tensor::cat(&all, axis))
}
