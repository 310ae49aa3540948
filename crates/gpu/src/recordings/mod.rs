//! The recordings of an engine: which stages run for which command.
//!
//! Kernels are compiled once per device ([`Stages`]). Recordings bind them to buffers and are made
//! anew when a buffer has grown ([`Recordings`]). Each slot of the photos has its own recording of a
//! step, bound to what lies there; see [`crate::photos`]. Which view it is comes with the step.

mod gradients;
mod stages;

pub use gradients::Shape;
pub use stages::Stages;

use crate::optics::Optics;
use crate::stages::gather::Planes;
use crate::stages::relocate::Relocate;
use crate::stages::smoothing::Smoothing;
use crate::stages::update::Mode;
use crate::{Buffers, Context};
use dapple_engine::DensifyPlan;
use dapple_runtime::{Recording, wgpu};
use dapple_scene::Result;

/// Every so many steps the Gaussians are put into Morton order, so that neighbours in space are
/// neighbours in memory. Done with the round of density control of that step.
const MORTON_EVERY: u32 = 5000;

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
    /// Looks for parameters that are not finite, after a report.
    finite: Recording,
    /// `blend_backward` to the report, by mode.
    backs: [Option<Recording>; Mode::COUNT],
    /// A step, by slot of its photo and mode; made when first asked for.
    steps: Vec<[Option<Recording>; Mode::COUNT]>,
    /// A round of density control with its report; and with the Morton order before that. Then the
    /// same for rounds of relocation.
    densify: [Option<Recording>; 4],
    /// As the fronts.
    gradients: [Option<Recording>; FRONTS],
    /// What compares a render with its photo, without pictures and with them.
    scores: [Option<Recording>; 2],
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
        let mut finite = Recording::new();
        stages.finite.record(context, buffers, &mut finite)?;
        let mut fronts = [const { None }; FRONTS];
        fronts[front_index(optics, false)] = Some(front);
        Ok(Self {
            fronts,
            images: [const { None }; FRONTS],
            smoothing: None,
            finite,
            backs: [const { None }; Mode::COUNT],
            steps: vec![[const { None }; Mode::COUNT]; slots],
            densify: [const { None }; 4],
            gradients: [const { None }; FRONTS],
            scores: [const { None }; 2],
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

    /// What looks for parameters that are not finite, and adds what it finds to the report of the step
    /// before it.
    pub fn finite(&self) -> &Recording {
        &self.finite
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

    /// What compares the present render with its photo.
    ///
    /// # Errors
    /// A buffer is missing; the driver refuses a kernel.
    pub fn score(
        &mut self,
        context: &Context,
        stages: &mut Stages,
        buffers: &Buffers,
        pictures: bool,
    ) -> Result<&Recording> {
        let place = &mut self.scores[usize::from(pictures)];
        if place.is_none() {
            let mut recording = Recording::new();
            let score = stages.score(context)?;
            score.record(context, buffers, &mut recording, pictures)?;
            *place = Some(recording);
        }
        Ok(place.get_or_insert_default())
    }

    /// Forgets them: their buffers have changed.
    pub fn forget_scores(&mut self) {
        self.scores = [const { None }; 2];
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
}
