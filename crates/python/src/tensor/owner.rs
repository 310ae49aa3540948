//! [`Owner`]: a device of tensors, and the process that opened it.

use super::arguments::text;
use crate::errors::{exception, wrong_type};
use crate::rasterizer::Rasterizer;
use dapple::{BoxedEngine, Error, Result};
use dapple_tensor::Context;
use pyo3::prelude::*;
use std::mem::ManuallyDrop;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

/// A context, and the process that opened it. Work runs under one lock: a thread that waits for a part of one plan
/// must not start another plan.
pub struct Owner {
    context: ManuallyDrop<Context>,
    process: u32,
    is_gpu: bool,
    busy: Mutex<()>,
}

impl Owner {
    /// Returns true if values may be freed. A GPU of the parent process must not be used after a fork.
    fn frees(&self) -> bool {
        !self.is_gpu || self.process == std::process::id()
    }

    /// Checks that this process opened the device.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        let error =
            Error::input("this tensor belongs to the process that this one was forked from")
                .at("Tensor")
                .hint("create tensors and plans in each process, or start processes by \"spawn\"");
        Err(exception(py, &error))
    }

    /// Returns the context.
    pub fn context(&self, py: Python<'_>) -> PyResult<&Context> {
        self.check(py)?;
        Ok(&self.context)
    }

    /// Runs work on the device, without the interpreter's lock. `place` is the argument or method in errors.
    pub fn work<T: Send>(
        &self,
        py: Python<'_>,
        place: &str,
        work: impl FnOnce() -> Result<T> + Send,
    ) -> PyResult<T> {
        self.check(py)?;
        let done = py.detach(|| {
            let _busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
            crate::pool::install(|| guarded(work))
        });
        done.map_err(|error| exception(py, &placed(error, place)))
    }
}

/// Runs work, and converts a panic into an error: an exception of Python, not the end of its process.
fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let done = std::panic::catch_unwind(AssertUnwindSafe(work));
    done.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let what = format!("the computation failed: {}", text.unwrap_or("no text"));
        Err(Error::internal(what))
    })
}

impl Drop for Owner {
    fn drop(&mut self) {
        if self.frees() {
            // SAFETY: dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.context) };
        }
    }
}

/// Sets the place of an error that has none.
pub fn placed(error: Error, place: &str) -> Error {
    match error.place() {
        Some(_) => error,
        None => error.at(place),
    }
}

/// Value on a device of an [`Owner`]: freed in the process that created it only.
pub struct Held<T> {
    value: ManuallyDrop<T>,
    owner: Arc<Owner>,
}

impl<T> Held<T> {
    /// Holds a value of this owner's device.
    pub fn new(owner: &Arc<Owner>, value: T) -> Self {
        Self {
            value: ManuallyDrop::new(value),
            owner: Arc::clone(owner),
        }
    }

    /// Returns the owner of the value.
    pub fn owner(&self) -> &Arc<Owner> {
        &self.owner
    }

    /// Returns the value.
    pub fn get(&self, py: Python<'_>) -> PyResult<&T> {
        self.owner.check(py)?;
        Ok(&self.value)
    }

    /// Returns the value in any process, to read what is on the host.
    pub fn peek(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        if self.owner.frees() {
            // SAFETY: dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

/// A device for tensors. Tensors of different contexts cannot be combined.
#[pyclass(frozen, name = "Context", module = "dapple_gs.tensor")]
pub struct PyContext {
    pub owner: Arc<Owner>,
    /// Name of the device.
    #[pyo3(get)]
    name: String,
    /// True if the device is a GPU.
    #[pyo3(get)]
    is_gpu: bool,
}

#[pymethods]
impl PyContext {
    /// Creates the context of an engine; private to the package, see `context`.
    #[staticmethod]
    fn _of(py: Python<'_>, rasterizer: &Rasterizer) -> PyResult<Self> {
        let context = rasterizer.work(py, |state| {
            Ok(match &state.engine {
                BoxedEngine::Device(engine) => Context::gpu(engine.gpu()),
                BoxedEngine::Host(_) => Context::cpu(),
            })
        })?;
        let (name, is_gpu) = (context.name(), rasterizer.is_gpu());
        let owner = Owner {
            context: ManuallyDrop::new(context),
            process: std::process::id(),
            is_gpu,
            busy: Mutex::new(()),
        };
        Ok(Self {
            owner: Arc::new(owner),
            name,
            is_gpu,
        })
    }

    fn __repr__(&self) -> String {
        format!("Context({})", self.name)
    }
}

/// Returns the context of a device: "auto", "cpu", "gpu", "gpu:1" or "gpu:name". The default is the device of
/// `dapple_gs.set_device`, else of DAPPLE_DEVICE, else "auto". One device has one context.
#[pyfunction]
#[pyo3(signature = (device = None))]
pub fn context<'py>(
    py: Python<'py>,
    device: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyContext>> {
    let name = match device {
        Some(device) => match device.cast::<PyContext>() {
            Ok(context) => return Ok(context.clone()),
            Err(_) => Some(text(device, "device", "write \"cpu\" or \"gpu\"")?),
        },
        None => None,
    };
    let engine = py
        .import("dapple_gs._engines")?
        .call_method1("engine", (name,))?;
    let tensors = engine.getattr("tensors")?;
    match tensors.cast::<PyContext>() {
        Ok(context) => Ok(context.clone()),
        Err(_) => Err(wrong_type(py, &Error::internal("an engine has no tensors"))),
    }
}

/// Returns the owner behind an argument `device`.
pub fn owner_of<'py>(py: Python<'py>, device: Option<&Bound<'py, PyAny>>) -> PyResult<Arc<Owner>> {
    let context = context(py, device)?;
    Ok(Arc::clone(&context.get().owner))
}
