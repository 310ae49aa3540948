//! An engine behind arrays: upload, render, gradients.

use crate::array::{Tiles, new as array, slice, tile_mask};
use crate::camera::{PyCamera, by_viewmat};
use crate::errors::{detached, exception};
use crate::gaussians::{self, Arrays, Colours, Uploaded};
use crate::shared::{SharedMemory, settings};
use dapple::contract::{GradientParts, ImageDerivative, Rendered};
use dapple::{BoxedEngine, Device, EngineExt, EngineOptions, Error, RenderSettings, Result};
use numpy::PyReadonlyArrayDyn;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::{Mutex, PoisonError};

/// Arrays of any rank.
type Array<'py> = PyReadonlyArrayDyn<'py, f32>;

/// Colours, alpha and depth of a render.
type Images<'py> = (
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    Option<Bound<'py, PyAny>>,
);

/// An engine with uploaded Gaussians.
#[pyclass(frozen, module = "dapple_gs._native")]
pub struct Rasterizer {
    state: Mutex<State>,
    process: u32,
    /// Engine and device, for messages.
    #[pyo3(get)]
    description: String,
    /// True if the engine computes on a GPU.
    #[pyo3(get)]
    is_gpu: bool,
    /// Reason for the device that "auto" chose.
    #[pyo3(get)]
    why: Option<String>,
}

/// Engine and what was uploaded last.
pub struct State {
    pub engine: BoxedEngine,
    uploaded: Option<Uploaded>,
    /// Number of the last upload.
    token: u64,
    /// Memory that CUDA has imported too.
    pub shared: SharedMemory,
}

#[pymethods]
impl Rasterizer {
    /// Opens an engine: "auto", "cpu", "gpu", "gpu:N" or "gpu:name".
    #[new]
    #[pyo3(signature = (device = "auto"))]
    fn new(py: Python<'_>, device: &str) -> PyResult<Self> {
        let device: Device = device.parse().map_err(|e| exception(py, &e))?;
        let options = EngineOptions {
            shares_memory: true,
            ..EngineOptions::default()
        };
        let opened = detached(py, || dapple::open(&device, &options))?;
        let (engine, why) = (opened.engine.into_engine(), opened.why);
        Ok(Self {
            process: std::process::id(),
            description: engine.description(),
            is_gpu: engine.gpu().is_some(),
            why,
            state: Mutex::new(State {
                engine,
                uploaded: None,
                token: 0,
                shared: SharedMemory::default(),
            }),
        })
    }

    /// Replaces the Gaussians and returns the number of the upload. `sh_degree` is that of the harmonics in `colors`,
    /// `[N, K, 3]`; without it `colors` is `[N, 3]`, and `shift` is added to it.
    #[pyo3(signature = (means, quats, scales, opacities, colors, sh_degree = None, shift = 0.0))]
    #[expect(clippy::too_many_arguments, reason = "the arrays of gsplat's function")]
    fn upload(
        &self,
        py: Python<'_>,
        means: Array<'_>,
        quats: Array<'_>,
        scales: Array<'_>,
        opacities: Array<'_>,
        colors: Array<'_>,
        sh_degree: Option<u8>,
        shift: f32,
    ) -> PyResult<u64> {
        let colours = match (sh_degree, colors.as_array().shape()) {
            (Some(degree), &[_, coefficients, 3]) => Colours::Harmonics(coefficients, degree),
            _ => Colours::Values(shift),
        };
        let arrays = Arrays {
            means: slice(&means, "means")?,
            quats: slice(&quats, "quats")?,
            scales: slice(&scales, "scales")?,
            opacities: slice(&opacities, "opacities")?,
            colors: slice(&colors, "colors")?,
        };
        self.work(py, |state| {
            let (splats, uploaded) = gaussians::splats(&arrays, colours)?;
            state.uploaded = None;
            state.engine.upload(&splats, None)?;
            state.uploaded = Some(uploaded);
            state.token += 1;
            Ok(state.token)
        })
    }

    /// Renders the Gaussians of an upload, in all tiles or in those of `tiles`. Returns colours, alpha and, with `depth`, the
    /// sum of weighted depths; colours are over black.
    #[pyo3(signature = (token, camera, near, dilation, depth, tiles = None))]
    #[expect(clippy::too_many_arguments, reason = "settings of a render")]
    fn render<'py>(
        &self,
        py: Python<'py>,
        token: u64,
        camera: &PyCamera,
        near: f32,
        dilation: (bool, f32),
        depth: bool,
        tiles: Tiles<'_>,
    ) -> PyResult<Images<'py>> {
        let camera = camera.camera;
        let tiles = tile_mask(py, tiles)?;
        let image = self.work(py, |state| {
            let settings = state.settings(token, near, dilation, depth)?;
            let engine = &mut state.engine;
            engine.with_tiles(tiles.as_ref(), |engine| engine.render(&camera, &settings))
        })?;
        image_arrays(py, image)
    }

    /// Works like `render` for several cameras, without a choice of tiles. An engine on a GPU renders views of one size at
    /// once.
    fn render_each<'py>(
        &self,
        py: Python<'py>,
        token: u64,
        cameras: Vec<PyRef<'py, PyCamera>>,
        near: f32,
        dilation: (bool, f32),
        depth: bool,
    ) -> PyResult<Vec<Images<'py>>> {
        let cameras: Vec<_> = cameras.iter().map(|camera| camera.camera).collect();
        let images = self.work(py, |state| {
            let settings = state.settings(token, near, dilation, depth)?;
            let mut images = Vec::with_capacity(cameras.len());
            let mut take = |_, image| {
                images.push(image);
                Ok(())
            };
            state.engine.render_each(&cameras, &settings, &mut take)?;
            Ok(images)
        })?;
        images
            .into_iter()
            .map(|image| image_arrays(py, image))
            .collect()
    }

    /// Names the `most` Gaussians that each pixel of a render shows most. Returns their indices, -1 for none, and weights.
    #[expect(clippy::too_many_arguments, reason = "those of a render")]
    fn contributors<'py>(
        &self,
        py: Python<'py>,
        token: u64,
        camera: &PyCamera,
        near: f32,
        dilation: (bool, f32),
        most: usize,
        tiles: Tiles<'_>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let camera = camera.camera;
        let tiles = tile_mask(py, tiles)?;
        let found = self.work(py, |state| {
            let settings = state.settings(token, near, dilation, false)?;
            let engine = &mut state.engine;
            engine.with_tiles(tiles.as_ref(), |engine| {
                engine.contributors(&camera, &settings, most)
            })
        })?;
        let shape = [camera.height as usize, camera.width as usize, most];
        // A missing one has the largest index: -1.
        let gaussians = found.gaussians.into_iter().map(u32::cast_signed);
        Ok((
            array(py, gaussians.collect(), &shape)?,
            array(py, found.weights, &shape)?,
        ))
    }

    /// Returns the gradients of a scalar by the arrays of an upload, from its derivatives by colours, alpha and the sum of
    /// weighted depths; with `absolute` also `Gradients::absolute2d`. Pixels outside `tiles` give none.
    #[pyo3(signature = (token, camera, near, dilation, by_rgb, by_alpha, by_depth = None, absolute = false, tiles = None))]
    #[expect(clippy::too_many_arguments, reason = "derivatives by all outputs")]
    fn gradients<'py>(
        &self,
        py: Python<'py>,
        token: u64,
        camera: &PyCamera,
        near: f32,
        dilation: (bool, f32),
        by_rgb: Array<'_>,
        by_alpha: Array<'_>,
        by_depth: Option<Array<'_>>,
        absolute: bool,
        tiles: Tiles<'_>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let camera = camera.camera;
        let tiles = tile_mask(py, tiles)?;
        let derivative = ImageDerivative {
            rgb: slice(&by_rgb, "by_rgb")?,
            alpha: Some(slice(&by_alpha, "by_alpha")?),
            depth: by_depth
                .as_ref()
                .map(|values| slice(values, "by_depth"))
                .transpose()?,
        };
        let (by, pose, n, width) = self.work(py, |state| {
            let settings = state.settings(token, near, dilation, derivative.depth.is_some())?;
            let engine = &mut state.engine;
            let parts = match absolute {
                true => GradientParts::AllAndAbsolute,
                false => GradientParts::All,
            };
            let found = engine.with_tiles(tiles.as_ref(), |engine| {
                engine.differentiate(&camera, &settings, &derivative, parts)
            })?;
            let of = state.uploaded.as_ref().ok_or_else(stale)?;
            let pose = found.pose;
            let n = found.opacities.len();
            let by = gaussians::by_parameters(found, of);
            let width = by.colors.len() / n.max(1);
            Ok((by, pose, n, width))
        })?;
        let all = PyDict::new(py);
        all.set_item("means", array(py, by.means, &[n, 3])?)?;
        all.set_item("quats", array(py, by.quats, &[n, 4])?)?;
        all.set_item("scales", array(py, by.scales, &[n, 3])?)?;
        all.set_item("opacities", array(py, by.opacities, &[n])?)?;
        all.set_item("colors", array(py, by.colors, &[n, width])?)?;
        all.set_item("means2d", array(py, by.means2d, &[n, 2])?)?;
        if absolute {
            all.set_item("absolute2d", array(py, by.absolute2d, &[n, 2])?)?;
        }
        let by_pose = by_viewmat(&camera, pose).as_flattened().to_vec();
        all.set_item("viewmat", array(py, by_pose, &[4, 4])?)?;
        Ok(all)
    }
}

impl Rasterizer {
    /// Returns true if the engine computes on a GPU.
    pub fn is_gpu(&self) -> bool {
        self.is_gpu
    }

    /// Marks the last upload as replaced by other Gaussians.
    pub fn forget(state: &mut State) {
        state.uploaded = None;
        state.token += 1;
    }

    /// Runs work on the engine, without the interpreter's lock.
    pub fn work<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut State) -> Result<T> + Send,
    ) -> PyResult<T> {
        if self.process != std::process::id() {
            let error =
                Error::input("this engine belongs to the process that this one was forked from")
                    .at("Rasterizer")
                    .hint("open an engine in each process, or start processes by \"spawn\"");
            return Err(exception(py, &error));
        }
        detached(py, || {
            work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
        })
    }
}

impl State {
    fn settings(
        &self,
        token: u64,
        near: f32,
        dilation: (bool, f32),
        depth: bool,
    ) -> Result<RenderSettings> {
        let of = self.uploaded.as_ref().filter(|_| token == self.token);
        let of = of.ok_or_else(stale)?;
        Ok(RenderSettings {
            depth,
            ..settings(of.degree(), near, dilation)
        })
    }
}

/// Returns the arrays of a render.
fn image_arrays(py: Python<'_>, image: Rendered) -> PyResult<Images<'_>> {
    let (height, width) = (image.height as usize, image.width as usize);
    let depth = image.depth.map(|d| d.blended);
    Ok((
        array(py, image.rgb, &[height, width, 3])?,
        array(py, image.alpha, &[height, width])?,
        depth
            .map(|values| array(py, values, &[height, width]))
            .transpose()?,
    ))
}

fn stale() -> Error {
    Error::input("the engine has the Gaussians of another upload")
        .at("token")
        .hint("upload again before the render, and use one engine from one thread at a time")
}
