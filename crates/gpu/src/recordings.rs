//! The recordings of an engine: which stages run for which command.
//!
//! Kernels are compiled once per device ([`Stages`]). Recordings bind them to buffers and are made
//! anew when a buffer has grown ([`Recordings`]). Each slot of the photos has its own recording of a
//! step, bound to what lies there; see [`crate::photos`]. Which view it is comes with the step.

use crate::layout::{WORKGROUP, plane};
use crate::optics::Optics;
use crate::stages::gather::Planes;
use crate::stages::update::Mode;
use crate::stages::{
    appearance::Appearance, blend::Blend, blend_backward::BlendBackward, densify::Densify,
    depth::Depth, emit::Emit, loss::Loss, morton::Morton, order::Order, poses::Poses,
    project::Project, ranges::Ranges, relocate::Relocate, report::Report, smoothing::Smoothing,
    sort::SortInstances, update,
};
use crate::{Buffers, Context, frame, params};
use dapple_engine::{AppearanceSettings, DensifyPlan, Gradients, Stage};
use dapple_runtime::{Recording, wgpu};
use dapple_scene::{Error, Result};

/// Compiled kernels of all stages.
#[derive(Debug)]
pub struct Stages {
    project: Project,
    /// For other optics; compiled when first asked for, as the one below.
    special_project: [Option<Project>; Optics::COUNT],
    smoothing: Option<Smoothing>,
    order: Order,
    emit: Emit,
    sort: SortInstances,
    /// Bits that `sort` sorts by.
    tile_bits: u32,
    ranges: Ranges,
    blend: Blend,
    /// Compiled when first asked for, and anew for another grid.
    appearance: Option<Appearance>,
    loss: Loss,
    blend_backward: BlendBackward,
    update: update::Update,
    /// Both in other modes than the default; compiled when first asked for.
    special: [Option<(BlendBackward, update::Update)>; Mode::COUNT],
    /// By optics; compiled when first asked for.
    poses: [Option<Poses>; Mode::COUNT],
    report: Report,
    densify: Densify,
    /// Compiled when first asked for.
    relocate: Option<Relocate>,
    morton: Morton,
    /// By optics and by whether depths have a gradient too; compiled when first asked for, as the one
    /// below.
    gradients: [Option<update::Gradients>; FRONTS],
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
            project: Project::new(context, Optics::default())?,
            special_project: [const { None }; Optics::COUNT],
            smoothing: None,
            order: Order::new(context)?,
            emit: Emit::new(context)?,
            sort: SortInstances::new(context, LEAST_TILE_BITS)?,
            tile_bits: LEAST_TILE_BITS,
            ranges: Ranges::new(context)?,
            blend: Blend::new(context, false)?,
            appearance: None,
            loss: Loss::new(context)?,
            blend_backward: BlendBackward::new(context, Mode::default())?,
            update: update::Update::new(context, Mode::default())?,
            special: [const { None }; Mode::COUNT],
            poses: [const { None }; Mode::COUNT],
            report: Report::new(context)?,
            densify: Densify::new(context)?,
            relocate: None,
            morton: Morton::new(context)?,
            gradients: [const { None }; FRONTS],
            depth: None,
        })
    }

    /// Appends one stage of a step on a view of a pinhole; `loss` asks `buffers` for the view's photo.
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
            Stage::Appearance | Stage::Densify => Err(Error::internal(format!(
                "{stage} is no stage of every step"
            ))),
        }
    }

    /// Compiles the kernels of the appearance, unless they are there; true if they were not.
    ///
    /// # Errors
    /// The driver refuses one.
    pub fn fit_appearance(
        &mut self,
        context: &Context,
        settings: &AppearanceSettings,
    ) -> Result<bool> {
        let fits = |kernels: &Appearance| kernels.fits(settings);
        if self.appearance.as_ref().is_some_and(fits) {
            return Ok(false);
        }
        self.appearance = Some(Appearance::new(context, settings)?);
        Ok(true)
    }

    /// `loss`, with the photo's appearance around it if `mode` has it.
    fn record_loss(
        &self,
        context: &Context,
        buffers: &Buffers,
        (mode, photo): (Mode, &wgpu::Buffer),
        recording: &mut Recording,
    ) -> Result<()> {
        let mut with_photo = buffers.clone();
        with_photo.set("photo", photo.clone());
        let appearance = self.appearance.as_ref().filter(|_| mode.appearance);
        if let Some(appearance) = appearance {
            appearance.record(context, buffers, recording)?;
            // What is compared is what came out of the grid.
            with_photo.set("image", buffers.get("corrected")?.clone());
        }
        self.loss.record(context, &with_photo, recording)?;
        if let Some(appearance) = appearance {
            appearance.record_back(context, buffers, recording)?;
        }
        Ok(())
    }

    /// `project` to `ranges`.
    fn record_lists(
        &mut self,
        context: &Context,
        buffers: &Buffers,
        optics: Optics,
    ) -> Result<Recording> {
        let mut recording = Recording::new();
        for stage in LISTS {
            if stage == Stage::Project && optics != Optics::default() {
                let project = match &mut self.special_project[optics.index()] {
                    Some(project) => project,
                    none => none.insert(Project::new(context, optics)?),
                };
                project.record(context, buffers, &mut recording)?;
            } else {
                self.record_stage(stage, context, buffers, &mut recording)?;
            }
        }
        Ok(recording)
    }

    /// `blend_backward` to the report.
    fn record_back(
        &mut self,
        context: &Context,
        buffers: &Buffers,
        mode: Mode,
    ) -> Result<Recording> {
        let mut back = Recording::new();
        let refines = mode.poses;
        let mode = mode.without_poses();
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
        update.record_sums(context, buffers, &mut back)?;
        let poses = match &mut self.poses[mode.index()] {
            _ if !refines => None,
            Some(poses) => Some(&*poses),
            none => Some(&*none.insert(Poses::new(context, mode)?)),
        };
        if let Some(poses) = poses {
            poses.record_sums(context, buffers, &mut back)?;
        }
        update.record_step(context, buffers, &mut back)?;
        if let Some(poses) = poses {
            poses.record_step(context, buffers, &mut back)?;
        }
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

/// How many kinds of renders there are: by optics, with depths and without.
const FRONTS: usize = 2 * Optics::COUNT;

fn front_index(optics: Optics, depth: bool) -> usize {
    optics.index() + Optics::COUNT * usize::from(depth)
}

/// What a render leaves beside the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaves {
    /// What `blend_backward` needs.
    Checkpoints,
    /// Nothing.
    ImageAlone,
}

/// The stages of a render, `project` to `blend`.
fn record_front(
    context: &Context,
    stages: &mut Stages,
    buffers: &Buffers,
    (optics, depth): (Optics, bool),
    leaves: Leaves,
) -> Result<Recording> {
    let mut recording = stages.record_lists(context, buffers, optics)?;
    let blend = match depth {
        true => &stages.depth(context)?.blend,
        false => &stages.blend,
    };
    match leaves {
        Leaves::Checkpoints => blend.record(context, buffers, &mut recording)?,
        Leaves::ImageAlone => blend.record_image(context, buffers, &mut recording)?,
    }
    Ok(recording)
}

/// Recordings over the present buffers.
#[derive(Debug)]
pub struct Recordings {
    /// By optics and by whether there are depths; made when first asked for.
    fronts: [Option<Recording>; FRONTS],
    /// The same for the image alone.
    images: [Option<Recording>; FRONTS],
    /// Sets 3D filters; made when first asked for.
    smoothing: Option<Recording>,
    /// `blend_backward` to the report, by mode.
    backs: [Option<Recording>; Mode::COUNT],
    /// A step, by slot of its photo and mode; made when first asked for.
    steps: Vec<[Option<Recording>; Mode::COUNT]>,
    /// A round of density control with its report; and with the Morton order before that. Then the
    /// same for rounds of relocation.
    densify: [Option<Recording>; 4],
    /// As the fronts.
    gradients: [Option<Recording>; FRONTS],
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
        slots: usize,
    ) -> Result<Self> {
        stages.fit(context, tiles)?;
        let optics = Optics::default();
        let front = (optics, false);
        let front = record_front(context, stages, buffers, front, Leaves::Checkpoints)?;
        let mut fronts = [const { None }; FRONTS];
        fronts[front_index(optics, false)] = Some(front);
        Ok(Self {
            fronts,
            images: [const { None }; FRONTS],
            smoothing: None,
            backs: [const { None }; Mode::COUNT],
            steps: vec![[const { None }; Mode::COUNT]; slots],
            densify: [const { None }; 4],
            gradients: [const { None }; FRONTS],
        })
    }

    /// The stages of a render, with depths or without.
    ///
    /// # Errors
    /// A buffer is missing; the driver refuses a kernel.
    pub fn front(
        &mut self,
        context: &Context,
        stages: &mut Stages,
        buffers: &Buffers,
        (optics, depth): (Optics, bool),
        leaves: Leaves,
    ) -> Result<&Recording> {
        let all = match leaves {
            Leaves::Checkpoints => &mut self.fronts,
            Leaves::ImageAlone => &mut self.images,
        };
        let front = (optics, depth);
        Ok(match &mut all[front_index(optics, depth)] {
            Some(recording) => recording,
            none => none.insert(record_front(context, stages, buffers, front, leaves)?),
        })
    }

    /// What sets the 3D filters of up to `capacity` Gaussians.
    ///
    /// # Errors
    /// A buffer is missing; the driver refuses the kernel.
    pub fn smoothing(
        &mut self,
        context: &Context,
        stages: &mut Stages,
        buffers: &Buffers,
        capacity: u32,
    ) -> Result<&Recording> {
        if self.smoothing.is_none() {
            let stage = match &mut stages.smoothing {
                Some(stage) => stage,
                none => none.insert(Smoothing::new(context)?),
            };
            let mut recording = Recording::new();
            stage.record(context, buffers, &mut recording, capacity)?;
            self.smoothing = Some(recording);
        }
        Ok(self.smoothing.get_or_insert_default())
    }

    /// The recording of a step on a view whose photo, and samples of depth, are in a slot.
    ///
    /// # Errors
    /// A buffer is missing; the driver refuses a kernel.
    pub fn step(
        &mut self,
        context: &Context,
        stages: &mut Stages,
        buffers: &Buffers,
        (slot, mode): (usize, Mode),
        photo: &wgpu::Buffer,
        depths: Option<&wgpu::Buffer>,
    ) -> Result<&Recording> {
        let which = mode.index();
        if self.steps[slot][which].is_none() {
            let front = (mode.optics, mode.depth);
            let front = self.front(context, stages, buffers, front, Leaves::Checkpoints)?;
            let mut whole = front.clone();
            stages.record_loss(context, buffers, (mode, photo), &mut whole)?;
            if let (true, Some(samples)) = (mode.depth, depths) {
                let mut with_samples = buffers.clone();
                with_samples.set("depth_samples", samples.clone());
                let depth = stages.depth(context)?;
                depth.record_loss(context, &with_samples, &mut whole)?;
            }
            let mode = mode.of_back();
            let back = &mut self.backs[mode.index()];
            let back = match back {
                Some(back) => back.clone(),
                None => back
                    .insert(stages.record_back(context, buffers, mode)?)
                    .clone(),
            };
            whole.append(back);
            self.steps[slot][which] = Some(whole);
        }
        Ok(self.steps[slot][which].get_or_insert_default())
    }

    /// Forgets the recordings of steps, which keep the buffers of samples alive.
    pub fn forget_steps(&mut self) {
        self.steps.fill([const { None }; Mode::COUNT]);
    }

    /// The recording of a step on a photo in this slot, if one was made.
    pub fn recorded(&self, slot: usize) -> Option<&Recording> {
        self.steps.get(slot)?.iter().flatten().next()
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
    /// was written, waits, and reads the gradients.
    ///
    /// # Errors
    /// No memory, a lost device.
    pub fn gradients(
        &mut self,
        context: &Context,
        stages: &mut Stages,
        buffers: &mut Buffers,
        immediates: &[u8],
        shape: Shape,
    ) -> Result<Gradients<f32>> {
        let gpu = &context.gpu;
        let Shape {
            gaussians: n,
            capacity,
            sh_degree,
            optics,
            depth,
        } = shape;
        let sh_planes = frame::sh_planes(sh_degree) as usize;
        let workgroups = capacity.div_ceil(WORKGROUP as usize);
        let outputs = [
            ("gradient_geometry", plane::GEOMETRY * capacity),
            ("gradient_sh", sh_planes * capacity),
            ("gradient_means2d", 2 * capacity),
            ("gradient_pose", 6 * workgroups),
        ];
        let which = front_index(optics, depth);
        let mode = Mode::of_gradients(depth, optics);
        if self.gradients[which].is_none() {
            if stages.gradients[which].is_none() {
                stages.gradients[which] = Some(update::Gradients::new(context, mode)?);
            }
            // All write the same buffers: those that others were recorded with must stay.
            let made = self.gradients.iter().any(Option::is_some);
            for (name, floats) in outputs.into_iter().filter(|_| !made) {
                buffers.set(name, gpu.buffer(name, 4 * floats as u64)?);
            }
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

/// How Gaussians lie in the planes, and what their gradients are of.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// How many there are.
    pub gaussians: usize,
    /// Stride of a plane.
    pub capacity: usize,
    /// Degree that SH rest is stored for.
    pub sh_degree: u8,
    /// How Gaussians come onto the image.
    pub optics: Optics,
    /// Whether depths have a gradient too.
    pub depth: bool,
}
