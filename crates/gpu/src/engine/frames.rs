//! Renders of several views in one row of dispatches: [`Bits::FRAMES`], `shaders/project.wgsl`.
//!
//! The 29 dispatches of a render depend on each other. Where a view has little to do, they take the time of their
//! beginnings and ends: half of a frame of 112 000 Gaussians on a large GPU. Several views share these times.

use super::GpuEngine;
use crate::layout::{self, FrameCounts, MOST_FRAMES};
use crate::messages::render_immediates;
use crate::passes::Bits;
use crate::stages::blend::CHECKPOINTS;
use crate::stages::project::{FRAME_LENSES, FRAME_VIEWS};
use crate::{memory_use, views};
use dapple_engine::{PosedCamera, RenderSettings, StepCounts};
use dapple_runtime::wgpu;
use dapple_scene::Result;

/// Most tiles of all views: their numbers have 16 bits, two passes of the sort.
const MOST_TILES: u32 = (1 << 16) - 1;

/// Most pairs of a Gaussian and a view: what is visible takes about a hundred bytes, and instances more.
const MOST_PAIRS: u32 = 1 << 24;

impl FrameCounts {
    /// Returns the counts of the render from `camera`.
    pub(super) fn of(&self, gaussians: u32, camera: &PosedCamera) -> StepCounts {
        StepCounts {
            gaussians: gaussians.into(),
            visible: self.visible.into(),
            instances: self.instances.into(),
            tiles: camera.tile_count() as u64,
            max_instances_per_tile: self.max_per_tile.into(),
            cut_instances: self.cut_instances.into(),
            lost_transmittance: f32::from_bits(self.lost_transmittance),
        }
    }
}

impl GpuEngine {
    /// Returns how many of these cameras are rendered at once, from the first on.
    pub(super) fn frames_at_once(
        &self,
        cameras: &[PosedCamera],
        settings: &RenderSettings,
    ) -> usize {
        let Some(first) = cameras.first() else {
            return 0;
        };
        // The buffers of steps would grow with those of renders.
        let has_trained = self.buffers.has(CHECKPOINTS);
        if settings.surface || self.tiles.is_some() || has_trained || self.frames_refused {
            return 1;
        }
        let (tiles, _) = memory_use::tiles_and_pixels(first);
        let by_tiles = MOST_TILES / tiles.max(1);
        let by_pairs = MOST_PAIRS / self.capacity.gaussians.max(1);
        let most = MOST_FRAMES.min(by_tiles).min(by_pairs).max(1) as usize;
        let is_alike =
            |camera: &&PosedCamera| camera.size == first.size && camera.model == first.model;
        cameras.iter().take(most).take_while(is_alike).count()
    }

    /// Works like [`Self::prepare_front`], also for several cameras of one size and model.
    pub(super) fn prepare_frames(
        &mut self,
        cameras: &[PosedCamera],
        settings: &RenderSettings,
        bits: Bits,
    ) -> Result<Bits> {
        let Some(first) = cameras.first() else {
            return Ok(bits);
        };
        if cameras.len() == 1 {
            return self.prepare_front(first, settings, bits);
        }
        self.settle()?;
        let (tiles, pixels) = memory_use::tiles_and_pixels(first);
        let count = cameras.len() as u32;
        self.fit_tiles(tiles * count, pixels * count)?;
        let bits = self.prepare_front(first, settings, bits | Bits::FRAMES)?;
        let entries: Vec<_> = cameras.iter().map(|c| views::entry(c, None)).collect();
        let lenses: Vec<_> = cameras.iter().map(views::lens_entry).collect();
        let gpu = &self.context.gpu;
        gpu.write(self.buffers.get(FRAME_VIEWS)?, 0, &entries);
        gpu.write(self.buffers.get(FRAME_LENSES)?, 0, &lenses);
        Ok(bits)
    }

    /// Encodes the stages up to `blend` for this number of views.
    pub(super) fn encode_frames(
        &mut self,
        encoder: &mut wgpu::CommandEncoder,
        count: usize,
        settings: &RenderSettings,
        bits: Bits,
    ) -> Result<()> {
        let immediates = self.frame_immediates(count, settings);
        let recording = self.front(bits)?;
        recording.encode(encoder, bytemuck::bytes_of(&immediates));
        Ok(())
    }

    /// Returns the immediates of a render of this number of views.
    pub(super) fn frame_immediates(&self, count: usize, settings: &RenderSettings) -> layout::Step {
        let immediates = render_immediates(settings, self.sh_degree, self.default_cap);
        layout::Step {
            frames: if count > 1 { count as u32 } else { 0 },
            ..immediates
        }
    }

    /// Renders these cameras at once, waits, and again until the buffers are large enough; `then` encodes more commands
    /// after each render. Returns false if there is no memory for several views: then render them one by one.
    pub(super) fn frames_then(
        &mut self,
        cameras: &[PosedCamera],
        settings: &RenderSettings,
        bits: Bits,
        then: impl Fn(&Self, &mut wgpu::CommandEncoder) -> Result<()>,
    ) -> Result<bool> {
        loop {
            let Ok(bits) = self.prepare_frames(cameras, settings, bits) else {
                return self.refuse_frames().map(|()| false);
            };
            let mut encoder = self.context.gpu.encoder();
            self.encode_frames(&mut encoder, cameras.len(), settings, bits)?;
            then(self, &mut encoder)?;
            let state = self.state_after(encoder)?;
            if state.halted == 0 {
                return Ok(true);
            }
            let grown = self.grow_for(state.halted, state.wanted, state.gaussians);
            if grown.is_err() {
                return self.refuse_frames().map(|()| false);
            }
        }
    }

    /// Renders one view at a time from now on: there is no memory for several. Buffers keep their sizes.
    pub(super) fn refuse_frames(&mut self) -> Result<()> {
        self.frames_refused = true;
        // A render that was halted does not stop the next.
        self.write_room()
    }
}
