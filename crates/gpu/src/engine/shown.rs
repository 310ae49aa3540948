//! 8-bit renders, and the Gaussians that pixels blend. See `shaders/bytes.wgsl`, `COUNTS` in `shaders/blend.wgsl`, and
//! `shaders/contributors.wgsl`.
//!
//! One submission renders, rounds, and copies the picture and the counts of the render to the host, so that the host
//! waits once. If a buffer was too small, the picture is discarded, the buffer is grown, and the submission is
//! repeated.

use super::GpuEngine;
use super::pictures::counts_of;
use crate::layout::{self, FLAG_MORE};
use crate::messages::render_immediates;
use crate::passes::Bits;
use crate::plans::Plan;
use crate::stages::blend::COUNTED;
use crate::stages::bytes::BYTES;
use crate::stages::contributors::{CONTRIBUTORS, EACH};
use dapple_engine::{BlendCounts, Contributors, PosedCamera, RenderSettings, RenderedBytes};
use dapple_runtime::Readback;
use dapple_scene::{Camera, Error, Result};

impl GpuEngine {
    /// Renders and rounds; waits for the result.
    pub(super) fn bytes(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
    ) -> Result<RenderedBytes> {
        let camera = PosedCamera::new(camera)?;
        let size = 4 * camera.pixel_count();
        let (state, rgba) = self.front_with(&camera, settings, Bits::BYTES, (BYTES, size))?;
        Ok(RenderedBytes {
            width: camera.size[0],
            height: camera.size[1],
            rgba,
            counts: counts_of(&state, &camera),
        })
    }

    /// Renders and counts; waits for the result.
    pub(super) fn counted(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
    ) -> Result<BlendCounts> {
        let camera = PosedCamera::new(camera)?;
        let size = camera.pixel_count();
        let (state, blended) = self.front_with(&camera, settings, Bits::COUNTS, (COUNTED, size))?;
        Ok(BlendCounts {
            width: camera.size[0],
            height: camera.size[1],
            blended,
            counts: counts_of(&state, &camera),
        })
    }

    /// Renders and finds the Gaussians that each pixel shows most; waits for the result.
    pub(super) fn contributors_of(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        most: usize,
    ) -> Result<Contributors> {
        Contributors::check(most)?;
        let camera = PosedCamera::new(camera)?;
        let pixels = camera.pixel_count();
        let bits = Bits::IMAGE_ONLY | Bits::CONTRIBUTORS;
        let state = self.forward(&camera, settings, bits)?;
        let bits = bits | Bits::of_render(settings, camera.model);
        let recording = self.recording(Plan::Shown, bits, 0)?;
        let mut immediates = render_immediates(settings, self.sh_degree, self.default_cap);
        let mut gaussians = vec![0; pixels * most];
        let mut weights = vec![0.0; pixels * most];
        for first in (0..most).step_by(EACH) {
            let gpu = &self.context.gpu;
            recording.submit(gpu, bytemuck::bytes_of(&immediates));
            let found: Vec<[[u32; EACH]; 2]> = gpu.read(self.buffers.get(CONTRIBUTORS)?, pixels)?;
            for (pixel, [indices, bits]) in found.into_iter().enumerate() {
                for k in 0..EACH.min(most - first) {
                    gaussians[pixel * most + first + k] = indices[k];
                    weights[pixel * most + first + k] = f32::from_bits(bits[k]);
                }
            }
            immediates.flags = FLAG_MORE;
        }
        Ok(Contributors {
            width: camera.size[0],
            height: camera.size[1],
            most,
            gaussians,
            weights,
            counts: counts_of(&state, &camera),
        })
    }

    /// Renders with `bits` and the dispatches that follow a render for them, and returns this number of values of a
    /// buffer.
    fn front_with<T: bytemuck::Pod>(
        &mut self,
        camera: &PosedCamera,
        settings: &RenderSettings,
        bits: Bits,
        (name, values): (&'static str, usize),
    ) -> Result<(layout::State, Vec<T>)> {
        let bits = self.prepare_front(camera, settings, Bits::IMAGE_ONLY | bits)?;
        let immediates = render_immediates(settings, self.sh_degree, self.default_cap);
        loop {
            let mut encoder = self.context.gpu.encoder();
            self.encode_front(&mut encoder, settings, bits)?;
            let recording = self.recording(Plan::Shown, bits, 0)?;
            let gpu = &self.context.gpu;
            recording.encode(&mut encoder, bytemuck::bytes_of(&immediates));
            let state = self.buffers.get("state")?;
            let mut state: Readback<layout::State> = gpu.begin_read(&mut encoder, state, 0, 1)?;
            let picture = self.buffers.get(name)?;
            let mut picture: Readback<T> = gpu.begin_read(&mut encoder, picture, 0, values)?;
            let submission = gpu.submit(encoder);
            state.submitted(submission.clone());
            picture.submitted(submission);
            let unread = || Error::internal("the GPU's counts could not be read");
            let state = state.wait()?.first().copied().ok_or_else(unread)?;
            if state.halted == 0 {
                return Ok((state, picture.wait()?));
            }
            drop(picture);
            self.grow_for(state.halted, state.wanted, state.gaussians)?;
        }
    }
}
