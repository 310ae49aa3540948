//! Capacities of the engine's buffers: the first sizes, and growth when a buffer was too small.

use crate::buffers::{Carry, too_large};
use crate::passes::{Bits, BufferSizes, Capacity};
use crate::{GpuEngine, Precision, Storage, layout, memory_use};
use dapple_engine::{CameraModel, LossTerm, MemoryPlan, PosedCamera, StepSettings, ViewId};
use dapple_scene::{Error, Result};
use std::mem::offset_of;

/// First capacity for instances, per Gaussian; captures have 3 to 10 per visible Gaussian.
const FIRST_INSTANCES_PER_GAUSSIAN: u32 = 4;

/// Limit of the first capacity for instances, unless there are more Gaussians: an instance takes 125 bytes.
const MOST_FIRST_INSTANCES: u32 = 4 << 20;

/// Planes begin at multiples of this many Gaussians: a subgroup's 128 bytes of a plane are one line of memory, not
/// parts of two.
const PLANE_STEP: u32 = 64;

/// Least capacity.
const LEAST_ROOM: u32 = 1 << 12;

/// Returns the wanted capacity plus a quarter, for growth.
fn with_headroom(wanted: u32) -> u32 {
    wanted.saturating_add(wanted / 4).max(LEAST_ROOM)
}

/// Most instances that a view makes of each Gaussian of a scene in normal cases: two to four are usual (BENCHMARKS.md,
/// "A training step on a GPU").
const USUAL_INSTANCES: u32 = 6;

impl GpuEngine {
    /// Allocates the first capacity for instances; it grows as needed.
    ///
    /// # Errors
    /// No memory.
    pub fn reserve_instances(&mut self, instances: u32) -> Result<()> {
        if instances > self.capacity.instances {
            self.grow(self.with_instances(self.capacity, instances)?, None)?;
        }
        Ok(())
    }

    /// Returns the largest size of a buffer, bytes.
    pub(crate) fn most_bytes(&self) -> u64 {
        let device = self.context.gpu.report();
        let most = device.max_binding_bytes.min(device.max_buffer_bytes);
        most.min(self.options.max_binding_bytes)
    }

    /// Returns the first capacity for instances, on images of this number of tiles. Density control needs more than the
    /// capacity for Gaussians.
    fn first_instances(&self, gaussians: u32, tiles: u32) -> u32 {
        let least = gaussians.saturating_add(1);
        if self.options.first_capacity.instances > 0 {
            return self.options.first_capacity.instances.max(least);
        }
        let usual = gaussians.saturating_mul(FIRST_INSTANCES_PER_GAUSSIAN);
        // Limited by the device's largest buffer: a view may make fewer instances.
        let most = memory_use::most_instances(tiles, self.most_bytes());
        let usual = usual.min(MOST_FIRST_INSTANCES).min(most);
        usual.max(LEAST_ROOM).max(least)
    }

    /// Returns the first capacity for visible Gaussians: a view sees half of a capture or less.
    fn first_visible(&self, gaussians: u32) -> u32 {
        match self.options.first_capacity.visible {
            0 => (gaussians / 2).max(LEAST_ROOM),
            visible => visible,
        }
    }

    /// Sizes every buffer for `capacity`, and those that a command with `bits` needs: all of them, or none if there is
    /// no memory for one. The state of the first `keep` Gaussians is carried over.
    fn fit_to(&mut self, capacity: Capacity, bits: Bits, keep: Option<u32>) -> Result<()> {
        let asked = match bits.has(Bits::IMAGE_ONLY) {
            true => self.asked,
            false => self.asked | bits,
        };
        let sizes = BufferSizes {
            capacity,
            asked,
            ..self.sizes()
        };
        let carry = keep.map(|gaussians| Carry {
            gaussians,
            stride: self.capacity.gaussians,
        });
        self.buffers.fit(&self.context, &sizes, bits, carry)?;
        self.capacity = capacity;
        self.asked = asked;
        self.drop_stale();
        Ok(())
    }

    /// Allocates everything that a command with `bits` needs.
    pub(crate) fn fit(&mut self, bits: Bits) -> Result<()> {
        if self.fitted != Some((bits, self.buffers.now())) {
            self.fit_to(self.capacity, bits, None)?;
            self.fitted = Some((bits, self.buffers.now()));
        }
        Ok(())
    }

    /// Calls [`Self::fit_to`], and writes the capacities to the GPU. Without views to train on, buffers that only steps and
    /// gradients need are made by the first of them.
    fn grow(&mut self, capacity: Capacity, keep: Option<u32>) -> Result<()> {
        let bits = Bits::when(self.views.len() == 0, Bits::IMAGE_ONLY);
        self.fit_to(capacity, bits, keep)?;
        self.write_room()
    }

    /// Returns `capacity` with this capacity for visible Gaussians, if they fit: with ranks they may be more than those of
    /// this engine.
    fn with_visible(&self, capacity: Capacity, visible: u32) -> Result<Capacity> {
        let most = memory_use::most_visible(self.most_bytes());
        if visible > most {
            return Err(self
                .too_large("Gaussians in one image", visible, most)
                .hint(
                    "omit photos that show most of a scene, or lower --max-gaussians: more ranks do not share the Gaussians \
                     of one image",
                ));
        }
        let whole = visible.checked_next_multiple_of(PLANE_STEP);
        Ok(Capacity {
            visible: whole.filter(|&whole| whole <= most).unwrap_or(visible),
            ..capacity
        })
    }

    pub(crate) fn reserve_visible(&mut self, visible: u32) -> Result<()> {
        if visible > self.capacity.visible {
            self.grow(self.with_visible(self.capacity, visible)?, None)?;
        }
        Ok(())
    }

    /// Returns `capacity` with this capacity for instances, if they fit.
    fn with_instances(&self, capacity: Capacity, instances: u32) -> Result<Capacity> {
        let most = memory_use::most_instances(capacity.tiles, self.most_bytes());
        if instances > most {
            return Err(self
                .too_large(
                    "pairs of a Gaussian and a tile in one image",
                    instances,
                    most,
                )
                .hint("lower the resolution or --max-gaussians, or use --device cpu"));
        }
        Ok(capacity.with_instances(instances))
    }

    fn too_large(&self, what: &str, wanted: u32, most: u32) -> Error {
        too_large(&self.context.gpu, self.most_bytes(), what, [wanted, most])
    }

    /// Returns the largest capacity for Gaussians: smaller than that for instances.
    fn most_gaussians(&self) -> u32 {
        self.most_gaussians_of(self.sh_degree)
    }

    /// Returns the largest capacity for Gaussians of this SH degree.
    fn most_gaussians_of(&self, sh_degree: u8) -> u32 {
        let bytes = self.most_bytes();
        let most = memory_use::most_gaussians(self.options.precision, sh_degree, bytes);
        most.min(memory_use::most_instances(self.capacity.tiles, bytes).saturating_sub(1))
    }

    /// Returns the number of Gaussians that train without filling the device. Each of their buffers, and those of the
    /// instances that steps usually make of them, is one binding, and all take at most half of its memory.
    pub(crate) fn plan_memory(&self, settings: &StepSettings) -> MemoryPlan {
        let device = self.context.gpu.report();
        let bytes = device.memory_bytes.map(|memory| memory / 2);
        let plan = self.plan_with(self.options.precision, settings, bytes);
        let half = match device.packs_f16 {
            true => Storage::F16,
            false => Storage::Bf16,
        };
        let smaller = Precision {
            sh: half,
            moments: half,
        };
        let is_whole = self.options.precision == Precision::default();
        MemoryPlan {
            smaller: is_whole.then(|| {
                let most = self.plan_with(smaller, settings, bytes).gaussians;
                (half.name(), most)
            }),
            ..plan
        }
    }

    /// Returns the plan with this storage, without a smaller one.
    fn plan_with(
        &self,
        precision: Precision,
        settings: &StepSettings,
        bytes: Option<u64>,
    ) -> MemoryPlan {
        let most_bytes = self.most_bytes();
        let sh_degree = settings.render.sh_degree;
        let most = memory_use::most_gaussians(precision, sh_degree, most_bytes)
            .min(memory_use::most_instances(self.capacity.tiles, most_bytes) / USUAL_INSTANCES);
        // Depths of a view are unknown before its samples: every step with a weight of this term counts.
        let bits = Bits::of_step(settings, CameraModel::default())
            | self.features.bits(ViewId(0), settings)
            | Bits::when(settings.losses[LossTerm::Depth] > 0.0, Bits::DEPTH);
        let asked = self.asked | bits;
        let bytes_each = memory_use::bytes_in_steps(precision, sh_degree, asked, USUAL_INSTANCES);
        let in_memory = bytes.map_or(u64::MAX, |bytes| bytes / bytes_each);
        let gaussians = in_memory.min(most.into());
        MemoryPlan {
            gaussians: usize::try_from(gaussians).unwrap_or(usize::MAX),
            bytes_each,
            bytes,
            by_buffer: in_memory > most.into(),
            engines: 1,
            held: self.most_gaussians_of(sh_degree) as usize,
            bytes_held: memory_use::bytes_per_gaussian(precision, sh_degree)
                + memory_use::bytes_per_visible(),
            smaller: None,
        }
    }

    /// Rounds a number of Gaussians up to whole lines of memory, if they fit.
    fn whole_planes(&self, gaussians: u32) -> Result<u32> {
        let most = self.most_gaussians();
        let whole = gaussians.checked_next_multiple_of(PLANE_STEP);
        let capacity = whole.filter(|&c| c <= most).unwrap_or(gaussians);
        if capacity > most {
            let bytes = memory_use::bytes_per_gaussian(self.options.precision, self.sh_degree);
            return Err(self.too_large("Gaussians", capacity, most).hint(format!(
                "one takes {bytes} bytes: {:.2} GB in all; use fewer (--max-gaussians), 16-bit \
                     storage, a lower --sh-degree, --ranks-in-process 2, or --device cpu",
                f64::from(capacity) * bytes as f64 * 1e-9
            )));
        }
        Ok(capacity)
    }

    /// Returns `capacity` with this capacity for Gaussians, and a larger one for instances: density control's scratch.
    fn with_gaussians(&self, capacity: Capacity, gaussians: u32) -> Result<Capacity> {
        let gaussians = self.whole_planes(gaussians)?;
        let least = gaussians.saturating_add(1);
        let capacity = match least > capacity.instances {
            true => self.with_instances(capacity, least)?,
            false => capacity,
        };
        Ok(Capacity {
            gaussians,
            ..capacity
        })
    }

    /// Allocates buffers for new Gaussians; the old Gaussians are dropped if it succeeds.
    pub(crate) fn make_capacity(&mut self, gaussians: u32) -> Result<()> {
        let mut capacity = self.with_gaussians(self.capacity, gaussians)?;
        let instances = self.first_instances(capacity.gaussians, capacity.tiles);
        if instances > capacity.instances {
            capacity = self.with_instances(capacity, instances)?;
        }
        // A guess: images may show fewer.
        let most = memory_use::most_visible(self.most_bytes());
        let visible = self.first_visible(capacity.gaussians).min(most);
        if visible > capacity.visible {
            capacity = self.with_visible(capacity, visible)?;
        }
        self.grow(capacity, None)
    }

    /// Grows the buffers for a camera's image.
    pub(crate) fn fit_image(&mut self, camera: &PosedCamera) -> Result<()> {
        let (tiles, pixels) = memory_use::tiles_and_pixels(camera);
        self.fit_tiles(tiles, pixels)
    }

    pub(crate) fn fit_tiles(&mut self, tiles: u32, pixels: u32) -> Result<()> {
        if tiles > self.capacity.tiles || pixels > self.capacity.pixels {
            let capacity = Capacity {
                tiles: self.capacity.tiles.max(tiles),
                pixels: self.capacity.pixels.max(pixels),
                ..self.capacity
            };
            // More tiles leave less for instances where a binding is small.
            let most = memory_use::most_instances(capacity.tiles, self.most_bytes());
            let first = self.first_instances(0, capacity.tiles);
            let instances = capacity.instances.max(first).min(most);
            let instances = instances.max(capacity.gaussians.saturating_add(1));
            self.grow(self.with_instances(capacity, instances)?, None)?;
        }
        Ok(())
    }

    /// Writes the capacities to the GPU.
    pub(crate) fn write_room(&mut self) -> Result<()> {
        let state = self.buffers.get("state")?;
        let gpu = &self.context.gpu;
        let at = |field: usize| field as u64;
        let capacity = at(offset_of!(layout::State, capacity));
        gpu.write(state, capacity, &[self.capacity.gaussians]);
        // `halted` and `wanted` follow the three capacities, and are cleared: the buffer is large enough now.
        let first = at(offset_of!(layout::State, visible_capacity));
        let capacity = [
            self.capacity.visible,
            self.capacity.instances,
            self.capacity.buckets,
            0,
            0,
        ];
        gpu.write(state, first, &capacity);
        Ok(())
    }

    /// Grows the buffer that was too small for a halted command.
    pub(crate) fn grow_for(&mut self, halted: u32, wanted: u32, gaussians: u32) -> Result<()> {
        let mut capacity = self.capacity;
        if halted & layout::HALT_GAUSSIANS != 0 {
            let gaussians = with_headroom(wanted).min(self.most_gaussians()).max(wanted);
            capacity = self.with_gaussians(capacity, gaussians)?;
        }
        if halted & layout::HALT_VISIBLE != 0 {
            let most = memory_use::most_visible(self.most_bytes());
            let visible = with_headroom(wanted)
                .min(capacity.gaussians.min(most))
                .max(wanted);
            capacity = self.with_visible(capacity, visible)?;
        }
        if halted & (layout::HALT_INSTANCES | layout::HALT_BUCKETS) != 0 {
            let wanted = if halted & layout::HALT_INSTANCES != 0 {
                wanted
            } else {
                capacity.instances.saturating_add(1)
            };
            let most = memory_use::most_instances(capacity.tiles, self.most_bytes());
            capacity =
                self.with_instances(capacity, with_headroom(wanted).min(most).max(wanted))?;
        }
        self.grow(capacity, Some(gaussians))
    }
}
