//! Arguments of Python but arrays and tensors: types, ranges and shapes, each with an error that names the argument.

use crate::errors::{exception, wrong_type};
use dapple::Error;
use dapple_tensor::DType;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyString, PyTuple};

/// Maximum elements of a tensor.
pub const MOST: usize = u32::MAX as usize / 8;

/// Argument of any type.
pub type Any<'a, 'py> = &'a Bound<'py, PyAny>;

/// Returns the name of an object's type, with its module.
fn kind(object: Any<'_, '_>) -> String {
    let name = object.get_type().fully_qualified_name();
    name.map_or_else(|_| "object".to_owned(), |name| name.to_string())
}

/// Returns the exception for an argument of another type.
pub fn mistyped(object: Any<'_, '_>, place: &str, wanted: &str, hint: &str) -> PyErr {
    let what = format!("{place} is {}, not {wanted}", kind(object));
    wrong_type(object.py(), &Error::input(what).at(place).hint(hint))
}

/// Returns the exception for a value that cannot be used.
pub fn refused(py: Python<'_>, what: impl Into<String>, place: &str, hint: &str) -> PyErr {
    exception(py, &Error::input(what).at(place).hint(hint))
}

/// Returns a text.
pub fn text(object: Any<'_, '_>, place: &str, hint: &str) -> PyResult<String> {
    match object.cast::<PyString>() {
        Ok(text) => Ok(text.to_string_lossy().into_owned()),
        Err(_) => Err(mistyped(object, place, "a string", hint)),
    }
}

/// Returns a path.
pub fn path(object: Any<'_, '_>, place: &str) -> PyResult<std::path::PathBuf> {
    object
        .extract()
        .map_err(|_| mistyped(object, place, "a path", "give a string or a pathlib.Path"))
}

/// Returns an integer.
pub fn integer(object: Any<'_, '_>, place: &str) -> PyResult<i64> {
    let wrong = || mistyped(object, place, "an integer", "give an int");
    if object.is_instance_of::<PyBool>() || object.is_instance_of::<PyFloat>() {
        return Err(wrong());
    }
    let is_integer = object.is_instance_of::<PyInt>() || object.hasattr("__index__")?;
    if !is_integer {
        return Err(wrong());
    }
    object.extract().map_err(|_| {
        let what = format!("{place} is no integer of 64 bits");
        refused(object.py(), what, place, "give a smaller number")
    })
}

/// Returns an integer that is not negative.
pub fn whole(object: Any<'_, '_>, place: &str) -> PyResult<usize> {
    let value = integer(object, place)?;
    usize::try_from(value).map_err(|_| {
        let what = format!("{place} is {value}, which is negative");
        refused(object.py(), what, place, "give 0 or more")
    })
}

/// Returns [`whole`], or a default.
pub fn whole_or(object: Option<Any<'_, '_>>, place: &str, default: usize) -> PyResult<usize> {
    object.map_or(Ok(default), |object| whole(object, place))
}

/// Returns a number as the tensors store it.
pub fn number(object: Any<'_, '_>, place: &str) -> PyResult<f32> {
    let wrong = || {
        let hint = "give a number, or an array by dapple_gs.tensor.tensor(array)";
        mistyped(object, place, "a Tensor or a number", hint)
    };
    // Arrays of one element convert too, but are no numbers.
    let rank = match object.getattr("ndim") {
        Ok(rank) => rank.extract::<usize>().unwrap_or(1),
        Err(_) => 0,
    };
    if rank > 0 || object.is_instance_of::<PyString>() {
        return Err(wrong());
    }
    let value: f64 = object.extract().map_err(|_| wrong())?;
    let stored = value as f32;
    if value.is_finite() && !stored.is_finite() {
        let what = format!("{place} is {value}, beyond the range of float32");
        return Err(refused(object.py(), what, place, "give at most 3.4e38"));
    }
    Ok(stored)
}

/// Returns [`number`], or a default.
pub fn number_or(object: Option<Any<'_, '_>>, place: &str, default: f32) -> PyResult<f32> {
    object.map_or(Ok(default), |object| number(object, place))
}

/// Returns true or false, or a default.
pub fn flag_or(object: Option<Any<'_, '_>>, place: &str, default: bool) -> PyResult<bool> {
    let Some(object) = object else {
        return Ok(default);
    };
    let flag = object.cast::<PyBool>();
    let flag = flag.map_err(|_| mistyped(object, place, "a bool", "give True or False"))?;
    Ok(flag.is_true())
}

/// Returns the elements of a list or tuple, or the object itself.
pub fn sequence<'py>(object: Any<'_, 'py>) -> Vec<Bound<'py, PyAny>> {
    if let Ok(tuple) = object.cast::<PyTuple>() {
        return tuple.iter().collect();
    }
    match object.cast::<PyList>() {
        Ok(list) => list.iter().collect(),
        Err(_) => vec![object.clone()],
    }
}

/// Returns an integer, or a list or tuple of integers.
pub fn integers(object: Any<'_, '_>, place: &str) -> PyResult<Vec<i64>> {
    let each = sequence(object);
    each.iter().map(|value| integer(value, place)).collect()
}

/// Returns a pair of integers from one integer or two.
pub fn pair(object: Any<'_, '_>, place: &str) -> PyResult<[usize; 2]> {
    let each = sequence(object);
    let each: Vec<usize> = each
        .iter()
        .map(|value| whole(value, place))
        .collect::<PyResult<_>>()?;
    match each.as_slice() {
        [both] => Ok([*both; 2]),
        [rows, columns] => Ok([*rows, *columns]),
        _ => {
            let what = format!("{place} has {} numbers", each.len());
            Err(refused(
                object.py(),
                what,
                place,
                "give one number, or one for rows and one for columns",
            ))
        }
    }
}

/// Checks the number of elements of a shape, also without its empty axes.
pub fn checked(py: Python<'_>, shape: &[usize], place: &str) -> PyResult<()> {
    let count = shape
        .iter()
        .fold(1_usize, |count, size| count.saturating_mul((*size).max(1)));
    if count <= MOST {
        return Ok(());
    }
    let what = format!("a tensor of {shape:?} has more than {MOST} elements");
    let error = Error::unsupported(what).at(place);
    let error = error.hint("cut it into parts along its first axis");
    Err(exception(py, &error))
}

/// Returns a shape: sizes that are not negative.
pub fn shape(object: Any<'_, '_>) -> PyResult<Vec<usize>> {
    let each = sequence(object);
    let shape: Vec<usize> = each
        .iter()
        .map(|size| whole(size, "shape"))
        .collect::<PyResult<_>>()?;
    checked(object.py(), &shape, "shape")?;
    Ok(shape)
}

/// Returns a shape of `count` elements, in which one size may be -1.
pub fn reshaped(object: Any<'_, '_>, count: usize) -> PyResult<Vec<usize>> {
    let sizes = integers(object, "shape")?;
    let unknown = sizes.iter().filter(|size| **size == -1).count();
    if unknown == 0 {
        return shape(object);
    }
    let known = sizes.iter().filter(|size| **size != -1);
    let known = known.fold(1_i64, |all, size| all.saturating_mul(*size));
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    if unknown > 1 || known <= 0 || count % known != 0 {
        let what = format!("shape is {sizes:?}, for {count} elements");
        let hint = "one size may be -1, if the others divide the number of elements";
        return Err(refused(object.py(), what, "shape", hint));
    }
    let missing = |size: &i64| if *size == -1 { count / known } else { *size };
    let sizes = sizes.iter().map(missing);
    let sizes: Vec<usize> = sizes.map(|size| size as usize).collect();
    checked(object.py(), &sizes, "shape")?;
    Ok(sizes)
}

/// Returns the axis that a number names; negative numbers count from the last.
pub fn axis(object: Any<'_, '_>, place: &str, rank: usize) -> PyResult<usize> {
    let value = integer(object, place)?;
    let counted = if value < 0 {
        value + rank as i64
    } else {
        value
    };
    match usize::try_from(counted) {
        Ok(axis) if axis < rank => Ok(axis),
        _ => {
            let what = format!("{place} is {value}, of a tensor with {rank} axes");
            let hint = "axes count from 0, or from -1 backwards";
            Err(refused(object.py(), what, place, hint))
        }
    }
}

/// Returns axes, each named once; `None` is all axes.
pub fn axes(object: Option<Any<'_, '_>>, rank: usize) -> PyResult<Vec<usize>> {
    let Some(object) = object else {
        return Ok((0..rank).collect());
    };
    let each = sequence(object);
    each.iter().map(|one| axis(one, "axes", rank)).collect()
}

/// Returns a type by the name of numpy, a type of numpy, or the short name.
pub fn dtype(object: Any<'_, '_>) -> PyResult<DType> {
    let name = match object.cast::<PyString>() {
        Ok(name) => name.to_string_lossy().into_owned(),
        Err(_) => match object
            .getattr("name")
            .or_else(|_| object.getattr("__name__"))
        {
            Ok(name) => name.extract().unwrap_or_default(),
            Err(_) => {
                return Err(mistyped(
                    object,
                    "dtype",
                    "the name of a type",
                    "give \"float32\" or \"float16\"",
                ));
            }
        },
    };
    match name.as_str() {
        "float32" | "f32" => Ok(DType::F32),
        "float16" | "f16" => Ok(DType::F16),
        other => {
            let what = format!("dtype \"{other}\" is not supported");
            let error = Error::unsupported(what).at("dtype");
            let error = error.hint("use \"float32\" or \"float16\"; indices are made by indices()");
            Err(exception(object.py(), &error))
        }
    }
}

/// Returns the name of a type in numpy.
pub fn dtype_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "float32",
        DType::F16 => "float16",
        DType::U32 => "uint32",
    }
}
