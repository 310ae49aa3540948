//! `densify`: clone, split, prune, reset. See `shaders/densify.wgsl`; its twin on processors is
//! `densify` of `dapple-cpu`, whose decisions and order it shares.

use super::gather::{Gather, ONE, Planes, SORT_KEYS, SORT_VALUES, entry, record_sort};
use crate::{Buffers, Context};
use bytemuck::{Pod, Zeroable};
use dapple_engine::DensifyPlan;
use dapple_runtime::primitives::RadixSort;
use dapple_runtime::{Groups, Kernel, Recording, wgpu};
use dapple_scene::Result;

/// Children of a split Gaussian are smaller by this factor (the 3DGS paper).
const SPLIT_SHRINK: f64 = 1.6;

/// Twin of WGSL's `Plan`: limits as they are compared, logarithms of scales and logits of opacities.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
struct Plan {
    seed: [u32; 2],
    number: u32,
    flags: u32,
    grow_gradient: f32,
    split_log_scale: f32,
    max_gaussians: u32,
    prune_logit: f32,
    prune_log_scale: f32,
    prune_log_scale_parent: f32,
    reset_logit: f32,
    log_shrink: f32,
    room_share: u32,
    pad: [u32; 3],
}

const PLAN_GROW: u32 = 1;
const PLAN_PRUNE_OPACITY: u32 = 2;
const PLAN_PRUNE_SCALE: u32 = 4;
const PLAN_RESET: u32 = 8;

impl From<&DensifyPlan> for Plan {
    fn from(plan: &DensifyPlan) -> Self {
        let ln = |limit: f32| f64::from(limit).ln();
        let logit = |limit: f32| (f64::from(limit) / (1.0 - f64::from(limit))).ln() as f32;
        // Shaders take the least finite number for the logarithm of zero, here and there.
        let split_log_scale = match ln(plan.split_scale) {
            f64::NEG_INFINITY => f32::MIN,
            log => log as f32,
        };
        let flag = |bit: u32, is_set: bool| if is_set { bit } else { 0 };
        let prune_scale = ln(plan.prune_scale.unwrap_or(1.0));
        Self {
            seed: [plan.seed as u32, (plan.seed >> 32) as u32],
            number: plan.step,
            flags: flag(PLAN_GROW, plan.grow_gradient.is_some())
                | flag(PLAN_PRUNE_OPACITY, plan.prune_opacity.is_some())
                | flag(PLAN_PRUNE_SCALE, plan.prune_scale.is_some())
                | flag(PLAN_RESET, plan.reset_opacity.is_some()),
            grow_gradient: plan.grow_gradient.unwrap_or(0.0),
            split_log_scale,
            max_gaussians: plan.max_gaussians.try_into().unwrap_or(u32::MAX),
            prune_logit: logit(plan.prune_opacity.unwrap_or(0.5)),
            prune_log_scale: prune_scale as f32,
            prune_log_scale_parent: (prune_scale + SPLIT_SHRINK.ln()) as f32,
            reset_logit: logit(plan.reset_opacity.unwrap_or(0.5)),
            log_shrink: SPLIT_SHRINK.ln() as f32,
            room_share: plan.room_share_bits(),
            pad: [0; 3],
        }
    }
}

/// The stage.
#[derive(Debug, Clone)]
pub struct Densify {
    open: Kernel,
    want: Kernel,
    budget: Kernel,
    elect: Kernel,
    sort: RadixSort,
    choose: Kernel,
    fates: Kernel,
    settle: Kernel,
    place: Kernel,
    gather: Gather,
    split: Kernel,
    reset: Kernel,
    plan: wgpu::Buffer,
}

impl Densify {
    /// Compiles the kernels.
    ///
    /// # Errors
    /// See [`Kernel::new`].
    pub fn new(context: &Context) -> Result<Self> {
        let kernel = |entry| context.kernel("densify", entry);
        let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        Ok(Self {
            open: kernel("open")?,
            want: kernel("want")?,
            budget: kernel("budget")?,
            elect: kernel("elect")?,
            sort: context.radix_sort(32, false)?,
            choose: kernel("choose")?,
            fates: kernel("fates")?,
            settle: kernel("settle")?,
            place: kernel("place")?,
            gather: Gather::new(context)?,
            split: kernel("split")?,
            reset: kernel("reset")?,
            plan: context
                .gpu
                .buffer_with("plan", size_of::<Plan>() as u64, usage)?,
        })
    }

    /// Sets what the recordings do that are submitted from now on.
    pub fn set_plan(&self, context: &Context, plan: &DensifyPlan) {
        context.gpu.write(&self.plan, 0, &[Plan::from(plan)]);
    }

    /// Appends the span `densify`: one round by the plan that was set last. `planes` names every
    /// buffer of Gaussians' state with its planes; scratch is borrowed from a step's instances.
    ///
    /// If the new generation has more Gaussians than there is room for, or if there is not room for
    /// more instances than Gaussians, the engine is halted and nothing else has changed. Otherwise `state` holds the new number of Gaussians and what became
    /// of the old ones.
    ///
    /// # Errors
    /// A buffer is missing, or no memory for scratch.
    pub fn record(
        &self,
        context: &Context,
        buffers: &Buffers,
        recording: &mut Recording,
        planes: Planes<'_>,
    ) -> Result<()> {
        recording.span("densify");
        let source = buffers.get("sorted_gaussian")?;
        let over = [
            ("plan", &self.plan),
            ("groups_read", buffers.get("groups")?),
            ("state_read", buffers.get("state")?),
            ("growth", buffers.get("instance_gaussian")?),
            ("source", source),
            // Until it takes planes.
            ("block_sums", buffers.get("slots")?),
            (SORT_KEYS.0, buffers.get(SORT_KEYS.1)?),
            (SORT_VALUES.0, buffers.get(SORT_VALUES.1)?),
        ];
        let run = |recording: &mut Recording, kernel: &Kernel, groups: Groups| {
            let bound = buffers.bind_with(&context.gpu, kernel, &over)?;
            recording.dispatch(bound, groups);
            Ok(())
        };
        let old = buffers.groups(entry::OLD)?;
        let new = buffers.groups(entry::NEW)?;
        run(recording, &self.open, ONE)?;
        run(recording, &self.want, old.clone())?;
        run(recording, &self.budget, ONE)?;
        run(recording, &self.elect, old.clone())?;
        record_sort(&self.sort, context, buffers, recording)?;
        run(recording, &self.choose, old.clone())?;
        run(recording, &self.fates, old.clone())?;
        run(recording, &self.settle, ONE)?;
        run(recording, &self.place, old)?;
        self.gather
            .record(context, buffers, recording, planes, source)?;
        run(recording, &self.split, buffers.groups(entry::CHILDREN)?)?;
        run(recording, &self.reset, new)
    }
}
