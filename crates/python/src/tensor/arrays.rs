//! Arrays of numpy and of libraries with DLPack, in and out.

use super::arguments::{self, Any, checked, mistyped, number, refused};
use crate::array;
use crate::errors::{exception, wrong_type};
use dapple::Error;
use dapple_tensor::DType;
use numpy::{PyArrayDescrMethods, PyReadonlyArrayDyn, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt};

/// First index that `float32` does not hold.
pub const EXACT: f32 = 16_777_216.0;

/// Returns an array of the host: of numpy, or of a library with DLPack.
pub fn host<'py>(object: Any<'_, 'py>, place: &str) -> PyResult<Bound<'py, PyUntypedArray>> {
    if let Ok(array) = object.cast::<PyUntypedArray>() {
        return Ok(array.clone());
    }
    let hint = "give an array of numpy, or of a library with DLPack in host memory";
    let wrong = || mistyped(object, place, "an array of the host", hint);
    let numpy = object.py().import("numpy")?;
    let is_scalar = object.is_instance(&numpy.getattr("generic")?)?;
    let import = match is_scalar {
        true => "asarray",
        false => "from_dlpack",
    };
    if !is_scalar && !object.hasattr("__dlpack__")? {
        return Err(wrong());
    }
    let array = numpy.call_method1(import, (object,));
    let array = array.map_err(|error| {
        let what = format!(
            "{place} is not imported by DLPack: {}",
            error.value(object.py())
        );
        wrong_type(object.py(), &Error::input(what).at(place).hint(hint))
    })?;
    Ok(array.cast::<PyUntypedArray>().map_err(|_| wrong())?.clone())
}

/// Numbers of an array, in C order and as `float32`.
pub struct Values<'py> {
    array: PyReadonlyArrayDyn<'py, f32>,
    /// Type of the array that was given.
    pub dtype: DType,
}

impl Values<'_> {
    /// Returns the sizes of the axes.
    pub fn shape(&self) -> &[usize] {
        self.array.shape()
    }

    /// Returns the numbers.
    pub fn numbers(&self) -> &[f32] {
        self.array.as_slice().unwrap_or_default()
    }
}

/// Returns the numbers of an array of `float32` or `float16`, or a number of Python. Other orders than C are copied.
pub fn values<'py>(object: Any<'_, 'py>, place: &str) -> PyResult<Values<'py>> {
    let py = object.py();
    let is_number = object.is_instance_of::<PyFloat>() || object.is_instance_of::<PyInt>();
    let (array, dtype) = if is_number {
        let value = number(object, place)?;
        let numpy = py.import("numpy")?;
        (numpy.call_method1("array", (value, "float32"))?, DType::F32)
    } else {
        let array = host(object, place)?;
        let description = array.dtype();
        let dtype = if description.is_equiv_to(&numpy::dtype::<f32>(py)) {
            DType::F32
        } else if description.kind() == b'f' && description.itemsize() == 2 {
            DType::F16
        } else {
            let what = format!("{place} is {description}, not float32");
            let hint =
                format!("convert it: {place}.astype(\"float32\"); indices(array) takes integers");
            return Err(wrong_type(py, &Error::input(what).at(place).hint(hint)));
        };
        (array.into_any(), dtype)
    };
    let options = PyDict::new(py);
    options.set_item("order", "C")?;
    options.set_item("copy", false)?;
    let array = array.call_method("astype", ("float32",), Some(&options))?;
    let array = array.extract().map_err(|_| {
        mistyped(
            object,
            place,
            "an array of float32",
            "give an array that no other call writes",
        )
    })?;
    let values = Values { array, dtype };
    checked(py, values.shape(), place)?;
    Ok(values)
}

/// Returns shape and values of an array of integers.
pub fn whole_numbers(array: Any<'_, '_>) -> PyResult<(Vec<usize>, Vec<u32>)> {
    let py = array.py();
    let given = host(array, "array")?;
    let description = given.dtype();
    if !matches!(description.kind(), b'i' | b'u') {
        let error = Error::input(format!("array is {description}, not integers")).at("array");
        return Err(wrong_type(
            py,
            &error.hint("convert it: array.astype(\"uint32\")"),
        ));
    }
    let wide: PyReadonlyArrayDyn<'_, i64> = given.call_method1("astype", ("int64",))?.extract()?;
    checked(py, wide.shape(), "array")?;
    let numbers = wide
        .as_array()
        .iter()
        .map(|value| u32::try_from(*value))
        .collect();
    let numbers: Result<Vec<u32>, _> = numbers;
    let numbers = numbers.map_err(|_| {
        let what = "array has an index that is negative or above 2^32 - 1";
        refused(py, what, "array", "give indices from 0 on")
    })?;
    Ok((wide.shape().to_vec(), numbers))
}

/// Creates an array of numpy of a tensor's type.
pub fn to_array<'py>(
    py: Python<'py>,
    values: Vec<f32>,
    shape: &[usize],
    dtype: DType,
) -> PyResult<Bound<'py, PyAny>> {
    if dtype == DType::U32 && values.iter().any(|value| *value >= EXACT) {
        let error = Error::unsupported("indices of 2^24 and more are not read").at("Tensor");
        return Err(exception(
            py,
            &error.hint("keep the array that they were made of"),
        ));
    }
    let array = array::new(py, values, shape)?;
    match dtype {
        DType::F32 => Ok(array),
        other => array.call_method1("astype", (arguments::dtype_name(other),)),
    }
}
