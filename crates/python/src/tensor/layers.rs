//! The classes `Linear` and `Lora`.

use super::arguments::{self, number_or, refused, whole_or};
use super::node::{self, PyTensor};
use super::owner::{Held, owner_of, placed};
use crate::array;
use crate::errors::exception;
use dapple_tensor::Tensor;
use dapple_tensor::layers::{Linear, Lora, LoraOptions};
use pyo3::prelude::*;

/// A linear layer: x W + b, [..., inputs] to [..., outputs].
///
/// Weights are random, of deviation sqrt(2 / inputs), and the bias is 0. `Linear.of` takes weights instead.
#[pyclass(frozen, name = "Linear", module = "dapple_gs.tensor")]
pub struct PyLinear {
    layer: Held<Linear>,
}

impl PyLinear {
    fn tensor(&self, py: Python<'_>, tensor: &Tensor) -> PyResult<PyTensor> {
        PyTensor::made(py, self.layer.owner(), "Linear", tensor.clone())
    }
}

#[pymethods]
impl PyLinear {
    #[new]
    #[pyo3(
        signature = (inputs, outputs, bias = None, seed = None, device = None),
        text_signature = "(inputs, outputs, bias=True, seed=0, device=None)"
    )]
    fn new<'py>(
        py: Python<'py>,
        inputs: &Bound<'py, PyAny>,
        outputs: &Bound<'py, PyAny>,
        bias: Option<&Bound<'py, PyAny>>,
        seed: Option<&Bound<'py, PyAny>>,
        device: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        let has_bias = arguments::flag_or(bias, "bias", true)?;
        let seed = whole_or(seed, "seed", 0)? as u64;
        let sizes = [
            arguments::whole(inputs, "inputs")?,
            arguments::whole(outputs, "outputs")?,
        ];
        arguments::checked(py, &sizes, "inputs")?;
        let owner = owner_of(py, device)?;
        let context = owner.context(py)?;
        let mut layer = owner.work(py, "inputs", || {
            let layer = Linear::new(context, sizes[0], sizes[1], seed);
            layer.weight.check().map(|()| layer)
        })?;
        if !has_bias {
            layer.bias = None;
        }
        Ok(Self {
            layer: Held::new(&owner, layer),
        })
    }

    /// Creates a layer of given tensors: `weight`, [inputs, outputs], and `bias`, [outputs] or None.
    #[staticmethod]
    #[pyo3(signature = (weight, bias = None))]
    fn of(weight: &Bound<'_, PyAny>, bias: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let py = weight.py();
        let weight = node::tensor(weight, "weight")?;
        let own = weight.get();
        let tensor = own.mates(py, std::slice::from_ref(&weight), "weight")?[0];
        let &[_, outputs] = tensor.shape() else {
            let what = format!(
                "weight has shape {:?}, not [inputs, outputs]",
                tensor.shape()
            );
            return Err(refused(
                py,
                what,
                "weight",
                "give a matrix; PyTorch's weights need t()",
            ));
        };
        let bias = match bias {
            None => None,
            Some(bias) => {
                let bias = node::tensor(bias, "bias")?;
                let bias = own.mates(py, std::slice::from_ref(&bias), "bias")?[0].clone();
                if bias.shape() != [outputs] {
                    let what = format!("bias has shape {:?}, not [{outputs}]", bias.shape());
                    return Err(refused(py, what, "bias", "give one number for each output"));
                }
                Some(bias)
            }
        };
        let layer = Linear {
            weight: tensor.clone(),
            bias,
        };
        Ok(Self {
            layer: Held::new(own.owner(), layer),
        })
    }

    /// Returns the output for `x`.
    fn __call__(&self, x: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
        let py = x.py();
        let x = node::tensor(x, "x")?;
        let y = self.layer.get(py)?.forward(x.get().get(py)?);
        PyTensor::made(py, self.layer.owner(), "x", y)
    }

    /// [inputs, outputs].
    #[getter]
    fn weight(&self, py: Python<'_>) -> PyResult<PyTensor> {
        self.tensor(py, &self.layer.get(py)?.weight)
    }

    /// [outputs], or None.
    #[getter]
    fn bias(&self, py: Python<'_>) -> PyResult<Option<PyTensor>> {
        let bias = self.layer.get(py)?.bias.as_ref();
        bias.map(|bias| self.tensor(py, bias)).transpose()
    }

    /// Returns the trainable tensors.
    fn parameters(&self, py: Python<'_>) -> PyResult<Vec<PyTensor>> {
        let all = self.layer.get(py)?.parameters();
        all.into_iter().map(|one| self.tensor(py, one)).collect()
    }
}

/// A low-rank addition to a linear layer (Hu et al. 2021): base(x) + alpha / rank (x A) B. `b` is 0 at first.
#[pyclass(frozen, name = "Lora", module = "dapple_gs.tensor")]
pub struct PyLora {
    base: Py<PyLinear>,
    lora: Held<Lora>,
}

impl PyLora {
    fn tensor(&self, py: Python<'_>, tensor: &Tensor) -> PyResult<PyTensor> {
        PyTensor::made(py, self.lora.owner(), "Lora", tensor.clone())
    }
}

#[pymethods]
impl PyLora {
    #[new]
    #[pyo3(
        signature = (base, rank = None, alpha = None, dropout = None, seed = None),
        text_signature = "(base, rank=8, alpha=16.0, dropout=0.0, seed=0)"
    )]
    fn new<'py>(
        py: Python<'py>,
        base: &Bound<'py, PyAny>,
        rank: Option<&Bound<'py, PyAny>>,
        alpha: Option<&Bound<'py, PyAny>>,
        dropout: Option<&Bound<'py, PyAny>>,
        seed: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        let Ok(base) = base.cast::<PyLinear>() else {
            let hint = "give the layer to add to: Linear.of(weight, bias)";
            return Err(arguments::mistyped(base, "base", "a Linear", hint));
        };
        let usual = LoraOptions::default();
        let options = LoraOptions {
            rank: whole_or(rank, "rank", usual.rank)?,
            alpha: number_or(alpha, "alpha", usual.alpha)?,
            dropout: number_or(dropout, "dropout", usual.dropout)?,
            seed: whole_or(seed, "seed", 0)? as u64,
        };
        let layer = &base.get().layer;
        let (owner, weight) = (layer.owner(), &layer.get(py)?.weight);
        let sizes = [weight.shape()[0], weight.shape()[1]];
        let context = owner.context(py)?;
        let lora = owner.work(py, "Lora", || {
            Lora::new(context, sizes[0], sizes[1], &options).map_err(|error| {
                let place = ["rank", "alpha", "dropout"];
                let place = place
                    .into_iter()
                    .find(|place| error.what().starts_with(place));
                placed(error, place.unwrap_or("Lora"))
            })
        })?;
        Ok(Self {
            base: base.clone().unbind(),
            lora: Held::new(owner, lora),
        })
    }

    /// Returns the output of the base with the addition. `kept`, of the shape of `x`, is the mask of a step with dropout,
    /// see `mask`; without it, no input is dropped.
    #[pyo3(signature = (x, kept = None))]
    fn __call__(
        &self,
        x: &Bound<'_, PyAny>,
        kept: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyTensor> {
        let py = x.py();
        let x = node::tensor(x, "x")?;
        let kept = kept.map(|kept| node::tensor(kept, "kept")).transpose()?;
        let kept = match &kept {
            Some(kept) => Some(kept.get().get(py)?),
            None => None,
        };
        let base = self.base.get().layer.get(py)?;
        let y = self.lora.get(py)?.forward(base, x.get().get(py)?, kept);
        PyTensor::made(py, self.lora.owner(), "x", y)
    }

    /// Returns the base with the addition merged into its weight.
    fn merged(&self, py: Python<'_>) -> PyResult<PyLinear> {
        let layer = self.lora.get(py)?.merged(self.base.get().layer.get(py)?);
        if let Err(error) = layer.weight.check() {
            return Err(exception(py, &placed(error, "base")));
        }
        Ok(PyLinear {
            layer: Held::new(self.lora.owner(), layer),
        })
    }

    /// Returns the mask of inputs for one step, an array of numpy: write it to a tensor, with another seed each step.
    fn mask<'py>(
        &self,
        py: Python<'py>,
        shape: &Bound<'py, PyAny>,
        seed: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let shape = arguments::shape(shape)?;
        let seed = arguments::whole(seed, "seed")? as u64;
        let mask = self.lora.get(py)?.mask(&shape, seed);
        array::new(py, mask, &shape)
    }

    /// [inputs, rank].
    #[getter]
    fn a(&self, py: Python<'_>) -> PyResult<PyTensor> {
        self.tensor(py, &self.lora.get(py)?.a)
    }

    /// [rank, outputs].
    #[getter]
    fn b(&self, py: Python<'_>) -> PyResult<PyTensor> {
        self.tensor(py, &self.lora.get(py)?.b)
    }

    /// The layer with the addition.
    #[getter]
    fn base(&self, py: Python<'_>) -> Py<PyLinear> {
        self.base.clone_ref(py)
    }

    /// Returns the trainable tensors: `a` and `b`.
    fn parameters(&self, py: Python<'_>) -> PyResult<Vec<PyTensor>> {
        let all = self.lora.get(py)?.parameters();
        all.into_iter().map(|one| self.tensor(py, one)).collect()
    }
}
