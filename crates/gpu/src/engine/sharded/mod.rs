//! Implementation of [`Sharded`] for [`GpuEngine`]. See `shaders/parts.wgsl`.
//!
//! - `copies.rs`: rounds of relocation.
//! - `kernels.rs`: kernels that bind shipments.
//! - `mail.rs`: shipments and their buffers.
//! - `progress.rs`: calls that were begun.

mod copies;
mod kernels;
mod mail;
mod progress;

use super::GpuEngine;
use crate::features::runs_before;
use crate::layout;
use crate::messages::{render_immediates, step_report};
use crate::passes::Bits;
use crate::plans::Plan;
use dapple_engine::sharded::{check_settings, oldest};
use dapple_engine::{
    ComparedView, DensifyPlan, NonFiniteReport, Part, PosedCamera, RenderSettings, Rendered,
    Report, ScoreAsks, ScoredView, Sharded, Shipment, ShownPart, ViewStep,
};
use dapple_runtime::Values;
use dapple_scene::{Camera, Error, Photo, Result};
use kernels::{Work, rows_in, sum_bytes};
pub use mail::GpuShipment;
pub(super) use progress::Progress;
use progress::{Added, Begun, Projections};
use std::mem::offset_of;
use std::slice;

impl Sharded for GpuEngine {
    type Shipment = GpuShipment;

    fn set_part(&mut self, part: Part) -> Result<()> {
        let state = self.buffers.get("state")?;
        self.others = word(part.total - part.len())?;
        let block = part.block;
        let words = [
            word(part.number * block)?,
            word(block)?,
            word((part.engines - 1) * block)?,
            self.others,
        ];
        self.sharded.projections.clear();
        self.sharded.begun.clear();
        self.sharded.added.clear();
        let at = offset_of!(layout::State, first) as u64;
        self.context.gpu.write(state, at, &words);
        self.context.gpu.check()
    }

    fn begin_projections(&mut self, steps: &[ViewStep]) -> Result<()> {
        let projections = self.project_all(steps.to_vec())?;
        self.sharded.projections.push_back(projections);
        Ok(())
    }

    fn finish_projections(&mut self) -> Result<Vec<ShownPart<GpuShipment>>> {
        let mut begun = oldest(&mut self.sharded.projections)?;
        let mut shown = Vec::with_capacity(begun.steps.len());
        loop {
            let own = self.finish_projected(&mut begun)?;
            let done = own.len();
            shown.extend(own);
            if done == begun.steps.len() {
                return Ok(shown);
            }
            begun = self.project_all(begun.steps.split_off(done))?;
        }
    }

    fn project_camera(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
    ) -> Result<ShownPart<GpuShipment>> {
        let camera = PosedCamera::new(camera)?;
        let bits = self.prepare_front(&camera, settings, Bits::IMAGE_ONLY | Bits::SHARDED)?;
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
        let bits = Bits::when(settings.depth, Bits::DEPTH);
        let (state, bits) = self.forward_of_parts(&camera, settings, bits, parts)?;
        self.rendered(&camera, settings, bits, &state)
    }

    fn score_parts(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        (photo, asks): (&Photo, ScoreAsks),
        parts: &[GpuShipment],
    ) -> Result<Option<ScoredView>> {
        let Some(view) = self.prepare_score((camera, settings), photo, asks)? else {
            return Ok(None);
        };
        let (state, _) = self.forward_of_parts(&view.camera, settings, view.bits, parts)?;
        self.compared(&view, settings, &state).map(Some)
    }

    fn begin_views(&mut self, steps: &[ViewStep], parts: Vec<Vec<GpuShipment>>) -> Result<()> {
        let begun = self.begin_all(steps.to_vec(), parts)?;
        self.sharded.begun.push_back(begun);
        Ok(())
    }

    fn finish_views(&mut self) -> Result<Vec<ComparedView<GpuShipment>>> {
        let mut begun = oldest(&mut self.sharded.begun)?;
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

    fn begin_gradients(
        &mut self,
        steps: &[ViewStep],
        shown: &[ShownPart<GpuShipment>],
        sums: &[GpuShipment],
    ) -> Result<()> {
        let bits = self.prepare_parts(steps)?;
        let counts = shown.iter();
        let counts = counts.map(|shown| self.reserve_shown(slice::from_ref(&shown.shipment)));
        let counts = counts.collect::<Result<Vec<_>>>()?;
        let gpu = self.context.gpu.clone();
        let mail = &mut self.sharded.mail;
        let coming = sums.iter().map(|sums| mail.receive(&gpu, sums));
        let coming = coming.collect::<Result<Vec<_>>>()?;
        let first = self.sharded.take_numbers(steps.len());
        let mut work = Work::begin(&self.context.gpu);
        let all = steps.iter().zip(counts.into_iter().zip(sums));
        let all = all.zip(shown.iter().zip(coming));
        for ((((view, settings), (rows, sums)), (own, coming)), (bits, sequence)) in
            all.zip(bits.into_iter().zip(first..))
        {
            self.batch.step(settings.batch)?;
            let mut numbers = self.step_numbers(*view, settings, false, sequence)?;
            numbers.immediates.shown = rows;
            let values = numbers.values()?;
            if sums.len() as u64 != u64::from(rows) * sum_bytes(bits) {
                return Err(Error::internal("sums came for another number of Gaussians"));
            }
            let own = (rows, &own.shipment, coming);
            let plan = match settings.batch.is_first() {
                true => {
                    self.restore(&mut work, values, bits, own)?;
                    Plan::UpdatePart
                }
                false => {
                    self.add_rows(&mut work, values, bits, own)?;
                    Plan::MovePart
                }
            };
            let recording = self.recording(plan, bits, 0)?;
            recording.encode_with(&mut work.encoder, values);
            if settings.checks_numbers() {
                let recording = self.recording(Plan::Finite, bits, 0)?;
                recording.encode_with(&mut work.encoder, values);
            }
            work.end_step(&self.context.gpu);
        }
        let checks = steps.iter().map(|(_, settings)| settings.checks_numbers());
        let checks: Vec<bool> = checks.collect();
        let reports = match checks.contains(&true) {
            true => Some(self.submit_and_report(work)?),
            false => {
                self.submit(work);
                None
            }
        };
        self.sharded.added.push_back(Added {
            first,
            checks,
            reports,
        });
        self.context.gpu.check()
    }

    fn finish_gradients(&mut self) -> Result<Vec<Option<NonFiniteReport>>> {
        let added = oldest(&mut self.sharded.added)?;
        let count = added.checks.len();
        let Some(mut reports) = added.reports else {
            return Ok(vec![None; count]);
        };
        let reports = reports.of(added.first, count)?;
        let found = reports.iter().zip(added.checks).map(|(report, checks)| {
            let found = NonFiniteReport::new(report.broken.into(), report.broken_tensors);
            found.filter(|_| checks)
        });
        Ok(found.collect())
    }

    fn weigh(&mut self, plan: &DensifyPlan) -> Result<Vec<u32>> {
        self.weights(plan)
    }

    fn grow_part(&mut self, part: Part) -> Result<()> {
        self.enlarge(part)
    }

    fn take_copies(&mut self, from: &[Vec<u32>]) -> Result<Vec<GpuShipment>> {
        self.copies_of(from)
    }

    fn put_copies(&mut self, to: &[Vec<u32>], copies: &[GpuShipment]) -> Result<()> {
        self.take_places(to, copies)
    }

    fn share(&mut self, plan: &DensifyPlan, shared: &[[u32; 2]]) -> Result<()> {
        self.share_places(plan, shared)
    }
}

/// Returns a number of Gaussians as a word of the GPU.
fn word(number: usize) -> Result<u32> {
    u32::try_from(number).map_err(|_| Error::input("a model has more Gaussians than 32 bits count"))
}

impl GpuEngine {
    /// Renders projected Gaussians of all parts; `bits` select the outputs. Also returns all bits of the render.
    fn forward_of_parts(
        &mut self,
        camera: &PosedCamera,
        settings: &RenderSettings,
        bits: Bits,
        parts: &[GpuShipment],
    ) -> Result<(layout::State, Bits)> {
        let bits = Bits::IMAGE_ONLY | Bits::SHARDED | bits;
        let bits = self.prepare_front(camera, settings, bits)?;
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
            self.submit(work);
            let mut state = self.state()?;
            if state.halted == 0 {
                state.gaussians += self.others;
                return Ok((state, bits));
            }
            self.grow_for(state.halted, state.wanted, state.gaussians)?;
        }
    }

    /// Prepares halves of steps. Returns their bits. No buffer changes after it while commands are encoded.
    fn prepare_parts(&mut self, steps: &[ViewStep]) -> Result<Vec<Bits>> {
        self.settle()?;
        self.ready()?;
        self.kept.clear();
        self.write_views(None)?;
        let mut all = Vec::with_capacity(steps.len());
        for (view, settings) in steps {
            check_settings(settings)?;
            let (features, mut at) = self.features();
            features.prepare(&mut at, *view, settings)?;
            all.push(self.step_bits(*view, settings) | Bits::SHARDED);
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
            reports: self.submit_and_report(work)?,
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
            self.sum_slots(&mut work, values, bits, &received)?;
            all_sums.push(received.sums);
            work.end_step(&self.context.gpu);
        }
        Ok(Begun {
            first,
            steps,
            parts,
            sums: all_sums,
            reports: self.submit_and_report(work)?,
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

    /// Enlarges buffers for the projected Gaussians of parts. Returns their number. No command is encoded and not
    /// submitted.
    fn reserve_shown(&mut self, parts: &[GpuShipment]) -> Result<u32> {
        let rows = parts.iter().map(rows_in).sum::<Result<u64>>()?;
        let visible = u32::try_from(rows)
            .map_err(|_| Error::input("a view shows more Gaussians than 32 bits count"))?;
        self.reserve_visible(visible)?;
        Ok(visible)
    }
}
