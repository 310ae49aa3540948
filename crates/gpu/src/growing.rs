//! Room in the engine's buffers: how much at first, and more when it was too little.

use crate::frame::Asked;
use crate::stages::appearance;
use crate::stages::smoothing::SMOOTHING;
use crate::{GpuEngine, frame, layout};
use dapple_engine::appearance::{check_cells, grid_floats, other_cells};
use dapple_engine::{AppearanceSettings, Engine, PosedCamera};
use dapple_scene::{Error, Result};
use std::mem::offset_of;

/// Instances a Gaussian is given room for at first; captures have 3 to 10 of the visible ones.
const FIRST_INSTANCES_PER_GAUSSIAN: u32 = 4;

/// But not more in all, unless there are more Gaussians: one takes 125 bytes.
const MOST_FIRST_INSTANCES: u32 = 4 << 20;

/// Planes begin at multiples of this many Gaussians: a subgroup's 128 bytes of a plane are one line of
/// memory, not parts of two.
const PLANE_STEP: u32 = 64;

/// Room is never smaller than this.
const LEAST_ROOM: u32 = 1 << 12;

/// What grows, grows by a quarter more than asked for.
fn with_headroom(wanted: u32) -> u32 {
    wanted.saturating_add(wanted / 4).max(LEAST_ROOM)
}

/// Instances that a view makes of each Gaussian of a scene, at most where nothing went wrong: two to four are
/// usual (BENCHMARKS.md, "A training step on a GPU").
const USUAL_INSTANCES: u32 = 6;

impl GpuEngine {
    /// Makes the first room for instances; it grows as needed.
    ///
    /// # Errors
    /// No memory.
    pub fn reserve_instances(&mut self, instances: u32) -> Result<()> {
        if instances > self.room.instances {
            self.grow_instances(instances)?;
        }
        Ok(())
    }

    /// Most bytes that a buffer may have.
    fn most_bytes(&self) -> u64 {
        let device = self.context.gpu.report();
        let most = device.max_binding_bytes.min(device.max_buffer_bytes);
        most.min(self.options.max_binding_bytes)
    }

    /// Room for instances at first: for density control, more than there is for Gaussians.
    fn first_instances(&self, gaussians: u32) -> u32 {
        let least = gaussians.saturating_add(1);
        if self.options.first_room.instances > 0 {
            return self.options.first_room.instances.max(least);
        }
        let usual = gaussians.saturating_mul(FIRST_INSTANCES_PER_GAUSSIAN);
        // A device that does not take that many may still see fewer.
        let most = frame::most_instances(self.room.tiles, self.most_bytes());
        let usual = usual.min(MOST_FIRST_INSTANCES).min(most);
        usual.max(LEAST_ROOM).max(least)
    }

    /// Room for visible Gaussians at first: a view sees half of a capture or less.
    fn first_visible(&self, gaussians: u32) -> u32 {
        match self.options.first_room.visible {
            0 => (gaussians / 2).max(LEAST_ROOM),
            visible => visible,
        }
    }

    fn grow_visible(&mut self, visible: u32) -> Result<()> {
        // Bytes need no check: where all Gaussians fit, the visible ones do, which take less each.
        let whole = visible.checked_next_multiple_of(PLANE_STEP);
        let visible = whole.unwrap_or(visible);
        frame::allocate_visible(&self.context, &mut self.buffers, visible)?;
        self.room.visible = visible;
        self.allocate_extra()?;
        self.recordings = None;
        self.write_room()
    }

    pub(crate) fn reserve_visible(&mut self, visible: u32) -> Result<()> {
        if visible > self.room.visible {
            self.grow_visible(visible)?;
        }
        Ok(())
    }

    fn grow_instances(&mut self, instances: u32) -> Result<()> {
        let most = frame::most_instances(self.room.tiles, self.most_bytes());
        if instances > most {
            return Err(self
                .too_large(
                    "pairs of a Gaussian and a tile in one image",
                    instances,
                    most,
                )
                .hint("lower the resolution or --max-gaussians, or use --device cpu"));
        }
        let buckets = frame::buckets_for(instances, self.room.tiles);
        frame::allocate_instances(&self.context, &mut self.buffers, instances, buckets)?;
        self.room.instances = instances;
        self.room.buckets = buckets;
        self.allocate_extra()?;
        self.recordings = None;
        self.write_room()
    }

    /// Makes room for what few runs ask for.
    pub(crate) fn fit_extra(&mut self, asked: Asked) -> Result<()> {
        let all = self.asked.and(asked);
        if all != self.asked {
            self.asked = all;
            self.allocate_extra()?;
            self.recordings = None;
        }
        Ok(())
    }

    /// Its buffers grow with the others, where they were asked for.
    fn allocate_extra(&mut self) -> Result<()> {
        frame::allocate_extra(&self.context, &mut self.buffers, self.room, self.asked)
    }

    /// Makes room for the appearance of all views, where a step asks for it, and its kernels.
    pub(crate) fn fit_appearance(&mut self, settings: Option<&AppearanceSettings>) -> Result<()> {
        let views = self.views.len();
        let Some(settings) = settings.filter(|_| views > 0) else {
            return Ok(());
        };
        match self.grids {
            Some(grids) if grids.cells != settings.cells => {
                return Err(other_cells(grids.cells, settings.cells));
            }
            Some(grids) if grids.views == views => {}
            _ => {
                let mut all = self.appearance()?;
                check_cells(settings.cells)?;
                self.check_grids(settings.cells, views)?;
                all.cells = settings.cells;
                all.extend_to(views);
                let grids = appearance::upload(&self.context, &mut self.buffers, &all)?;
                self.grids = Some(grids);
                self.recordings = None;
            }
        }
        if self.buffers.get("corrected").is_err() {
            frame::allocate_corrected(&self.context, &mut self.buffers, self.room.pixels)?;
        }
        if self.stages.fit_appearance(&self.context, settings)? {
            self.recordings = None;
        }
        Ok(())
    }

    /// Makes room for 3D filters where something is `smoothed`, which few runs are: they filter nothing
    /// until they are set.
    pub(crate) fn fit_smoothing(&mut self, smoothed: bool) -> Result<()> {
        if smoothed && self.buffers.get(SMOOTHING).is_err() {
            let bytes = u64::from(self.room.gaussians) * size_of::<f32>() as u64;
            let buffer = self.context.gpu.buffer(SMOOTHING, bytes)?;
            self.buffers.set(SMOOTHING, buffer);
            // Density control carries them from now on.
            self.recordings = None;
        }
        Ok(())
    }

    /// Whether the grids of so many views fit one buffer.
    pub(crate) fn check_grids(&self, cells: [u32; 3], views: usize) -> Result<()> {
        let bytes = 4 * grid_floats(cells) as u64;
        let most = self.most_bytes() / bytes.max(1);
        if views as u64 <= most {
            return Ok(());
        }
        Err(self
            .too_large(
                "photos whose appearance is learnt",
                u32::try_from(views).unwrap_or(u32::MAX),
                u32::try_from(most).unwrap_or(u32::MAX),
            )
            .hint("make appearance.grid smaller, or use --appearance exposure, or --device cpu"))
    }

    /// The image's second buffer grows with it, where it was asked for.
    fn regrow_corrected(&mut self) -> Result<()> {
        if self.buffers.get("corrected").is_ok() {
            frame::allocate_corrected(&self.context, &mut self.buffers, self.room.pixels)?;
        }
        Ok(())
    }

    /// Buffers that hold Gaussians' state, with the words of a Gaussian in each.
    pub(crate) fn state_planes(&self) -> Vec<(&'static str, u32)> {
        let mut planes = frame::state_planes(self.options.precision, self.sh_degree);
        if self.buffers.get(SMOOTHING).is_ok() {
            planes.push((SMOOTHING, 1));
        }
        planes
    }

    fn too_large(&self, what: &str, wanted: u32, most: u32) -> Error {
        Error::unsupported(format!(
            "there are {wanted} {what}, and {most} fit: {} takes {:.2} MB in one buffer",
            self.context.gpu.device_name(),
            self.most_bytes() as f64 * 1e-6
        ))
    }

    /// Most Gaussians that there can be room for: fewer than instances.
    fn most_gaussians(&self) -> u32 {
        let bytes = self.most_bytes();
        let most = frame::most_gaussians(self.options.precision, self.sh_degree, bytes);
        most.min(frame::most_instances(self.room.tiles, bytes).saturating_sub(1))
    }

    /// As many Gaussians as train without pressing the device: each of their buffers, and those of the
    /// instances that steps usually make of them, is one binding, and all take half of its memory at most.
    pub(crate) fn comfortable_gaussians(&self, sh_degree: u8) -> usize {
        let bytes = self.most_bytes();
        let most = frame::most_gaussians(self.options.precision, sh_degree, bytes)
            .min(frame::most_instances(self.room.tiles, bytes) / USUAL_INSTANCES);
        let each = frame::bytes_per_gaussian(self.options.precision, sh_degree)
            + frame::bytes_per_visible()
            + u64::from(USUAL_INSTANCES) * frame::bytes_per_instance();
        let memory = self.context.gpu.report().memory_bytes.unwrap_or(u64::MAX);
        usize::try_from((memory / 2 / each).min(most.into())).unwrap_or(usize::MAX)
    }

    /// Whole lines of memory for so many Gaussians, where they fit.
    fn whole_planes(&self, gaussians: u32) -> Result<u32> {
        let most = self.most_gaussians();
        let whole = gaussians.checked_next_multiple_of(PLANE_STEP);
        let capacity = whole.filter(|&c| c <= most).unwrap_or(gaussians);
        if capacity > most {
            let bytes = frame::bytes_per_gaussian(self.options.precision, self.sh_degree);
            return Err(self.too_large("Gaussians", capacity, most).hint(format!(
                "one takes {bytes} bytes: {:.2} GB in all; use fewer (--max-gaussians), 16-bit \
                     storage, a lower --sh-degree, or --device cpu",
                f64::from(capacity) * bytes as f64 * 1e-9
            )));
        }
        Ok(capacity)
    }

    /// Makes room for new Gaussians; of the old ones nothing is kept if it succeeds.
    pub(crate) fn make_room(&mut self, gaussians: u32) -> Result<()> {
        let gaussians = self.whole_planes(gaussians)?;
        self.reserve_instances(self.first_instances(gaussians))?;
        self.reserve_visible(self.first_visible(gaussians))?;
        self.grow_gaussians(gaussians, None)
    }

    fn grow_gaussians(&mut self, gaussians: u32, keep: Option<u32>) -> Result<()> {
        let capacity = self.whole_planes(gaussians)?;
        // Density control's scratch.
        self.reserve_instances(capacity.saturating_add(1))?;
        let keep = keep.map(|count| (count, self.room.gaussians));
        let planes = self.state_planes();
        frame::allocate_gaussians(&self.context, &mut self.buffers, &planes, capacity, keep)?;
        self.room.gaussians = capacity;
        self.regrow_poses()?;
        self.recordings = None;
        self.write_room()
    }

    /// Makes room for a camera's image.
    pub(crate) fn fit_image(&mut self, camera: &PosedCamera) -> Result<()> {
        let (tiles, pixels) = frame::tiles_and_pixels(camera);
        self.fit_tiles(tiles, pixels)
    }

    pub(crate) fn fit_tiles(&mut self, tiles: u32, pixels: u32) -> Result<()> {
        if tiles > self.room.tiles || pixels > self.room.pixels {
            self.room.tiles = self.room.tiles.max(tiles);
            self.room.pixels = self.room.pixels.max(pixels);
            frame::allocate_image(
                &self.context,
                &mut self.buffers,
                self.room.tiles,
                self.room.pixels,
            )?;
            self.regrow_corrected()?;
            self.recordings = None;
            // More tiles leave less for instances where a binding is small.
            let most = frame::most_instances(self.room.tiles, self.most_bytes());
            let instances = self.room.instances.max(self.first_instances(0)).min(most);
            self.grow_instances(instances.max(self.room.gaussians.saturating_add(1)))?;
        }
        Ok(())
    }

    /// Tells the GPU what there is room for.
    pub(crate) fn write_room(&mut self) -> Result<()> {
        let state = self.buffers.get("state")?;
        let gpu = &self.context.gpu;
        let at = |field: usize| field as u64;
        let capacity = at(offset_of!(layout::State, capacity));
        gpu.write(state, capacity, &[self.room.gaussians]);
        // `halted` and `wanted` follow the three: what was too small is large enough now.
        let first = at(offset_of!(layout::State, visible_capacity));
        let room = [
            self.room.visible,
            self.room.instances,
            self.room.buckets,
            0,
            0,
        ];
        gpu.write(state, first, &room);
        Ok(())
    }

    /// Grows what a halted command has found too small.
    pub(crate) fn grow_for(&mut self, halted: u32, wanted: u32, gaussians: u32) -> Result<()> {
        if halted & layout::HALT_GAUSSIANS != 0 {
            let room = with_headroom(wanted).min(self.most_gaussians()).max(wanted);
            self.grow_gaussians(room, Some(gaussians))?;
        }
        if halted & layout::HALT_VISIBLE != 0 {
            let most = self.room.gaussians;
            self.grow_visible(with_headroom(wanted).min(most).max(wanted))?;
        }
        if halted & (layout::HALT_INSTANCES | layout::HALT_BUCKETS) != 0 {
            let wanted = if halted & layout::HALT_INSTANCES != 0 {
                wanted
            } else {
                self.room.instances.saturating_add(1)
            };
            let most = frame::most_instances(self.room.tiles, self.most_bytes());
            self.grow_instances(with_headroom(wanted).min(most).max(wanted))?;
        }
        self.write_room()
    }
}
