//! The class `Tensor` without its methods: values, results and operands.

use super::arguments::{self, Any, mistyped, refused, sequence};
use super::arrays::{self, EXACT, to_array};
use super::owner::{Held, Owner, placed};
use crate::errors::exception;
use dapple_tensor::{DType, Tensor};
use pyo3::prelude::*;
use std::sync::Arc;

/// Values on a device, or an operation to compute.
#[pyclass(frozen, name = "Tensor", module = "dapple_gs.tensor")]
pub struct PyTensor {
    /// The tensor and its owner.
    pub held: Held<Tensor>,
}

/// Reduction over axes that remain with one element.
pub type Reduction = fn(&Tensor, &[usize]) -> Tensor;

impl PyTensor {
    /// Checks a result and holds it. `place` is the argument or method in errors.
    pub fn made(py: Python<'_>, owner: &Arc<Owner>, place: &str, tensor: Tensor) -> PyResult<Self> {
        if let Err(error) = tensor.check() {
            return Err(exception(py, &placed(error, place)));
        }
        arguments::checked(py, tensor.shape(), place)?;
        Ok(Self {
            held: Held::new(owner, tensor),
        })
    }

    /// Holds the result of an operation on this tensor.
    pub fn result(&self, py: Python<'_>, place: &str, tensor: Tensor) -> PyResult<Self> {
        Self::made(py, self.owner(), place, tensor)
    }

    /// Returns the owner of the device.
    pub fn owner(&self) -> &Arc<Owner> {
        self.held.owner()
    }

    /// Returns the tensor, if this process created it.
    pub fn get(&self, py: Python<'_>) -> PyResult<&Tensor> {
        self.held.get(py)
    }

    /// Returns the values as an array of numpy.
    pub fn read<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let tensor = self.get(py)?;
        let values = self.owner().work(py, "Tensor", || tensor.read())?;
        to_array(py, values, tensor.shape(), tensor.dtype())
    }

    /// Applies an operation on one tensor of numbers.
    pub fn unary(&self, py: Python<'_>, name: &str, f: fn(&Tensor) -> Tensor) -> PyResult<Self> {
        let x = self.get(py)?;
        if x.dtype() == DType::U32 {
            let what = format!("{name} of indices");
            let hint = "indices are for embedding and cross_entropy";
            return Err(refused(py, what, name, hint));
        }
        self.result(py, name, f(x))
    }

    /// Returns an operand: a tensor, or a number as a constant.
    pub fn operand(&self, other: Any<'_, '_>, place: &str) -> PyResult<Tensor> {
        let py = other.py();
        if let Ok(tensor) = other.cast::<Self>() {
            return tensor.get().get(py).cloned();
        }
        let value = arguments::number(other, place)?;
        Ok(self.owner().context(py)?.constant(value))
    }

    /// Applies an operation with an operand.
    pub fn binary(&self, other: Any<'_, '_>, f: fn(&Tensor, &Tensor) -> Tensor) -> PyResult<Self> {
        let other_tensor = self.operand(other, "other")?;
        let result = f(self.get(other.py())?, &other_tensor);
        self.result(other.py(), "other", result)
    }

    /// Computes with the operands exchanged.
    pub fn reversed(
        &self,
        other: Any<'_, '_>,
        f: fn(&Tensor, &Tensor) -> Tensor,
    ) -> PyResult<Self> {
        let first = self.operand(other, "other")?;
        let result = f(&first, self.get(other.py())?);
        self.result(other.py(), "other", result)
    }

    /// Reduces axes.
    pub fn reduced(
        &self,
        py: Python<'_>,
        axes: Option<Any<'_, '_>>,
        keep: Option<Any<'_, '_>>,
        f: Reduction,
    ) -> PyResult<Self> {
        let x = self.get(py)?;
        let axes = arguments::axes(axes, x.rank())?;
        let keep = arguments::flag_or(keep, "keep", false)?;
        let kept = self.result(py, "axes", f(x, &axes))?;
        if keep {
            return Ok(kept);
        }
        let sizes = x.shape().iter().enumerate();
        let left = sizes.filter(|(axis, _)| !axes.contains(axis));
        let shape: Vec<usize> = left.map(|(_, size)| *size).collect();
        let dropped = kept.get(py)?.reshape(&shape);
        self.result(py, "axes", dropped)
    }

    /// Returns tensors that are of the context of this tensor.
    pub fn mates<'a>(
        &self,
        py: Python<'_>,
        tensors: &'a [Bound<'_, Self>],
        place: &str,
    ) -> PyResult<Vec<&'a Tensor>> {
        let own = self.get(py)?;
        let each = tensors.iter().map(|tensor| {
            let tensor = tensor.get().get(py)?;
            if tensor.context() == own.context() && tensor.dtype() != DType::U32 {
                return Ok(tensor);
            }
            let what = match tensor.dtype() {
                DType::U32 => format!("{place} has indices"),
                _ => format!(
                    "{place} is on {}, not on {}",
                    tensor.context().name(),
                    own.context().name()
                ),
            };
            Err(refused(
                py,
                what,
                place,
                "give tensors of float32 or float16, made on one device",
            ))
        });
        each.collect()
    }

    /// Writes an array of integers.
    pub fn write_indices(&self, array: Any<'_, '_>, x: &Tensor) -> PyResult<()> {
        let (shape, numbers) = arrays::whole_numbers(array)?;
        same_shape(array.py(), &shape, x)?;
        let values: Vec<f32> = numbers.iter().map(|number| *number as f32).collect();
        if values.iter().any(|value| *value >= EXACT) {
            let what = "array has indices of 2^24 and more";
            return Err(refused(
                array.py(),
                what,
                "array",
                "make new indices(array)",
            ));
        }
        self.owner().work(array.py(), "Tensor", || x.write(&values))
    }
}

/// Checks that values fit a leaf.
pub fn same_shape(py: Python<'_>, shape: &[usize], of: &Tensor) -> PyResult<()> {
    if shape == of.shape() {
        return Ok(());
    }
    let what = format!("array has shape {shape:?}, not {:?}", of.shape());
    Err(refused(
        py,
        what,
        "array",
        "give an array of the shape of the tensor",
    ))
}

/// Returns tensors: one, or a list or tuple of them.
pub fn tensors<'py>(object: Any<'_, 'py>, place: &str) -> PyResult<Vec<Bound<'py, PyTensor>>> {
    let each = sequence(object);
    let each = each.iter().map(|one| tensor(one, place));
    each.collect()
}

/// Returns a tensor.
pub fn tensor<'py>(object: Any<'_, 'py>, place: &str) -> PyResult<Bound<'py, PyTensor>> {
    match object.cast::<PyTensor>() {
        Ok(tensor) => Ok(tensor.clone()),
        Err(_) => {
            let hint = "make a Tensor by dapple_gs.tensor.tensor(array)";
            Err(mistyped(object, place, "a Tensor", hint))
        }
    }
}
