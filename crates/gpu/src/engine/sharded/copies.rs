//! Parts of rounds of relocation. See `shaders/copies.wgsl` and `shaders/relocate.wgsl`.

use super::kernels::{Run, Work};
use super::mail::GpuShipment;
use super::word;
use crate::engine::GpuEngine;
use crate::layout;
use crate::passes::{Bits, Code, Kind};
use crate::stages::densify;
use crate::stages::densify::relocate::{CLEAR, PUT, SHARE_PART, TAKE, WEIGH_PART, WEIGHTS};
use dapple_engine::sharded::relocation_of;
use dapple_engine::{DensifyPlan, Part, Sharded, Shipment};
use dapple_runtime::{ByteSlice, Values};
use dapple_scene::{Error, Result};
use std::mem::offset_of;

/// Bytes of a word.
const WORD: u64 = size_of::<u32>() as u64;

/// Tensor of the state, and its planes.
type Planes = (&'static str, u32);

impl GpuEngine {
    /// Implements [`Sharded::weigh`].
    pub(super) fn weights(&mut self, plan: &DensifyPlan) -> Result<Vec<u32>> {
        let bits = self.prepare_round(plan)?;
        let count = self.state()?.gaussians;
        if count == 0 {
            return Ok(Vec::new());
        }
        let weights = self.buffers.get(WEIGHTS)?;
        let bound = [
            ("state_read", self.buffers.get("state")?.into()),
            ("weight_sums", weights.into()),
        ];
        let mut work = Work::begin(&self.context.gpu);
        let run = Run::new(&WEIGH_PART, [0; 4], count, &bound);
        self.encode_round(&mut work, bits, &run)?;
        let gpu = &self.context.gpu;
        let mut weights = gpu.begin_read(&mut work.encoder, weights, 0, count as usize)?;
        weights.submitted(self.submit(work));
        weights.wait()
    }

    /// Implements [`Sharded::grow_part`].
    pub(super) fn enlarge(&mut self, part: Part) -> Result<()> {
        let count = word(part.len())?;
        if count > self.capacity.gaussians {
            let before = self.state()?.gaussians;
            self.grow_for(layout::HALT_GAUSSIANS, count, before)?;
        }
        let state = self.buffers.get("state")?;
        let at = offset_of!(layout::State, gaussians) as u64;
        self.context.gpu.write(state, at, &[count]);
        self.set_part(part)
    }

    /// Implements [`Sharded::take_copies`].
    pub(super) fn copies_of(&mut self, from: &[Vec<u32>]) -> Result<Vec<GpuShipment>> {
        let planes = self.planes(Kind::State);
        let each = words(&planes) * WORD;
        let sizes = from.iter().map(|list| list.len() as u64 * each);
        let sizes: Vec<u64> = sizes.collect();
        let shipments = self.sharded.mail.outgoing(&self.context.gpu, &sizes)?;
        let mut work = Work::begin(&self.context.gpu);
        for (list, shipment) in from.iter().zip(&shipments) {
            if !list.is_empty() {
                let copies = ("copied_to", shipment.slice()?);
                self.encode_planes(&mut work, (&TAKE, "copied_from"), &planes, (list, copies))?;
            }
        }
        let submission = self.submit(work);
        // Other engines may copy now.
        self.context.gpu.wait_for(submission)?;
        Ok(shipments)
    }

    /// Implements [`Sharded::put_copies`].
    pub(super) fn take_places(&mut self, to: &[Vec<u32>], copies: &[GpuShipment]) -> Result<()> {
        let filled = to.iter().zip(copies);
        let filled: Vec<_> = filled.filter(|(list, _)| !list.is_empty()).collect();
        let bytes = |list: &[u32], planes: &[Planes]| list.len() as u64 * words(planes) * WORD;
        let mut planes = self.planes(Kind::State);
        if filled
            .iter()
            .any(|(list, copies)| copies.len() as u64 > bytes(list, &planes))
        {
            // A part without Gaussians has no filters yet.
            self.fit(Bits::ANTIALIAS)?;
            planes = self.planes(Kind::State);
        }
        let gpu = self.context.gpu.clone();
        let mut work = Work::begin(&gpu);
        for (list, copies) in filled {
            if copies.len() as u64 != bytes(list, &planes) {
                return Err(Error::internal(
                    "copies came for another number of Gaussians",
                ));
            }
            let received = self.sharded.mail.receive(&gpu, copies)?;
            let copies = ("copied_from", received.arrive()?);
            self.encode_planes(&mut work, (&PUT, "copied_to"), &planes, (list, copies))?;
        }
        self.submit(work);
        gpu.check()
    }

    /// Implements [`Sharded::share`].
    pub(super) fn share_places(&mut self, plan: &DensifyPlan, shared: &[[u32; 2]]) -> Result<()> {
        if shared.is_empty() {
            return Ok(());
        }
        let bits = self.prepare_round(plan)?;
        let gpu = self.context.gpu.clone();
        let mut work = Work::begin(&gpu);
        let listed = gpu.upload("listed", shared)?;
        let count = word(shared.len())?;
        let bound = [
            ("state_read", self.buffers.get("state")?.into()),
            ("listed", (&listed).into()),
        ];
        let run = Run::new(&SHARE_PART, [count, 0, 0, 0], count, &bound);
        self.encode_round(&mut work, bits, &run)?;
        for (name, planes) in self.planes(Kind::Moments) {
            let bound = [
                ("listed", (&listed).into()),
                ("copied_to", self.buffers.get(name)?.into()),
            ];
            let run = Run::new(&CLEAR, [count, planes, 0, 2], count, &bound);
            self.encode_round(&mut work, Bits::NONE, &run)?;
        }
        self.submit(work);
        gpu.check()
    }

    /// Prepares the kernels of a round.
    fn prepare_round(&mut self, plan: &DensifyPlan) -> Result<Bits> {
        relocation_of(plan)?;
        self.settle()?;
        self.ready()?;
        self.kept.clear();
        let bits = densify::bits(plan);
        self.fit(bits)?;
        densify::set_plan(&self.context, &self.buffers, plan)?;
        Ok(bits)
    }

    /// Encodes a kernel of a round. It reads no numbers of a step.
    fn encode_round(&self, work: &mut Work, bits: Bits, run: &Run<'_>) -> Result<()> {
        let step = layout::Step::default();
        let values = Values::new(bytemuck::bytes_of(&step), &[])?;
        self.encode(work, values, bits, run)
    }

    /// Returns the tensors of the state of one kind.
    fn planes(&self, kind: Kind) -> Vec<Planes> {
        let sizes = self.sizes();
        let tensors = self.buffers.state(self.context.declared, &sizes);
        let own = tensors
            .into_iter()
            .filter(|(tensor, _)| tensor.kind == kind);
        let own = own.map(|(tensor, planes)| (tensor.name, planes));
        own.filter(|(_, planes)| *planes > 0).collect()
    }

    /// Encodes a kernel over the planes of tensors, for the Gaussians of a list. `tensor` is the binding of a tensor.
    fn encode_planes(
        &self,
        work: &mut Work,
        (code, tensor): (&'static Code, &'static str),
        planes: &[Planes],
        (list, copies): (&[u32], (&'static str, ByteSlice)),
    ) -> Result<()> {
        let listed = self.context.gpu.upload("listed", list)?;
        let count = word(list.len())?;
        let mut first = 0;
        for &(name, planes) in planes {
            let bound = [
                ("listed", (&listed).into()),
                (tensor, self.buffers.get(name)?.into()),
                copies.clone(),
            ];
            let run = Run::new(code, [count, planes, first, 1], count, &bound);
            self.encode_round(work, Bits::NONE, &run)?;
            first += planes;
        }
        Ok(())
    }
}

/// Returns the words of a Gaussian in tensors.
fn words(planes: &[Planes]) -> u64 {
    planes.iter().map(|(_, planes)| u64::from(*planes)).sum()
}
