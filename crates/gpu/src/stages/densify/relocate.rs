//! `densify` by relocation. See `shaders/relocate.wgsl`. CPU version: `relocate` of `dapple-cpu`, with the same draws.

use super::{Focus, OPENS};
use crate::passes::{Axis, Bits, Code, Pass, Tensor, Use};
use crate::recorder::{Recorder, Size};
use crate::stages::gather::{self, entry};
use crate::stages::shaders;
use crate::{Buffers, Context};
use bytemuck::{Pod, Zeroable};
use dapple_engine::{DensifyPlan, Relocation, relocation};
use dapple_scene::Result;

/// Words of the sigmoid's table, in whole vectors of four.
const TABLE_WORDS: usize = relocation::TABLE_LEN.next_multiple_of(4);

/// Same layout as WGSL's `Relocation`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
struct Plan {
    seed: [u32; 2],
    number: u32,
    add_permille: u32,
    max_gaussians: u32,
    dead_logit: f32,
    node_weight: f32,
    pad: u32,
    node_heights: [f32; relocation::NODES],
    sigmoid: [[u32; 4]; TABLE_WORDS / 4],
    focus: Focus,
}

impl Plan {
    fn new(plan: &DensifyPlan, relocation: &Relocation) -> Self {
        let table = relocation::sigmoid_table();
        let word = |i: usize| table.get(i).copied().unwrap_or(0);
        Self {
            seed: [plan.seed as u32, (plan.seed >> 32) as u32],
            number: plan.step,
            add_permille: relocation.add_permille,
            max_gaussians: plan.max_gaussians.try_into().unwrap_or(u32::MAX),
            dead_logit: relocation.dead_logit(),
            node_weight: relocation::node_weight(),
            pad: 0,
            node_heights: relocation::node_heights(),
            sigmoid: std::array::from_fn(|row| std::array::from_fn(|k| word(4 * row + k))),
            focus: plan.focus.into(),
        }
    }
}

const WEIGH: Code = Code::new("relocate", "weigh");
const TALLY: Code = Code::new("relocate", "tally");
const LIST: Code = Code::new("relocate", "list");
const DRAW: Code = Code::new("relocate", "draw");
const MARK: Code = Code::new("relocate", "mark");
const RENEW: Code = Code::new("relocate", "renew");

// In engines that hold parts of a model, the engine runs kernels by lists of Gaussians.

/// Writes the weight of each Gaussian of a part.
pub const WEIGH_PART: Code = Code::new("relocate", "weigh_part");
/// Gives Gaussians the opacity and scales of copies.
pub const SHARE_PART: Code = Code::new("relocate", "share_part");
/// Copies planes of Gaussians into a shipment.
pub const TAKE: Code = Code::new("copies", "take");
/// Copies planes of a shipment to Gaussians.
pub const PUT: Code = Code::new("copies", "put");
/// Writes zeros into planes of Gaussians.
pub const CLEAR: Code = Code::new("copies", "clear");
/// Where [`WEIGH_PART`] writes: scratch, a word for each Gaussian.
pub const WEIGHTS: &str = "instance_tile";

/// Source of each Gaussian, by place.
const SOURCE: &str = "sorted_gaussian";

/// The stage: one round by the plan that was set last; see [`set_plan`]. Scratch and reasons for a halt are those of
/// [`super::PASS`].
pub static PASS: Pass = Pass {
    shaders: shaders!["relocate", "copies"],
    kernels: &[OPENS, WEIGH, TALLY, LIST, DRAW, MARK, RENEW],
    needs: Bits::RELOCATE,
    tensors: &[
        Tensor::new(Axis::One, "relocation", (size_of::<Plan>() / 4) as u32)
            .used(Use::Uniform)
            .when(Bits::RELOCATE),
    ],
    borrows: &[
        ("groups_read", "groups"),
        ("state_read", "state"),
        ("drawn", "instance_gaussian"),
        ("source", SOURCE),
        // Used until `slots` takes planes.
        ("block_sums", "slots"),
        ("weight_sums", WEIGHTS),
        ("dead", "sorted_slot"),
    ],
    ..Pass::new("densify", record)
};

/// Sets the plan of the command lists that are submitted from now on.
///
/// # Errors
/// The buffer does not exist: a bug of this crate.
pub fn set_plan(
    context: &Context,
    buffers: &Buffers,
    plan: &DensifyPlan,
    relocation: &Relocation,
) -> Result<()> {
    let plan = Plan::new(plan, relocation);
    context.gpu.write(buffers.get("relocation")?, 0, &[plan]);
    Ok(())
}

fn record(r: &mut Recorder<'_>) -> Result<()> {
    r.run(&OPENS, Size::ONE)?;
    r.run(&WEIGH, entry::OLD)?;
    r.run(&TALLY, Size::ONE)?;
    r.run(&LIST, entry::OLD)?;
    r.run(&DRAW, entry::CHILDREN)?;
    r.run(&MARK, entry::OLD)?;
    gather::record(r, SOURCE)?;
    r.run(&RENEW, entry::NEW)
}
