//! Renders and derivatives that stay on the device, for viewers and autograd libraries that use the same device
//! ([`Gpu::device`]): see [`DeviceBuffers`].

use super::GpuEngine;
use crate::layout::{self, FLAG_ADD_GRADIENTS};
use crate::passes::Bits;
use crate::stages::gradients;
use dapple_device::{BackwardAsks, CropRoutine, DeviceBuffers, GradientBuffers, RowsOf};
use dapple_engine::{Gradients, PosedCamera, RenderSettings, TileMask};
use dapple_runtime::{Gpu, wgpu};
use dapple_scene::{Camera, Error, Result};
use std::mem::offset_of;

/// Bytes of a pixel in the callers' buffers.
const PIXEL_BYTES: u64 = 16;

/// Copy of the word `halted` in `State` at the time of the last image copy; later commands change the original.
const HALTED: &str = "rendered_halted";
const WORD_BYTES: u64 = 4;

/// Most renders of chosen tiles among [`KeptRenders::whole`]: their masks take memory.
const MOST_MASKS: usize = 64;

/// Camera, settings and tiles of a render.
type Key = (Camera, RenderSettings, Option<TileMask>);

/// Renders of [`DeviceBuffers::forward_to`].
#[derive(Debug, Default)]
pub(super) struct KeptRenders {
    /// The render whose buffers are still there.
    pub(super) last: Option<Key>,
    /// Renders of these splats for which the buffers are known to be large enough.
    whole: Vec<Key>,
}

impl KeptRenders {
    /// Drops all renders: the splats change.
    pub(super) fn clear(&mut self) {
        self.last = None;
        self.whole.clear();
    }

    /// Notes a render, which keeps what a backward pass reads or not. Both need equally large buffers.
    fn rendered(&mut self, key: Key, keeps: bool) {
        self.last = keeps.then(|| key.clone());
        if self.whole.contains(&key) {
            return;
        }
        let mut masked = self
            .whole
            .iter()
            .enumerate()
            .filter(|(_, (.., tiles))| tiles.is_some());
        let oldest = masked.next().map(|(i, _)| i);
        if let (Some(oldest), true) = (oldest, masked.count() + 1 >= MOST_MASKS) {
            self.whole.remove(oldest);
        }
        self.whole.push(key);
    }
}

impl DeviceBuffers for GpuEngine {
    fn gpu(&self) -> &Gpu {
        &self.context.gpu
    }

    fn set_crop_routine(&mut self, routine: Option<CropRoutine>) -> Result<()> {
        self.set_crops(routine)
    }

    fn render_to(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        target: &wgpu::Buffer,
    ) -> Result<()> {
        let camera = PosedCamera::new(camera)?;
        check(target, wgpu::BufferUsages::COPY_DST, &camera)?;
        let bits = self.prepare_front(&camera, settings, Bits::IMAGE_ONLY)?;
        let mut encoder = self.context.gpu.encoder();
        self.encode_front(&mut encoder, settings, bits)?;
        let gpu = &self.context.gpu;
        if self.buffers.get(HALTED).is_err() {
            self.buffers.set(HALTED, gpu.buffer(HALTED, WORD_BYTES)?);
        }
        let (image, state) = (self.buffers.get("image")?, self.buffers.get("state")?);
        encoder.copy_buffer_to_buffer(image, 0, target, 0, bytes_of(&camera));
        let halted = offset_of!(layout::State, halted) as u64;
        encoder.copy_buffer_to_buffer(state, halted, self.buffers.get(HALTED)?, 0, WORD_BYTES);
        gpu.submit(encoder);
        gpu.check()
    }

    fn forward_to(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        target: &wgpu::Buffer,
        keeps: bool,
    ) -> Result<()> {
        let posed = PosedCamera::new(camera)?;
        check(target, wgpu::BufferUsages::COPY_DST, &posed)?;
        let bits = if keeps {
            Bits::GRADIENTS
        } else {
            Bits::IMAGE_ONLY
        };
        self.forward_then(&posed, settings, bits, |engine, encoder| {
            let image = engine.buffers.get("image")?;
            encoder.copy_buffer_to_buffer(image, 0, target, 0, bytes_of(&posed));
            Ok(())
        })?;
        let key = (*camera, *settings, self.tiles.clone());
        self.kept.rendered(key, keeps);
        Ok(())
    }

    fn forward_each_to(
        &mut self,
        cameras: &[Camera],
        settings: &RenderSettings,
        targets: &[wgpu::Buffer],
    ) -> Result<()> {
        if cameras.len() != targets.len() {
            return Err(Error::internal("there is not a buffer for each camera"));
        }
        let posed = cameras.iter().map(PosedCamera::new);
        let posed: Vec<PosedCamera> = posed.collect::<Result<_>>()?;
        for (target, camera) in targets.iter().zip(&posed) {
            check(target, wgpu::BufferUsages::COPY_DST, camera)?;
        }
        let mut done = 0;
        while done < posed.len() {
            let now = done..done + self.frames_at_once(&posed[done..], settings);
            if now.len() == 1 {
                self.forward_to(&cameras[done], settings, &targets[done], false)?;
                done = now.end;
            } else if self.frames_to(&posed[now.clone()], settings, &targets[now.clone()])? {
                for camera in &cameras[now.clone()] {
                    self.kept.rendered((*camera, *settings, None), false);
                }
                done = now.end;
            }
        }
        Ok(())
    }

    fn rendered_whole(&mut self) -> Result<bool> {
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

    fn backward_from(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        derivative: &wgpu::Buffer,
    ) -> Result<Gradients<f32>> {
        let camera = PosedCamera::new(camera)?;
        check(derivative, wgpu::BufferUsages::COPY_SRC, &camera)?;
        let state = self.forward(&camera, settings, Bits::GRADIENTS)?;
        let mut encoder = self.context.gpu.encoder();
        self.copy_derivative(&mut encoder, &camera, derivative)?;
        self.context.gpu.submit(encoder);
        self.backward(&camera, settings, &state, Bits::GRADIENTS)
    }

    fn backward_to(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        derivative: &wgpu::Buffer,
        asks: BackwardAsks,
    ) -> Result<()> {
        let posed = PosedCamera::new(camera)?;
        check(derivative, wgpu::BufferUsages::COPY_SRC, &posed)?;
        let key = (*camera, *settings, self.tiles.clone());
        let bits = Bits::GRADIENTS | Bits::when(asks.absolute, Bits::ABSOLUTE);
        if asks.absolute {
            self.fit(bits | Bits::of_render(settings, posed.model))?;
        }
        let mut encoder = self.context.gpu.encoder();
        // The pass overwrites what the render has kept.
        if self.kept.last.take().as_ref() != Some(&key) {
            if self.kept.whole.contains(&key) {
                let bits = self.prepare_front(&posed, settings, Bits::GRADIENTS)?;
                self.encode_front(&mut encoder, settings, bits)?;
            } else {
                self.forward(&posed, settings, Bits::GRADIENTS)?;
            }
        }
        self.copy_derivative(&mut encoder, &posed, derivative)?;
        let flags = if asks.adds { FLAG_ADD_GRADIENTS } else { 0 };
        self.encode_backward(&mut encoder, &posed, settings, (bits, flags))?;
        self.context.gpu.submit(encoder);
        self.context.gpu.check()
    }

    fn gradient_buffers(&self) -> Result<GradientBuffers<'_>> {
        Ok(GradientBuffers {
            stride: self.capacity.gaussians as usize,
            geometry: self.buffers.get(gradients::GEOMETRY)?,
            sh_rest: self.buffers.get(gradients::SH)?,
            means2d: self.buffers.get(gradients::MEANS2D)?,
            pose: self.buffers.get(gradients::POSE)?,
        })
    }

    fn load_rows(&mut self, rows: &wgpu::Buffer, n: usize) -> Result<()> {
        self.submit_load(rows, n)
    }

    fn gradient_rows(
        &mut self,
        rows: &wgpu::Buffer,
        n: usize,
        target: &wgpu::Buffer,
        of: RowsOf,
    ) -> Result<()> {
        self.submit_store(rows, n, target, of)
    }
}

impl GpuEngine {
    /// Renders views at once, each into its buffer. Returns false if there is no memory for them.
    fn frames_to(
        &mut self,
        cameras: &[PosedCamera],
        settings: &RenderSettings,
        targets: &[wgpu::Buffer],
    ) -> Result<bool> {
        self.frames_then(cameras, settings, Bits::IMAGE_ONLY, |engine, encoder| {
            let image = engine.buffers.get("image")?;
            let mut first = 0;
            for (camera, target) in cameras.iter().zip(targets) {
                let bytes = bytes_of(camera);
                encoder.copy_buffer_to_buffer(image, first, target, 0, bytes);
                first += bytes;
            }
            Ok(())
        })
    }

    /// Encodes the copy of the derivative by the image to the input of the backward pass.
    fn copy_derivative(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        camera: &PosedCamera,
        derivative: &wgpu::Buffer,
    ) -> Result<()> {
        let gradient = self.buffers.get("image_gradient")?;
        encoder.copy_buffer_to_buffer(derivative, 0, gradient, 0, bytes_of(camera));
        Ok(())
    }
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
