//! Dapple's errors as Python exceptions.

use dapple::{Error, ErrorKind};
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;

/// Converts an error into the exception of its kind, with fault, place and hint as attributes.
pub fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error.kind() {
        ErrorKind::Interrupted => return PyKeyboardInterrupt::new_err(error.what().to_owned()),
        ErrorKind::Input => "InputError",
        ErrorKind::Io => "FileError",
        ErrorKind::Unsupported => "UnsupportedError",
        ErrorKind::Internal => "InternalError",
    };
    raised(py, class, error)
}

/// Converts an error about the type of an argument into an `ArgumentTypeError`.
pub fn wrong_type(py: Python<'_>, error: &Error) -> PyErr {
    raised(py, "ArgumentTypeError", error)
}

fn raised(py: Python<'_>, class: &str, error: &Error) -> PyErr {
    let made = py
        .import("dapple_gs._errors")
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call1((error.what(), error.place(), error.hint_text())));
    match made {
        Ok(instance) => PyErr::from_value(instance),
        // The package is not whole: the text is still of use.
        Err(_) => PyRuntimeError::new_err(error.to_string()),
    }
}

/// Runs work without the interpreter's lock, on threads of this process, and converts its error.
pub fn detached<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> dapple::Result<T> + Send,
) -> PyResult<T> {
    py.detach(|| crate::pool::install(work))
        .map_err(|error| exception(py, &error))
}
