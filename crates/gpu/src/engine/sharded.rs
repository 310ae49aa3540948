//! Implementation of [`Sharded`] for [`GpuEngine`]. See `shaders/parts.wgsl`.
//!
//! A shipment stays in a buffer of the GPU of its origin until the other engine copies it: on the same GPU, or from GPU to
//! GPU ([`PeerBuffer`]).

use super::GpuEngine;
use crate::features::runs_before;
use crate::layout::{self, SHOWN_WORDS, SLOT_FLOATS};
use crate::messages::{render_immediates, step_report};
use crate::passes::{Bits, Code};
use crate::plans::Plan;
use crate::ring::RingBuffer;
use crate::stages::parts::{SHOWN, SUMS};
use dapple_engine::constants::FINITE_EVERY;
use dapple_engine::sharded::check_settings;
use dapple_engine::{
    ComparedView, NonFiniteReport, Part, PosedCamera, RenderSettings, Rendered, Report, Sharded,
    Shipment, ShownPart, ViewStep,
};
use dapple_runtime::{CommandList, Gpu, Groups, PeerBuffer, Pooled, Values, wgpu};
use dapple_scene::{Camera, Error, Result};
use std::mem::offset_of;
use std::sync::Arc;

/// Bytes of a projected Gaussian.
const SHOWN_BYTES: u64 = SHOWN_WORDS as u64 * size_of::<u32>() as u64;

/// Number of buffers for shipments of other GPUs, used in turn.
const INBOXES: usize = 8;

/// The shader of copies.
pub const SHADER: (&str, &str) = ("copy_words", include_str!("../../shaders/copy_words.wgsl"));

const COPY: Code = Code::new("copy_words", "copy_words");

/// Words that a workgroup copies. WGSL: `THREADS * EACH`.
const COPIED: u32 = 1024;

impl Sharded for GpuEngine {
    type Shipment = GpuShipment;

    fn set_part(&mut self, part: Part) -> Result<()> {
        let state = self.buffers.get("state")?;
        let first = u32::try_from(part.first).unwrap_or(u32::MAX);
        let len = u32::try_from(part.len).unwrap_or(u32::MAX);
        let total = u32::try_from(part.total).unwrap_or(u32::MAX);
        self.others = total.saturating_sub(len);
        let at = offset_of!(layout::State, first) as u64;
        self.context.gpu.write(state, at, &[first, self.others]);
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
            let recording = self.recording(Plan::Project, bits, 0)?;
            recording.submit_with(&self.context.gpu, values);
            let state = self.state()?;
            if state.halted == 0 {
                let mut work = Work::begin(&self.context.gpu);
                let bytes = u64::from(state.visible) * SHOWN_BYTES;
                let sent = self.send(&mut work, SHOWN, bytes)?;
                self.submit(&mut work);
                self.context.gpu.wait()?;
                return Ok(of_shipment(sent));
            }
            self.grow_for(state.halted, state.wanted, state.gaussians)?;
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
            self.deliver(&mut work, SHOWN, parts)?;
            let recording = self.recording(Plan::FrontOfParts, bits, 0)?;
            recording.encode_with(&mut work.encoder, values);
            self.submit(&mut work);
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
            self.reserve_shown(std::slice::from_ref(&shown.shipment))?;
        }
        let first = self.mail.commands;
        let mut work = Work::begin(&self.context.gpu);
        let all = steps.iter().zip(shown.iter().zip(sums));
        for (((view, settings), (shown, sums)), (bits, sequence)) in
            all.zip(bits.into_iter().zip(first..))
        {
            self.batch.step(settings.batch)?;
            let n = shown.shipment.len() as u64 / SHOWN_BYTES;
            if sums.len() as u64 != n * sum_bytes(bits) {
                return Err(Error::internal("sums came for another number of Gaussians"));
            }
            self.deliver(&mut work, SHOWN, std::slice::from_ref(&shown.shipment))?;
            self.deliver(&mut work, SUMS, std::slice::from_ref(sums))?;
            let mut numbers = self.step_numbers(*view, settings, false, sequence)?;
            numbers.immediates.shown = n as u32;
            let values = numbers.values()?;
            let recording = self.recording(Plan::UpdatePart, bits, 0)?;
            recording.encode_with(&mut work.encoder, values);
            if settings.step.is_multiple_of(FINITE_EVERY) {
                let recording = self.recording(Plan::Finite, bits, 0)?;
                recording.encode_with(&mut work.encoder, values);
            }
        }
        self.submit(&mut work);
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

/// Commands that are submitted together: each submission costs the device time.
struct Work {
    encoder: wgpu::CommandEncoder,
    /// Buffers and bindings of the commands. The pool would give the buffers to others.
    used: Vec<Arc<Pooled>>,
    copies: Vec<CommandList>,
}

impl Work {
    fn begin(gpu: &Gpu) -> Self {
        Self {
            encoder: gpu.encoder(),
            used: Vec::new(),
            copies: Vec::new(),
        }
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
        let mut work = Work::begin(&self.context.gpu);
        let mut sent = Vec::with_capacity(steps.len());
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
            // The device does not wait for the host between views, so the number of Gaussians is not known here.
            let expected = self.mail.expected(self.capacity.visible);
            let bytes = u64::from(expected) * SHOWN_BYTES;
            sent.push(self.send(&mut work, SHOWN, bytes)?);
        }
        self.submit(&mut work);
        let reports = self.reports_of(first, steps.len())?;
        let mut shown = Vec::with_capacity(steps.len());
        for (report, sent) in reports.iter().zip(sent) {
            if report.halted != 0 {
                self.grow_for(report.halted, report.wanted, report.gaussians)?;
                break;
            }
            let bytes = u64::from(report.visible) * SHOWN_BYTES;
            self.mail.most_shown = self.mail.most_shown.max(report.visible);
            if bytes > sent.len() as u64 {
                break;
            }
            shown.push(of_shipment(sent.part(0, bytes)));
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
        let mut work = Work::begin(&self.context.gpu);
        let mut sent = Vec::with_capacity(steps.len());
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
            self.deliver(&mut work, SHOWN, parts)?;
            for plan in [Plan::FrontOfParts, Plan::Loss, Plan::BackOfParts] {
                let recording = self.recording(plan, bits, slot)?;
                recording.encode_with(&mut work.encoder, values);
            }
            sent.push(self.send_sums(&mut work, parts, bits)?);
        }
        self.submit(&mut work);
        if sent.is_empty() {
            return Err(Error::internal("no photo slot is free between steps"));
        }
        let reports = self.reports_of(first, sent.len())?;
        let mut compared = Vec::with_capacity(steps.len());
        for (((_, settings), report), sums) in steps.iter().zip(reports).zip(sent) {
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
        let lengths = parts.iter().map(|part| part.len() as u64);
        if lengths.clone().any(|bytes| bytes % SHOWN_BYTES != 0) {
            return Err(Error::internal(
                "projected Gaussians came from another kind of engine",
            ));
        }
        let visible = u32::try_from(lengths.sum::<u64>() / SHOWN_BYTES)
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

    /// Encodes copies of the sums of the Gaussians of each part.
    fn send_sums(
        &mut self,
        work: &mut Work,
        parts: &[GpuShipment],
        bits: Bits,
    ) -> Result<Vec<GpuShipment>> {
        let bytes_of = |part: &GpuShipment| part.len() as u64 / SHOWN_BYTES * sum_bytes(bits);
        let whole = self.send(work, SUMS, parts.iter().map(bytes_of).sum())?;
        let mut first = 0;
        let sums = parts.iter().map(|part| {
            let bytes = bytes_of(part);
            first += bytes;
            whole.part(first - bytes, bytes)
        });
        Ok(sums.collect())
    }

    /// Encodes a copy of the first bytes of a tensor into a buffer that other engines copy from. They may copy from it after
    /// a wait of this engine.
    fn send(&mut self, work: &mut Work, tensor: &str, bytes: u64) -> Result<GpuShipment> {
        let is_free = |buffer: &Arc<PeerBuffer>| Arc::strong_count(buffer) == 1;
        let fits = |buffer: &Arc<PeerBuffer>| buffer.bytes() >= bytes;
        let free = self
            .mail
            .sent
            .iter()
            .find(|buffer| is_free(buffer) && fits(buffer));
        let buffer = match free {
            Some(buffer) => Arc::clone(buffer),
            None => {
                self.mail
                    .sent
                    .retain(|buffer| !is_free(buffer) || fits(buffer));
                let buffer = Arc::new(self.context.gpu.peer_buffer("sent", enlarged(bytes))?);
                self.mail.sent.push(Arc::clone(&buffer));
                buffer
            }
        };
        let source = self.buffers.get(tensor)?;
        self.copy(work, (source, 0), (buffer.buffer(), 0), bytes)?;
        Ok(GpuShipment(Held::Device {
            buffer,
            first: 0,
            bytes,
        }))
    }

    /// Encodes copies of shipments into a tensor, one after the other.
    fn deliver(&mut self, work: &mut Work, tensor: &str, parts: &[GpuShipment]) -> Result<()> {
        let gpu = self.context.gpu.clone();
        let mut at = 0;
        for part in parts.iter().filter(|part| !part.is_empty()) {
            let bytes = part.len() as u64;
            match &part.0 {
                Held::Host(held) => {
                    let uploaded = gpu.upload("received", held)?;
                    self.copy(work, (&uploaded, 0), (self.buffers.get(tensor)?, at), bytes)?;
                    work.used.push(uploaded);
                }
                Held::Device { buffer, first, .. } if buffer.gpu().is_same(&gpu) => {
                    let source = (buffer.buffer(), *first);
                    self.copy(work, source, (self.buffers.get(tensor)?, at), bytes)?;
                }
                Held::Device { buffer, first, .. } => {
                    let inbox = self.inbox(work, bytes)?;
                    inbox.copy_from(0, buffer, *first, bytes)?;
                    let source = (inbox.buffer(), 0);
                    self.copy(work, source, (self.buffers.get(tensor)?, at), bytes)?;
                }
            }
            at += bytes;
        }
        Ok(())
    }

    /// Encodes a copy of bytes between buffers of this GPU, each with the offset of the first byte.
    fn copy(
        &self,
        work: &mut Work,
        (source, first): (&wgpu::Buffer, u64),
        (target, at): (&wgpu::Buffer, u64),
        bytes: u64,
    ) -> Result<()> {
        let gpu = &self.context.gpu;
        let word = |bytes: u64| {
            let words = u32::try_from(bytes / 4);
            words.map_err(|_| Error::internal("a copy is too long"))
        };
        let words = word(bytes)?;
        let range = gpu.uniform("range", [word(first)?, word(at)?, words, 0])?;
        let named = [
            ("range", &**range),
            ("source", source),
            ("target_words", target),
        ];
        let mut commands = CommandList::new();
        for kernel in self.context.kernels(&COPY, Bits::NONE)? {
            let groups = Groups::flat(words.div_ceil(COPIED));
            commands.dispatch(kernel.bind(gpu, &named)?, groups);
        }
        commands.keep(range.clone());
        commands.encode(&mut work.encoder, &[]);
        work.copies.push(commands);
        Ok(())
    }

    /// Submits the encoded commands, and begins others.
    fn submit(&mut self, work: &mut Work) {
        let gpu = &self.context.gpu;
        let done = std::mem::replace(&mut work.encoder, gpu.encoder());
        let submission = gpu.submit(done);
        work.used.clear();
        work.copies.clear();
        for (_, last_use) in &mut self.mail.inboxes {
            if matches!(last_use, LastUse::Encoded) {
                *last_use = LastUse::Submitted(submission.clone());
            }
        }
    }

    /// Returns the next inbox, free and large enough. Its next use is in `work`.
    fn inbox(&mut self, work: &mut Work, bytes: u64) -> Result<Arc<PeerBuffer>> {
        let number = self.mail.next;
        self.mail.next = (number + 1) % INBOXES;
        let encoded = self.mail.inboxes.get(number);
        if encoded.is_some_and(|(_, last_use)| matches!(last_use, LastUse::Encoded)) {
            self.submit(work);
        }
        let gpu = self.context.gpu.clone();
        if let Some((buffer, last_use)) = self.mail.inboxes.get_mut(number) {
            if let LastUse::Submitted(submission) = std::mem::replace(last_use, LastUse::Encoded) {
                gpu.wait_for(submission)?;
            }
            if buffer.bytes() >= bytes {
                return Ok(Arc::clone(buffer));
            }
        }
        let buffer = Arc::new(gpu.peer_buffer("received", enlarged(bytes))?);
        let entry = (Arc::clone(&buffer), LastUse::Encoded);
        match self.mail.inboxes.get_mut(number) {
            Some(old) => *old = entry,
            None => self.mail.inboxes.push(entry),
        }
        Ok(buffer)
    }
}

/// Last use of an inbox.
#[derive(Debug)]
enum LastUse {
    /// In commands that are encoded and not submitted.
    Encoded,
    /// In this submission.
    Submitted(wgpu::SubmissionIndex),
}

/// Buffers of an engine for shipments.
#[derive(Debug, Default)]
pub(super) struct Mail {
    /// Shipments, which other engines may still read.
    sent: Vec<Arc<PeerBuffer>>,
    /// Buffers for shipments of other GPUs, with their last use.
    inboxes: Vec<(Arc<PeerBuffer>, LastUse)>,
    /// The next inbox.
    next: usize,
    /// Most Gaussians that a view has shown so far.
    most_shown: u32,
    /// Number of the next command. These commands are not in the ring of reports: the engine waits for them.
    commands: u64,
}

impl Mail {
    /// Returns the number of Gaussians to copy for a view before it is known, of at most `capacity`.
    fn expected(&self, capacity: u32) -> u32 {
        match self.most_shown {
            0 => capacity,
            most => most.saturating_add(most / 8).min(capacity),
        }
    }
}

/// Returns the Gaussians of a shipment that has their indices.
fn of_shipment(shipment: GpuShipment) -> ShownPart<GpuShipment> {
    ShownPart {
        indices: Vec::new(),
        shipment,
    }
}

/// Returns the size of a new buffer for this many bytes: numbers of visible Gaussians differ from view to view.
fn enlarged(bytes: u64) -> u64 {
    (bytes + bytes / 2).max(1 << 16).next_multiple_of(256)
}

/// Returns the bytes of the sums of a Gaussian.
fn sum_bytes(bits: Bits) -> u64 {
    u64::from(SLOT_FLOATS + bits.extra_floats()) * size_of::<f32>() as u64
}

/// Numbers that travel between engines on GPUs, on the GPU of their origin or on the host.
#[derive(Debug, Clone, Default)]
pub struct GpuShipment(Held);

#[derive(Debug, Clone)]
enum Held {
    Host(Arc<Vec<u8>>),
    Device {
        buffer: Arc<PeerBuffer>,
        first: u64,
        bytes: u64,
    },
}

impl Default for Held {
    fn default() -> Self {
        Self::Host(Arc::default())
    }
}

impl GpuShipment {
    /// Returns a range of a shipment on a device.
    fn part(&self, at: u64, length: u64) -> Self {
        match &self.0 {
            Held::Device { buffer, first, .. } => Self(Held::Device {
                buffer: Arc::clone(buffer),
                first: first + at,
                bytes: length,
            }),
            Held::Host(_) => self.clone(),
        }
    }
}

impl Shipment for GpuShipment {
    fn len(&self) -> usize {
        match &self.0 {
            Held::Host(bytes) => bytes.len(),
            Held::Device { bytes, .. } => *bytes as usize,
        }
    }

    fn to_bytes(&self) -> Result<Vec<u8>> {
        match &self.0 {
            Held::Host(bytes) => Ok(bytes.to_vec()),
            Held::Device {
                buffer,
                first,
                bytes,
            } => buffer
                .gpu()
                .read_at(buffer.buffer(), *first, *bytes as usize),
        }
    }

    fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(Held::Host(Arc::new(bytes)))
    }
}
