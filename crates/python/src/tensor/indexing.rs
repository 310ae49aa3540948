//! Parts of tensors by Python's indices.

use super::arguments::{Any, integer, mistyped, refused};
use crate::errors::exception;
use dapple::Error;
use dapple_tensor::Tensor;
use pyo3::prelude::*;
use pyo3::types::{PyEllipsis, PyList, PySlice, PyTuple};

const HINT: &str = "use integers, slices of step 1, None and ...; embedding takes rows by number";

/// Returns the part of a tensor that an index names, a view.
pub fn part(x: &Tensor, index: Any<'_, '_>) -> PyResult<Tensor> {
    let py = index.py();
    let entries: Vec<Bound<'_, PyAny>> = match index.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter().collect(),
        Err(_) => vec![index.clone()],
    };
    let is_ellipsis = |entry: &Bound<'_, PyAny>| entry.is_instance_of::<PyEllipsis>();
    let ellipses = entries.iter().filter(|entry| is_ellipsis(entry)).count();
    let new = entries.iter().filter(|entry| entry.is_none()).count();
    let named = entries.len() - ellipses - new;
    if named > x.rank() || ellipses > 1 {
        let what = format!("index names {named} axes, of a tensor with {}", x.rank());
        return Err(refused(
            py,
            what,
            "index",
            "name each axis once, and ... once",
        ));
    }
    let (mut now, mut axis, mut shape) = (x.clone(), 0, Vec::new());
    for entry in &entries {
        if is_ellipsis(entry) {
            let skipped = x.rank() - named;
            shape.extend(&x.shape()[axis..axis + skipped]);
            axis += skipped;
        } else if entry.is_none() {
            shape.push(1);
        } else {
            let size = x.shape()[axis];
            let (start, length, stays) = range(entry, size)?;
            now = now.slice(axis, start, length);
            if stays {
                shape.push(length);
            }
            axis += 1;
        }
    }
    shape.extend(&x.shape()[axis..]);
    now.check()
        .map_err(|error| exception(py, &error.at("index")))?;
    Ok(now.reshape(&shape))
}

/// Returns start and length of an index along an axis of `size`, and true if the axis remains.
fn range(entry: Any<'_, '_>, size: usize) -> PyResult<(usize, usize, bool)> {
    let py = entry.py();
    if let Ok(slice) = entry.cast::<PySlice>() {
        let indices = slice.indices(size as isize)?;
        if indices.step != 1 {
            let error = Error::unsupported(format!("index has a step of {}", indices.step));
            return Err(exception(py, &error.at("index").hint(HINT)));
        }
        return Ok((indices.start as usize, indices.slicelength, true));
    }
    if entry.is_instance_of::<PyList>()
        || entry.hasattr("__array__")? && entry.getattr("ndim")?.extract::<usize>().unwrap_or(1) > 0
    {
        return Err(mistyped(entry, "index", "an integer or a slice", HINT));
    }
    let value = integer(entry, "index")?;
    let counted = if value < 0 {
        value + size as i64
    } else {
        value
    };
    match usize::try_from(counted) {
        Ok(at) if at < size => Ok((at, 1, false)),
        _ => {
            let what = format!("index {value} of an axis of {size}");
            Err(refused(
                py,
                what,
                "index",
                "indices count from 0, or from -1 backwards",
            ))
        }
    }
}
