//! Arrays of numpy in and out.

use crate::errors::exception;
use dapple::contract::TileMask;
use numpy::{
    Element, PyArray1, PyArrayMethods, PyReadonlyArray2, PyReadonlyArrayDyn, PyUntypedArrayMethods,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Returns an array's numbers, row by row.
pub fn slice<'a>(array: &'a PyReadonlyArrayDyn<'_, f32>, name: &str) -> PyResult<&'a [f32]> {
    array
        .as_slice()
        .map_err(|_| PyValueError::new_err(format!("{name} is not C-contiguous float32")))
}

/// Chosen tiles of an image, `[tile_height, tile_width]`; `None` = all.
pub type Tiles<'py> = Option<PyReadonlyArray2<'py, bool>>;

/// Returns the choice of tiles of an image.
pub fn tile_mask(py: Python<'_>, tiles: Tiles<'_>) -> PyResult<Option<TileMask>> {
    let Some(tiles) = tiles else {
        return Ok(None);
    };
    let [down, across] = [0, 1].map(|axis| tiles.shape()[axis] as u32);
    let values: Vec<bool> = tiles.as_array().iter().copied().collect();
    let mask = TileMask::new([across, down], &values);
    mask.map(Some).map_err(|error| exception(py, &error))
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
