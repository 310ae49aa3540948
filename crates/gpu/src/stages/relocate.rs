//! `densify` by relocation. See `shaders/relocate.wgsl`; its twin on processors is `relocate` of
//! `dapple-cpu`, whose draws it shares.

use super::gather::{Gather, ONE, Planes, entry};
use crate::{Buffers, Context};
use bytemuck::{Pod, Zeroable};
use dapple_engine::{DensifyPlan, Relocation, relocation};
use dapple_runtime::{Groups, Kernel, Recording, wgpu};
use dapple_scene::Result;

/// Words of the sigmoid's table, in whole vectors of four.
const TABLE_WORDS: usize = relocation::TABLE_LEN.next_multiple_of(4);

/// Twin of WGSL's `Relocation`.
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
        }
    }
}

/// The stage.
#[derive(Debug, Clone)]
pub struct Relocate {
    open: Kernel,
    weigh: Kernel,
    tally: Kernel,
    list: Kernel,
    draw: Kernel,
    mark: Kernel,
    gather: Gather,
    renew: Kernel,
    plan: wgpu::Buffer,
}

impl Relocate {
    /// Compiles the kernels.
    ///
    /// # Errors
    /// See [`Kernel::new`].
    pub fn new(context: &Context) -> Result<Self> {
        let kernel = |entry| context.kernel("relocate", entry);
        let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        Ok(Self {
            open: context.kernel("densify", "open")?,
            weigh: kernel("weigh")?,
            tally: kernel("tally")?,
            list: kernel("list")?,
            draw: kernel("draw")?,
            mark: kernel("mark")?,
            gather: Gather::new(context)?,
            renew: kernel("renew")?,
            plan: context
                .gpu
                .buffer_with("relocation", size_of::<Plan>() as u64, usage)?,
        })
    }

    /// Sets what the recordings do that are submitted from now on.
    pub fn set_plan(&self, context: &Context, plan: &DensifyPlan, relocation: &Relocation) {
        let plan = Plan::new(plan, relocation);
        context.gpu.write(&self.plan, 0, &[plan]);
    }

    /// Appends the span `densify`: one round by the plan that was set last. Buffers, scratch and what
    /// halts it are those of [`Densify::record`].
    ///
    /// # Errors
    /// A buffer is missing, or no memory for scratch.
    ///
    /// [`Densify::record`]: super::densify::Densify::record
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
            ("relocation", &self.plan),
            ("groups_read", buffers.get("groups")?),
            ("state_read", buffers.get("state")?),
            ("drawn", buffers.get("instance_gaussian")?),
            ("source", source),
            // Until it takes planes.
            ("block_sums", buffers.get("slots")?),
            ("weight_sums", buffers.get("instance_tile")?),
            ("dead", buffers.get("sorted_slot")?),
        ];
        let run = |recording: &mut Recording, kernel: &Kernel, groups: Groups| {
            let bound = buffers.bind_with(&context.gpu, kernel, &over)?;
            recording.dispatch(bound, groups);
            Ok(())
        };
        let old = buffers.groups(entry::OLD)?;
        run(recording, &self.open, ONE)?;
        run(recording, &self.weigh, old.clone())?;
        run(recording, &self.tally, ONE)?;
        run(recording, &self.list, old.clone())?;
        run(recording, &self.draw, buffers.groups(entry::CHILDREN)?)?;
        run(recording, &self.mark, old)?;
        self.gather
            .record(context, buffers, recording, planes, source)?;
        run(recording, &self.renew, buffers.groups(entry::NEW)?)
    }
}
