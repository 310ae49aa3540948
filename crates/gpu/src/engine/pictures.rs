//! Renders, and their derivatives.

use super::GpuEngine;
use super::state::only;
use crate::layout::{self, FrameCounts};
use crate::messages::render_immediates;
use crate::passes::Bits;
use crate::plans::Plan;
use crate::stages::frame_counts::FRAME_COUNTS;
use crate::stages::surface::SURFACE;
use dapple_engine::{
    DepthImage, Gradients, ImageDerivative, PosedCamera, RenderSettings, Rendered, StepCounts,
    SurfaceImage, check_image_gradient,
};
use dapple_runtime::{CommandList, Readback, wgpu};
use dapple_scene::{Camera, Result};
use rayon::prelude::*;
use std::sync::Arc;

/// Returns the counts of a render of `camera`.
pub(super) fn counts_of(state: &layout::State, camera: &PosedCamera) -> StepCounts {
    StepCounts {
        gaussians: state.gaussians.into(),
        visible: state.visible.into(),
        instances: state.instances.into(),
        tiles: camera.tile_count() as u64,
        max_instances_per_tile: state.max_per_tile.into(),
        cut_instances: state.cut_instances.into(),
        lost_transmittance: f32::from_bits(state.lost_transmittance),
    }
}

/// Pixels that a thread converts at once.
const CHUNK: usize = 1 << 14;

/// Splits pixels, whose fourth number is transmittance, into colours and alpha.
fn planes(pixels: &[[f32; 4]]) -> (Vec<f32>, Vec<f32>) {
    let (mut rgb, mut alpha) = (vec![0.0; 3 * pixels.len()], vec![0.0; pixels.len()]);
    let to = rgb
        .par_chunks_mut(3 * CHUNK)
        .zip(alpha.par_chunks_mut(CHUNK));
    to.zip(pixels.par_chunks(CHUNK))
        .for_each(|((rgb, alpha), pixels)| {
            for ((rgb, alpha), &[r, g, b, t]) in rgb.chunks_exact_mut(3).zip(alpha).zip(pixels) {
                rgb.copy_from_slice(&[r, g, b]);
                *alpha = 1.0 - t;
            }
        });
    (rgb, alpha)
}

/// Returns the bits of a render with these settings.
fn bits_of(settings: &RenderSettings) -> Bits {
    Bits::IMAGE_ONLY
        | Bits::when(settings.depth, Bits::DEPTH)
        | Bits::when(settings.surface, Bits::SURFACE)
}

/// Returns a render from its counts, its planes of colours and alpha, and the pixels of its depth and of its surface.
fn whole(
    camera: &PosedCamera,
    counts: StepCounts,
    (rgb, alpha): (Vec<f32>, Vec<f32>),
    depth: Option<&[[f32; 2]]>,
    surface: Option<&[[f32; 4]]>,
) -> Rendered {
    Rendered {
        width: camera.size[0],
        height: camera.size[1],
        rgb,
        alpha,
        depth: depth.map(|pixels| DepthImage {
            blended: pixels.iter().map(|p| p[0]).collect(),
            median: pixels.iter().map(|p| p[1]).collect(),
        }),
        surface: surface.map(|pixels| SurfaceImage {
            depth: pixels.par_iter().map(|p| p[0]).collect(),
            normal: pixels.par_iter().map(|&[_, x, y, z]| [x, y, z]).collect(),
        }),
        counts,
    }
}

/// Results of a render of one view, or of several, that are copied to the host.
struct Coming {
    cameras: Vec<PosedCamera>,
    state: Readback<layout::State>,
    /// Counts of each of several views.
    counts: Option<Readback<FrameCounts>>,
    image: Readback<[f32; 4]>,
    depth: Option<Readback<[f32; 2]>>,
    surface: Option<Readback<[f32; 4]>>,
}

impl GpuEngine {
    /// Renders, and waits for the result.
    pub(super) fn picture(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
    ) -> Result<Rendered> {
        self.picture_of(&PosedCamera::new(camera)?, settings)
    }

    fn picture_of(&mut self, camera: &PosedCamera, settings: &RenderSettings) -> Result<Rendered> {
        let bits = bits_of(settings);
        let state = self.forward(camera, settings, bits)?;
        self.rendered(camera, settings, bits, &state)
    }

    /// Renders from several cameras, of which some are rendered at once. While the host takes renders, the GPU makes the
    /// next ones.
    pub(super) fn pictures(
        &mut self,
        cameras: &[Camera],
        settings: &RenderSettings,
        each: &mut dyn FnMut(usize, Rendered) -> Result<()>,
    ) -> Result<()> {
        let mut ahead: Option<Coming> = None;
        let mut done = 0;
        let mut take = |engine: &mut Self, coming: Coming| {
            let renders = engine.arrived(coming, settings)?;
            renders.into_iter().try_for_each(|rendered| {
                done += 1;
                each(done - 1, rendered)
            })
        };
        let posed = cameras.iter().map(PosedCamera::new);
        let posed: Vec<PosedCamera> = posed.collect::<Result<_>>()?;
        let mut rest = &posed[..];
        while !rest.is_empty() {
            let count = self.frames_at_once(rest, settings);
            let (now, later) = rest.split_at(count);
            let Some(next) = self.begin_or_refuse(now, settings)? else {
                continue;
            };
            rest = later;
            if let Some(coming) = ahead.replace(next) {
                take(self, coming)?;
            }
        }
        ahead.map_or(Ok(()), |coming| take(self, coming))
    }

    /// Submits a render. `None` if there is no memory for several views: then try one.
    fn begin_or_refuse(
        &mut self,
        cameras: &[PosedCamera],
        settings: &RenderSettings,
    ) -> Result<Option<Coming>> {
        match self.begin(cameras, settings) {
            Err(_) if cameras.len() > 1 => self.refuse_frames().map(|()| None),
            begun => begun.map(Some),
        }
    }

    /// Submits a render and the copies of its results to the host, without a wait.
    fn begin(&mut self, cameras: &[PosedCamera], settings: &RenderSettings) -> Result<Coming> {
        let bits = bits_of(settings);
        let front = self.prepare_frames(cameras, settings, bits)?;
        let surface = settings
            .surface
            .then(|| self.surface_commands(&cameras[0], settings, bits));
        let surface = surface.transpose()?;
        let mut encoder = self.context.gpu.encoder();
        self.encode_frames(&mut encoder, cameras.len(), settings, front)?;
        if let Some(commands) = surface {
            let immediates = render_immediates(settings, self.sh_degree, self.default_cap);
            commands.encode(&mut encoder, bytemuck::bytes_of(&immediates));
        }
        let pixels = cameras.iter().map(PosedCamera::pixel_count).sum();
        let gpu = &self.context.gpu;
        let buffer = |name| self.buffers.get(name);
        let mut read = |name| gpu.begin_read(&mut encoder, buffer(name)?, 0, pixels);
        let mut image = read("image")?;
        let mut surface = settings.surface.then(|| read(SURFACE)).transpose()?;
        let depth = settings
            .depth
            .then(|| gpu.begin_read(&mut encoder, buffer("depth_pixels")?, 0, pixels));
        let mut depth = depth.transpose()?;
        let counts = (cameras.len() > 1)
            .then(|| gpu.begin_read(&mut encoder, buffer(FRAME_COUNTS)?, 0, cameras.len()));
        let mut counts = counts.transpose()?;
        let mut state = gpu.begin_read(&mut encoder, buffer("state")?, 0, 1)?;
        let submission = gpu.submit(encoder);
        state.submitted(submission.clone());
        if let Some(counts) = &mut counts {
            counts.submitted(submission.clone());
        }
        if let Some(depth) = &mut depth {
            depth.submitted(submission.clone());
        }
        for pixels in std::iter::once(&mut image).chain(&mut surface) {
            pixels.submitted(submission.clone());
        }
        Ok(Coming {
            cameras: cameras.to_vec(),
            state,
            counts,
            image,
            depth,
            surface,
        })
    }

    /// Waits for a render. Renders its views again, one by one, if the buffers were too small for it.
    fn arrived(&mut self, mut coming: Coming, settings: &RenderSettings) -> Result<Vec<Rendered>> {
        let state = only(coming.state.wait()?)?;
        if state.halted != 0 {
            let grown = self.grow_for(state.halted, state.wanted, state.gaussians);
            match coming.counts {
                // The next row finds enough memory.
                Some(_) if grown.is_ok() => {}
                Some(_) => self.refuse_frames()?,
                None => grown?,
            }
            let mut cameras = coming.cameras.iter();
            return cameras.try_fold(Vec::new(), |mut all, camera| {
                all.push(self.picture_of(camera, settings)?);
                Ok(all)
            });
        }
        let counts = coming.counts.map(|mut counts| counts.wait()).transpose()?;
        let image = coming.image.wait()?;
        let depth = coming.depth.map(|mut depth| depth.wait()).transpose()?;
        let surface = coming.surface.map(|mut pixels| pixels.wait()).transpose()?;
        let cameras = coming.cameras.iter().enumerate();
        let renders = cameras.map(|(i, camera)| {
            let counts = counts
                .as_ref()
                .map(|counts| counts[i].of(state.gaussians, camera));
            let pixels = i * camera.pixel_count()..(i + 1) * camera.pixel_count();
            whole(
                camera,
                counts.unwrap_or_else(|| counts_of(&state, camera)),
                planes(&image[pixels.clone()]),
                depth.as_ref().map(|depth| &depth[pixels.clone()]),
                surface.as_ref().map(|surface| &surface[pixels]),
            )
        });
        Ok(renders.collect())
    }

    /// Reads the output of `blend`, and finds the surface of the render that ran last.
    pub(super) fn rendered(
        &mut self,
        camera: &PosedCamera,
        settings: &RenderSettings,
        bits: Bits,
        state: &layout::State,
    ) -> Result<Rendered> {
        // The GPU finds the surface while the host converts the image.
        if settings.surface {
            self.submit_surface(camera, settings, bits)?;
        }
        let (gpu, count) = (&self.context.gpu, camera.pixel_count());
        let buffer = |name| self.buffers.get(name);
        let image = planes(&gpu.read(buffer("image")?, count)?);
        let depth = settings
            .depth
            .then(|| gpu.read(buffer("depth_pixels")?, count));
        let depth = depth.transpose()?;
        let surface = settings.surface.then(|| gpu.read(buffer(SURFACE)?, count));
        let surface = surface.transpose()?;
        let counts = counts_of(state, camera);
        Ok(whole(
            camera,
            counts,
            image,
            depth.as_deref(),
            surface.as_deref(),
        ))
    }

    /// Renders, and submits the backward pass from a derivative by the image. Returns the number of Gaussians.
    pub(super) fn submit_derivative(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        derivative: &ImageDerivative<'_, f32>,
        absolute: bool,
    ) -> Result<usize> {
        let camera = PosedCamera::new(camera)?;
        check_image_gradient(&camera, derivative)?;
        let bits = Bits::GRADIENTS
            | Bits::when(derivative.depth.is_some(), Bits::DEPTH)
            | Bits::when(absolute, Bits::ABSOLUTE);
        let state = self.forward(&camera, settings, bits)?;
        if let Some(by_depth) = derivative.depth {
            self.write_depth_gradient(&camera, by_depth)?;
        }
        // The fourth value is transmittance, one minus alpha.
        let gradient: Vec<[f32; 4]> = derivative
            .rgb
            .as_chunks::<3>()
            .0
            .par_iter()
            .enumerate()
            .map(|(i, &[r, g, b])| [r, g, b, derivative.alpha.map_or(0.0, |a| -a[i])])
            .collect();
        let gpu = &self.context.gpu;
        gpu.write(self.buffers.get("image_gradient")?, 0, &gradient);
        self.submit_backward(&camera, settings, bits)?;
        Ok(state.gaussians as usize)
    }

    /// Runs the backward pass from `image_gradient`; waits for the result. Needs `state` as [`Self::forward`] with the
    /// same `bits` has written it.
    pub(super) fn backward(
        &mut self,
        camera: &PosedCamera,
        settings: &RenderSettings,
        state: &layout::State,
        bits: Bits,
    ) -> Result<Gradients<f32>> {
        self.submit_backward(camera, settings, bits)?;
        self.read_gradients(state.gaussians as usize)
    }

    /// Works like [`Self::backward`] without waiting: the gradients stay in their buffers.
    pub(super) fn submit_backward(
        &mut self,
        camera: &PosedCamera,
        settings: &RenderSettings,
        bits: Bits,
    ) -> Result<()> {
        let mut encoder = self.context.gpu.encoder();
        self.encode_backward(&mut encoder, camera, settings, (bits, 0))?;
        self.context.gpu.submit(encoder);
        Ok(())
    }

    /// Encodes the backward pass with these bits and flags of the step.
    pub(super) fn encode_backward(
        &mut self,
        encoder: &mut wgpu::CommandEncoder,
        camera: &PosedCamera,
        settings: &RenderSettings,
        (bits, flags): (Bits, u32),
    ) -> Result<()> {
        let mut immediates = render_immediates(settings, self.sh_degree, self.default_cap);
        immediates.flags = flags;
        let bits = bits | Bits::of_render(settings, camera.model);
        let recording = self.recording(Plan::Gradients, bits, 0)?;
        recording.encode(encoder, bytemuck::bytes_of(&immediates));
        Ok(())
    }

    /// Runs the stages up to `blend` for a camera until the buffers are large enough; `bits` select the outputs.
    pub(super) fn forward(
        &mut self,
        camera: &PosedCamera,
        settings: &RenderSettings,
        bits: Bits,
    ) -> Result<layout::State> {
        self.forward_then(camera, settings, bits, |_, _| Ok(()))
    }

    /// Works like [`Self::forward`]; `then` encodes more commands after each render. All are one submission, because each
    /// costs the host time.
    pub(super) fn forward_then(
        &mut self,
        camera: &PosedCamera,
        settings: &RenderSettings,
        bits: Bits,
        then: impl Fn(&Self, &mut wgpu::CommandEncoder) -> Result<()>,
    ) -> Result<layout::State> {
        let bits = self.prepare_front(camera, settings, bits)?;
        loop {
            let mut encoder = self.context.gpu.encoder();
            self.encode_front(&mut encoder, settings, bits)?;
            then(self, &mut encoder)?;
            let state = self.state_after(encoder)?;
            if state.halted == 0 {
                return Ok(state);
            }
            self.grow_for(state.halted, state.wanted, state.gaussians)?;
        }
    }

    /// Grows the buffers for a render, as far as the host knows the sizes, and writes its camera to the GPU. Returns
    /// all bits of the render.
    pub(super) fn prepare_front(
        &mut self,
        camera: &PosedCamera,
        settings: &RenderSettings,
        bits: Bits,
    ) -> Result<Bits> {
        self.settle()?;
        self.ready()?;
        let tile_bits = self.tile_bits(camera)?;
        self.kept.last = None;
        self.fit_image(camera)?;
        self.write_views(Some(camera))?;
        let bits = bits | Bits::of_render(settings, camera.model) | tile_bits;
        self.fit(bits)?;
        self.write_tiles()?;
        Ok(bits)
    }

    /// Encodes the stages up to `blend`. Nothing runs while a buffer is too small.
    pub(super) fn encode_front(
        &mut self,
        encoder: &mut wgpu::CommandEncoder,
        settings: &RenderSettings,
        bits: Bits,
    ) -> Result<()> {
        self.encode_frames(encoder, 1, settings, bits)
    }

    /// Returns the stages up to `blend`.
    pub(super) fn front(&mut self, bits: Bits) -> Result<Arc<CommandList>> {
        self.recording(Plan::Front, bits, 0)
    }

    /// Submits the search for the surface of the render that ran last.
    fn submit_surface(
        &mut self,
        camera: &PosedCamera,
        settings: &RenderSettings,
        bits: Bits,
    ) -> Result<()> {
        let immediates = render_immediates(settings, self.sh_degree, self.default_cap);
        let commands = self.surface_commands(camera, settings, bits)?;
        commands.submit(&self.context.gpu, bytemuck::bytes_of(&immediates));
        Ok(())
    }

    /// Returns the search for the surface after `blend`.
    fn surface_commands(
        &mut self,
        camera: &PosedCamera,
        settings: &RenderSettings,
        bits: Bits,
    ) -> Result<Arc<CommandList>> {
        let bits = bits | Bits::of_render(settings, camera.model);
        self.recording(Plan::Shown, bits, 0)
    }

    /// Writes dL/d(blended depth) next to the output of `blend` in `depth_pixels`.
    fn write_depth_gradient(&self, camera: &PosedCamera, by_depth: &[f32]) -> Result<()> {
        let gpu = &self.context.gpu;
        let buffer = self.buffers.get("depth_pixels")?;
        let mut pixels: Vec<[f32; 2]> = gpu.read(buffer, camera.pixel_count())?;
        for (pixel, &value) in pixels.iter_mut().zip(by_depth) {
            pixel[1] = value;
        }
        gpu.write(buffer, 0, &pixels);
        Ok(())
    }
}
