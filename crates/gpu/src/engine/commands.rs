//! Commands: what is enqueued, encoded, submitted, and waited for. See the steps in [`super`].

use super::{GpuEngine, not_recorded};
use crate::frame::Asked;
use crate::layout;
use crate::messages::{densify_report, step_immediates, step_report};
use crate::ring::Ring;
use crate::stages::update::Mode;
use dapple_engine::constants::FINITE_EVERY;
use dapple_engine::{DensifyPlan, Report, StepSettings, ViewId};
use dapple_scene::{Error, Result};

/// What was enqueued and has not reported.
#[derive(Debug, Clone, Copy)]
pub(super) enum Command {
    Step(ViewId, StepSettings),
    Densify(DensifyPlan),
}

impl GpuEngine {
    /// Encodes and submits a command.
    pub(super) fn enqueue(&mut self, command: Command) -> Result<()> {
        self.ready()?;
        self.write_views(None)?;
        // Before the command has its number: others may be submitted again meanwhile.
        if let Command::Step(view, settings) = &command {
            self.place_photo(*view)?;
            self.fit_appearance(settings.appearance.as_ref())?;
        }
        let sequence = self.ring.upcoming();
        match command {
            Command::Step(view, settings) => self.encode_step(view, &settings, sequence)?,
            Command::Densify(plan) => self.encode_densify(&plan, sequence)?,
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
        let lens = self
            .views
            .get(view.0)
            .is_some_and(|v| v.camera.lens.is_some());
        let photo = self.photos.arrive(view.0, sequence)?;
        if let Some(counted) = photo.counted {
            self.write_counted(view, counted)?;
        }
        let mode = Mode::of(settings, lens, self.depths.count(view.0) > 0);
        let place = (photo.slot, self.photos.is_ring());
        let samples = match mode.depth {
            true => self.depths.bring(&self.context.gpu, view.0, place)?,
            false => None,
        };
        let immediates = layout::Step {
            depth_samples: self.depths.count(view.0) as u32,
            ..step_immediates(
                view,
                settings,
                photo.is_masked,
                Ring::entry(sequence),
                self.sh_degree,
                self.default_cap,
            )
        };
        self.fit_extra(Asked {
            steps: mode,
            depth_images: false,
        })?;
        self.fit_smoothing(mode.optics.antialias)?;
        if mode.poses {
            self.fit_poses()?;
        }
        self.record()?;
        let Some(recordings) = &mut self.recordings else {
            return Err(not_recorded());
        };
        let bytes = bytemuck::bytes_of(&immediates);
        if mode.optics.antialias && settings.refresh_smoothing {
            let room = self.room.gaussians;
            recordings
                .smoothing(&self.context, &mut self.stages, &self.buffers, room)?
                .submit(&self.context.gpu, bytes);
        }
        let recording = recordings.step(
            &self.context,
            &mut self.stages,
            &self.buffers,
            (photo.slot, mode),
            &photo.buffer,
            samples.as_ref(),
        )?;
        let gpu = &self.context.gpu;
        self.times.submit(gpu, recording, bytes, sequence)?;
        if settings.step.is_multiple_of(FINITE_EVERY) {
            recordings.finite().submit(gpu, bytes);
        }
        Ok(())
    }

    fn encode_densify(&mut self, plan: &DensifyPlan, sequence: u64) -> Result<()> {
        self.record()?;
        let planes = self.state_planes();
        let Some(recordings) = &mut self.recordings else {
            return Err(not_recorded());
        };
        let immediates = layout::Step {
            number: plan.step,
            report: Ring::entry(sequence),
            ..layout::Step::default()
        };
        let recording = recordings.densify(
            &self.context,
            &mut self.stages,
            &self.buffers,
            &planes,
            plan,
        )?;
        let bytes = bytemuck::bytes_of(&immediates);
        let gpu = &self.context.gpu;
        self.times.submit(gpu, recording, bytes, sequence)
    }

    /// Commands from the first of these on are not done; the second comes next.
    pub(super) fn pending_from(&self) -> (u64, u64) {
        let first = self.pending.front().map_or(u64::MAX, |(first, _)| *first);
        (first, self.ring.upcoming())
    }

    /// Takes in the reports that have arrived; true if there were some.
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
                    "a report came for a command that nobody gave",
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
                Command::Densify(plan) => {
                    self.times.finished(sequence, plan.step, true);
                    densify_report(&plan, &report)
                }
            });
        }
        Ok(true)
    }

    /// Grows what was too small and submits every command that did nothing again.
    fn recover(&mut self, report: &layout::Report) -> Result<()> {
        self.context.gpu.wait()?;
        self.ring.clear();
        self.times.clear();
        if let Err(error) = self.grow_for(report.halted, report.wanted, report.gaussians) {
            // What is pending has not happened and cannot: the splats are those before it.
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

    /// What has reported since the last call.
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
