//! Renders and gradients in memory that CUDA imports: no copy through the host.
//!
//! Parameters and gradients are rows, as gsplat has them; kernels of the engine convert. The caller waits for its own work
//! before each call, and each call waits for the engine's.

use crate::array;
use crate::camera::{PyCamera, by_viewmat};
use crate::rasterizer::{Rasterizer, State};
use dapple::runtime::wgpu;
use dapple::scene::sh_coefficient_count;
use dapple::{BoxedEngine, DeviceBuffers, Error, RenderSettings, Result, Splats};
use pyo3::prelude::*;
use std::collections::HashMap;

/// Buffers by the numbers that Python has for them.
#[derive(Default)]
pub struct SharedMemory {
    buffers: HashMap<u64, wgpu::Buffer>,
    next: u64,
}

/// Allocates memory that CUDA can import. Returns its number, a file descriptor that the import takes over, and its
/// bytes.
#[pyfunction]
#[cfg(target_os = "linux")]
pub fn allocate(rasterizer: &Bound<'_, Rasterizer>, bytes: u64) -> PyResult<(u64, i32, u64)> {
    use std::os::fd::IntoRawFd;
    rasterizer.get().work(rasterizer.py(), |state| {
        let shared = state.on_device()?.gpu().external_buffer("shared", bytes)?;
        let memory = &mut state.shared;
        memory.next += 1;
        memory.buffers.insert(memory.next, shared.buffer);
        Ok((
            memory.next,
            shared.handle.into_raw_fd(),
            shared.memory_bytes,
        ))
    })
}

/// Frees memory of `allocate`, which CUDA must have released.
#[pyfunction]
pub fn free(rasterizer: &Bound<'_, Rasterizer>, number: u64) -> PyResult<()> {
    rasterizer.get().work(rasterizer.py(), |state| {
        state.shared.buffers.remove(&number);
        Ok(())
    })
}

/// Returns the first numbers of shared memory, to check an import.
#[pyfunction]
pub fn read_shared<'py>(
    rasterizer: &Bound<'py, Rasterizer>,
    number: u64,
    count: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let values: Vec<f32> = rasterizer.get().work(rasterizer.py(), |state| {
        let buffer = state.buffer(number)?;
        state.on_device()?.gpu().read(&buffer, count)
    })?;
    array::new(rasterizer.py(), values, &[count])
}

/// Makes place for this number of Gaussians, whose parameters come by `load_rows`.
#[pyfunction]
pub fn reserve(
    rasterizer: &Bound<'_, Rasterizer>,
    gaussians: usize,
    sh_degree: u8,
) -> PyResult<()> {
    rasterizer.get().work(rasterizer.py(), |state| {
        let n = gaussians;
        let splats = Splats {
            means: vec![[0.0; 3]; n],
            scales: vec![[0.0; 3]; n],
            quats: vec![[1.0, 0.0, 0.0, 0.0]; n],
            opacities: vec![0.0; n],
            sh0: vec![[0.0; 3]; n],
            sh_rest: vec![0.0; n * 3 * (sh_coefficient_count(sh_degree) - 1)],
            sh_degree,
        };
        Rasterizer::forget(state);
        state.engine.upload(&splats, None)
    })
}

/// Takes parameters from shared memory: see [`DeviceBuffers::load_rows`]. CUDA must have written them.
#[pyfunction]
pub fn load_rows(rasterizer: &Bound<'_, Rasterizer>, rows: u64, gaussians: usize) -> PyResult<()> {
    rasterizer.get().work(rasterizer.py(), |state| {
        let rows = state.buffer(rows)?;
        Rasterizer::forget(state);
        state.on_device()?.load_rows(&rows, gaussians)
    })
}

/// Renders into shared memory: `[height, width, 4]`, colours over black and transmittance. Waits. With `keep`, the
/// gradients of this render do not render again.
#[pyfunction]
pub fn render_shared(
    rasterizer: &Bound<'_, Rasterizer>,
    image: u64,
    camera: &PyCamera,
    sh_degree: u8,
    near: f32,
    dilation: (bool, f32),
    keep: bool,
) -> PyResult<()> {
    let settings = settings(sh_degree, near, dilation);
    let camera = camera.camera;
    rasterizer.get().work(rasterizer.py(), |state| {
        let image = state.buffer(image)?;
        let engine = state.on_device()?;
        if keep {
            return engine.forward_to(&camera, &settings, &image);
        }
        loop {
            engine.render_to(&camera, &settings, &image)?;
            if engine.rendered_whole()? {
                return Ok(());
            }
        }
    })
}

/// Computes gradients from shared memory: the derivative, `[height, width, 4]`, and the rows of `load_rows`. Writes them
/// into the third: see [`DeviceBuffers::gradient_rows`]. Returns the gradient by the camera's matrix. Waits.
#[pyfunction]
pub fn gradients_shared<'py>(
    rasterizer: &Bound<'py, Rasterizer>,
    memory: (u64, u64, u64),
    gaussians: usize,
    camera: &PyCamera,
    sh_degree: u8,
    near: f32,
    dilation: (bool, f32),
) -> PyResult<Bound<'py, PyAny>> {
    let settings = settings(sh_degree, near, dilation);
    let camera = camera.camera;
    let pose = rasterizer.get().work(rasterizer.py(), |state| {
        let (derivative, rows, target) = memory;
        let [derivative, rows, target] = [
            state.buffer(derivative)?,
            state.buffer(rows)?,
            state.buffer(target)?,
        ];
        let engine = state.on_device()?;
        engine.backward_to(&camera, &settings, &derivative)?;
        engine.gradient_rows(&rows, gaussians, &target)?;
        let pose = engine.gradient_buffers()?.pose;
        // This waits for the rows too.
        let parts: Vec<f32> = engine.gpu().read(pose, 6 * gaussians.div_ceil(256))?;
        let mut sums = [0.0; 6];
        for part in parts.as_chunks::<6>().0 {
            for (sum, &value) in sums.iter_mut().zip(part) {
                *sum += f64::from(value);
            }
        }
        Ok(sums)
    })?;
    let by_pose = by_viewmat(&camera, pose).as_flattened().to_vec();
    array::new(rasterizer.py(), by_pose, &[4, 4])
}

impl State {
    fn on_device(&mut self) -> Result<&mut dyn DeviceBuffers> {
        match &mut self.engine {
            BoxedEngine::Device(engine) => Ok(engine.as_mut()),
            BoxedEngine::Host(_) => Err(Error::unsupported("the engine is not on a GPU")),
        }
    }

    /// Returns a handle to a buffer.
    fn buffer(&self, number: u64) -> Result<wgpu::Buffer> {
        let buffer = self.shared.buffers.get(&number);
        let gone = || Error::internal(format!("there is no shared memory {number}"));
        buffer.cloned().ok_or_else(gone)
    }
}

/// Returns the settings of a render over black: anti-aliased or not, with this dilation, pixels squared.
pub fn settings(sh_degree: u8, near: f32, (antialias, dilation): (bool, f32)) -> RenderSettings {
    let usual = RenderSettings {
        sh_degree,
        near,
        antialias,
        ..RenderSettings::default()
    };
    RenderSettings {
        extra_dilation: dilation - usual.dilation(),
        ..usual
    }
}
