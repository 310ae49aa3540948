//! The extension module of the Python package `dapple-gs`.
//!
//! It has arrays and engines; what follows gsplat's functions is Python, under `python/dapple_gs`. Every call that computes
//! releases the lock of the interpreter.

mod array;
mod camera;
mod errors;
mod files;
mod gaussians;
mod pool;
mod rasterizer;
mod shared;
mod tensor;
mod training;

use pyo3::prelude::*;

/// Engines behind arrays; private to the package.
#[pymodule(name = "_native")]
mod native {
    #[pymodule_export]
    use crate::camera::PyCamera;
    #[pymodule_export]
    use crate::files::{read_splats, write_splats};
    #[pymodule_export]
    use crate::rasterizer::Rasterizer;
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use crate::shared::{allocate, semaphores};
    #[pymodule_export]
    use crate::shared::{
        free, gradients_shared, load_rows, read_shared, render_shared, render_shared_each, reserve,
    };
    #[pymodule_export]
    use crate::training::{PyTrainer, settings};
    /// Tensors; see `dapple_gs.tensor`.
    #[pyo3::pymodule]
    mod tensor {
        #[pymodule_export]
        use crate::tensor::{PyAdam, PyContext, PyLinear, PyLora, PyPlan, PyTensor};
        #[pymodule_export]
        use crate::tensor::{
            adamw, cat, context, full, indices, load, normal, save, tensor, zeros,
        };
    }
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
