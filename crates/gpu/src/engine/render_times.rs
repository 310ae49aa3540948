//! Times of renders: frames in sequences without waits, and each dispatch by the GPU's clock.

use super::GpuEngine;
use super::pictures::counts_of;
use crate::passes::Bits;
use dapple_engine::instruments::RenderTimes;
use dapple_engine::{PosedCamera, RenderSettings};
use dapple_runtime::{Detail, GpuClock};
use dapple_scene::{Camera, Result};
use std::time::Instant;

/// Sequences of frames.
const SEQUENCES: u32 = 5;

/// Most frames whose dispatches are timed, and how many are in flight.
const TIMED_FRAMES: usize = 60;
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
        let in_turn = cameras.iter().copied().cycle();
        let all: Vec<PosedCamera> = in_turn.take(frames as usize).collect();
        times.frames_ns = self.sequences(&all, settings, 1)?;
        let count = self.fit_frames(&all, settings)?;
        times.views_at_once = count as u32;
        let timed = &all[..all.len().min(TIMED_FRAMES)];
        times.parts = self.dispatch_times(timed, settings, 1)?;
        if count > 1 {
            times.at_once_ns = self.sequences(&all, settings, count)?;
            let whole = &all[..all.len() / count * count];
            times.at_once_parts = self.dispatch_times(whole, settings, count)?;
        }
        Ok(times)
    }

    /// Returns the times of a frame in several sequences of frames, of which this number is rendered at once.
    fn sequences(
        &mut self,
        cameras: &[PosedCamera],
        settings: &RenderSettings,
        count: usize,
    ) -> Result<Vec<u64>> {
        self.frames(cameras, settings, count)?;
        let sequences = (0..SEQUENCES).map(|_| {
            let start = Instant::now();
            self.frames(cameras, settings, count)?;
            let each = start.elapsed().as_nanos() / cameras.len().max(1) as u128;
            Ok(each as u64)
        });
        sequences.collect()
    }

    /// Submits frames, `count` at once, and waits for the last.
    fn frames(
        &mut self,
        cameras: &[PosedCamera],
        settings: &RenderSettings,
        count: usize,
    ) -> Result<()> {
        for now in cameras.chunks(count) {
            let bits = self.prepare_frames(now, settings, Bits::IMAGE_ONLY)?;
            let mut encoder = self.context.gpu.encoder();
            self.encode_frames(&mut encoder, now.len(), settings, bits)?;
            self.context.gpu.submit(encoder);
        }
        self.context.gpu.wait()
    }

    /// Grows the buffers for as many of these cameras as are rendered at once, and returns their number.
    fn fit_frames(&mut self, cameras: &[PosedCamera], settings: &RenderSettings) -> Result<usize> {
        let count = self.frames_at_once(cameras, settings);
        if count <= 1 {
            return Ok(1);
        }
        let fits =
            self.frames_then(&cameras[..count], settings, Bits::IMAGE_ONLY, |_, _| Ok(()))?;
        Ok(if fits { count } else { 1 })
    }

    /// Returns the times of each dispatch of a frame, or of `count` frames at once, under the names of shader and kernel.
    fn dispatch_times(
        &mut self,
        cameras: &[PosedCamera],
        settings: &RenderSettings,
        count: usize,
    ) -> Result<Vec<(String, Vec<u64>)>> {
        let gpu = self.context.gpu.clone();
        let Some(mut clock) = GpuClock::new(&gpu, DISPATCHES, IN_FLIGHT)? else {
            return Ok(Vec::new());
        };
        let immediates = self.frame_immediates(count, settings);
        let mut parts: Vec<(String, Vec<u64>)> = Vec::new();
        for now in cameras.chunks(count) {
            let bits = self.prepare_frames(now, settings, Bits::IMAGE_ONLY)?;
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
