//! Renders and gradients in memory that CUDA imports: no copy through the host.
//!
//! Parameters and gradients are rows, as gsplat has them; kernels of the engine convert. Two semaphores order the work of
//! both sides without a wait of the host ([`semaphores`]): each call follows a value that CUDA signals, and signals a value
//! for which CUDA waits. A value 0 is neither waited for nor signalled.

use crate::array::{self, Tiles, tile_mask};
use crate::camera::{PyCamera, by_viewmat};
use crate::rasterizer::{Rasterizer, State};
use dapple::runtime::wgpu;
use dapple::scene::sh_coefficient_count;
use dapple::{
    BackwardAsks, BoxedEngine, DeviceBuffers, EngineExt, Error, RenderSettings, Result, RowsOf,
    Splats,
};
use pyo3::prelude::*;
use std::collections::HashMap;

#[cfg(target_os = "linux")]
use dapple::runtime::ExternalSemaphore;

/// Buffers by the numbers that Python has for them.
#[derive(Default)]
pub struct SharedMemory {
    buffers: HashMap<u64, wgpu::Buffer>,
    next: u64,
    #[cfg(target_os = "linux")]
    order: Option<Order>,
}

/// Semaphores between CUDA and an engine.
#[cfg(target_os = "linux")]
struct Order {
    from_cuda: ExternalSemaphore,
    to_cuda: ExternalSemaphore,
}

/// Creates the semaphores, and returns file descriptors that the import takes over: of that which CUDA signals, and of that
/// which CUDA waits for. Replaces those of an earlier call.
#[pyfunction]
#[cfg(target_os = "linux")]
pub fn semaphores(rasterizer: &Bound<'_, Rasterizer>) -> PyResult<(i32, i32)> {
    use std::os::fd::IntoRawFd;
    rasterizer.get().work(rasterizer.py(), |state| {
        let gpu = state.on_device()?.gpu();
        let (from_cuda, from) = gpu.external_semaphore()?;
        let (to_cuda, to) = gpu.external_semaphore()?;
        state.shared.order = Some(Order { from_cuda, to_cuda });
        Ok((from.into_raw_fd(), to.into_raw_fd()))
    })
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

/// Takes parameters from shared memory, which CUDA has written before it signals `after`: see
/// [`DeviceBuffers::load_rows`]. Does not wait.
#[pyfunction]
pub fn load_rows(
    rasterizer: &Bound<'_, Rasterizer>,
    rows: u64,
    gaussians: usize,
    after: u64,
) -> PyResult<()> {
    rasterizer.get().work(rasterizer.py(), |state| {
        let rows = state.buffer(rows)?;
        Rasterizer::forget(state);
        state.follow(after);
        state.on_device()?.load_rows(&rows, gaussians)
    })
}

/// Renders into shared memory: `[height, width, 4]`, colours over black and transmittance. Waits. With `keep`, the
/// gradients of this render do not render again if nothing else is rendered in between. With `tiles`, only these are
/// rendered.
#[pyfunction]
#[pyo3(signature = (rasterizer, image, camera, sh_degree, near, dilation, keep, tiles = None))]
#[expect(clippy::too_many_arguments, reason = "settings of a render")]
pub fn render_shared(
    rasterizer: &Bound<'_, Rasterizer>,
    image: u64,
    camera: &PyCamera,
    sh_degree: u8,
    near: f32,
    dilation: (bool, f32),
    keep: bool,
    tiles: Tiles<'_>,
) -> PyResult<()> {
    let tiles = tile_mask(rasterizer.py(), tiles)?;
    let settings = settings(sh_degree, near, dilation);
    let camera = camera.camera;
    rasterizer.get().work(rasterizer.py(), |state| {
        let image = state.buffer(image)?;
        state.on_device()?.with_tiles(tiles.as_ref(), |engine| {
            engine.forward_to(&camera, &settings, &image, keep)
        })
    })
}

/// Renders from several cameras, each into its shared memory: see [`render_shared`]. Waits once for each group of views
/// that are rendered at once.
#[pyfunction]
pub fn render_shared_each(
    rasterizer: &Bound<'_, Rasterizer>,
    images: Vec<u64>,
    cameras: Vec<PyRef<'_, PyCamera>>,
    sh_degree: u8,
    near: f32,
    dilation: (bool, f32),
) -> PyResult<()> {
    let settings = settings(sh_degree, near, dilation);
    let cameras: Vec<_> = cameras.iter().map(|camera| camera.camera).collect();
    rasterizer.get().work(rasterizer.py(), |state| {
        let images = images.iter().map(|&image| state.buffer(image));
        let images: Vec<_> = images.collect::<Result<_>>()?;
        let engine = state.on_device()?;
        engine.forward_each_to(&cameras, &settings, &images)
    })
}

/// Computes gradients from shared memory: the derivative, `[height, width, 4]`, which CUDA has written before it signals
/// `after`, and the rows of `load_rows`; `sum` is whether they are added to those of the last call, and whether the sums are
/// written. `places` are those of gradients by projected centres, and of their absolute sums, if they are wanted.
/// Writes them into the third, and signals `then`: see [`DeviceBuffers::gradient_rows`]. Waits only for the
/// gradient by the camera's matrix, if it is wanted. Pixels outside `tiles` give none.
#[pyfunction]
#[pyo3(signature = (
    rasterizer, memory, gaussians, camera, sh_degree, near, dilation, places, sum, wants_viewmat, order, tiles = None
))]
#[expect(
    clippy::too_many_arguments,
    reason = "a render, its sum and its place in the order"
)]
pub fn gradients_shared<'py>(
    rasterizer: &Bound<'py, Rasterizer>,
    memory: (u64, u64, u64),
    gaussians: usize,
    camera: &PyCamera,
    sh_degree: u8,
    near: f32,
    dilation: (bool, f32),
    places: (u32, Option<u32>),
    sum: (bool, bool),
    wants_viewmat: bool,
    order: (u64, u64),
    tiles: Tiles<'_>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let tiles = tile_mask(rasterizer.py(), tiles)?;
    let settings = settings(sh_degree, near, dilation);
    let camera = camera.camera;
    let pose = rasterizer.get().work(rasterizer.py(), |state| {
        let (derivative, rows, target) = memory;
        let [derivative, rows, target] = [
            state.buffer(derivative)?,
            state.buffer(rows)?,
            state.buffer(target)?,
        ];
        let (after, then) = order;
        state.follow(after);
        let (adds, parameters) = sum;
        let (number, absolute) = places;
        let asks = BackwardAsks {
            adds,
            absolute: absolute.is_some(),
        };
        state.on_device()?.with_tiles(tiles.as_ref(), |engine| {
            engine.backward_to(&camera, &settings, &derivative, asks)
        })?;
        state.signal_with_next(then);
        let engine = state.on_device()?;
        let of = RowsOf {
            camera: number,
            parameters,
            absolute,
        };
        engine.gradient_rows(&rows, gaussians, &target, of)?;
        let pose = match wants_viewmat {
            true => Some(pose_of(engine, gaussians)?),
            false => None,
        };
        Ok(pose)
    })?;
    pose.map(|pose| {
        let by_pose = by_viewmat(&camera, pose).as_flattened().to_vec();
        array::new(rasterizer.py(), by_pose, &[4, 4])
    })
    .transpose()
}

/// Waits, and returns the gradient of the last backward pass by the camera's pose.
fn pose_of(engine: &mut dyn DeviceBuffers, gaussians: usize) -> Result<[f64; 6]> {
    let pose = engine.gradient_buffers()?.pose;
    let parts: Vec<f32> = engine.gpu().read(pose, 6 * gaussians.div_ceil(256))?;
    let mut sums = [0.0; 6];
    for part in parts.as_chunks::<6>().0 {
        for (sum, &value) in sums.iter_mut().zip(part) {
            *sum += f64::from(value);
        }
    }
    Ok(sums)
}

impl State {
    /// Makes the engine's next work follow the signal of CUDA.
    fn follow(&self, after: u64) {
        #[cfg(target_os = "linux")]
        if let Some(order) = self.shared.order.as_ref().filter(|_| after > 0) {
            order.from_cuda.wait(after);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = after;
    }

    /// Signals to CUDA when the engine's next work is done.
    fn signal_with_next(&self, then: u64) {
        #[cfg(target_os = "linux")]
        if let Some(order) = self.shared.order.as_ref().filter(|_| then > 0) {
            order.to_cuda.signal_with_next(then);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = then;
    }

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
