//! Commands: enqueues, encodes and submits them, and waits for them. See the steps in [`super`].

use super::{Command, GpuEngine};
use crate::features::runs_before;
use crate::layout;
use crate::messages::{densify_report, step_immediates, step_parameters, step_report};
use crate::passes::Bits;
use crate::plans::Plan;
use crate::ring::RingBuffer;
use crate::stages::densify;
use dapple_engine::{DensifyPlan, Report, StepSettings, ViewId};
use dapple_runtime::Values;
use dapple_scene::{Error, Result};

/// Number of steps between two sorts of the Gaussians in Morton order, so that neighbours in space
/// are neighbours in memory. The sort runs with the densification round after the batch of that step.
const MORTON_EVERY: u32 = 5000;

/// Numbers of a step for its passes.
pub(super) struct StepNumbers {
    pub(super) immediates: layout::Step,
    parameters: layout::Parameters,
}

impl StepNumbers {
    /// Returns the numbers as command lists take them.
    pub(super) fn values(&self) -> Result<Values<'_>> {
        let immediates = bytemuck::bytes_of(&self.immediates);
        Values::new(immediates, bytemuck::bytes_of(&self.parameters))
    }
}

impl GpuEngine {
    /// Encodes and submits a command.
    pub(super) fn enqueue(&mut self, command: Command) -> Result<()> {
        self.ready()?;
        self.kept.clear();
        self.write_views(None)?;
        // Before the command has its number, because these calls may submit other commands again.
        if let Command::Step(view, settings) = &command {
            self.place_photo(*view)?;
            settings.features.check()?;
            if self.features.reads_back(&self.views, settings) {
                self.settle()?;
            }
            let (features, mut at) = self.features();
            features.prepare(&mut at, *view, settings)?;
        }
        let sequence = self.ring.upcoming();
        match command {
            Command::Step(view, ref settings) => self.encode_step(view, settings, sequence)?,
            Command::Densify(ref plan, steps) => self.encode_densify(plan, steps, sequence)?,
        }
        self.ring.enqueued();
        self.pending.push_back((sequence, command));
        self.context.gpu.check()?;
        let reports = self.buffers.get("reports")?;
        self.ring.advance(&self.context.gpu, reports)?;
        while self.ring.is_full() {
            self.receive(true)?;
        }
        Ok(())
    }

    fn encode_step(&mut self, view: ViewId, settings: &StepSettings, sequence: u64) -> Result<()> {
        let (slot, is_masked) = self.photo_arrives(view, settings, sequence)?;
        let bits = self.step_bits(view, settings);
        self.fit(bits)?;
        let numbers = self.step_numbers(view, settings, is_masked, sequence)?;
        let values = numbers.values()?;
        if runs_before(settings) {
            let recording = self.recording(Plan::BeforeStep, bits, slot)?;
            recording.submit_with(&self.context.gpu, values);
        }
        let recording = self.recording(Plan::Step, bits, slot)?;
        let gpu = &self.context.gpu;
        self.times.submit(gpu, &recording, values, sequence)?;
        if settings.checks_numbers() {
            let recording = self.recording(Plan::Finite, bits, slot)?;
            recording.submit_with(&self.context.gpu, values);
        }
        Ok(())
    }

    /// Returns the bits of a step on a view.
    pub(super) fn step_bits(&self, view: ViewId, settings: &StepSettings) -> Bits {
        let model = self.views.get(view.0).map(|v| v.camera.model);
        Bits::of_step(settings, model.unwrap_or_default()) | self.features.bits(view, settings)
    }

    /// Puts the photo of a step where its passes read it. Returns its slot, and true if it has masked pixels.
    pub(super) fn photo_arrives(
        &mut self,
        view: ViewId,
        settings: &StepSettings,
        sequence: u64,
    ) -> Result<(usize, bool)> {
        let photo = self.photos.arrive(view.0, sequence)?;
        if let Some(counted) = photo.counted {
            self.write_counted(view, counted)?;
        }
        let slot = photo.slot;
        self.buffers.set_in_slot("photo", slot, &photo.buffer);
        let place = (slot, self.photos.is_ring());
        self.features
            .fill_slot(&self.context, &mut self.buffers, view, settings, place)?;
        Ok((slot, photo.is_masked))
    }

    /// Returns the numbers of a step for its passes.
    pub(super) fn step_numbers(
        &self,
        view: ViewId,
        settings: &StepSettings,
        is_masked: bool,
        sequence: u64,
    ) -> Result<StepNumbers> {
        let features = self.features.parameters(&self.views, view, settings)?;
        Ok(StepNumbers {
            immediates: step_immediates(
                view,
                settings,
                is_masked,
                RingBuffer::entry(sequence),
                self.sh_degree,
                self.default_cap,
            ),
            parameters: step_parameters(settings, features),
        })
    }

    /// Encodes a round after a batch of `steps` steps.
    fn encode_densify(&mut self, plan: &DensifyPlan, steps: u32, sequence: u64) -> Result<()> {
        let immediates = layout::Step {
            number: plan.step,
            report: RingBuffer::entry(sequence),
            ..layout::Step::default()
        };
        let batch = plan.step.saturating_sub(steps - 1)..=plan.step;
        // The order puts Gaussians of the sky and frozen ones behind new ones.
        let reorders =
            self.frozen + self.sky > 0 || { batch }.any(|step| step.is_multiple_of(MORTON_EVERY));
        let bits = densify::bits(plan) | Bits::when(reorders, Bits::REORDER);
        self.fit(bits)?;
        let recording = self.recording(Plan::Round, bits, 0)?;
        densify::set_plan(&self.context, &self.buffers, plan)?;
        let values = Values::new(bytemuck::bytes_of(&immediates), &[])?;
        let gpu = &self.context.gpu;
        self.times.submit(gpu, &recording, values, sequence)
    }

    /// Returns the numbers of the first command that is not done and of the next command.
    pub(super) fn pending_from(&self) -> (u64, u64) {
        let first = self.pending.front().map_or(u64::MAX, |(first, _)| *first);
        (first, self.ring.upcoming())
    }

    /// Processes the reports that have arrived. Returns true if there were any.
    pub(super) fn receive(&mut self, wait: bool) -> Result<bool> {
        let Some(reports) = self.ring.receive(&self.context.gpu, wait)? else {
            return Ok(false);
        };
        self.times.receive()?;
        for (sequence, report) in reports {
            if report.halted != 0 {
                self.recover(&report)?;
                break;
            }
            let Some((expected, command)) = self.pending.pop_front() else {
                return Err(Error::internal(
                    "a report came for a command that was not enqueued",
                ));
            };
            if expected != sequence {
                return Err(Error::internal("the GPU's reports came out of order"));
            }
            self.finished.push(match command {
                Command::Step(_, settings) => {
                    let stages = self.times.finished(sequence, settings.step, false);
                    step_report(&settings, &report, stages)
                }
                Command::Densify(plan, _) => {
                    self.times.finished(sequence, plan.step, true);
                    densify_report(&plan, &report)
                }
            });
        }
        Ok(true)
    }

    /// Grows the buffer that was too small, and submits again every command that did nothing.
    fn recover(&mut self, report: &layout::Report) -> Result<()> {
        self.context.gpu.wait()?;
        self.ring.clear();
        self.times.clear();
        if let Err(error) = self.grow_for(report.halted, report.wanted, report.gaussians) {
            // Pending commands have not run and cannot run: the splats are those before them.
            self.pending.clear();
            self.write_room()?;
            return Err(error);
        }
        let commands: Vec<Command> = self.pending.drain(..).map(|(_, c)| c).collect();
        for command in commands {
            self.enqueue(command)?;
        }
        Ok(())
    }

    /// Waits until every command has reported.
    pub(crate) fn settle(&mut self) -> Result<()> {
        while !self.pending.is_empty() {
            let reports = self.buffers.get("reports")?;
            self.ring.send(&self.context.gpu, reports)?;
            self.receive(true)?;
        }
        Ok(())
    }

    /// Returns the reports since the last call.
    pub(super) fn take_reports(&mut self) -> Result<Vec<Report>> {
        let reports = self.buffers.get("reports")?;
        self.ring.advance(&self.context.gpu, reports)?;
        while self.receive(false)? {}
        if self.pending.is_empty() {
            self.context.gpu.check()?;
        }
        Ok(std::mem::take(&mut self.finished))
    }
}
