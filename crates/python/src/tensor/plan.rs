//! The class `Plan`.

use super::arguments::{self, Any, refused, whole};
use super::arrays::to_array;
use super::node::{self, PyTensor};
use super::owner::Held;
use dapple_tensor::{DType, Plan, PlanOptions, Tensor};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longest time between two checks for Ctrl-C.
const SIGNALS_EVERY: Duration = Duration::from_millis(50);

/// Kernels with their memory: compiled once, run repeatedly.
///
/// A run computes `outputs`, then writes each value of `updates`, pairs of a leaf and its new value, into its leaf.
/// With `fuse=False`, each operation has a kernel of its own.
#[pyclass(frozen, name = "Plan", module = "dapple_gs.tensor")]
pub struct PyPlan {
    held: Held<Plan>,
    /// Shape and type of each output.
    outputs: Vec<(Vec<usize>, DType)>,
    was_run: AtomicBool,
}

/// Returns the pairs of an argument `updates`.
fn pairs<'py>(updates: Option<Any<'_, 'py>>) -> PyResult<Vec<[Bound<'py, PyTensor>; 2]>> {
    let Some(updates) = updates else {
        return Ok(Vec::new());
    };
    let each = arguments::sequence(updates);
    let each = each.iter().map(|pair| {
        let pair = node::tensors(pair, "updates")?;
        <[_; 2]>::try_from(pair).map_err(|pair| {
            let what = format!("updates has a group of {} tensors", pair.len());
            let hint = "give pairs of a leaf and its new value, as Adam.step returns them";
            refused(updates.py(), what, "updates", hint)
        })
    });
    let pairs: Vec<[Bound<'py, PyTensor>; 2]> = each.collect::<PyResult<_>>()?;
    for (i, [leaf, _]) in pairs.iter().enumerate() {
        if pairs[..i].iter().any(|[other, _]| other.is(leaf)) {
            let what = format!("updates has two values for {}", leaf.repr()?);
            return Err(refused(
                updates.py(),
                what,
                "updates",
                "name each leaf once",
            ));
        }
    }
    Ok(pairs)
}

#[pymethods]
impl PyPlan {
    #[new]
    #[pyo3(signature = (outputs, updates = None, fuse = None), text_signature = "(outputs, updates=(), fuse=True)")]
    fn new(
        py: Python<'_>,
        outputs: &Bound<'_, PyAny>,
        updates: Option<&Bound<'_, PyAny>>,
        fuse: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let fuse = arguments::flag_or(fuse, "fuse", true)?;
        let outputs = node::tensors(outputs, "outputs")?;
        let updates = pairs(updates)?;
        let first = outputs.first().or(updates.first().map(|[leaf, _]| leaf));
        let Some(first) = first.map(|first| first.get()) else {
            let hint = "give the tensors to compute, or updates";
            return Err(refused(py, "a plan of nothing", "outputs", hint));
        };
        let all: Vec<&Tensor> = outputs
            .iter()
            .map(|output| output.get().get(py))
            .collect::<PyResult<_>>()?;
        let both = |pair: &[Bound<'_, PyTensor>; 2]| -> PyResult<(Tensor, Tensor)> {
            Ok((
                pair[0].get().get(py)?.clone(),
                pair[1].get().get(py)?.clone(),
            ))
        };
        let updates: Vec<(Tensor, Tensor)> = updates.iter().map(both).collect::<PyResult<_>>()?;
        let plan = first.owner().work(py, "outputs", || {
            let options = PlanOptions {
                fuse,
                updates: &updates,
                ..PlanOptions::default()
            };
            Plan::compile_with(&all, &options)
        })?;
        let shapes = all
            .iter()
            .map(|output| (output.shape().to_vec(), output.dtype()));
        Ok(Self {
            outputs: shapes.collect(),
            held: Held::new(first.owner(), plan),
            was_run: AtomicBool::new(false),
        })
    }

    /// Runs the plan `count` times. On a GPU, the call does not wait for the results.
    #[pyo3(signature = (count = None), text_signature = "($self, count=1)")]
    fn run(&self, py: Python<'_>, count: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let mut left = arguments::whole_or(count, "count", 1)?;
        let plan = self.held.get(py)?;
        while left > 0 {
            py.check_signals()?;
            left = self.held.owner().work(py, "Plan", || {
                let started = Instant::now();
                let mut left = left;
                while left > 0 && started.elapsed() < SIGNALS_EVERY {
                    plan.run()?;
                    left -= 1;
                }
                Ok(left)
            })?;
            self.was_run.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Returns the values of an output after the last run, as an array of numpy.
    #[pyo3(signature = (output = None), text_signature = "($self, output=0)")]
    fn read<'py>(
        &self,
        py: Python<'py>,
        output: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (number, shape, dtype) = self.counted(py, output)?;
        if !self.was_run.load(Ordering::Relaxed) {
            let hint = "call run() first";
            return Err(refused(py, "the plan was not run", "Plan", hint));
        }
        let plan = self.held.get(py)?;
        let values = self.held.owner().work(py, "output", || plan.read(number))?;
        to_array(py, values, shape, dtype)
    }

    /// Returns an output as a leaf for other plans: its values are those of the last run.
    #[pyo3(signature = (output = None), text_signature = "($self, output=0)")]
    fn output(&self, py: Python<'_>, output: Option<&Bound<'_, PyAny>>) -> PyResult<PyTensor> {
        let (number, ..) = self.counted(py, output)?;
        let plan = self.held.get(py)?;
        let leaf = self
            .held
            .owner()
            .work(py, "output", || plan.output(number))?;
        PyTensor::made(py, self.held.owner(), "output", leaf)
    }

    /// Work of a run: `kernels`, `copies`, `buffers`, `buffer_bytes`, `bytes` read and written, `flops`.
    #[getter]
    fn work<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let work = self.held.get(py)?.work();
        let all = PyDict::new(py);
        all.set_item("kernels", work.kernels)?;
        all.set_item("copies", work.copies)?;
        all.set_item("buffers", work.buffers)?;
        all.set_item("buffer_bytes", work.buffer_bytes)?;
        all.set_item("bytes", work.bytes)?;
        all.set_item("flops", work.flops)?;
        Ok(all)
    }

    /// Returns the kernels in order: name, bytes and operations of each.
    fn kernels(&self, py: Python<'_>) -> PyResult<Vec<(String, f64, f64)>> {
        let kernels = self.held.get(py)?.kernels();
        let rows = kernels.into_iter();
        Ok(rows
            .map(|kernel| (kernel.name, kernel.bytes, kernel.flops))
            .collect())
    }

    /// Returns a description of the kernels; on a GPU with their WGSL.
    fn explain(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.held.get(py)?.explain())
    }

    fn __repr__(&self) -> String {
        let outputs = self
            .outputs
            .iter()
            .map(|(shape, dtype)| format!("{}{shape:?}", dtype.name()));
        format!("Plan({})", outputs.collect::<Vec<_>>().join(", "))
    }
}

impl PyPlan {
    /// Returns the number of an output, its shape and its type.
    fn counted(
        &self,
        py: Python<'_>,
        output: Option<Any<'_, '_>>,
    ) -> PyResult<(usize, &[usize], DType)> {
        let number = output.map_or(Ok(0), |output| whole(output, "output"))?;
        match self.outputs.get(number) {
            Some((shape, dtype)) => Ok((number, shape, *dtype)),
            None => {
                let what = format!("output {number} of a plan that has {}", self.outputs.len());
                let hint = "outputs are counted from 0, in the order of Plan(outputs)";
                Err(refused(py, what, "output", hint))
            }
        }
    }
}
