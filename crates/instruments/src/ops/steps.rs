//! [`Runner`]: steps of a workload, on the CPU or a GPU, timed or not.

use super::phase;
use super::workload::{InjectedFault, Operation, Workload};
use dapple::runtime::{CommandList, Counters, Detail, Gpu, GpuClock, Timing};
use dapple::{Error, ErrorKind, Progress, Result};
use dapple_profile::profile::{KernelSummary, Phase};
use dapple_profile::{Recorder, Recording, Span, Synchronised, Track, kernels_of};
use dapple_tensor::{Context, Device, Plan};
use std::time::{Duration, Instant};

/// Most submissions in flight while they are timed.
const IN_FLIGHT: usize = 512;
/// Most spans of one submission.
const MOST_SPANS: usize = 512;
/// Steps that are enqueued before a wait, if nothing else waits.
const AHEAD: u32 = 100;
/// Dispatches for the measurement of the time of an empty one.
const EMPTY: usize = 256;

/// Measurement of a window.
pub(super) struct Timed {
    pub recording: Recording,
    /// Counted calls of the host to the device.
    pub asked: Counters,
    /// True if stages were timed on the device.
    pub device_clock: bool,
    pub calibration_error_ns: Option<f64>,
    /// Submissions that were not timed.
    pub skipped: u64,
}

/// A workload with its compiled commands.
pub(super) struct Runner<'a> {
    context: Context,
    workload: Workload,
    progress: &'a dyn Progress,
    /// Runs of each operation; one command list without an injected fault.
    commands: Vec<CommandList>,
    runs: usize,
    clock: Option<GpuClock>,
    /// Timings of the submissions of the window: step and spans.
    arrived: Vec<Timing>,
    steps_done: u64,
}

impl<'a> Runner<'a> {
    pub fn new(context: &Context, workload: Workload, progress: &'a dyn Progress) -> Result<Self> {
        let clock = match context.device() {
            Device::Gpu(gpu) => GpuClock::new(gpu, MOST_SPANS, IN_FLIGHT)?,
            Device::Cpu => None,
        };
        Ok(Self {
            context: context.clone(),
            workload,
            progress,
            commands: Vec::new(),
            runs: 1,
            clock,
            arrived: Vec::new(),
            steps_done: 0,
        })
    }

    pub fn operations(&self) -> &[Operation] {
        &self.workload.operations
    }

    pub fn gpu(&self) -> Option<&Gpu> {
        match self.context.device() {
            Device::Gpu(gpu) => Some(gpu),
            Device::Cpu => None,
        }
    }

    /// Returns the number of working threads: on a GPU, 1, the one that drives it.
    pub fn threads(&self) -> usize {
        match self.gpu() {
            Some(_) => 1,
            None => rayon::current_num_threads(),
        }
    }

    /// Sets the number of runs of each operation in a step.
    pub fn set_runs(&mut self, runs: usize) -> Result<()> {
        self.runs = runs;
        self.commands = match self.is_replayed() {
            true => vec![self.workload.recording(runs)?],
            false => Vec::new(),
        };
        Ok(())
    }

    /// Returns true if a step is one submission of a recorded command list.
    pub fn is_replayed(&self) -> bool {
        matches!(self.workload.plant, None | Some(InjectedFault::NaiveMatmul))
    }

    fn wait(&self) -> Result<()> {
        self.gpu().map_or(Ok(()), Gpu::wait)
    }

    fn go_on(&self) -> Result<()> {
        match self.progress.should_stop() {
            true => Err(Error::new(
                ErrorKind::Interrupted,
                "the profile was stopped; nothing was written",
            )),
            false => Ok(()),
        }
    }

    /// Runs `steps` steps without the profiler. Returns their wall time.
    pub fn plain(&mut self, steps: u32) -> Result<Duration> {
        let off = Recorder::off();
        self.wait()?;
        let started = Instant::now();
        for step in 0..steps {
            self.go_on()?;
            self.step(&off, None)?;
            self.progress.advance(1);
            if step % AHEAD == AHEAD - 1 {
                self.wait()?;
            }
        }
        self.wait()?;
        Ok(started.elapsed())
    }

    /// Runs `steps` timed steps.
    pub fn window(&mut self, recorder: &Recorder, steps: u32) -> Result<Timed> {
        self.arrived.clear();
        let skipped = self.clock.as_ref().map_or(0, GpuClock::skipped);
        if let Some(clock) = &mut self.clock {
            clock.calibrate()?;
        }
        let own = Recorder::new();
        // If the caller records nothing, the recording is discarded.
        let recorder = if recorder.is_on() { recorder } else { &own };
        recorder.begin_window(Synchronised::after(|| self.wait())?);
        let begin = self.counters();
        for _ in 0..steps {
            self.go_on()?;
            let step = self.steps_done;
            {
                let _span = recorder.span("step", Phase::Host).step(step);
                self.step(recorder, Some(step))?;
            }
            if self.clock.is_none() {
                if self.gpu().is_some() {
                    // Without a device clock each step is waited for.
                    let _span = recorder.span("wait", Phase::Host).step(step);
                    self.wait()?;
                }
                recorder.end_step(step);
            }
            self.steps_done += 1;
            self.progress.advance(1);
        }
        let asked = self.counters() - begin;
        recorder.end_window(Synchronised::after(|| self.wait())?);
        self.collect()?;
        self.record(recorder);
        let device_clock = self.clock.is_some();
        Ok(Timed {
            recording: recorder.finish()?,
            asked,
            device_clock,
            calibration_error_ns: self.clock.as_ref().map(|c| c.calibration().uncertainty_ns),
            skipped: self.clock.as_ref().map_or(0, GpuClock::skipped) - skipped,
        })
    }

    fn counters(&self) -> Counters {
        self.gpu().map(Gpu::counters).unwrap_or_default()
    }

    /// Collects the timings that have arrived.
    fn collect(&mut self) -> Result<()> {
        if let Some(clock) = &mut self.clock {
            self.arrived.extend(clock.poll()?);
        }
        Ok(())
    }

    /// Passes the device's timings to the recorder.
    fn record(&mut self, recorder: &Recorder) {
        let Some(clock) = &self.clock else { return };
        let offset = recorder.offset_of(clock.origin());
        let mut ends: Vec<(u64, i64)> = Vec::new();
        for (submission, timing) in self.arrived.drain(..).enumerate() {
            for span in timing.spans {
                let begin = span.start_ns + offset;
                let end = begin + span.duration_ns as i64;
                match ends.last_mut().filter(|last| last.0 == timing.tag) {
                    Some(last) => last.1 = last.1.max(end),
                    None => ends.push((timing.tag, end)),
                }
                let found = self
                    .workload
                    .operations
                    .iter()
                    .find(|o| o.name == span.name);
                let of = Span::new(span.name, begin, span.duration_ns)
                    .phase(phase(found.is_some_and(|o| o.is_backward)))
                    .step(timing.tag)
                    .submission(submission as u64);
                recorder.add_span(Track::Device, of);
            }
        }
        for (step, end) in ends {
            recorder.end_step_at(step, end);
        }
    }

    /// Runs one step; timed under this number, if there is one.
    fn step(&mut self, recorder: &Recorder, timed: Option<u64>) -> Result<()> {
        let Some(gpu) = self.gpu().cloned() else {
            return self.step_on_processor(recorder);
        };
        if self.is_replayed() {
            let _span = recorder.span("submit", Phase::Host);
            let commands = &self.commands[0];
            return submit(&gpu, &mut self.clock, commands, timed, Detail::Spans);
        }
        let detail = match self.workload.plant {
            Some(InjectedFault::Unfused) => Detail::Dispatches,
            _ => Detail::Spans,
        };
        for operation in &mut self.workload.operations {
            mistake_before(self.workload.plant, operation, recorder)?;
            {
                let _span = recorder.span("submit", Phase::Host);
                if let Some(commands) = operation.plan().recording() {
                    submit(&gpu, &mut self.clock, commands, timed, detail)?;
                }
            }
            mistake_after(self.workload.plant, operation, recorder)?;
        }
        self.collect()
    }

    fn step_on_processor(&mut self, recorder: &Recorder) -> Result<()> {
        for operation in &mut self.workload.operations {
            mistake_before(self.workload.plant, operation, recorder)?;
            {
                let _span = recorder.span(operation.name, phase(operation.is_backward));
                for _ in 0..self.runs {
                    operation.plan().run()?;
                }
            }
            mistake_after(self.workload.plant, operation, recorder)?;
        }
        Ok(())
    }

    /// Runs each operation with each dispatch timed separately, and scales the times to a step of the window.
    pub fn kernels(&mut self, steps: u32) -> Result<Vec<KernelSummary>> {
        let (Some(gpu), Some(clock)) = (self.gpu().cloned(), &mut self.clock) else {
            return Ok(Vec::new());
        };
        let recorder = Recorder::new();
        recorder.begin_window(Synchronised::after(|| gpu.wait())?);
        let offset = recorder.offset_of(clock.origin());
        for step in 0..u64::from(steps) {
            for operation in &self.workload.operations {
                if let Some(commands) = operation.plan().recording() {
                    clock.submit(commands, &[], step, Detail::Dispatches)?;
                }
            }
            gpu.wait()?;
            let mut last = 0;
            for span in clock.poll()?.into_iter().flat_map(|timing| timing.spans) {
                let begin = span.start_ns + offset;
                last = last.max(begin + span.duration_ns as i64);
                let kernel = span.kernel.unwrap_or_default();
                let of = Span::new(kernel, begin, span.duration_ns)
                    .stage(span.name)
                    .step(step);
                recorder.add_span(Track::Kernels, of);
            }
            recorder.end_step_at(step, last);
        }
        recorder.end_window(Synchronised::after(|| gpu.wait())?);
        let mut kernels = kernels_of(&recorder.finish()?);
        for kernel in &mut kernels {
            kernel.per_step *= self.runs as f64;
        }
        Ok(kernels)
    }

    /// Measures the time of an empty dispatch, one after another in a pass.
    pub fn dispatch_ns(&self) -> Result<Option<f64>> {
        let Some(gpu) = self.gpu() else {
            return Ok(None);
        };
        let least = Plan::compile(&[&self.context.tensor(&[4], &[0.0; 4]).add(1.0)])?;
        let time = |count: usize| -> Result<f64> {
            let Some(commands) = least.repeated(count)? else {
                return Ok(0.0);
            };
            let mut best = f64::INFINITY;
            for _ in 0..5 {
                gpu.wait()?;
                let mut encoder = gpu.encoder();
                commands.encode(&mut encoder, &[]);
                let started = Instant::now();
                gpu.submit(encoder);
                gpu.wait()?;
                best = best.min(started.elapsed().as_nanos() as f64);
            }
            Ok(best)
        };
        // Both include the submission itself.
        let (few, many) = (time(1)?, time(1 + EMPTY)?);
        Ok(Some(((many - few) / EMPTY as f64).max(0.0)))
    }
}

/// Submits commands, timed if there is a clock and a number.
fn submit(
    gpu: &Gpu,
    clock: &mut Option<GpuClock>,
    commands: &CommandList,
    timed: Option<u64>,
    detail: Detail,
) -> Result<()> {
    match (clock, timed) {
        (Some(clock), Some(step)) => clock.submit(commands, &[], step, detail).map(drop),
        _ => {
            commands.submit(gpu, &[]);
            Ok(())
        }
    }
}

fn mistake_before(
    plant: Option<InjectedFault>,
    operation: &mut Operation,
    recorder: &Recorder,
) -> Result<()> {
    match plant {
        Some(InjectedFault::Upload) => {
            let _span = recorder.span("upload", Phase::Transfer);
            operation.upload()
        }
        Some(InjectedFault::NoPool) => {
            let _span = recorder.span("compile and allocate", Phase::Host);
            operation.anew()
        }
        _ => Ok(()),
    }
}

fn mistake_after(
    plant: Option<InjectedFault>,
    operation: &Operation,
    recorder: &Recorder,
) -> Result<()> {
    if plant != Some(InjectedFault::Readback) {
        return Ok(());
    }
    // On a GPU a result is few bytes: the time is that of the wait, after which the queue is empty.
    let _span = match operation.plan().recording() {
        Some(_) => recorder.span("wait and read back", Phase::Host),
        None => recorder.span("read back", Phase::Transfer),
    };
    operation.read()
}
