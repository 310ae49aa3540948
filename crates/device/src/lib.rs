//! Engines whose device callers share.
//!
//! The engine interface (`dapple-engine`) has no runtime, so that an engine on the CPU needs no GPU. This crate joins both:
//! - [`DeviceBuffers`]: an engine on a GPU, with its device handle, and images, gradients and routines on that device.
//! - [`BoxedEngine`]: an engine of either kind. Callers that need the device select by the kind.
//!
//! ```
//! use dapple_device::BoxedEngine;
//! use dapple_engine::RenderSettings;
//! use dapple_scene::{Camera, Result};
//!
//! fn describe(engine: &mut BoxedEngine, camera: &Camera) -> Result<String> {
//!     // Methods of all engines.
//!     let image = engine.render(camera, &RenderSettings::default())?;
//!     // The device, for tensors and other work on it.
//!     let device = engine.gpu().map(|gpu| gpu.device_name());
//!     let device = device.unwrap_or_else(|| "the host".to_owned());
//!     Ok(format!("{} pixels on {device}", image.alpha.len()))
//! }
//! ```

mod boxed_engine;
mod observed;

pub use boxed_engine::BoxedEngine;

use dapple_engine::{Engine, Gradients, RenderSettings};
use dapple_runtime::{Gpu, Routine, wgpu};
use dapple_scene::{Camera, Result, sh_coefficient_count};

/// Loss over crops as kernels of an engine's device: see [`dapple_engine::crops`].
#[derive(Debug, Clone)]
pub struct CropRoutine {
    /// Edge of a crop, pixels.
    pub side: u32,
    /// Commands from two inputs, the crops of render and photo, to one output, the derivative by the render. All are
    /// `[side, side, 3]` of `f32`.
    pub routine: Routine,
}

/// Engine on a GPU that callers share: no image data is copied to the host.
///
/// 1. [`Self::render_to`] submits a render and a copy of its image into the caller's buffer, and returns. Commands that
///    the caller submits afterwards to the same queue read the image there.
/// 2. Only the device knows whether the engine's buffers were large enough. If they were not, the image is not whole.
///    [`Self::rendered_whole`] checks this, and grows the buffers; every other call that waits does too. A viewer may
///    check every few frames: until then it shows an earlier image.
/// 3. [`Self::backward_from`] renders, reads the derivative by the image from the caller's buffer, and runs the backward
///    pass. It waits, because the gradients are copied to the host.
/// 4. [`Self::backward_to`] keeps the gradients on the device: [`Self::gradient_buffers`], which commands of the caller
///    can bind or copy from. After [`Self::forward_to`] it waits for nothing, and if that was the last render, it does not
///    render again.
/// 5. [`Self::load_rows`] and [`Self::gradient_rows`] take parameters and write gradients as gsplat has them.
///
/// The layout of both images is the engine's own: `[height, width, 4]`, `f32`.
pub trait DeviceBuffers: Engine {
    /// Returns the device.
    fn gpu(&self) -> &Gpu;

    /// Sets the loss over crops, created for this device; `None` removes it. Steps whose weight of
    /// [`LossTerm::Perceptual`](dapple_engine::LossTerm::Perceptual) is not 0 run it.
    ///
    /// # Errors
    /// A routine with other inputs and outputs, or with buffers that are too small.
    fn set_crop_routine(&mut self, routine: Option<CropRoutine>) -> Result<()>;

    /// Renders the current splats into a buffer of this engine's device. Waits only for steps that are enqueued, not
    /// for the render.
    ///
    /// `target` takes `[height, width, 4]` of `f32`: red, green and blue over the background, not clamped, and the
    /// transmittance (one minus alpha). It needs [`wgpu::BufferUsages::COPY_DST`] and may be larger.
    /// [`RenderSettings::depth`] is ignored.
    ///
    /// # Errors
    /// See [`Engine::render`]; also a buffer that is too small or cannot be copied to, or no splats.
    fn render_to(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        target: &wgpu::Buffer,
    ) -> Result<()>;

    /// Works like [`Self::render_to`], but waits until the image is whole. With `keeps`, it keeps what a backward pass
    /// reads: if the next call is [`Self::backward_to`] with the same camera and settings, it does not render again.
    /// Without, or after other calls, it renders again, but does not wait as long as the splats do not change.
    ///
    /// # Errors
    /// See [`Self::render_to`]; no memory for larger buffers.
    fn forward_to(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        target: &wgpu::Buffer,
        keeps: bool,
    ) -> Result<()>;

    /// Renders from several cameras, each into its buffer: [`Self::forward_to`] without `keeps`. Views of one size are
    /// rendered at once, as far as there is memory for them: small views then take a fraction of the time.
    ///
    /// # Errors
    /// See [`Self::forward_to`]; also another number of buffers.
    fn forward_each_to(
        &mut self,
        cameras: &[Camera],
        settings: &RenderSettings,
        targets: &[wgpu::Buffer],
    ) -> Result<()>;

    /// Returns true if the last [`Self::render_to`] wrote a whole image, regardless of later commands; waits. If it
    /// returns false, the buffers that were too small are larger now: render again.
    ///
    /// # Errors
    /// A lost device, no memory for larger buffers.
    fn rendered_whole(&mut self) -> Result<bool>;

    /// Computes the gradients of a scalar whose derivative by the render is in a buffer of this engine's device. Waits.
    ///
    /// `derivative` holds `[height, width, 4]` of `f32`: by red, green and blue, and by the transmittance (minus that
    /// by alpha). It needs [`wgpu::BufferUsages::COPY_SRC`] and may be larger.
    ///
    /// # Errors
    /// See [`Engine::differentiate`]; also a buffer that is too small or cannot be copied from.
    fn backward_from(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        derivative: &wgpu::Buffer,
    ) -> Result<Gradients<f32>>;

    /// Works like [`Self::backward_from`], but the gradients stay in buffers of the engine
    /// ([`Self::gradient_buffers`]). Waits for the render, which must be whole, unless [`Self::forward_to`] has rendered
    /// these splats with this camera and these settings; does not wait for the backward pass. Commands that the caller
    /// submits afterwards to the same queue read the gradients.
    ///
    /// # Errors
    /// See [`Self::backward_from`].
    fn backward_to(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        derivative: &wgpu::Buffer,
        asks: BackwardAsks,
    ) -> Result<()>;

    /// Returns the buffers of the last [`Self::backward_to`]; every other call of the engine may overwrite them.
    ///
    /// # Errors
    /// No gradient was computed yet.
    fn gradient_buffers(&self) -> Result<GradientBuffers<'_>>;

    /// Replaces the parameters of all Gaussians by those in a buffer of this engine's device, in rows as gsplat has them:
    /// means `[n, 3]`, quaternions `[n, 4]`, standard deviations `[n, 3]`, opacities in 0 to 1 `[n]`, and coefficients of
    /// the degree of the splats `[n, K, 3]` ([`row_floats`]). `n` is the number of uploaded splats. The optimizer's state
    /// stays. The buffer needs [`wgpu::BufferUsages::STORAGE`]. Does not wait.
    ///
    /// # Errors
    /// Harmonics that the engine stores in 16 bits; more rows than the engine has place for; a buffer that is too small
    /// or cannot be bound; no splats.
    fn load_rows(&mut self, rows: &wgpu::Buffer, n: usize) -> Result<()>;

    /// Writes the gradients of the last [`Self::backward_to`] by the values of `rows`, of [`Self::load_rows`], in rows of
    /// the same order; behind them, those by projected centres `[places, n, 2]`. Does not wait.
    ///
    /// # Errors
    /// No gradient was computed yet; absolute ones that were not requested; a buffer that is too small or cannot be bound.
    fn gradient_rows(
        &mut self,
        rows: &wgpu::Buffer,
        n: usize,
        target: &wgpu::Buffer,
        of: RowsOf,
    ) -> Result<()>;
}

/// What [`DeviceBuffers::backward_to`] computes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BackwardAsks {
    /// Whether gradients by parameters are added to those of the last call, of the same splats.
    pub adds: bool,
    /// Whether [`Gradients::absolute2d`](dapple_engine::Gradients::absolute2d) is computed too.
    pub absolute: bool,
}

/// The camera whose gradients [`DeviceBuffers::gradient_rows`] writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowsOf {
    /// Number of the camera: its place among the gradients by projected centres.
    pub camera: u32,
    /// Whether the gradients by parameters are written too: after the last camera, if gradients were added.
    pub parameters: bool,
    /// Place of the absolute gradients there; `None` = they are not written.
    pub absolute: Option<u32>,
}

/// Returns the numbers of `n` Gaussians in rows: see [`DeviceBuffers::load_rows`].
pub fn row_floats(n: usize, sh_degree: u8) -> usize {
    n * (11 + 3 * sh_coefficient_count(sh_degree))
}

/// Gradients of a scalar on the device. All are `f32`, in planes: number p of Gaussian i is at `p * stride + i`. The
/// buffers can be bound as storage and copied from; nothing may be written into them.
#[derive(Debug, Clone, Copy)]
pub struct GradientBuffers<'a> {
    /// Capacity of a plane in Gaussians.
    pub stride: usize,
    /// `[14, stride]`: by means (3), logarithms of scales (3), quaternions (4), logits of opacities (1), coefficient 0
    /// of the harmonics (3).
    pub geometry: &'a wgpu::Buffer,
    /// `[3 (K - 1), stride]`: by the other coefficients, K of the degree that splats are stored for; empty at degree 0.
    pub sh_rest: &'a wgpu::Buffer,
    /// `[2, stride]`: by the Gaussians' centres in the image, pixels; with [`BackwardAsks::absolute`] `[4, stride]`, the
    /// absolute ones last.
    pub means2d: &'a wgpu::Buffer,
    /// `[ceil(gaussians / 256), 6]`, not in planes: parts of the derivative by the camera's pose, to be added up.
    pub pose: &'a wgpu::Buffer,
}
