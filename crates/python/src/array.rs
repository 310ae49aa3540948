//! Arrays of numpy in and out.

use numpy::{Element, PyArray1, PyArrayMethods, PyReadonlyArrayDyn};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Returns an array's numbers, row by row.
pub fn slice<'a>(array: &'a PyReadonlyArrayDyn<'_, f32>, name: &str) -> PyResult<&'a [f32]> {
    array
        .as_slice()
        .map_err(|_| PyValueError::new_err(format!("{name} is not C-contiguous float32")))
}

/// Creates an array of this shape.
pub fn new<'py, T: Element>(
    py: Python<'py>,
    values: Vec<T>,
    shape: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    Ok(PyArray1::from_vec(py, values)
        .reshape(shape.to_vec())?
        .into_any())
}
