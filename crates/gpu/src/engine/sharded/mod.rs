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
use dapple_runtime::{ByteSlice, CommandList, Gpu, Groups, Readback, Values, wgpu};
use dapple_scene::{Camera, Error, Result};
pub use mail::GpuShipment;
use mail::{Mail, Received};
use std::collections::VecDeque;
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
        self.sharded.projections.clear();
        self.sharded.begun.clear();
        let at = offset_of!(layout::State, number) as u64;
        self.context.gpu.write(state, at, &words);
        self.context.gpu.check()
    }

    fn begin_projections(&mut self, steps: &[ViewStep]) -> Result<()> {
        let projections = self.project_all(steps.to_vec())?;
        self.sharded.projections.push_back(projections);
        Ok(())
    }

    fn finish_projections(&mut self) -> Result<Vec<ShownPart<GpuShipment>>> {
        let oldest = self.sharded.projections.pop_front();
        let mut oldest = oldest.ok_or_else(|| Error::internal("no projections were begun"))?;
        let mut shown = Vec::with_capacity(oldest.steps.len());
        loop {
            let own = self.finish_projected(&mut oldest)?;
            let done = own.len();
            shown.extend(own);
            if done == oldest.steps.len() {
                return Ok(shown);
            }
            oldest = self.project_all(oldest.steps.split_off(done))?;
        }
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
            self.submit(work)?;
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
            let coming = self.call(parts)?;
            self.receive_parts(&mut work, values, bits, coming)?;
            let recording = self.recording(Plan::FrontOfParts, bits, 0)?;
            recording.encode_with(&mut work.encoder, values);
            self.submit(work)?;
            let mut state = self.state()?;
            if state.halted == 0 {
                state.gaussians += self.others;
                return self.rendered(&camera, settings, bits, &state);
            }
            self.grow_for(state.halted, state.wanted, state.gaussians)?;
        }
    }

    fn begin_views(&mut self, steps: &[ViewStep], parts: Vec<Vec<GpuShipment>>) -> Result<()> {
        let begun = self.begin_all(steps.to_vec(), parts)?;
        self.sharded.begun.push_back(begun);
        Ok(())
    }

    fn finish_views(&mut self) -> Result<Vec<ComparedView<GpuShipment>>> {
        let oldest = self.sharded.begun.pop_front();
        let mut begun = oldest.ok_or_else(|| Error::internal("no steps on views were begun"))?;
        let mut compared = Vec::with_capacity(begun.steps.len());
        loop {
            let own = self.finish_all(&mut begun)?;
            let done = own.len();
            compared.extend(own);
            if done == begun.steps.len() {
                return Ok(compared);
            }
            let steps = begun.steps.split_off(done);
            begun = self.begin_all(steps, begun.parts.split_off(done))?;
            if begun.sums.is_empty() {
                return Err(Error::internal("no photo slot is free between steps"));
            }
        }
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
        let gpu = self.context.gpu.clone();
        let mail = &mut self.sharded.mail;
        let mut coming = Vec::with_capacity(steps.len());
        for (shown, sums) in shown.iter().zip(sums) {
            let shown = mail.receive(&gpu, &shown.shipment)?;
            coming.push([shown, mail.receive(&gpu, sums)?]);
        }
        let first = self.sharded.take_numbers(steps.len());
        let mut work = Work::begin(&self.context.gpu);
        let all = steps.iter().zip(shown.iter().zip(sums)).zip(coming);
        for ((((view, settings), (shown, sums)), coming), (bits, sequence)) in
            all.zip(bits.into_iter().zip(first..))
        {
            self.batch.step(settings.batch)?;
            let mut numbers = self.step_numbers(*view, settings, false, sequence)?;
            numbers.immediates.shown = rows_in(&shown.shipment)? as u32;
            let values = numbers.values()?;
            let rows = rows_in(&shown.shipment)?;
            if sums.len() as u64 != rows * sum_bytes(bits) {
                return Err(Error::internal("sums came for another number of Gaussians"));
            }
            self.restore(&mut work, values, bits, (rows as u32, coming))?;
            let recording = self.recording(Plan::UpdatePart, bits, 0)?;
            recording.encode_with(&mut work.encoder, values);
            if settings.step.is_multiple_of(FINITE_EVERY) {
                let recording = self.recording(Plan::Finite, bits, 0)?;
                recording.encode_with(&mut work.encoder, values);
            }
            work.end_step(&self.context.gpu);
        }
        let mut reports = self.submit(work)?;
        let checks = |(_, settings): &ViewStep| settings.step.is_multiple_of(FINITE_EVERY);
        if !steps.iter().any(checks) {
            self.context.gpu.check()?;
            return Ok(vec![None; steps.len()]);
        }
        let reports = reports.of(first, steps.len())?;
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
    /// Steps that are encoded.
    steps: usize,
}

/// Steps that are submitted together: those of a wave on up to 32 ranks. See [`dapple_runtime::BLOCKS`].
const TOGETHER: usize = 32;

impl Work {
    fn begin(gpu: &Gpu) -> Self {
        Self {
            encoder: gpu.encoder(),
            lists: Vec::new(),
            steps: 0,
        }
    }

    /// Submits the steps so far if they are many.
    fn end_step(&mut self, gpu: &Gpu) {
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

    /// Submits the projections for steps.
    fn project_all(&mut self, steps: Vec<ViewStep>) -> Result<Projections> {
        let bits = self.prepare_parts(&steps)?;
        let first = self.sharded.take_numbers(steps.len());
        let mut sent = Vec::with_capacity(steps.len());
        let mut work = Work::begin(&self.context.gpu);
        for ((view, settings), (bits, sequence)) in steps.iter().zip(bits.into_iter().zip(first..))
        {
            let numbers = self.step_numbers(*view, settings, false, sequence)?;
            let values = numbers.values()?;
            if runs_before(settings) {
                let recording = self.recording(Plan::BeforeStep, bits, 0)?;
                recording.encode_with(&mut work.encoder, values);
            }
            let recording = self.recording(Plan::Project, bits, 0)?;
            recording.encode_with(&mut work.encoder, values);
            sent.push(self.send(&mut work, values, bits)?);
            work.end_step(&self.context.gpu);
        }
        Ok(Projections {
            first,
            steps,
            sent,
            reports: self.submit(work)?,
        })
    }

    /// Waits for projections. Returns the results up to the first that did not fit: its buffers are larger now.
    fn finish_projected(
        &mut self,
        projections: &mut Projections,
    ) -> Result<Vec<ShownPart<GpuShipment>>> {
        let count = projections.steps.len();
        let reports = projections.reports.of(projections.first, count)?;
        let mut shown = Vec::with_capacity(count);
        for (report, sent) in reports.iter().zip(&projections.sent) {
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

    /// Submits the renders and backward passes of steps, up to the first whose photo has no slot yet.
    fn begin_all(&mut self, steps: Vec<ViewStep>, parts: Vec<Vec<GpuShipment>>) -> Result<Begun> {
        let bits = self.prepare_parts(&steps)?;
        let counts = parts.iter().map(|parts| self.reserve_shown(parts));
        let counts = counts.collect::<Result<Vec<_>>>()?;
        let coming = parts.iter().map(|parts| self.call(parts));
        let coming = coming.collect::<Result<Vec<_>>>()?;
        let first = self.sharded.take_numbers(steps.len());
        let pending = self
            .sharded
            .begun
            .front()
            .map_or(first, |begun| begun.first);
        let mut all_sums = Vec::with_capacity(steps.len());
        let mut work = Work::begin(&self.context.gpu);
        let all = steps.iter().zip(coming).zip(counts);
        for ((((view, settings), coming), shown), (bits, sequence)) in
            all.zip(bits.into_iter().zip(first..))
        {
            let gpu = &self.context.gpu;
            if !self.photos.begin(gpu, view.0, (pending, sequence))? {
                // The photos of the steps before have all slots until they are done.
                break;
            }
            let (slot, is_masked) = self.photo_arrives(*view, settings, sequence)?;
            let mut numbers = self.step_numbers(*view, settings, is_masked, sequence)?;
            numbers.immediates.shown = shown;
            let values = numbers.values()?;
            let received = self.receive_parts(&mut work, values, bits, coming)?;
            for plan in [Plan::FrontOfParts, Plan::Loss, Plan::BackOfParts] {
                let recording = self.recording(plan, bits, slot)?;
                recording.encode_with(&mut work.encoder, values);
            }
            all_sums.push(self.pack(&mut work, values, bits, &received)?);
            work.end_step(&self.context.gpu);
        }
        Ok(Begun {
            first,
            steps,
            parts,
            sums: all_sums,
            reports: self.submit(work)?,
        })
    }

    /// Waits for steps. Returns the results up to the first that did not fit, whose buffers are larger now, or that was
    /// not submitted.
    fn finish_all(&mut self, begun: &mut Begun) -> Result<Vec<ComparedView<GpuShipment>>> {
        let reports = begun.reports.of(begun.first, begun.sums.len())?;
        let mut compared = Vec::with_capacity(begun.steps.len());
        for (((_, settings), report), sums) in begun.steps.iter().zip(reports).zip(&begun.sums) {
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
            compared.push(ComparedView {
                report,
                sums: sums.clone(),
            });
        }
        Ok(compared)
    }

    /// Begins to bring the shipments of all parts to this GPU.
    fn call(&mut self, parts: &[GpuShipment]) -> Result<Vec<Coming>> {
        let gpu = self.context.gpu.clone();
        let coming = parts.iter().map(|part| {
            Ok(Coming {
                rows: rows_in(part)? as u32,
                shown: self.sharded.mail.receive(&gpu, part)?,
            })
        });
        coming.collect()
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

    /// Submits commands, and begins to read their reports.
    fn submit(&mut self, mut work: Work) -> Result<Reports> {
        let gpu = &self.context.gpu;
        let reports = self.buffers.get("reports")?;
        let mut reports = gpu.begin_read(&mut work.encoder, reports, 0, layout::RING as usize)?;
        let submission = gpu.submit(work.encoder);
        reports.submitted(submission.clone());
        self.sharded.mail.submitted(&submission);
        Ok(Reports(reports))
    }

    /// After `project`: encodes the shipment of the shown Gaussians. Its number is not known here, because the device
    /// does not wait for the host between views: see [`Self::sent`].
    fn send(&mut self, work: &mut Work, values: Values<'_>, bits: Bits) -> Result<GpuShipment> {
        let expected = self.sharded.expected(self.capacity.visible);
        let bytes = HEAD_BYTES + u64::from(expected) * SHOWN_BYTES;
        let mut sent = self.sharded.mail.outgoing(&self.context.gpu, &[bytes])?;
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
        self.sharded.most_shown = self.sharded.most_shown.max(visible);
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
        coming: Vec<Coming>,
    ) -> Result<Vec<Here>> {
        let mut received = Vec::with_capacity(coming.len());
        let mut heads = self.go_on()?;
        let all_heads = ByteSlice::from(self.buffers.get(HEADS)?);
        for (number, mut part) in coming.into_iter().enumerate() {
            let head = all_heads.part(number as u64 * HEAD_BYTES, HEAD_BYTES)?;
            let shown = part.shown.arrive()?;
            match part.rows {
                // No block of this part has a visible Gaussian.
                0 => heads.clear(head)?,
                _ => heads.copy(shown.part(0, HEAD_BYTES)?, head)?,
            }
            received.push(Here {
                rows: part.rows,
                shown,
            });
        }
        work.add(heads, values);
        let recording = self.recording(Plan::OpenParts, bits, 0)?;
        recording.encode_with(&mut work.encoder, values);
        for (number, part) in received.iter().enumerate() {
            let run = Run {
                code: &RECEIVE,
                rows: part.rows,
                part: number as u32,
                shipments: &[(SHOWN, part.shown.clone())],
            };
            self.encode(work, values, bits, run)?;
        }
        Ok(received)
    }

    /// After the backward pass: encodes the shipments of the sums of each part.
    fn pack(
        &mut self,
        work: &mut Work,
        values: Values<'_>,
        bits: Bits,
        received: &[Here],
    ) -> Result<Vec<GpuShipment>> {
        let sizes = received.iter();
        let sizes = sizes.map(|part| u64::from(part.rows) * sum_bytes(bits));
        let sizes: Vec<u64> = sizes.collect();
        let gpu = &self.context.gpu;
        let sums = self.sharded.mail.outgoing(gpu, &sizes)?;
        for (number, (part, sums)) in received.iter().zip(&sums).enumerate() {
            if part.rows > 0 {
                let run = Run {
                    code: &PACK,
                    rows: part.rows,
                    part: number as u32,
                    shipments: &[(SHOWN, part.shown.clone()), (SUMS, sums.slice()?)],
                };
                self.encode(work, values, bits, run)?;
            }
        }
        Ok(sums)
    }

    /// Before `update`: encodes what puts the shown Gaussians and their sums where `update` reads them.
    fn restore(
        &mut self,
        work: &mut Work,
        values: Values<'_>,
        bits: Bits,
        (rows, [mut shown, mut sums]): (u32, [Received; 2]),
    ) -> Result<()> {
        work.add(self.go_on()?, values);
        let recording = self.recording(Plan::OpenPart, bits, 0)?;
        recording.encode_with(&mut work.encoder, values);
        let run = Run {
            code: &RESTORE,
            rows,
            part: 0,
            shipments: &[(SHOWN, shown.arrive()?), (SUMS, sums.arrive()?)],
        };
        self.encode(work, values, bits, run)
    }

    /// Returns a command that ends a halt: a view before may have lacked memory, and will be repeated after what follows.
    fn go_on(&self) -> Result<CommandList> {
        let state = ByteSlice::from(self.buffers.get("state")?);
        let at = offset_of!(layout::State, halted) as u64;
        let mut list = CommandList::new();
        list.clear(state.part(at, size_of::<u32>() as u64)?)?;
        Ok(list)
    }

    /// Encodes a kernel that binds shipments.
    fn encode(&self, work: &mut Work, values: Values<'_>, bits: Bits, run: Run<'_>) -> Result<()> {
        if run.rows == 0 {
            return Ok(());
        }
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

/// Shipment of a part on its way to this GPU.
struct Coming {
    rows: u32,
    shown: Received,
}

/// Shipment of a part on this GPU.
struct Here {
    rows: u32,
    shown: ByteSlice,
}

/// Reports of commands that are not in the ring of reports, on their way to the host.
#[derive(Debug)]
struct Reports(Readback<layout::Report>);

impl Reports {
    /// Waits, and returns those from sequence `first` on.
    fn of(&mut self, first: u64, count: usize) -> Result<Vec<layout::Report>> {
        let all = self.0.wait()?;
        let entries = (first..).take(count).map(RingBuffer::entry);
        let found = entries.map(|entry| all.get(entry as usize).copied());
        let found: Option<Vec<_>> = found.collect();
        found.ok_or_else(|| Error::internal("the reports of steps could not be read"))
    }
}

/// Projections that were submitted.
#[derive(Debug)]
struct Projections {
    /// Number of the first command.
    first: u64,
    steps: Vec<ViewStep>,
    /// By step, room for its shipment.
    sent: Vec<GpuShipment>,
    reports: Reports,
}

/// Steps on views that were submitted.
#[derive(Debug)]
struct Begun {
    /// Number of the first command.
    first: u64,
    steps: Vec<ViewStep>,
    /// By step, the shipments of all parts.
    parts: Vec<Vec<GpuShipment>>,
    /// By submitted step, the shipments to all parts.
    sums: Vec<Vec<GpuShipment>>,
    reports: Reports,
}

/// What an engine has in work for others.
#[derive(Debug, Default)]
pub(super) struct Progress {
    mail: Mail,
    /// Calls of [`Sharded::begin_projections`] that were not finished.
    projections: VecDeque<Projections>,
    /// Calls of [`Sharded::begin_views`] that were not finished.
    begun: VecDeque<Begun>,
    /// Most Gaussians that a view has shown so far.
    most_shown: u32,
    /// Number of the next command. These commands are not in the ring of reports: the engine waits for them.
    commands: u64,
}

impl Progress {
    /// Returns the first of the next numbers of commands. At most [`layout::RING`] are in work.
    fn take_numbers(&mut self, count: usize) -> u64 {
        let first = self.commands;
        self.commands += count as u64;
        first
    }

    /// Returns the number of Gaussians that a view may show, of at most `capacity`, before it is known.
    fn expected(&self, capacity: u32) -> u32 {
        match self.most_shown {
            0 => capacity,
            most => most.saturating_add(most / 8).min(capacity),
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
