//! Implementation of [`Sharded`] for [`GpuEngine`]. See `shaders/parts.wgsl`.
//!
//! Kernels of this module bind shipments, which differ from view to view: they are not in the recorded plans.

mod mail;

use super::GpuEngine;
use crate::features::runs_before;
use crate::layout::{self, SHOWN_HEAD, SHOWN_WORDS, SLOT_FLOATS};
use crate::messages::{render_immediates, step_report};
use crate::passes::{Bits, Code};
use crate::plans::Plan;
use crate::ring::RingBuffer;
use crate::stages::parts::{HEADS, PACK, RECEIVE, RESTORE, SEND, SHOWN, SUMS};
use dapple_engine::constants::FINITE_EVERY;
use dapple_engine::sharded::check_settings;
use dapple_engine::{
    ComparedView, NonFiniteReport, Part, PosedCamera, RenderSettings, Rendered, Report, Sharded,
    Shipment, ShownPart, ViewStep,
};
use dapple_runtime::{ByteSlice, CommandList, Gpu, Groups, Values, wgpu};
use dapple_scene::{Camera, Error, Result};
pub use mail::GpuShipment;
pub(super) use mail::Mail;
use std::mem::offset_of;
use std::slice;

/// Bytes of a projected Gaussian.
const SHOWN_BYTES: u64 = SHOWN_WORDS as u64 * size_of::<u32>() as u64;

/// Bytes before the projected Gaussians of a shipment.
const HEAD_BYTES: u64 = SHOWN_HEAD as u64 * size_of::<u32>() as u64;

impl Sharded for GpuEngine {
    type Shipment = GpuShipment;

    fn set_part(&mut self, part: Part) -> Result<()> {
        let word = |number: usize| {
            let word = u32::try_from(number);
            word.map_err(|_| Error::input("a model has more Gaussians than 32 bits count"))
        };
        let state = self.buffers.get("state")?;
        self.others = word(part.total - part.len())?;
        let words = [
            word(part.number)?,
            word(part.engines)?,
            word(part.block())?,
            self.others,
        ];
        let at = offset_of!(layout::State, number) as u64;
        self.context.gpu.write(state, at, &words);
        self.context.gpu.check()
    }

    fn project_views(&mut self, steps: &[ViewStep]) -> Result<Vec<ShownPart<GpuShipment>>> {
        let mut shown = Vec::with_capacity(steps.len());
        while shown.len() < steps.len() {
            let projected = self.project_all(&steps[shown.len()..])?;
            shown.extend(projected);
        }
        Ok(shown)
    }

    fn project_camera(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
    ) -> Result<ShownPart<GpuShipment>> {
        let camera = PosedCamera::new(camera)?;
        let bits = self.prepare_front(&camera, settings, Bits::IMAGE_ONLY | Bits::PART)?;
        let immediates = render_immediates(settings, self.sh_degree, self.default_cap);
        let values = Values::new(bytemuck::bytes_of(&immediates), &[])?;
        loop {
            let mut work = Work::begin(&self.context.gpu);
            let recording = self.recording(Plan::Project, bits, 0)?;
            recording.encode_with(&mut work.encoder, values);
            let sent = self.send(&mut work, values, bits)?;
            self.submit(work);
            let state = self.state()?;
            if state.halted != 0 {
                self.grow_for(state.halted, state.wanted, state.gaussians)?;
            } else if let Some(shown) = self.sent(&sent, state.visible) {
                return Ok(shown);
            }
        }
    }

    fn render_parts(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        parts: &[GpuShipment],
    ) -> Result<Rendered> {
        let camera = PosedCamera::new(camera)?;
        let bits = Bits::IMAGE_ONLY | Bits::PART | Bits::when(settings.depth, Bits::DEPTH);
        let bits = self.prepare_front(&camera, settings, bits)?;
        let immediates = layout::Step {
            shown: self.reserve_shown(parts)?,
            ..render_immediates(settings, self.sh_degree, self.default_cap)
        };
        let values = Values::new(bytemuck::bytes_of(&immediates), &[])?;
        loop {
            let mut work = Work::begin(&self.context.gpu);
            self.receive_parts(&mut work, values, bits, parts)?;
            let recording = self.recording(Plan::FrontOfParts, bits, 0)?;
            recording.encode_with(&mut work.encoder, values);
            self.submit(work);
            let mut state = self.state()?;
            if state.halted == 0 {
                state.gaussians += self.others;
                return self.rendered(&camera, settings, bits, &state);
            }
            self.grow_for(state.halted, state.wanted, state.gaussians)?;
        }
    }

    fn compare_views(
        &mut self,
        steps: &[ViewStep],
        parts: &[Vec<GpuShipment>],
    ) -> Result<Vec<ComparedView<GpuShipment>>> {
        let mut compared = Vec::with_capacity(steps.len());
        while compared.len() < steps.len() {
            let done = compared.len();
            compared.extend(self.compare_all(&steps[done..], &parts[done..])?);
        }
        Ok(compared)
    }

    fn add_gradients(
        &mut self,
        steps: &[ViewStep],
        shown: &[ShownPart<GpuShipment>],
        sums: &[GpuShipment],
    ) -> Result<Vec<Option<NonFiniteReport>>> {
        let bits = self.prepare_parts(steps)?;
        for shown in shown {
            self.reserve_shown(slice::from_ref(&shown.shipment))?;
        }
        let first = self.mail.commands;
        let all = steps.iter().zip(shown.iter().zip(sums));
        for (((view, settings), (shown, sums)), (bits, sequence)) in
            all.zip(bits.into_iter().zip(first..))
        {
            self.batch.step(settings.batch)?;
            let mut numbers = self.step_numbers(*view, settings, false, sequence)?;
            numbers.immediates.shown = rows_in(&shown.shipment)? as u32;
            let values = numbers.values()?;
            let mut work = Work::begin(&self.context.gpu);
            self.restore(&mut work, values, bits, (&shown.shipment, sums))?;
            let recording = self.recording(Plan::UpdatePart, bits, 0)?;
            recording.encode_with(&mut work.encoder, values);
            if settings.step.is_multiple_of(FINITE_EVERY) {
                let recording = self.recording(Plan::Finite, bits, 0)?;
                recording.encode_with(&mut work.encoder, values);
            }
            // The device begins while the host copies the sums of the next view.
            self.submit(work);
        }
        let checks = |(_, settings): &ViewStep| settings.step.is_multiple_of(FINITE_EVERY);
        if !steps.iter().any(checks) {
            self.context.gpu.check()?;
            return Ok(vec![None; steps.len()]);
        }
        let reports = self.reports_of(first, steps.len())?;
        let found = reports.iter().zip(steps).map(|(report, step)| {
            let found = NonFiniteReport::new(report.broken.into(), report.broken_tensors);
            found.filter(|_| checks(step))
        });
        Ok(found.collect())
    }
}

/// Commands that are submitted together.
struct Work {
    encoder: wgpu::CommandEncoder,
    /// Command lists, whose buffers the pool would give to others before the submission.
    lists: Vec<CommandList>,
}

impl Work {
    fn begin(gpu: &Gpu) -> Self {
        Self {
            encoder: gpu.encoder(),
            lists: Vec::new(),
        }
    }

    /// Encodes a command list, and keeps it.
    fn add(&mut self, list: CommandList, values: Values<'_>) {
        list.encode_with(&mut self.encoder, values);
        self.lists.push(list);
    }
}

impl GpuEngine {
    /// Prepares halves of steps. Returns their bits. No buffer changes after it while commands are encoded.
    fn prepare_parts(&mut self, steps: &[ViewStep]) -> Result<Vec<Bits>> {
        self.settle()?;
        self.ready()?;
        self.kept = None;
        self.write_views(None)?;
        let mut all = Vec::with_capacity(steps.len());
        for (view, settings) in steps {
            check_settings(settings)?;
            let (features, mut at) = self.features();
            features.prepare(&mut at, *view, settings)?;
            all.push(self.step_bits(*view, settings) | Bits::PART);
        }
        // Every step's buffers, before the first command.
        for bits in &all {
            self.fit(*bits)?;
        }
        Ok(all)
    }

    /// Submits the projections for all steps and waits once. Returns the results up to the first that did not fit: its
    /// buffers are larger now.
    fn project_all(&mut self, steps: &[ViewStep]) -> Result<Vec<ShownPart<GpuShipment>>> {
        let bits = self.prepare_parts(steps)?;
        let first = self.mail.commands;
        let mut all_sent = Vec::with_capacity(steps.len());
        for ((view, settings), (bits, sequence)) in steps.iter().zip(bits.into_iter().zip(first..))
        {
            let numbers = self.step_numbers(*view, settings, false, sequence)?;
            let values = numbers.values()?;
            let mut work = Work::begin(&self.context.gpu);
            if runs_before(settings) {
                let recording = self.recording(Plan::BeforeStep, bits, 0)?;
                recording.encode_with(&mut work.encoder, values);
            }
            let recording = self.recording(Plan::Project, bits, 0)?;
            recording.encode_with(&mut work.encoder, values);
            all_sent.push(self.send(&mut work, values, bits)?);
            self.submit(work);
        }
        let reports = self.reports_of(first, steps.len())?;
        let mut shown = Vec::with_capacity(steps.len());
        for (report, sent) in reports.iter().zip(&all_sent) {
            if report.halted != 0 {
                self.grow_for(report.halted, report.wanted, report.gaussians)?;
                break;
            }
            match self.sent(sent, report.visible) {
                Some(one) => shown.push(one),
                None => break,
            }
        }
        Ok(shown)
    }

    /// Submits the renders and backward passes of all steps and waits once. Returns the results up to the first that did
    /// not fit: its buffers are larger now.
    fn compare_all(
        &mut self,
        steps: &[ViewStep],
        parts: &[Vec<GpuShipment>],
    ) -> Result<Vec<ComparedView<GpuShipment>>> {
        let bits = self.prepare_parts(steps)?;
        let counts = parts.iter().map(|parts| self.reserve_shown(parts));
        let counts = counts.collect::<Result<Vec<_>>>()?;
        let first = self.mail.commands;
        let mut all_sums = Vec::with_capacity(steps.len());
        let all = steps.iter().zip(parts).zip(counts);
        for ((((view, settings), parts), shown), (bits, sequence)) in
            all.zip(bits.into_iter().zip(first..))
        {
            let gpu = &self.context.gpu;
            if !self.photos.begin(gpu, view.0, (first, sequence))? {
                // The photos of the steps before have all slots until they are done.
                break;
            }
            let (slot, is_masked) = self.photo_arrives(*view, settings, sequence)?;
            let mut numbers = self.step_numbers(*view, settings, is_masked, sequence)?;
            numbers.immediates.shown = shown;
            let values = numbers.values()?;
            let mut work = Work::begin(&self.context.gpu);
            let received = self.receive_parts(&mut work, values, bits, parts)?;
            for plan in [Plan::FrontOfParts, Plan::Loss, Plan::BackOfParts] {
                let recording = self.recording(plan, bits, slot)?;
                recording.encode_with(&mut work.encoder, values);
            }
            all_sums.push(self.pack(&mut work, values, bits, (&received, parts.len()))?);
            // The device begins while the host copies the Gaussians of the next view.
            self.submit(work);
        }
        if all_sums.is_empty() {
            return Err(Error::internal("no photo slot is free between steps"));
        }
        let reports = self.reports_of(first, all_sums.len())?;
        let mut compared = Vec::with_capacity(steps.len());
        for (((_, settings), report), sums) in steps.iter().zip(reports).zip(all_sums) {
            if report.halted != 0 {
                self.grow_for(report.halted, report.wanted, report.gaussians)?;
                break;
            }
            let report = layout::Report {
                gaussians: report.gaussians + self.others,
                broken: 0,
                ..report
            };
            let Report::Step(report) = step_report(settings, &report, Vec::new()) else {
                return Err(Error::internal("a step has another report"));
            };
            compared.push(ComparedView { report, sums });
        }
        self.mail.commands += compared.len() as u64;
        Ok(compared)
    }

    /// Enlarges buffers for the projected Gaussians of parts. Returns their number. No command is encoded and not
    /// submitted.
    fn reserve_shown(&mut self, parts: &[GpuShipment]) -> Result<u32> {
        let rows = parts.iter().map(rows_in).sum::<Result<u64>>()?;
        let visible = u32::try_from(rows)
            .map_err(|_| Error::input("a view shows more Gaussians than 32 bits count"))?;
        self.reserve_visible(visible)?;
        Ok(visible)
    }

    /// Reads the reports of commands that are not enqueued, from sequence `first` on; waits.
    fn reports_of(&self, first: u64, count: usize) -> Result<Vec<layout::Report>> {
        let reports = self.buffers.get("reports")?;
        let all: Vec<layout::Report> = self.context.gpu.read(reports, layout::RING as usize)?;
        let entries = (first..).take(count).map(RingBuffer::entry);
        let found = entries.map(|entry| all.get(entry as usize).copied());
        let found: Option<Vec<_>> = found.collect();
        found.ok_or_else(|| Error::internal("the reports of steps could not be read"))
    }

    fn submit(&mut self, work: Work) {
        let submission = self.context.gpu.submit(work.encoder);
        self.mail.submitted(&submission);
    }

    /// After `project`: encodes the shipment of the shown Gaussians. Its number is not known here, because the device
    /// does not wait for the host between views: see [`Self::sent`].
    fn send(&mut self, work: &mut Work, values: Values<'_>, bits: Bits) -> Result<GpuShipment> {
        let expected = self.mail.expected(self.capacity.visible);
        let bytes = HEAD_BYTES + u64::from(expected) * SHOWN_BYTES;
        let mut sent = self.mail.outgoing(&self.context.gpu, &[bytes])?;
        let sent = sent.pop().unwrap_or_default();
        let run = Run {
            code: &SEND,
            rows: self.capacity.gaussians,
            part: 0,
            shipments: &[(SHOWN, sent.slice()?)],
        };
        self.encode(work, values, bits, run)?;
        Ok(sent)
    }

    /// Returns the shipment of `visible` Gaussians; `None` if [`Self::send`] expected fewer.
    fn sent(&mut self, sent: &GpuShipment, visible: u32) -> Option<ShownPart<GpuShipment>> {
        self.mail.most_shown = self.mail.most_shown.max(visible);
        let bytes = HEAD_BYTES + u64::from(visible) * SHOWN_BYTES;
        (bytes <= sent.len() as u64).then(|| ShownPart {
            // The shipment has them.
            indices: Vec::new(),
            shipment: sent.cut(bytes),
        })
    }

    /// Encodes what precedes a render of the Gaussians of all parts. Returns the shipments on this GPU.
    fn receive_parts(
        &mut self,
        work: &mut Work,
        values: Values<'_>,
        bits: Bits,
        parts: &[GpuShipment],
    ) -> Result<Vec<Received>> {
        let gpu = self.context.gpu.clone();
        let mut received = Vec::with_capacity(parts.len());
        let mut heads = CommandList::new();
        for (number, part) in parts.iter().enumerate() {
            let rows = rows_in(part)? as u32;
            if rows == 0 {
                // No block of this part has a visible Gaussian.
                let head = ByteSlice::from(self.buffers.get(HEADS)?);
                heads.clear(head.part(number as u64 * HEAD_BYTES, HEAD_BYTES)?)?;
                continue;
            }
            let shown = self.mail.receive(&gpu, part)?;
            let head = ByteSlice::from(self.buffers.get(HEADS)?);
            heads.copy(
                shown.part(0, HEAD_BYTES)?,
                head.part(number as u64 * HEAD_BYTES, HEAD_BYTES)?,
            )?;
            received.push(Received {
                part: number as u32,
                rows,
                shown,
            });
        }
        work.add(heads, values);
        let recording = self.recording(Plan::OpenParts, bits, 0)?;
        recording.encode_with(&mut work.encoder, values);
        for one in &received {
            self.encode(work, values, bits, one.run(&RECEIVE, &[one.shown()]))?;
        }
        Ok(received)
    }

    /// After the backward pass: encodes the shipments of the sums of each part.
    fn pack(
        &mut self,
        work: &mut Work,
        values: Values<'_>,
        bits: Bits,
        (received, parts): (&[Received], usize),
    ) -> Result<Vec<GpuShipment>> {
        let mut sizes = vec![0; parts];
        for one in received {
            if let Some(size) = sizes.get_mut(one.part as usize) {
                *size = u64::from(one.rows) * sum_bytes(bits);
            }
        }
        let sums = self.mail.outgoing(&self.context.gpu, &sizes)?;
        for one in received {
            let own = sums.get(one.part as usize).map(GpuShipment::slice);
            let own = own.ok_or_else(|| Error::internal("a part has no place"))??;
            let shipments = [one.shown(), (SUMS, own)];
            self.encode(work, values, bits, one.run(&PACK, &shipments))?;
        }
        Ok(sums)
    }

    /// Before `update`: encodes what puts the shown Gaussians and their sums where `update` reads them.
    fn restore(
        &mut self,
        work: &mut Work,
        values: Values<'_>,
        bits: Bits,
        (shown, sums): (&GpuShipment, &GpuShipment),
    ) -> Result<()> {
        let rows = rows_in(shown)?;
        if sums.len() as u64 != rows * sum_bytes(bits) {
            return Err(Error::internal("sums came for another number of Gaussians"));
        }
        let recording = self.recording(Plan::OpenPart, bits, 0)?;
        recording.encode_with(&mut work.encoder, values);
        if rows == 0 {
            return Ok(());
        }
        let gpu = self.context.gpu.clone();
        let shown = self.mail.receive(&gpu, shown)?;
        let sums = self.mail.receive(&gpu, sums)?;
        let run = Run {
            code: &RESTORE,
            rows: rows as u32,
            part: 0,
            shipments: &[(SHOWN, shown), (SUMS, sums)],
        };
        self.encode(work, values, bits, run)
    }

    /// Encodes a kernel that binds shipments.
    fn encode(&self, work: &mut Work, values: Values<'_>, bits: Bits, run: Run<'_>) -> Result<()> {
        let gpu = &self.context.gpu;
        let part = gpu.uniform("part", [run.part, run.rows, 0, 0])?;
        let mut commands = CommandList::new();
        commands.span("parts");
        for kernel in self.context.kernels(run.code, bits)? {
            let mut slices = run.shipments.to_vec();
            slices.push(("part", (&part).into()));
            for binding in kernel.bindings() {
                if slices.iter().all(|(name, _)| *name != binding) {
                    slices.push((binding, self.buffers.get(binding)?.into()));
                }
            }
            let groups = Groups::flat(run.rows.div_ceil(layout::WORKGROUP));
            commands.dispatch(kernel.bind_slices(gpu, &slices)?, groups);
        }
        work.add(commands, values);
        Ok(())
    }
}

/// Kernel that binds shipments.
struct Run<'a> {
    code: &'a Code,
    /// Rows, one invocation each.
    rows: u32,
    /// Number of the part that they come from.
    part: u32,
    /// Shipments by the names of their bindings.
    shipments: &'a [(&'static str, ByteSlice)],
}

/// Shipment of a part on this GPU.
struct Received {
    part: u32,
    rows: u32,
    shown: ByteSlice,
}

impl Received {
    fn shown(&self) -> (&'static str, ByteSlice) {
        (SHOWN, self.shown.clone())
    }

    fn run<'a>(&self, code: &'a Code, shipments: &'a [(&'static str, ByteSlice)]) -> Run<'a> {
        Run {
            code,
            rows: self.rows,
            part: self.part,
            shipments,
        }
    }
}

/// Returns the number of projected Gaussians of a shipment.
fn rows_in(shipment: &GpuShipment) -> Result<u64> {
    let rows = (shipment.len() as u64).saturating_sub(HEAD_BYTES);
    match rows.is_multiple_of(SHOWN_BYTES) {
        true => Ok(rows / SHOWN_BYTES),
        false => Err(Error::internal(
            "projected Gaussians came from another kind of engine",
        )),
    }
}

/// Returns the bytes of the sums of a Gaussian.
fn sum_bytes(bits: Bits) -> u64 {
    u64::from(SLOT_FLOATS + bits.extra_floats()) * size_of::<f32>() as u64
}
