//! Room in the engine's buffers: how much at first, and more when it was too little.

use crate::buffers::Carry;
use crate::passes::{Bits, Extent, Room};
use crate::stages::appearance;
use crate::stages::smoothing::SMOOTHING;
use crate::{GpuEngine, layout, room};
use dapple_engine::appearance::{check_cells, grid_floats, other_cells};
use dapple_engine::{AppearanceSettings, PosedCamera};
use dapple_runtime::Defines;
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
            self.grow(self.with_instances(self.room, instances)?, None)?;
        }
        Ok(())
    }

    /// Most bytes that a buffer may have.
    fn most_bytes(&self) -> u64 {
        let device = self.context.gpu.report();
        let most = device.max_binding_bytes.min(device.max_buffer_bytes);
        most.min(self.options.max_binding_bytes)
    }

    /// Room for instances at first, on images of so many tiles: for density control, more than there is for
    /// Gaussians.
    fn first_instances(&self, gaussians: u32, tiles: u32) -> u32 {
        let least = gaussians.saturating_add(1);
        if self.options.first_room.instances > 0 {
            return self.options.first_room.instances.max(least);
        }
        let usual = gaussians.saturating_mul(FIRST_INSTANCES_PER_GAUSSIAN);
        // A device that does not take that many may still see fewer.
        let most = room::most_instances(tiles, self.most_bytes());
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

    /// Makes every buffer as large as `room` says, and those that a command with `bits` asks for: all of them
    /// or, where there is no memory for one, none. Of Gaussians' state the first `keep` stay.
    fn fit_to(&mut self, room: Room, bits: Bits, keep: Option<u32>) -> Result<()> {
        let asked = match bits.has(Bits::IMAGE_ONLY) {
            true => self.asked,
            false => self.asked | bits,
        };
        let extent = Extent {
            room,
            asked,
            ..self.extent()
        };
        let carry = keep.map(|gaussians| Carry {
            gaussians,
            stride: self.room.gaussians,
        });
        self.buffers.fit(&self.context, &extent, bits, carry)?;
        self.room = room;
        self.asked = asked;
        self.drop_stale();
        Ok(())
    }

    /// Sees to it that everything is there that a command with `bits` needs.
    pub(crate) fn fit(&mut self, bits: Bits) -> Result<()> {
        if self.fitted != Some((bits, self.buffers.now())) {
            self.fit_to(self.room, bits, None)?;
            self.fitted = Some((bits, self.buffers.now()));
        }
        Ok(())
    }

    /// [`Self::fit_to`], and the GPU is told.
    fn grow(&mut self, room: Room, keep: Option<u32>) -> Result<()> {
        self.fit_to(room, Bits::NONE, keep)?;
        self.write_room()
    }

    /// `room` with so many visible Gaussians.
    fn with_visible(room: Room, visible: u32) -> Room {
        // Bytes need no check: where all Gaussians fit, the visible ones do, which take less each.
        let whole = visible.checked_next_multiple_of(PLANE_STEP);
        Room {
            visible: whole.unwrap_or(visible),
            ..room
        }
    }

    pub(crate) fn reserve_visible(&mut self, visible: u32) -> Result<()> {
        if visible > self.room.visible {
            self.grow(Self::with_visible(self.room, visible), None)?;
        }
        Ok(())
    }

    /// `room` with so many instances, where they fit.
    fn with_instances(&self, room: Room, instances: u32) -> Result<Room> {
        let most = room::most_instances(room.tiles, self.most_bytes());
        if instances > most {
            return Err(self
                .too_large(
                    "pairs of a Gaussian and a tile in one image",
                    instances,
                    most,
                )
                .hint("lower the resolution or --max-gaussians, or use --device cpu"));
        }
        Ok(room.with_instances(instances))
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
                let mut all = self.download_appearance()?;
                check_cells(settings.cells)?;
                self.check_grids(settings.cells, views)?;
                all.cells = settings.cells;
                all.extend_to(views);
                let grids = appearance::upload(&self.context, &mut self.buffers, &all)?;
                self.grids = Some(grids);
            }
        }
        // The rate travels with the step; all else is compiled in.
        let compiled = Some(AppearanceSettings {
            rate: 0.0,
            ..*settings
        });
        if self.learnt != compiled {
            let constants = appearance::define(Defines::new(), settings);
            self.context.set_constants(appearance::CONSTANTS, constants);
            self.buffers.touch(appearance::CONSTANTS);
            self.learnt = compiled;
        }
        Ok(())
    }

    /// Makes room for 3D filters where something is `smoothed`, which few runs are: they filter nothing
    /// until they are set.
    pub(crate) fn fit_smoothing(&mut self, smoothed: bool) -> Result<()> {
        if smoothed && !self.buffers.has(SMOOTHING) {
            self.fit(Bits::ANTIALIAS)?;
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
        let most = room::most_gaussians(self.options.precision, self.sh_degree, bytes);
        most.min(room::most_instances(self.room.tiles, bytes).saturating_sub(1))
    }

    /// As many Gaussians as train without pressing the device: each of their buffers, and those of the
    /// instances that steps usually make of them, is one binding, and all take half of its memory at most.
    pub(crate) fn comfortable_gaussians(&self, sh_degree: u8) -> usize {
        let bytes = self.most_bytes();
        let most = room::most_gaussians(self.options.precision, sh_degree, bytes)
            .min(room::most_instances(self.room.tiles, bytes) / USUAL_INSTANCES);
        let each = room::bytes_per_gaussian(self.options.precision, sh_degree)
            + room::bytes_per_visible()
            + u64::from(USUAL_INSTANCES) * room::bytes_per_instance();
        let memory = self.context.gpu.report().memory_bytes.unwrap_or(u64::MAX);
        usize::try_from((memory / 2 / each).min(most.into())).unwrap_or(usize::MAX)
    }

    /// Whole lines of memory for so many Gaussians, where they fit.
    fn whole_planes(&self, gaussians: u32) -> Result<u32> {
        let most = self.most_gaussians();
        let whole = gaussians.checked_next_multiple_of(PLANE_STEP);
        let capacity = whole.filter(|&c| c <= most).unwrap_or(gaussians);
        if capacity > most {
            let bytes = room::bytes_per_gaussian(self.options.precision, self.sh_degree);
            return Err(self.too_large("Gaussians", capacity, most).hint(format!(
                "one takes {bytes} bytes: {:.2} GB in all; use fewer (--max-gaussians), 16-bit \
                     storage, a lower --sh-degree, or --device cpu",
                f64::from(capacity) * bytes as f64 * 1e-9
            )));
        }
        Ok(capacity)
    }

    /// `room` with so many Gaussians, and more instances than that: density control's scratch.
    fn with_gaussians(&self, room: Room, gaussians: u32) -> Result<Room> {
        let gaussians = self.whole_planes(gaussians)?;
        let least = gaussians.saturating_add(1);
        let room = match least > room.instances {
            true => self.with_instances(room, least)?,
            false => room,
        };
        Ok(Room { gaussians, ..room })
    }

    /// Makes room for new Gaussians; of the old ones nothing is kept if it succeeds.
    pub(crate) fn make_room(&mut self, gaussians: u32) -> Result<()> {
        let mut room = self.with_gaussians(self.room, gaussians)?;
        let instances = self.first_instances(room.gaussians, room.tiles);
        if instances > room.instances {
            room = self.with_instances(room, instances)?;
        }
        let visible = self.first_visible(room.gaussians);
        if visible > room.visible {
            room = Self::with_visible(room, visible);
        }
        self.grow(room, None)
    }

    /// Makes room for a camera's image.
    pub(crate) fn fit_image(&mut self, camera: &PosedCamera) -> Result<()> {
        let (tiles, pixels) = room::tiles_and_pixels(camera);
        self.fit_tiles(tiles, pixels)
    }

    pub(crate) fn fit_tiles(&mut self, tiles: u32, pixels: u32) -> Result<()> {
        if tiles > self.room.tiles || pixels > self.room.pixels {
            let room = Room {
                tiles: self.room.tiles.max(tiles),
                pixels: self.room.pixels.max(pixels),
                ..self.room
            };
            // More tiles leave less for instances where a binding is small.
            let most = room::most_instances(room.tiles, self.most_bytes());
            let first = self.first_instances(0, room.tiles);
            let instances = room.instances.max(first).min(most);
            let instances = instances.max(room.gaussians.saturating_add(1));
            self.grow(self.with_instances(room, instances)?, None)?;
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
        let mut room = self.room;
        if halted & layout::HALT_GAUSSIANS != 0 {
            let capacity = with_headroom(wanted).min(self.most_gaussians()).max(wanted);
            room = self.with_gaussians(room, capacity)?;
        }
        if halted & layout::HALT_VISIBLE != 0 {
            let visible = with_headroom(wanted).min(room.gaussians).max(wanted);
            room = Self::with_visible(room, visible);
        }
        if halted & (layout::HALT_INSTANCES | layout::HALT_BUCKETS) != 0 {
            let wanted = if halted & layout::HALT_INSTANCES != 0 {
                wanted
            } else {
                room.instances.saturating_add(1)
            };
            let most = room::most_instances(room.tiles, self.most_bytes());
            room = self.with_instances(room, with_headroom(wanted).min(most).max(wanted))?;
        }
        self.grow(room, Some(gaussians))
    }
}
