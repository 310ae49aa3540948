//! The class `Adam`.

use super::arguments::{self, number_or, refused};
use super::node::{self, PyTensor};
use super::owner::Held;
use dapple_tensor::Tensor;
use dapple_tensor::optimizer::{Adam, AdamState};
use pyo3::prelude::*;

/// Share of a parameter that a step of AdamW subtracts by default, times the learning rate.
const DECAY: f32 = 0.01;

/// Adam, or AdamW with `weight_decay`, for a list of parameters, which are leaves.
#[pyclass(frozen, name = "Adam", module = "dapple_gs.tensor")]
pub struct PyAdam {
    adam: Adam,
    parameters: Vec<Py<PyTensor>>,
    state: Held<AdamState>,
}

/// Arguments of Python for both functions.
type Argument<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

impl PyAdam {
    fn create(
        py: Python<'_>,
        parameters: &Bound<'_, PyAny>,
        [learning_rate, betas, epsilon, weight_decay]: [Argument<'_, '_>; 4],
        decay: f32,
    ) -> PyResult<Self> {
        let usual = Adam::default();
        let (beta1, beta2) = match betas {
            None => (usual.beta1, usual.beta2),
            Some(betas) => match arguments::sequence(betas).as_slice() {
                [one, two] => (
                    arguments::number(one, "betas")?,
                    arguments::number(two, "betas")?,
                ),
                _ => {
                    return Err(arguments::mistyped(
                        betas,
                        "betas",
                        "two numbers",
                        "give (0.9, 0.999)",
                    ));
                }
            },
        };
        let adam = Adam {
            learning_rate: number_or(learning_rate, "learning_rate", usual.learning_rate)?,
            beta1,
            beta2,
            epsilon: number_or(epsilon, "epsilon", usual.epsilon)?,
            weight_decay: number_or(weight_decay, "weight_decay", decay)?,
        };
        check(py, &adam)?;
        let parameters = node::tensors(parameters, "parameters")?;
        let Some(first) = parameters.first() else {
            return Err(refused(
                py,
                "parameters is empty",
                "parameters",
                "give the tensors to train",
            ));
        };
        let owner = first.get().owner();
        let all = first.get().mates(py, &parameters, "parameters")?;
        let context = owner.context(py)?;
        let state = owner.work(py, "parameters", || {
            let state = adam.state(context, &all);
            let each = state.moments.iter().flatten();
            each.map(Tensor::check).collect::<Result<Vec<()>, _>>()?;
            Ok(state)
        })?;
        Ok(Self {
            adam,
            state: Held::new(owner, state),
            parameters: parameters.into_iter().map(Bound::unbind).collect(),
        })
    }

    fn tensor(&self, py: Python<'_>, tensor: &Tensor) -> PyResult<PyTensor> {
        PyTensor::made(py, self.state.owner(), "Adam", tensor.clone())
    }
}

fn check(py: Python<'_>, adam: &Adam) -> PyResult<()> {
    let rows = [
        (
            "learning_rate",
            adam.learning_rate,
            adam.learning_rate >= 0.0,
            "0 or more",
        ),
        (
            "betas",
            adam.beta1,
            (0.0..1.0).contains(&adam.beta1),
            "0 or more, and below 1",
        ),
        (
            "betas",
            adam.beta2,
            (0.0..1.0).contains(&adam.beta2),
            "0 or more, and below 1",
        ),
        ("epsilon", adam.epsilon, adam.epsilon > 0.0, "above 0"),
        (
            "weight_decay",
            adam.weight_decay,
            adam.weight_decay >= 0.0,
            "0 or more",
        ),
    ];
    for (place, value, is_in_range, range) in rows {
        if !is_in_range || !value.is_finite() {
            let what = format!("{place} is {value}");
            return Err(refused(
                py,
                what,
                place,
                &format!("give a number that is {range}"),
            ));
        }
    }
    Ok(())
}

#[pymethods]
impl PyAdam {
    #[new]
    #[pyo3(
        signature = (parameters, learning_rate = None, betas = None, epsilon = None, weight_decay = None),
        text_signature = "(parameters, learning_rate=0.001, betas=(0.9, 0.999), epsilon=1e-08, weight_decay=0.0)"
    )]
    fn new<'py>(
        py: Python<'py>,
        parameters: &Bound<'py, PyAny>,
        learning_rate: Option<&Bound<'py, PyAny>>,
        betas: Option<&Bound<'py, PyAny>>,
        epsilon: Option<&Bound<'py, PyAny>>,
        weight_decay: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        let options = [learning_rate, betas, epsilon, weight_decay];
        Self::create(py, parameters, options, Adam::default().weight_decay)
    }

    /// Returns the updates of one step, for `Plan(outputs, updates)`: pairs of a leaf and its new value. `gradients` has
    /// a gradient for each parameter.
    fn step(
        &self,
        py: Python<'_>,
        gradients: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<(PyTensor, PyTensor)>> {
        let gradients = node::tensors(gradients, "gradients")?;
        let parameters: Vec<&PyTensor> = self.parameters.iter().map(|one| one.get()).collect();
        if gradients.len() != parameters.len() {
            let what = format!(
                "{} gradients for {} parameters",
                gradients.len(),
                parameters.len()
            );
            return Err(refused(
                py,
                what,
                "gradients",
                "give one gradient for each parameter",
            ));
        }
        let gradients = parameters[0].mates(py, &gradients, "gradients")?;
        let all: Vec<&Tensor> = parameters
            .iter()
            .map(|one| one.get(py))
            .collect::<PyResult<_>>()?;
        for (gradient, parameter) in gradients.iter().zip(&all) {
            if gradient.shape() != parameter.shape() {
                let what = format!(
                    "a gradient has shape {:?}, not {:?}",
                    gradient.shape(),
                    parameter.shape()
                );
                return Err(refused(
                    py,
                    what,
                    "gradients",
                    "keep the order of the parameters",
                ));
            }
        }
        let gradients: Vec<Tensor> = gradients.into_iter().cloned().collect();
        let updates = self.adam.step(self.state.get(py)?, &all, &gradients);
        let pairs = updates.iter();
        let pairs =
            pairs.map(|(leaf, value)| Ok((self.tensor(py, leaf)?, self.tensor(py, value)?)));
        pairs.collect()
    }

    /// Learning rate, a leaf without axes: write it between runs to change it.
    #[getter]
    fn learning_rate(&self, py: Python<'_>) -> PyResult<PyTensor> {
        self.tensor(py, &self.state.get(py)?.learning_rate)
    }

    /// Number of steps, a leaf without axes.
    #[getter]
    fn steps(&self, py: Python<'_>) -> PyResult<PyTensor> {
        self.tensor(py, &self.state.get(py)?.steps)
    }

    /// Means of the gradients and of their squares, a pair of leaves for each parameter.
    #[getter]
    fn moments(&self, py: Python<'_>) -> PyResult<Vec<(PyTensor, PyTensor)>> {
        let moments = self.state.get(py)?.moments.iter();
        let pairs =
            moments.map(|[mean, square]| Ok((self.tensor(py, mean)?, self.tensor(py, square)?)));
        pairs.collect()
    }
}

/// Creates an `Adam` with a weight decay, separate from the gradient (Loshchilov and Hutter 2019).
#[pyfunction]
#[pyo3(
    name = "AdamW",
    signature = (parameters, learning_rate = None, betas = None, epsilon = None, weight_decay = None),
    text_signature = "(parameters, learning_rate=0.001, betas=(0.9, 0.999), epsilon=1e-08, weight_decay=0.01)"
)]
pub fn adamw<'py>(
    py: Python<'py>,
    parameters: &Bound<'py, PyAny>,
    learning_rate: Option<&Bound<'py, PyAny>>,
    betas: Option<&Bound<'py, PyAny>>,
    epsilon: Option<&Bound<'py, PyAny>>,
    weight_decay: Option<&Bound<'py, PyAny>>,
) -> PyResult<PyAdam> {
    PyAdam::create(
        py,
        parameters,
        [learning_rate, betas, epsilon, weight_decay],
        DECAY,
    )
}
