//! Single stages: reads back the result of each stage of a step, and runs one stage from given results of the stages
//! before it. For tests that compare every stage with its CPU version. Apart from the stages, only this file knows the
//! layout of intermediate results in buffers.

use crate::GpuEngine;
use crate::layout::{self, BUCKET, EMIT_BLOCK, WORKGROUP};
use crate::messages::step_immediates;
use crate::passes::{Bits, Entries, Entry};
use crate::plans::Plan;
use crate::recorder::Recorder;
use crate::ring::RingBuffer;
use crate::stages::{emit, order, project, ranges};
use dapple_engine::{
    Engine, EngineExt, PosedCamera, Stage, StepSettings, Trace, TracedSplat, ViewId,
};
use dapple_runtime::Groups;
use dapple_runtime::primitives::radix_block;
use dapple_scene::{Error, Result};

/// Stages of a step.
const STEP: [Stage; 9] = [
    Stage::Project,
    Stage::Order,
    Stage::Emit,
    Stage::Sort,
    Stage::Ranges,
    Stage::Blend,
    Stage::Loss,
    Stage::BlendBackward,
    Stage::Update,
];

impl GpuEngine {
    /// Runs a training step and returns the result of each stage; the step is not reported.
    ///
    /// # Errors
    /// The errors of steps; a lost device.
    #[doc(hidden)]
    pub fn trace(&mut self, view: ViewId, settings: &StepSettings) -> Result<Trace> {
        self.step(view, settings)?;
        self.finish()?;
        self.finished.pop();
        let camera = self.camera_of(view)?;
        let mut trace = Trace::default();
        for stage in STEP {
            self.read_stage(stage, &camera, &mut trace)?;
        }
        // `sort` has moved the tiles that `emit` listed.
        let tiles: Vec<u32> = trace.instances.iter().map(|i| i[1]).collect();
        for (&place, tile) in trace.sorted.iter().zip(tiles) {
            trace.instances[place as usize][1] = tile;
        }
        Ok(trace)
    }

    /// Runs one stage of a step on the results of the stages before it in `inputs`; returns `inputs` with that stage's
    /// part replaced. `project` and `update` start from the engine's own splats and moments, and `update` changes them.
    /// `blend_backward` needs the checkpoints of `blend`: no other engine has them, so they are computed here from the
    /// same inputs.
    ///
    /// # Errors
    /// No such view; a stage that is not part of a step; no memory, a lost device.
    #[doc(hidden)]
    pub fn run_stage(
        &mut self,
        stage: Stage,
        inputs: &Trace,
        view: ViewId,
        settings: &StepSettings,
    ) -> Result<Trace> {
        self.finish()?;
        let camera = self.camera_of(view)?;
        self.reserve_visible(inputs.projected.len() as u32)?;
        self.reserve_instances(inputs.instances.len() as u32)?;
        self.write_views(None)?;
        self.place_photo(view)?;
        let arrived = self.photos.arrive(view.0, self.ring.upcoming())?;
        let mut buffers = self.buffers.clone();
        buffers.set("photo", arrived.buffer);

        self.forget()?;
        self.put(stage, inputs, &camera, settings)?;
        let step = step_immediates(
            view,
            settings,
            arrived.is_masked,
            RingBuffer::entry(0),
            self.sh_degree,
            self.default_cap,
        );
        let run = |stage: Stage| {
            let recorder = Recorder::new(&self.context, &buffers, Bits::NONE);
            let mut recorder = recorder.over(&self.sizes(), arrived.slot);
            let plans = Plan::Step.parts().iter();
            for pass in plans.flat_map(|plan| plan.passes()) {
                if pass.name == stage.name() {
                    recorder.pass(pass)?;
                }
            }
            let recording = recorder.finish();
            if recording.is_empty() {
                return Err(no_stage(stage));
            }
            recording.submit(&self.context.gpu, bytemuck::bytes_of(&step));
            Ok::<_, Error>(())
        };
        if stage == Stage::BlendBackward {
            run(Stage::Blend)?;
            self.fill("image", &inputs.image)?;
        }
        run(stage)?;
        let mut out = inputs.clone();
        self.read_stage(stage, &camera, &mut out)?;
        Ok(out)
    }

    fn camera_of(&self, view: ViewId) -> Result<PosedCamera> {
        let view = self.views.get(view.0);
        view.map(|v| v.camera)
            .ok_or_else(|| Error::internal("there is no such view"))
    }

    /// Zeroes all data that steps and stages have written, so that no stage finds its results already there.
    fn forget(&self) -> Result<()> {
        let kept = self.buffers.state(self.context.declared, &self.sizes());
        let mut encoder = self.context.gpu.encoder();
        for (name, buffer) in self.buffers.iter() {
            let is_kept = kept.iter().any(|(tensor, _)| tensor.name == name);
            let is_kept = is_kept
                || name.starts_with("appearance")
                || matches!(name, "mlp" | "mlp_moments" | "mlp_seen");
            if !is_kept && !matches!(name, "views" | "lenses" | "state") {
                encoder.clear_buffer(buffer, 0, None);
            }
        }
        self.context.gpu.submit(encoder);
        self.context.gpu.check()
    }

    fn fill<T: bytemuck::Pod>(&self, name: &str, values: &[T]) -> Result<()> {
        self.context.gpu.write(self.buffers.get(name)?, 0, values);
        Ok(())
    }

    /// Writes the results of the stages before `stage` to the buffers.
    fn put(
        &mut self,
        stage: Stage,
        inputs: &Trace,
        camera: &PosedCamera,
        settings: &StepSettings,
    ) -> Result<()> {
        let gaussians = self.state()?.gaussians;
        let cap = settings.render.max_gaussians_per_tile;
        let buckets = Buckets::new(&inputs.tiles, cap);
        let mut counts = layout::State {
            gaussians,
            capacity: self.capacity.gaussians,
            visible_capacity: self.capacity.visible,
            instance_capacity: self.capacity.instances,
            bucket_capacity: self.capacity.buckets,
            ..layout::State::default()
        };
        let tiles = camera.tile_count() as u32;
        let mut sizes = Sizes::new(&self.context.declared.entries);
        if stage > Stage::Project {
            self.put_projected(inputs, gaussians as usize)?;
            sizes.set(project::GAUSSIANS, gaussians, WORKGROUP)?;
            sizes.set(project::UPDATE, gaussians, layout::UPDATE_THREADS)?;
            sizes.set(project::PIXELS, tiles, 1)?;
            sizes.set(project::PIXELS_PART, tiles, layout::DISPATCH_PARTS)?;
        }
        if stage > Stage::Order {
            self.put_order(inputs)?;
            counts.visible = inputs.order.len() as u32;
            sizes.set(order::VISIBLE, counts.visible, WORKGROUP)?;
            sizes.set(
                order::SLOT_SUMS,
                counts.visible,
                layout::SLOT_SUMS_GAUSSIANS,
            )?;
            let block = radix_block(&self.context.gpu);
            sizes.set(order::SORT_VISIBLE, counts.visible, block)?;
        }
        if stage > Stage::Emit {
            self.put_instances(inputs)?;
            counts.instances = inputs.instances.len() as u32;
            sizes.set(emit::EMIT, counts.instances, EMIT_BLOCK)?;
            let block = radix_block(&self.context.gpu);
            sizes.set(emit::SORT_INSTANCES, counts.instances, block)?;
        }
        if stage > Stage::Sort {
            let tile_of = |&place: &u32| inputs.instances[place as usize][1];
            let tiles: Vec<u32> = inputs.sorted.iter().map(tile_of).collect();
            self.fill("instance_tile", &tiles)?;
            self.fill("sorted_slot", &inputs.sorted)?;
        }
        if stage > Stage::Ranges {
            let list = inputs.tiles.concat();
            self.fill("sorted_gaussian", &places(inputs, list.iter().copied()))?;
            self.fill("tile_start", &buckets.tile_start)?;
            self.fill("bucket_start", &buckets.bucket_start)?;
            self.fill("bucket_tile", &buckets.bucket_tile)?;
            // Any order will do.
            let order: Vec<u32> = (0..inputs.tiles.len() as u32).collect();
            self.fill("tile_order", &order)?;
            counts.buckets = buckets.bucket_tile.len() as u32;
            sizes.set(ranges::BUCKETS, counts.buckets, 1)?;
            let parts = layout::DISPATCH_PARTS;
            sizes.set(ranges::BUCKETS_PART, counts.buckets, parts)?;
        }
        if stage > Stage::Blend {
            self.fill("image", &inputs.image)?;
        }
        if stage > Stage::Loss {
            self.fill("image_gradient", &inputs.image_gradient)?;
        }
        if stage > Stage::BlendBackward {
            self.fill("slots", &inputs.slots)?;
        }
        self.fill("groups", &sizes.words)?;
        self.fill("state", &[counts])
    }

    fn put_projected(&self, inputs: &Trace, gaussians: usize) -> Result<()> {
        let (mut splats2d, mut tiles, mut depths) = (Vec::new(), Vec::new(), Vec::new());
        let mut ranks = vec![0u32; gaussians];
        let mut visible = vec![0u32; gaussians.div_ceil(WORKGROUP as usize)];
        for (place, splat) in (0..).zip(&inputs.projected) {
            let i = splat.gaussian as usize;
            let ([x, y], [a, b, c]) = (splat.mean2d, splat.form);
            // `project` marks a clamped channel by -0.0; a trace has zero instead.
            let [red, green, blue] = splat.rgb.map(|v| if v > 0.0 { v } else { -0.0 });
            let [rx, ry] = splat.radius;
            let (opacity, depth) = (splat.log2_opacity, splat.depth);
            splats2d.push([x, y, a, b, c, opacity, red, green, blue, depth, rx, ry]);
            tiles.push(splat.tiles);
            depths.push(splat.depth);
            ranks[i] = place + 1;
            visible[i / WORKGROUP as usize] += 1;
        }
        self.fill("splats2d", &splats2d)?;
        self.fill("tiles_touched", &tiles)?;
        self.fill("visible_rank", &ranks)?;
        self.fill("group_visible", &visible)?;
        // The tensor that `order` reads: see stages::project.
        self.fill("depth_keys_alt", &depths)
    }

    fn put_order(&self, inputs: &Trace) -> Result<()> {
        let places = places(inputs, inputs.order.iter().copied());
        let depth = |&place: &u32| {
            inputs
                .projected
                .get(place as usize)
                .map_or(0.0, |s| s.depth)
        };
        let depths: Vec<f32> = places.iter().map(depth).collect();
        self.fill("depth_keys", &depths)?;
        self.fill("depth_values", &places)
    }

    fn put_instances(&self, inputs: &Trace) -> Result<()> {
        let owners = places(inputs, inputs.instances.iter().map(|i| i[0]));
        let tile: Vec<u32> = inputs.instances.iter().map(|i| i[1]).collect();
        let mut first = vec![0u32; inputs.projected.len()];
        for (slot, &place) in owners.iter().enumerate().rev() {
            if let Some(first) = first.get_mut(place as usize) {
                *first = slot as u32;
            }
        }
        let ranks = places(inputs, inputs.order.iter().copied());
        let starts = ranks.iter().filter_map(|&place| first.get(place as usize));
        let starts: Vec<u32> = starts.copied().chain([owners.len() as u32]).collect();
        self.fill("emit_starts", &starts)?;
        self.fill("instance_gaussian", &owners)?;
        self.fill("instance_tile", &tile)
    }

    /// Copies the results of `stage` into the trace.
    fn read_stage(&mut self, stage: Stage, camera: &PosedCamera, trace: &mut Trace) -> Result<()> {
        let state = self.state()?;
        if state.halted != 0 {
            return Err(Error::internal("the stage halted: a buffer is too small"));
        }
        let (buffers, gpu) = (&self.buffers, &self.context.gpu);
        let words = |name: &str, count: u32| gpu.read::<u32>(buffers.get(name)?, count as usize);
        // Owners of the places among the visible Gaussians; and a list of places as Gaussians.
        let ranks = words("visible_rank", state.gaussians)?;
        let mut owners = vec![0; ranks.len()];
        for (gaussian, &rank) in (0..).zip(&ranks) {
            if let Some(owner) = owners.get_mut((rank as usize).wrapping_sub(1)) {
                *owner = gaussian;
            }
        }
        let gaussians = |name: &str, count: u32| -> Result<Vec<u32>> {
            let owner = |&place: &u32| owners.get(place as usize).copied().unwrap_or(u32::MAX);
            Ok(words(name, count)?.iter().map(owner).collect())
        };
        let pixels = |name: &str| gpu.read::<[f32; 4]>(buffers.get(name)?, camera.pixel_count());
        let tiles = camera.tile_count();
        match stage {
            Stage::Project => {
                let visible = ranks.iter().filter(|&&rank| rank > 0).count();
                let splats2d = gpu.read(buffers.get("splats2d")?, visible)?;
                let tiles = words("tiles_touched", visible as u32)?;
                trace.projected = traced(&ranks, &splats2d, &tiles);
            }
            Stage::Order => trace.order = gaussians("depth_values", state.visible)?,
            Stage::Emit => {
                let gaussians = gaussians("instance_gaussian", state.instances)?;
                let tiles = words("instance_tile", state.instances)?;
                let pairs = gaussians.into_iter().zip(tiles);
                trace.instances = pairs.map(|(g, t)| [g, t]).collect();
            }
            Stage::Sort => trace.sorted = words("sorted_slot", state.instances)?,
            Stage::Ranges => {
                let list = gaussians("sorted_gaussian", state.instances)?;
                let starts = words("tile_start", tiles as u32 + 1)?;
                let range = |b: &[u32]| list.get(b[0] as usize..b[1] as usize);
                let tiles = starts.windows(2).map(|b| range(b).map(<[u32]>::to_vec));
                // An invalid range becomes an empty list, which differs from the CPU version's.
                trace.tiles = tiles.map(Option::unwrap_or_default).collect();
            }
            Stage::Blend => trace.image = pixels("image")?,
            Stage::Loss => {
                let partials = gpu.read::<f32>(buffers.get("loss_partials")?, tiles)?;
                trace.loss = partials.iter().map(|&v| f64::from(v)).sum::<f64>() as f32;
                trace.image_gradient = pixels("image_gradient")?;
            }
            Stage::BlendBackward => {
                trace.slots = gpu.read(buffers.get("slots")?, state.instances as usize)?;
            }
            Stage::Update => (trace.splats, trace.state) = self.download()?,
            Stage::Appearance | Stage::Densify => {
                return Err(no_stage(stage));
            }
        }
        Ok(())
    }
}

fn no_stage(stage: Stage) -> Error {
    Error::internal(format!("{stage} is no stage of every step"))
}

/// Returns the places of Gaussians of `inputs` in the list of visible Gaussians; a Gaussian that is not visible gets
/// the first place.
fn places(inputs: &Trace, gaussians: impl Iterator<Item = u32>) -> Vec<u32> {
    let splats = &inputs.projected;
    let place = |gaussian| {
        let found = splats.binary_search_by_key(&gaussian, |splat| splat.gaussian);
        found.unwrap_or(0) as u32
    };
    gaussians.map(place).collect()
}

/// Returns splats by place, in order of index.
fn traced(ranks: &[u32], splats2d: &[[f32; 12]], tiles: &[u32]) -> Vec<TracedSplat> {
    let all = (0..).zip(ranks).filter(|(_, rank)| **rank > 0);
    all.filter_map(|(gaussian, &rank)| {
        let place = rank as usize - 1;
        let &[x, y, a, b, c, opacity, red, green, blue, depth, rx, ry] = splats2d.get(place)?;
        Some(TracedSplat {
            gaussian,
            mean2d: [x, y],
            form: [a, b, c],
            log2_opacity: opacity,
            rgb: [red, green, blue],
            depth,
            radius: [rx, ry],
            tiles: *tiles.get(place)?,
        })
    })
    .collect()
}

/// Result of `ranges` for the tiles' lists.
struct Buckets {
    tile_start: Vec<u32>,
    bucket_start: Vec<u32>,
    bucket_tile: Vec<u32>,
}

impl Buckets {
    fn new(tiles: &[Vec<u32>], cap: u32) -> Self {
        let mut out = Self {
            tile_start: vec![0],
            bucket_start: vec![0],
            bucket_tile: Vec::new(),
        };
        let mut instances = 0;
        for (tile, list) in (0..).zip(tiles) {
            let count = list.len() as u32;
            let blended = if cap > 0 { count.min(cap) } else { count };
            let buckets = blended.div_ceil(BUCKET) as usize;
            out.bucket_tile.extend(std::iter::repeat_n(tile, buckets));
            instances += count;
            out.tile_start.push(instances);
            out.bucket_start.push(out.bucket_tile.len() as u32);
        }
        out
    }
}

/// The buffer `groups`.
struct Sizes<'a> {
    entries: &'a Entries,
    words: Vec<[u32; 4]>,
}

impl<'a> Sizes<'a> {
    fn new(entries: &'a Entries) -> Self {
        Self {
            entries,
            words: vec![[0; 4]; entries.count() as usize],
        }
    }

    /// Sets one workgroup per `each` items, none for no items.
    fn set(&mut self, entry: Entry, items: u32, each: u32) -> Result<()> {
        let count = items.div_ceil(each);
        if let Groups::Direct([x, y, z]) = Groups::flat(count) {
            self.words[self.entries.number(entry)? as usize] = if count > 0 {
                [x, y, z, 0]
            } else {
                [0, 0, 1, 0]
            };
        }
        Ok(())
    }
}
