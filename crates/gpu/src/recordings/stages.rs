//! Compiled kernels, and what of them a command records.

use super::FRONTS;
use crate::optics::Optics;
use crate::stages::update::Mode;
use crate::stages::{
    appearance::Appearance, blend::Blend, blend_backward::BlendBackward, densify::Densify,
    depth::Depth, emit::Emit, finite::Finite, loss::Loss, morton::Morton, order::Order,
    poses::Poses, project::Project, ranges::Ranges, relocate::Relocate, report::Report,
    score::Score, smoothing::Smoothing, sort::SortInstances, update,
};
use crate::{Buffers, Context};
use dapple_engine::{AppearanceSettings, Stage};
use dapple_runtime::{Recording, wgpu};
use dapple_scene::{Error, Result};

/// Compiled kernels of all stages.
#[derive(Debug)]
pub struct Stages {
    project: Project,
    /// For other optics; compiled when first asked for, as the one below.
    special_project: [Option<Project>; Optics::COUNT],
    pub(super) smoothing: Option<Smoothing>,
    pub(super) finite: Finite,
    order: Order,
    emit: Emit,
    sort: SortInstances,
    /// Bits that `sort` sorts by.
    tile_bits: u32,
    ranges: Ranges,
    pub(super) blend: Blend,
    /// Compiled when first asked for, and anew for another grid.
    appearance: Option<Appearance>,
    loss: Loss,
    pub(super) blend_backward: BlendBackward,
    update: update::Update,
    /// Both in other modes than the default; compiled when first asked for.
    special: [Option<(BlendBackward, update::Update)>; Mode::COUNT],
    /// By optics; compiled when first asked for.
    poses: [Option<Poses>; Mode::COUNT],
    pub(super) report: Report,
    pub(super) densify: Densify,
    /// Compiled when first asked for.
    pub(super) relocate: Option<Relocate>,
    pub(super) morton: Morton,
    /// By optics and by whether depths have a gradient too; compiled when first asked for, as the one
    /// below.
    pub(super) gradients: [Option<update::Gradients>; FRONTS],
    depth: Option<Depth>,
    /// Compiled when first asked for.
    score: Option<Score>,
}

/// Bits of a tile's number that are sorted by at least: views of up to 4096 tiles (a megapixel)
/// share their kernels.
const LEAST_TILE_BITS: u32 = 12;

/// Makes what may fail, all at once; the first in order that failed is what is returned.
macro_rules! in_parallel {
    ($($name:ident = $make:expr;)*) => {
        $(let mut $name = None;)*
        rayon::scope(|scope| { $(scope.spawn(|_| $name = Some($make));)* });
        $(let $name = $name.ok_or_else(|| Error::internal("a kernel was never compiled"))??;)*
    };
}

impl Stages {
    /// Compiles the kernels.
    ///
    /// # Errors
    /// The driver refuses one.
    pub fn new(context: &Context) -> Result<Self> {
        // Each on a thread: a driver that has not kept them from before takes seconds for all.
        in_parallel! {
            project = Project::new(context, Optics::default());
            finite = Finite::new(context);
            order = Order::new(context);
            emit = Emit::new(context);
            sort = SortInstances::new(context, LEAST_TILE_BITS);
            ranges = Ranges::new(context);
            blend = Blend::new(context, false);
            loss = Loss::new(context);
            blend_backward = BlendBackward::new(context, Mode::default());
            update = update::Update::new(context, Mode::default());
            report = Report::new(context);
            densify = Densify::new(context);
            morton = Morton::new(context);
        }
        Ok(Self {
            project,
            special_project: [const { None }; Optics::COUNT],
            smoothing: None,
            finite,
            order,
            emit,
            sort,
            tile_bits: LEAST_TILE_BITS,
            ranges,
            blend,
            appearance: None,
            loss,
            blend_backward,
            update,
            special: [const { None }; Mode::COUNT],
            poses: [const { None }; Mode::COUNT],
            report,
            densify,
            relocate: None,
            morton,
            gradients: [const { None }; FRONTS],
            depth: None,
            score: None,
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
    pub(super) fn record_loss(
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
    pub(super) fn record_lists(
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
    pub(super) fn record_back(
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
    pub(super) fn depth(&mut self, context: &Context) -> Result<&Depth> {
        Ok(match &mut self.depth {
            Some(depth) => depth,
            none => none.insert(Depth::new(context)?),
        })
    }

    /// What compares a render with its photo.
    pub(super) fn score(&mut self, context: &Context) -> Result<&Score> {
        Ok(match &mut self.score {
            Some(score) => score,
            none => none.insert(Score::new(context)?),
        })
    }

    /// Makes sure that views of so many tiles can be sorted.
    pub(super) fn fit(&mut self, context: &Context, tiles: u32) -> Result<()> {
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
