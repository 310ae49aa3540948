//! Kernels that bind shipments, which differ from view to view: they are not in the recorded plans.

use super::mail::{ALIGNMENT, GpuShipment, Received};
use super::progress::Reports;
use crate::engine::GpuEngine;
use crate::layout::{self, SHOWN_HEAD, SHOWN_WORDS, SLOT_FLOATS};
use crate::passes::{Bits, Code};
use crate::plans::Plan;
use crate::stages::batch;
use crate::stages::blend_backward::EXTRA;
use crate::stages::parts::{
    ADD_ROWS, EXTRA_SUMS, HEADS, INDICES, RECEIVE, RESTORE, SEND, SHOWN, SLOT_SUMS, SUMS,
};
use dapple_engine::{Shipment, ShownPart};
use dapple_runtime::{ByteSlice, CommandList, Gpu, Groups, Values, wgpu};
use dapple_scene::{Error, Result};
use std::mem::offset_of;

/// Bytes of a projected Gaussian.
const SHOWN_BYTES: u64 = SHOWN_WORDS as u64 * size_of::<u32>() as u64;

/// Bytes before the projected Gaussians of a shipment.
const HEAD_BYTES: u64 = SHOWN_HEAD as u64 * size_of::<u32>() as u64;

/// Commands that are submitted together.
pub struct Work {
    pub encoder: wgpu::CommandEncoder,
    /// Command lists, whose buffers the pool would give to others before the submission.
    lists: Vec<CommandList>,
    /// Steps that are encoded.
    steps: usize,
}

/// Steps that are submitted together: those of a wave on up to 32 ranks. See [`dapple_runtime::BLOCKS`].
const TOGETHER: usize = 32;

impl Work {
    pub fn begin(gpu: &Gpu) -> Self {
        Self {
            encoder: gpu.encoder(),
            lists: Vec::new(),
            steps: 0,
        }
    }

    /// Submits the steps so far if they are many.
    pub fn end_step(&mut self, gpu: &Gpu) {
        self.steps += 1;
        if self.steps == TOGETHER {
            let done = std::mem::replace(self, Self::begin(gpu));
            gpu.submit(done.encoder);
        }
    }

    /// Encodes a command list, and keeps it.
    fn add(&mut self, list: CommandList, values: Values<'_>) {
        list.encode_with(&mut self.encoder, values);
        self.lists.push(list);
    }
}

impl GpuEngine {
    /// Begins to bring the shipments of all parts to this GPU.
    pub(super) fn call(&mut self, parts: &[GpuShipment]) -> Result<Vec<Coming>> {
        let gpu = self.context.gpu.clone();
        let coming = parts.iter().map(|part| {
            Ok(Coming {
                rows: rows_in(part)? as u32,
                shown: self.sharded.mail.receive(&gpu, part)?,
            })
        });
        coming.collect()
    }

    /// Submits commands.
    pub(super) fn submit(&mut self, work: Work) -> wgpu::SubmissionIndex {
        let submission = self.context.gpu.submit(work.encoder);
        self.sharded.mail.submitted(&submission);
        submission
    }

    /// Submits commands, and begins to read their reports.
    pub(super) fn submit_and_report(&mut self, mut work: Work) -> Result<Reports> {
        let gpu = &self.context.gpu;
        let reports = self.buffers.get("reports")?;
        let mut reports = gpu.begin_read(&mut work.encoder, reports, 0, layout::RING as usize)?;
        reports.submitted(self.submit(work));
        Ok(Reports(reports))
    }

    /// After `project`: encodes the shipment of the shown Gaussians. Its number is not known here, because the device
    /// does not wait for the host between views: see [`Self::sent`].
    pub(super) fn send(
        &mut self,
        work: &mut Work,
        values: Values<'_>,
        bits: Bits,
    ) -> Result<GpuShipment> {
        let expected = self.sharded.expected(self.capacity.visible);
        let rows = HEAD_BYTES + u64::from(expected) * SHOWN_BYTES;
        let local = rows.next_multiple_of(ALIGNMENT);
        let indices = u64::from(expected) * size_of::<u32>() as u64;
        let gpu = &self.context.gpu;
        let mut sent = self.sharded.mail.outgoing(gpu, &[local + indices])?;
        let sent = sent.pop().unwrap_or_default();
        let shipments = [(SHOWN, sent.slice()?)];
        let indices_at = (local / size_of::<u32>() as u64) as u32;
        let place = [0, self.capacity.gaussians, 1, indices_at];
        let run = Run::over_rows(&SEND, place, &shipments);
        self.encode(work, values, bits, &run)?;
        Ok(sent.with_local(rows, local))
    }

    /// Returns the shipment of `visible` Gaussians; `None` if [`Self::send`] expected fewer.
    pub(super) fn sent(
        &mut self,
        sent: &GpuShipment,
        visible: u32,
    ) -> Option<ShownPart<GpuShipment>> {
        self.sharded.most_shown = self.sharded.most_shown.max(visible);
        let bytes = HEAD_BYTES + u64::from(visible) * SHOWN_BYTES;
        (bytes <= sent.len() as u64).then(|| ShownPart {
            // The shipment has them.
            indices: Vec::new(),
            shipment: sent.cut(bytes),
        })
    }

    /// Encodes what precedes a render of the Gaussians of all parts. Returns the shipments of the sums of their gradients,
    /// which [`Self::sum_slots`] fills.
    pub(super) fn receive_parts(
        &mut self,
        work: &mut Work,
        values: Values<'_>,
        bits: Bits,
        coming: Vec<Coming>,
    ) -> Result<Here> {
        let each = match bits.has(Bits::IMAGE_ONLY) {
            true => 0,
            false => sum_bytes(bits),
        };
        let sizes = coming.iter();
        let sizes = sizes.map(|part| u64::from(part.rows) * each);
        let sizes: Vec<u64> = sizes.collect();
        let sums = self.sharded.mail.outgoing(&self.context.gpu, &sizes)?;
        let shown = coming.iter().map(|part| part.rows).sum();
        let mut received = Vec::with_capacity(coming.len());
        let mut heads = self.go_on()?;
        let all_heads = ByteSlice::from(self.buffers.get(HEADS)?);
        let parts = coming.len() as u32;
        for ((number, part), sums) in (0..parts).zip(coming).zip(&sums) {
            let head = all_heads.part(u64::from(number) * HEAD_BYTES, HEAD_BYTES)?;
            let shown = part.shown.arrive()?;
            match part.rows {
                // No block of this part has a visible Gaussian.
                0 => heads.clear(head)?,
                _ => heads.copy(shown.part(0, HEAD_BYTES)?, head)?,
            }
            received.push(([number, part.rows, parts, sums.first_word()?], shown));
        }
        work.add(heads, values);
        let recording = self.recording(Plan::OpenParts, bits, 0)?;
        recording.encode_with(&mut work.encoder, values);
        for (place, shown) in received {
            let shipments = [(SHOWN, shown)];
            let run = Run::over_rows(&RECEIVE, place, &shipments);
            self.encode(work, values, bits, &run)?;
        }
        Ok(Here {
            shown,
            all_sums: sums.last().and_then(GpuShipment::with_those_before),
            sums,
        })
    }

    /// After the backward pass: encodes the sums of all parts, in the shipments that [`Self::receive_parts`] returned.
    pub(super) fn sum_slots(
        &mut self,
        work: &mut Work,
        values: Values<'_>,
        bits: Bits,
        received: &Here,
    ) -> Result<()> {
        let Some(all) = &received.all_sums else {
            return Ok(());
        };
        let shown = received.shown;
        let mut run = Run {
            code: &SLOT_SUMS,
            place: [0, shown, 1, 0],
            groups: shown.div_ceil(layout::SLOT_SUMS_GAUSSIANS),
            bound: &[(SUMS, all.slice()?)],
        };
        self.encode(work, values, bits, &run)?;
        if bits.meets(EXTRA) {
            run.code = &EXTRA_SUMS;
            run.groups = shown.div_ceil(layout::WORKGROUP);
            self.encode(work, values, bits, &run)?;
        }
        Ok(())
    }

    /// Encodes what adds the gradients of the shown Gaussians of this part, in a step of a batch after its first.
    pub(super) fn add_rows(
        &mut self,
        work: &mut Work,
        values: Values<'_>,
        bits: Bits,
        (rows, shown, sums): (u32, &GpuShipment, Received),
    ) -> Result<()> {
        work.add(self.go_on()?, values);
        if rows == 0 {
            return Ok(());
        }
        let indices = shown.local(u64::from(rows) * size_of::<u32>() as u64)?;
        let mut bound = vec![(INDICES, indices), (SUMS, sums.arrive()?)];
        for &(binding, tensor) in batch::SUMS.borrows {
            bound.push((binding, self.buffers.get(tensor)?.into()));
        }
        let run = Run::over_rows(&ADD_ROWS, [0, rows, 1, 0], &bound);
        self.encode(work, values, bits, &run)
    }

    /// Before `update`: encodes what puts the shown Gaussians and their sums where `update` reads them.
    pub(super) fn restore(
        &mut self,
        work: &mut Work,
        values: Values<'_>,
        bits: Bits,
        (rows, shown, sums): (u32, &GpuShipment, Received),
    ) -> Result<()> {
        work.add(self.go_on()?, values);
        let recording = self.recording(Plan::OpenPart, bits, 0)?;
        recording.encode_with(&mut work.encoder, values);
        let shipments = [(SHOWN, shown.slice()?), (SUMS, sums.arrive()?)];
        let run = Run::over_rows(&RESTORE, [0, rows, 1, 0], &shipments);
        self.encode(work, values, bits, &run)
    }

    /// Returns a command that ends a halt: a view before may have lacked memory, and will be repeated after what follows.
    pub(super) fn go_on(&self) -> Result<CommandList> {
        let state = ByteSlice::from(self.buffers.get("state")?);
        let at = offset_of!(layout::State, halted) as u64;
        let mut list = CommandList::new();
        list.clear(state.part(at, size_of::<u32>() as u64)?)?;
        Ok(list)
    }

    /// Encodes a kernel that binds shipments.
    pub(super) fn encode(
        &self,
        work: &mut Work,
        values: Values<'_>,
        bits: Bits,
        run: &Run<'_>,
    ) -> Result<()> {
        if run.groups == 0 {
            return Ok(());
        }
        let gpu = &self.context.gpu;
        let part = gpu.uniform("part", run.place)?;
        let mut commands = CommandList::new();
        commands.span("parts");
        for kernel in self.context.kernels(run.code, bits)? {
            let mut slices = run.bound.to_vec();
            slices.push(("part", (&part).into()));
            for binding in kernel.bindings() {
                if slices.iter().all(|(name, _)| *name != binding) {
                    slices.push((binding, self.buffers.get(binding)?.into()));
                }
            }
            commands.dispatch(kernel.bind_slices(gpu, &slices)?, Groups::flat(run.groups));
        }
        work.add(commands, values);
        Ok(())
    }
}

/// For kernels of `shaders/parts.wgsl`: number of a part, its rows, the number of parts, and the first word of its sums
/// among those of all parts or, for `send`, of the indices behind the rows. Others: see their shaders.
type Place = [u32; 4];

/// Kernel that binds shipments.
pub struct Run<'a> {
    code: &'a Code,
    /// Binding `part`.
    place: Place,
    /// Number of workgroups; 0 = the kernel does not run.
    groups: u32,
    /// Shipments by the names of their bindings, and tensors whose names differ from theirs.
    bound: &'a [(&'static str, ByteSlice)],
}

impl<'a> Run<'a> {
    /// Creates a run with one invocation for each of `rows` rows.
    pub fn new(
        code: &'a Code,
        place: Place,
        rows: u32,
        bound: &'a [(&'static str, ByteSlice)],
    ) -> Self {
        Self {
            code,
            place,
            groups: rows.div_ceil(layout::WORKGROUP),
            bound,
        }
    }

    /// Creates a run with one invocation for each row of a place.
    fn over_rows(code: &'a Code, place: Place, bound: &'a [(&'static str, ByteSlice)]) -> Self {
        Self::new(code, place, place[1], bound)
    }
}

/// Shipment of a part in flight to this GPU.
pub struct Coming {
    rows: u32,
    shown: Received,
}

/// Shipments of all parts on this GPU.
pub struct Here {
    /// Number of Gaussians.
    shown: u32,
    /// Sums of the gradients of each part, and all as one.
    pub sums: Vec<GpuShipment>,
    all_sums: Option<GpuShipment>,
}

/// Returns the number of projected Gaussians of a shipment.
pub fn rows_in(shipment: &GpuShipment) -> Result<u64> {
    let rows = (shipment.len() as u64).saturating_sub(HEAD_BYTES);
    match rows.is_multiple_of(SHOWN_BYTES) {
        true => Ok(rows / SHOWN_BYTES),
        false => Err(Error::internal(
            "projected Gaussians came from another kind of engine",
        )),
    }
}

/// Returns the bytes of the sums of a Gaussian.
pub fn sum_bytes(bits: Bits) -> u64 {
    u64::from(SLOT_FLOATS + bits.extra_floats()) * size_of::<f32>() as u64
}
