//! `densify`: clone, split, prune, reset. See `shaders/densify.wgsl`. CPU version: `densify` of `dapple-cpu`, with the
//! same decisions in the same order.

mod focus;
pub mod relocate;

use super::gather::{self, SORT_KEYS, SORT_VALUES, entry};
use super::shaders;
use crate::passes::{Axis, Bits, Code, Pass, Tensor, Use};
use crate::recorder::{Recorder, Size};
use crate::{Buffers, Context};
use bytemuck::{Pod, Zeroable};
use dapple_engine::DensifyPlan;
use dapple_scene::Result;
use focus::Focus;

/// Children of a split Gaussian are smaller by this factor (the 3DGS paper).
const SPLIT_SHRINK: f64 = 1.6;

/// Same layout as WGSL's `Plan`: limits in the form in which they are compared, logarithms of scales and logits of
/// opacities.
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
    focus: Focus,
}

const PLAN_GROW: u32 = 1;
const PLAN_PRUNE_OPACITY: u32 = 2;
const PLAN_PRUNE_SCALE: u32 = 4;
const PLAN_RESET: u32 = 8;

impl From<&DensifyPlan> for Plan {
    fn from(plan: &DensifyPlan) -> Self {
        let ln = |limit: f32| f64::from(limit).ln();
        let logit = |limit: f32| (f64::from(limit) / (1.0 - f64::from(limit))).ln() as f32;
        // Host and shaders replace the logarithm of zero by the least finite number.
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
            focus: plan.focus.into(),
        }
    }
}

const OPEN: Code = Code::new("densify", "open");
const WANT: Code = Code::new("densify", "want");
const BUDGET: Code = Code::new("densify", "budget");
const ELECT: Code = Code::new("densify", "elect");
const CHOOSE: Code = Code::new("densify", "choose");
const FATES: Code = Code::new("densify", "fates");
const SETTLE: Code = Code::new("densify", "settle");
const PLACE: Code = Code::new("densify", "place");
const SPLIT: Code = Code::new("densify", "split");
const RESET: Code = Code::new("densify", "reset");

/// First kernel of every kind of round.
pub(super) const OPENS: Code = OPEN;

/// The stage: one round by the plan that was set last; see [`set_plan`]. Scratch is borrowed from a step's instances.
///
/// If the new generation exceeds the capacity for Gaussians, or if the capacity for instances does not exceed that for
/// Gaussians, the engine is halted and nothing else has changed. Otherwise `state` holds the new number of Gaussians
/// and the counts of the round.
pub static PASS: Pass = Pass {
    shaders: shaders!["densify", "gather"],
    kernels: &[
        OPEN,
        WANT,
        BUDGET,
        ELECT,
        CHOOSE,
        FATES,
        SETTLE,
        PLACE,
        gather::GATHER,
        gather::PUT_BACK,
        SPLIT,
        RESET,
    ],
    unless: Bits::RELOCATE,
    tensors: &[Tensor::new(Axis::One, "plan", (size_of::<Plan>() / 4) as u32).used(Use::Uniform)],
    borrows: &[
        ("groups_read", "groups"),
        ("state_read", "state"),
        ("growth", "instance_gaussian"),
        ("source", SOURCE),
        // Used until `slots` takes planes.
        ("block_sums", "slots"),
        SORT_KEYS,
        SORT_VALUES,
    ],
    entries: &entry::ALL,
    sorts: &[(gather::KEY_BITS, false)],
    first: &[Bits::NONE],
    ..Pass::new("densify", record)
};

/// Sets the plan of the command lists that are submitted from now on.
///
/// # Errors
/// The buffer does not exist: a bug of this crate.
pub fn set_plan(context: &Context, buffers: &Buffers, plan: &DensifyPlan) -> Result<()> {
    if let Some(relocation) = &plan.relocate {
        return relocate::set_plan(context, buffers, plan, relocation);
    }
    context
        .gpu
        .write(buffers.get("plan")?, 0, &[Plan::from(plan)]);
    Ok(())
}

/// Returns the bits of a round.
pub fn bits(plan: &DensifyPlan) -> Bits {
    Bits::when(plan.relocate.is_some(), Bits::RELOCATE)
}

/// Source of each Gaussian, by place.
const SOURCE: &str = "sorted_gaussian";

fn record(r: &mut Recorder<'_>) -> Result<()> {
    r.run(&OPEN, Size::ONE)?;
    r.run(&WANT, entry::OLD)?;
    r.run(&BUDGET, Size::ONE)?;
    r.run(&ELECT, entry::OLD)?;
    gather::record_sort(r, gather::KEY_BITS, false)?;
    r.run(&CHOOSE, entry::OLD)?;
    r.run(&FATES, entry::OLD)?;
    r.run(&SETTLE, Size::ONE)?;
    r.run(&PLACE, entry::OLD)?;
    gather::record(r, SOURCE)?;
    r.run(&SPLIT, entry::CHILDREN)?;
    r.run(&RESET, entry::NEW)
}
