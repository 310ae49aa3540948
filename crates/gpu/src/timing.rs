//! Times of steps on the device.
//!
//! 1. A submission is timed under its command's sequence number, by stage or by dispatch.
//! 2. Its times arrive with its report, or a little before, without a wait.
//! 3. A step's report gets the time of each stage. A profiler also needs the positions of spans on the host's clock: it
//!    calls [`Times::keep`] and [`Times::take_kept`].

use dapple_engine::{Stage, StageTime};
use dapple_runtime::{CommandList, Detail, Gpu, GpuClock, Timing, Values};
use dapple_scene::Result;
use std::collections::BTreeMap;

/// Most spans of a command, or dispatches, with a reserve.
const SPANS: usize = 96;

/// Time of a step, or of a densification round, on the device.
#[derive(Debug, Clone, PartialEq)]
pub struct StepTiming {
    /// Step number from the settings or the plan.
    pub step: u32,
    /// True for a densification round.
    pub is_densify: bool,
    /// Its spans; positions in time are those of [`GpuEngine::clock`](crate::GpuEngine::clock).
    pub timing: Timing,
}

/// The clock and the times that have arrived from it.
#[derive(Debug, Default)]
pub(crate) struct Times {
    clock: Option<GpuClock>,
    /// `None`: nothing is timed.
    detail: Option<Detail>,
    /// By sequence number.
    arrived: BTreeMap<u64, Timing>,
    /// Times that are stored for a profiler; `None`: they are not stored.
    kept: Option<Vec<StepTiming>>,
}

impl Times {
    /// Times from now on, of up to `in_flight` commands in flight. Returns false if the device cannot.
    pub fn set(&mut self, gpu: &Gpu, detail: Option<Detail>, in_flight: usize) -> Result<bool> {
        if detail.is_some() && self.clock.is_none() {
            self.clock = GpuClock::new(gpu, SPANS, in_flight)?;
        }
        self.detail = detail.filter(|_| self.clock.is_some());
        Ok(self.detail == detail)
    }

    /// Stores times for [`Self::take_kept`] from now on.
    pub fn keep(&mut self) {
        self.kept.get_or_insert_default();
    }

    pub fn take_kept(&mut self) -> Vec<StepTiming> {
        self.kept.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub fn clock(&mut self) -> Option<&mut GpuClock> {
        self.clock.as_mut()
    }

    /// Submits a command list, timed if timing is on.
    pub fn submit(
        &mut self,
        gpu: &Gpu,
        recording: &CommandList,
        values: Values<'_>,
        sequence: u64,
    ) -> Result<()> {
        match (&mut self.clock, self.detail) {
            (Some(clock), Some(detail)) => clock
                .submit_with(recording, values, sequence, detail)
                .map(|_| ()),
            _ => {
                recording.submit_with(gpu, values);
                Ok(())
            }
        }
    }

    /// Receives the times that have arrived.
    pub fn receive(&mut self) -> Result<()> {
        if let Some(clock) = &mut self.clock {
            let arrived = clock.poll()?.into_iter();
            self.arrived
                .extend(arrived.map(|timing| (timing.tag, timing)));
        }
        Ok(())
    }

    /// Returns the times of a finished command, by stage.
    pub fn finished(&mut self, sequence: u64, step: u32, is_densify: bool) -> Vec<StageTime> {
        let Some(timing) = self.arrived.remove(&sequence) else {
            return Vec::new();
        };
        let by_stage = timing.spans.iter().filter_map(|span| {
            let stage = Stage::ALL.into_iter().find(|s| s.name() == span.name)?;
            let duration_ns = span.duration_ns;
            span.kernel
                .is_none()
                .then_some(StageTime { stage, duration_ns })
        });
        let mut sums: Vec<StageTime> = Vec::new();
        for time in by_stage {
            // `appearance` has two spans: forward and backward.
            match sums.iter_mut().find(|sum| sum.stage == time.stage) {
                Some(sum) => sum.duration_ns += time.duration_ns,
                None => sums.push(time),
            }
        }
        if let Some(kept) = &mut self.kept {
            kept.push(StepTiming {
                step,
                is_densify,
                timing,
            });
        }
        sums
    }

    /// Discards the times of commands that are to be submitted again.
    pub fn clear(&mut self) {
        self.arrived.clear();
    }
}
