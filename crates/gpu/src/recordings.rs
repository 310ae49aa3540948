//! The recordings of an engine: which stages run for which command.
//!
//! Kernels are compiled once per device ([`Stages`]). Recordings bind them to buffers and are made
//! anew when a buffer has grown ([`Recordings`]). Each view has its own recording of a step, which
//! differs in one binding: its photo.

use crate::layout::{WORKGROUP, plane};
use crate::stages::gather::Planes;
use crate::stages::update::Mode;
use crate::stages::{
    blend::Blend, blend_backward::BlendBackward, densify::Densify, depth::Depth, emit::Emit,
    loss::Loss, morton::Morton, order::Order, project::Project, ranges::Ranges, relocate::Relocate,
    report::Report, sort::SortInstances, update,
};
use crate::{Buffers, Context, frame, params};
use dapple_engine::{DensifyPlan, Gradients, Stage};
use dapple_runtime::{Recording, wgpu};
use dapple_scene::{Error, Result};

/// Compiled kernels of all stages.
#[derive(Debug)]
pub struct Stages {
    project: Project,
    order: Order,
    emit: Emit,
    sort: SortInstances,
    /// Bits that `sort` sorts by.
    tile_bits: u32,
    ranges: Ranges,
    blend: Blend,
    loss: Loss,
    blend_backward: BlendBackward,
    update: update::Update,
    /// Both in other modes than the default; compiled when first asked for.
    special: [Option<(BlendBackward, update::Update)>; Mode::COUNT],
    report: Report,
    densify: Densify,
    /// Compiled when first asked for.
    relocate: Option<Relocate>,
    morton: Morton,
    /// By whether depths have a gradient too.
    gradients: [Option<update::Gradients>; 2],
    /// Compiled when first asked for.
    depth: Option<Depth>,
}

/// Every so many steps the Gaussians are put into Morton order, so that neighbours in space are
/// neighbours in memory. Done with the round of density control of that step.
const MORTON_EVERY: u32 = 5000;

/// Bits of a tile's number that are sorted by at least: views of up to 4096 tiles (a megapixel)
/// share their kernels.
const LEAST_TILE_BITS: u32 = 12;

impl Stages {
    /// Compiles the kernels.
    ///
    /// # Errors
    /// The driver refuses one.
    pub fn new(context: &Context) -> Result<Self> {
        Ok(Self {
            project: Project::new(context)?,
            order: Order::new(context)?,
            emit: Emit::new(context)?,
            sort: SortInstances::new(context, LEAST_TILE_BITS)?,
            tile_bits: LEAST_TILE_BITS,
            ranges: Ranges::new(context)?,
            blend: Blend::new(context, false)?,
            loss: Loss::new(context)?,
            blend_backward: BlendBackward::new(context, Mode::default())?,
            update: update::Update::new(context, Mode::default())?,
            special: [const { None }; Mode::COUNT],
            report: Report::new(context)?,
            densify: Densify::new(context)?,
            relocate: None,
            morton: Morton::new(context)?,
            gradients: [const { None }; 2],
            depth: None,
        })
    }

    /// Appends one stage of a step; `loss` asks `buffers` for the view's photo.
    ///
    /// # Errors
    /// A buffer is missing, no memory for scratch, a stage that is not one of a step.
    pub fn record_stage(
        &self,
        stage: Stage,
        context: &Context,
        buffers: &Buffers,
        recording: &mut Recording,
    ) -> Result<()> {
        match stage {
            Stage::Project => self.project.record(context, buffers, recording),
            Stage::Order => self.order.record(context, buffers, recording),
            Stage::Emit => self.emit.record(context, buffers, recording),
            Stage::Sort => self.sort.record(context, buffers, recording),
            Stage::Ranges => self.ranges.record(context, buffers, recording),
            Stage::Blend => self.blend.record(context, buffers, recording),
            Stage::Loss => self.loss.record(context, buffers, recording),
            Stage::BlendBackward => self.blend_backward.record(context, buffers, recording),
            Stage::Update => self.update.record(context, buffers, recording),
            Stage::Densify => Err(Error::internal("densify is no stage of a step")),
        }
    }

    /// `blend_backward` to the report.
    fn record_back(
        &mut self,
        context: &Context,
        buffers: &Buffers,
        mode: Mode,
    ) -> Result<Recording> {
        let mut back = Recording::new();
        let special = &mut self.special[mode.index()];
        if special.is_none() && mode != Mode::default() {
            let blend_backward = match mode.without_extras() {
                other if other == Mode::default() => self.blend_backward.clone(),
                other => BlendBackward::new(context, other)?,
            };
            *special = Some((blend_backward, update::Update::new(context, mode)?));
        }
        let default = (&self.blend_backward, &self.update);
        let (blend_backward, update) = special.as_ref().map_or(default, |both| (&both.0, &both.1));
        blend_backward.record(context, buffers, &mut back)?;
        update.record(context, buffers, &mut back)?;
        self.report.record_step(context, buffers, &mut back)?;
        Ok(back)
    }

    /// What steps and renders with depths need.
    fn depth(&mut self, context: &Context) -> Result<&Depth> {
        Ok(match &mut self.depth {
            Some(depth) => depth,
            none => none.insert(Depth::new(context)?),
        })
    }

    /// Makes sure that views of so many tiles can be sorted.
    fn fit(&mut self, context: &Context, tiles: u32) -> Result<()> {
        let bits = tiles.max(1).ilog2() + 1;
        if bits > self.tile_bits {
            self.sort = SortInstances::new(context, bits)?;
            self.tile_bits = bits;
        }
        Ok(())
    }
}

/// The stages that make the tiles' lists.
const LISTS: [Stage; 5] = [
    Stage::Project,
    Stage::Order,
    Stage::Emit,
    Stage::Sort,
    Stage::Ranges,
];

/// Recordings over the present buffers.
#[derive(Debug)]
pub struct Recordings {
    /// `project` to `blend`, with what `blend_backward` needs.
    pub front: Recording,
    /// `project` to `blend` for the image alone.
    pub image: Recording,
    /// Both with depths; made when first asked for.
    depth_front: Option<Recording>,
    depth_image: Option<Recording>,
    /// `project` to `ranges`, for those.
    lists: Recording,
    /// `blend_backward` to the report, by mode.
    backs: [Option<Recording>; Mode::COUNT],
    /// A step, by view and mode; made when first asked for.
    steps: Vec<[Option<Recording>; Mode::COUNT]>,
    /// A round of density control with its report; and with the Morton order before that. Then the
    /// same for rounds of relocation.
    densify: [Option<Recording>; 4],
    /// By whether depths have a gradient too.
    gradients: [Option<Recording>; 2],
}

impl Recordings {
    /// Binds kernels to buffers.
    ///
    /// # Errors
    /// A buffer is missing, or no memory for scratch.
    pub fn new(
        context: &Context,
        stages: &mut Stages,
        buffers: &Buffers,
        tiles: u32,
        views: usize,
    ) -> Result<Self> {
        stages.fit(context, tiles)?;
        let mut front = Recording::new();
        for stage in LISTS {
            stages.record_stage(stage, context, buffers, &mut front)?;
        }
        let lists = front.clone();
        let mut image = front.clone();
        stages.blend.record_image(context, buffers, &mut image)?;
        stages.blend.record(context, buffers, &mut front)?;
        Ok(Self {
            front,
            image,
            depth_front: None,
            depth_image: None,
            lists,
            backs: [const { None }; Mode::COUNT],
            steps: vec![[const { None }; Mode::COUNT]; views],
            densify: [const { None }; 4],
            gradients: [const { None }; 2],
        })
    }

    /// `project` to `blend` with depths: for the image alone, or with what `blend_backward` needs.
    ///
    /// # Errors
    /// A buffer is missing; the driver refuses a kernel.
    pub fn with_depth(
        &mut self,
        context: &Context,
        stages: &mut Stages,
        buffers: &Buffers,
        image_only: bool,
    ) -> Result<&Recording> {
        let place = match image_only {
            true => &mut self.depth_image,
            false => &mut self.depth_front,
        };
        Ok(match place {
            Some(recording) => recording,
            none => {
                let blend = &stages.depth(context)?.blend;
                let mut recording = self.lists.clone();
                match image_only {
                    true => blend.record_image(context, buffers, &mut recording)?,
                    false => blend.record(context, buffers, &mut recording)?,
                }
                none.insert(recording)
            }
        })
    }

    /// The recording of a step on a view.
    ///
    /// # Errors
    /// A buffer is missing; the driver refuses a kernel.
    pub fn step(
        &mut self,
        context: &Context,
        stages: &mut Stages,
        buffers: &Buffers,
        (view, mode): (usize, Mode),
        photo: &wgpu::Buffer,
        depths: Option<(&wgpu::Buffer, usize)>,
    ) -> Result<&Recording> {
        let which = mode.index();
        if self.steps[view][which].is_none() {
            let mut with_photo = buffers.clone();
            with_photo.set("photo", photo.clone());
            let mut whole = match mode.depth {
                true => self.with_depth(context, stages, buffers, false)?.clone(),
                false => self.front.clone(),
            };
            stages.loss.record(context, &with_photo, &mut whole)?;
            if let (true, Some((samples, count))) = (mode.depth, depths) {
                with_photo.set("depth_samples", samples.clone());
                let depth = stages.depth(context)?;
                depth.record_loss(context, &with_photo, &mut whole, count)?;
            }
            let back = match &self.backs[which] {
                Some(back) => back.clone(),
                None => {
                    let back = stages.record_back(context, buffers, mode)?;
                    self.backs[which].insert(back).clone()
                }
            };
            whole.append(back);
            self.steps[view][which] = Some(whole);
        }
        Ok(self.steps[view][which].get_or_insert_default())
    }

    /// Forgets the recording of a step on a view: it keeps the photo's buffer alive.
    pub fn forget_step(&mut self, view: usize) {
        self.steps[view] = [const { None }; Mode::COUNT];
    }

    /// The recording of a step on a view, if it was made.
    pub fn recorded(&self, view: usize) -> Option<&Recording> {
        self.steps.get(view)?.iter().flatten().next()
    }

    /// Sets the plan of a round of density control and gives its recording, with the Morton order
    /// after it now and then.
    ///
    /// # Errors
    /// A buffer is missing, or no memory for scratch.
    pub fn densify(
        &mut self,
        context: &Context,
        stages: &mut Stages,
        buffers: &Buffers,
        planes: Planes<'_>,
        plan: &DensifyPlan,
    ) -> Result<&Recording> {
        let reorder = plan.step.is_multiple_of(MORTON_EVERY);
        let relocate = match &plan.relocate {
            None => None,
            Some(relocation) => {
                let stage = match &mut stages.relocate {
                    Some(stage) => stage,
                    none => none.insert(Relocate::new(context)?),
                };
                stage.set_plan(context, plan, relocation);
                Some(&*stage)
            }
        };
        let place = &mut self.densify[2 * usize::from(relocate.is_some()) + usize::from(reorder)];
        let recording = match place {
            Some(recording) => recording,
            None => {
                let mut recording = Recording::new();
                match relocate {
                    Some(stage) => stage.record(context, buffers, &mut recording, planes)?,
                    None => {
                        let stage = &stages.densify;
                        stage.record(context, buffers, &mut recording, planes)?;
                    }
                }
                if reorder {
                    stages
                        .morton
                        .record(context, buffers, &mut recording, planes)?;
                }
                stages
                    .report
                    .record_densify(context, buffers, &mut recording)?;
                place.insert(recording)
            }
        };
        if relocate.is_none() {
            stages.densify.set_plan(context, plan);
        }
        Ok(recording)
    }

    /// Runs `blend_backward` and the chain rule over what `front` left and the image gradient that
    /// was written, waits, and reads the gradients of the first `n` Gaussians.
    ///
    /// # Errors
    /// No memory, a lost device.
    pub fn gradients(
        &mut self,
        context: &Context,
        stages: &mut Stages,
        buffers: &mut Buffers,
        immediates: &[u8],
        n: usize,
        shape: Shape,
        depth: bool,
    ) -> Result<Gradients<f32>> {
        let gpu = &context.gpu;
        let Shape {
            capacity,
            sh_degree,
        } = shape;
        let sh_planes = frame::sh_planes(sh_degree) as usize;
        let workgroups = capacity.div_ceil(WORKGROUP as usize);
        let outputs = [
            ("gradient_geometry", plane::GEOMETRY * capacity),
            ("gradient_sh", sh_planes * capacity),
            ("gradient_means2d", 2 * capacity),
            ("gradient_pose", 6 * workgroups),
        ];
        let which = usize::from(depth);
        let mode = Mode::of_gradients(depth);
        if self.gradients[which].is_none() {
            if stages.gradients[which].is_none() {
                stages.gradients[which] = Some(update::Gradients::new(context, mode)?);
            }
            for (name, floats) in outputs {
                buffers.set(name, gpu.buffer(name, 4 * floats as u64)?);
            }
            // The other's were bound to the buffers before.
            self.gradients = [const { None }; 2];
            let mut recording = Recording::new();
            match depth {
                true => {
                    BlendBackward::new(context, mode)?.record(context, buffers, &mut recording)?
                }
                false => stages
                    .blend_backward
                    .record(context, buffers, &mut recording)?,
            }
            if let Some(kernel) = &stages.gradients[which] {
                kernel.record(context, buffers, &mut recording)?;
            }
            self.gradients[which] = Some(recording);
        }
        if let Some(recording) = &self.gradients[which] {
            recording.submit(gpu, immediates);
        }
        let mut read = outputs.map(|(name, floats)| gpu.read::<f32>(buffers.get(name)?, floats));
        let mut take = |i: usize| std::mem::replace(&mut read[i], Ok(Vec::new()));
        let (geometry, sh, means2d, pose) = (take(0)?, take(1)?, take(2)?, take(3)?);
        let planes = params::splats_of(&geometry, &sh, n, capacity, sh_degree);
        let mut total = [0.0f64; 6];
        for part in pose.chunks_exact(6).take(n.div_ceil(WORKGROUP as usize)) {
            for (sum, &value) in total.iter_mut().zip(part) {
                *sum += f64::from(value);
            }
        }
        Ok(Gradients {
            means: planes.means,
            scales: planes.scales,
            quats: planes.quats,
            opacities: planes.opacities,
            sh0: planes.sh0,
            sh_rest: planes.sh_rest,
            means2d: (0..n)
                .map(|i| [means2d[i], means2d[capacity + i]])
                .collect(),
            pose: total,
        })
    }
}

/// How Gaussians lie in the planes.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Stride of a plane.
    pub capacity: usize,
    /// Degree that SH rest is stored for.
    pub sh_degree: u8,
}
