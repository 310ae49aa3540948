//! Times of renders: frames in sequences without waits, and each dispatch by the GPU's clock.

use super::GpuEngine;
use super::pictures::counts_of;
use crate::messages::render_immediates;
use crate::passes::Bits;
use dapple_engine::instruments::RenderTimes;
use dapple_engine::{PosedCamera, RenderSettings};
use dapple_runtime::{Detail, GpuClock};
use dapple_scene::{Camera, Result};
use std::time::Instant;

/// Sequences of frames.
const SEQUENCES: u32 = 5;

/// Most frames whose dispatches are timed, and how many are in flight.
const TIMED_FRAMES: u32 = 60;
const IN_FLIGHT: usize = 2;

/// Most dispatches of a frame.
const DISPATCHES: usize = 96;

impl GpuEngine {
    pub(super) fn renders_timed(
        &mut self,
        cameras: &[Camera],
        settings: &RenderSettings,
        frames: u32,
    ) -> Result<RenderTimes> {
        let cameras: Vec<PosedCamera> = cameras
            .iter()
            .map(PosedCamera::new)
            .collect::<Result<_>>()?;
        let mut times = RenderTimes {
            frames_per_time: frames,
            ..RenderTimes::default()
        };
        for camera in &cameras {
            let state = self.forward(camera, settings, Bits::IMAGE_ONLY)?;
            times.counts.push(counts_of(&state, camera));
        }
        self.frames(&cameras, settings, frames)?;
        for _ in 0..SEQUENCES {
            let start = Instant::now();
            self.frames(&cameras, settings, frames)?;
            let each = start.elapsed().as_nanos() / u128::from(frames.max(1));
            times.frames_ns.push(each as u64);
        }
        times.parts = self.dispatch_times(&cameras, settings, frames.min(TIMED_FRAMES))?;
        Ok(times)
    }

    /// Submits frames, and waits for the last.
    fn frames(
        &mut self,
        cameras: &[PosedCamera],
        settings: &RenderSettings,
        frames: u32,
    ) -> Result<()> {
        for camera in cameras.iter().cycle().take(frames as usize) {
            let bits = self.prepare_front(camera, settings, Bits::IMAGE_ONLY)?;
            let mut encoder = self.context.gpu.encoder();
            self.encode_front(&mut encoder, settings, bits)?;
            self.context.gpu.submit(encoder);
        }
        self.context.gpu.wait()
    }

    /// Returns the times of each dispatch of a frame, under the names of shader and kernel.
    fn dispatch_times(
        &mut self,
        cameras: &[PosedCamera],
        settings: &RenderSettings,
        frames: u32,
    ) -> Result<Vec<(String, Vec<u64>)>> {
        let gpu = self.context.gpu.clone();
        let Some(mut clock) = GpuClock::new(&gpu, DISPATCHES, IN_FLIGHT)? else {
            return Ok(Vec::new());
        };
        let immediates = render_immediates(settings, self.sh_degree, self.default_cap);
        let mut parts: Vec<(String, Vec<u64>)> = Vec::new();
        for camera in cameras.iter().cycle().take(frames as usize) {
            let bits = self.prepare_front(camera, settings, Bits::IMAGE_ONLY)?;
            let recording = self.front(bits)?;
            clock.submit(
                &recording,
                bytemuck::bytes_of(&immediates),
                0,
                Detail::Dispatches,
            )?;
            gpu.wait()?;
            // A frame with a missing time has others under wrong numbers.
            for timing in clock
                .poll()?
                .into_iter()
                .filter(|timing| timing.missing == 0)
            {
                for (i, span) in timing.spans.into_iter().enumerate() {
                    if i == parts.len() {
                        parts.push((span.kernel.unwrap_or_default(), Vec::new()));
                    }
                    parts[i].1.push(span.duration_ns);
                }
            }
        }
        Ok(parts)
    }
}
