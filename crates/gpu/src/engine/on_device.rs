//! Renders and derivatives that stay on the device, for viewers and autograd libraries that use the same device
//! ([`Gpu::device`]): no image data is copied to the host.
//!
//! 1. [`GpuEngine::render_to`] submits a render and a copy of its image into the caller's buffer, and returns. Commands
//!    that the caller submits afterwards to the same queue read the image there.
//! 2. Only the device knows whether the engine's buffers were large enough. If they were not, the image is not whole.
//!    [`GpuEngine::rendered_whole`] checks this, and grows the buffers; every other call that waits does too. A viewer
//!    may check every few frames: until then it shows an earlier image.
//! 3. [`GpuEngine::backward_from`] renders, reads the derivative by the image from the caller's buffer, and runs the
//!    backward pass. It waits, because the gradients are copied to the host.
//! 4. [`GpuEngine::backward_to`] keeps the gradients on the device: [`GradientBuffers`], which commands of the caller
//!    can bind or copy from.
//!
//! The layout of both images is the engine's own: `[height, width, 4]`, `f32`.
//!
//! [`Gpu::device`]: dapple_runtime::Gpu::device

use super::GpuEngine;
use crate::layout;
use crate::passes::Bits;
use crate::stages::gradients;
use dapple_engine::{Gradients, PosedCamera, RenderSettings};
use dapple_runtime::wgpu;
use dapple_scene::{Camera, Error, Result};
use std::mem::offset_of;

/// Bytes of a pixel in the callers' buffers.
const PIXEL_BYTES: u64 = 16;

/// Copy of the word `halted` in `State` at the time of the last image copy; later commands change the original.
const HALTED: &str = "rendered_halted";
const WORD_BYTES: u64 = 4;

impl GpuEngine {
    /// Renders the current splats into a buffer of this engine's device. Waits only for steps that are enqueued, not
    /// for the render.
    ///
    /// `target` takes `[height, width, 4]` of `f32`: red, green and blue over the background, not clamped, and the
    /// transmittance (one minus alpha). It needs [`wgpu::BufferUsages::COPY_DST`] and may be larger.
    /// [`RenderSettings::depth`] is ignored.
    ///
    /// # Errors
    /// See [`Engine::render`]; also a buffer that is too small or cannot be copied to, or no splats.
    ///
    /// [`Engine::render`]: dapple_engine::Engine::render
    pub fn render_to(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        target: &wgpu::Buffer,
    ) -> Result<()> {
        let camera = PosedCamera::new(camera)?;
        check(target, wgpu::BufferUsages::COPY_DST, &camera)?;
        let bits = self.prepare_front(&camera, settings, Bits::IMAGE_ONLY)?;
        self.submit_front(settings, bits)?;
        let gpu = &self.context.gpu;
        if self.buffers.get(HALTED).is_err() {
            self.buffers.set(HALTED, gpu.buffer(HALTED, WORD_BYTES)?);
        }
        let mut encoder = gpu.encoder();
        let (image, state) = (self.buffers.get("image")?, self.buffers.get("state")?);
        encoder.copy_buffer_to_buffer(image, 0, target, 0, bytes_of(&camera));
        let halted = offset_of!(layout::State, halted) as u64;
        encoder.copy_buffer_to_buffer(state, halted, self.buffers.get(HALTED)?, 0, WORD_BYTES);
        gpu.submit(encoder);
        gpu.check()
    }

    /// Returns true if the last [`Self::render_to`] wrote a whole image, regardless of later commands; waits. If it
    /// returns false, the buffers that were too small are larger now: render again.
    ///
    /// # Errors
    /// A lost device, no memory for larger buffers.
    pub fn rendered_whole(&mut self) -> Result<bool> {
        let Ok(halted) = self.buffers.get(HALTED) else {
            return Ok(true);
        };
        let halted: Vec<u32> = self.context.gpu.read(halted, 1)?;
        if halted.iter().all(|&why| why == 0) {
            return Ok(true);
        }
        // Later steps have halted for the same reason, and `settle` may have grown the buffers.
        self.settle()?;
        let state = self.state()?;
        if state.halted != 0 {
            self.grow_for(state.halted, state.wanted, state.gaussians)?;
        }
        Ok(false)
    }

    /// Computes the gradients of a scalar whose derivative by the render is in a buffer of this engine's device. Waits.
    ///
    /// `derivative` holds `[height, width, 4]` of `f32`: by red, green and blue, and by the transmittance (minus that
    /// by alpha). It needs [`wgpu::BufferUsages::COPY_SRC`] and may be larger.
    ///
    /// # Errors
    /// See [`EngineExt::gradients`]; also a buffer that is too small or cannot be copied from.
    ///
    /// [`EngineExt::gradients`]: dapple_engine::EngineExt::gradients
    pub fn backward_from(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        derivative: &wgpu::Buffer,
    ) -> Result<Gradients<f32>> {
        let camera = PosedCamera::new(camera)?;
        let state = self.forward_with(&camera, settings, derivative)?;
        self.backward(&camera, settings, &state, Bits::GRADIENTS)
    }

    /// Works like [`Self::backward_from`], but the gradients stay in buffers of the engine. Waits for the render, which
    /// must be whole, and not for the backward pass. Commands that the caller submits afterwards to the same queue read
    /// the gradients.
    ///
    /// # Errors
    /// See [`Self::backward_from`].
    pub fn backward_to(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        derivative: &wgpu::Buffer,
    ) -> Result<GradientBuffers<'_>> {
        let camera = PosedCamera::new(camera)?;
        let state = self.forward_with(&camera, settings, derivative)?;
        self.submit_backward(&camera, settings, Bits::GRADIENTS)?;
        self.context.gpu.check()?;
        Ok(GradientBuffers {
            gaussians: state.gaussians as usize,
            stride: self.capacity.gaussians as usize,
            geometry: self.buffers.get(gradients::GEOMETRY)?,
            sh_rest: self.buffers.get(gradients::SH)?,
            means2d: self.buffers.get(gradients::MEANS2D)?,
            pose: self.buffers.get(gradients::POSE)?,
        })
    }

    /// Renders, and copies the derivative by the image to the input of the backward pass.
    fn forward_with(
        &mut self,
        camera: &PosedCamera,
        settings: &RenderSettings,
        derivative: &wgpu::Buffer,
    ) -> Result<layout::State> {
        check(derivative, wgpu::BufferUsages::COPY_SRC, camera)?;
        let state = self.forward(camera, settings, Bits::GRADIENTS)?;
        let gpu = &self.context.gpu;
        let mut encoder = gpu.encoder();
        let gradient = self.buffers.get("image_gradient")?;
        encoder.copy_buffer_to_buffer(derivative, 0, gradient, 0, bytes_of(camera));
        gpu.submit(encoder);
        Ok(state)
    }
}

/// Gradients of a scalar on the device, valid until the next call of the engine. All are `f32`, in planes: number p of
/// Gaussian i is at `p * stride + i`. The buffers can be bound as storage and copied from; nothing may be written into
/// them.
#[derive(Debug, Clone, Copy)]
pub struct GradientBuffers<'a> {
    /// Number of Gaussians.
    pub gaussians: usize,
    /// Capacity of a plane in Gaussians.
    pub stride: usize,
    /// `[14, stride]`: by means (3), logarithms of scales (3), quaternions (4), logits of opacities (1), coefficient 0
    /// of the harmonics (3).
    pub geometry: &'a wgpu::Buffer,
    /// `[3 (K - 1), stride]`: by the other coefficients, K of the degree that splats are stored for; empty at degree 0.
    pub sh_rest: &'a wgpu::Buffer,
    /// `[2, stride]`: by the Gaussians' centres in the image, pixels.
    pub means2d: &'a wgpu::Buffer,
    /// `[ceil(gaussians / 256), 6]`, not in planes: parts of the derivative by the camera's pose, to be added up.
    pub pose: &'a wgpu::Buffer,
}

fn bytes_of(camera: &PosedCamera) -> u64 {
    PIXEL_BYTES * camera.pixel_count() as u64
}

/// Checks a caller's buffer for this camera.
fn check(buffer: &wgpu::Buffer, usage: wgpu::BufferUsages, camera: &PosedCamera) -> Result<()> {
    let needed = bytes_of(camera);
    if buffer.size() < needed {
        return Err(Error::input(format!(
            "the buffer has {} bytes, and an image of {} x {} pixels takes {needed}",
            buffer.size(),
            camera.size[0],
            camera.size[1]
        ))
        .hint("make it of height * width * 16 bytes"));
    }
    if !buffer.usage().contains(usage) {
        return Err(
            Error::input(format!("the buffer was made without the usage {usage:?}"))
                .hint("name it among the buffer's usages"),
        );
    }
    Ok(())
}
