//! [`Recording`]: the records of a [`Recorder`](crate::Recorder) in a window that was opened and
//! closed while the device had nothing to do.
//!
//! That claim is a value, [`Synchronised`]: without two of them there is no recording, and without
//! a recording there is no [`Profile`](crate::Profile). Analysis checks the claim as far as device
//! spans allow: a span that is still running when the window closes is an error, not a number.

use crate::profile::Phase;
use std::borrow::Cow;
use std::time::Instant;

/// A name; a literal is not copied.
pub type Name = Cow<'static, str>;

/// A moment at which the device had nothing to do. Windows open and close only at such moments.
/// Time between two other moments belongs partly to work outside the window.
#[derive(Debug, Clone, Copy)]
pub struct Synchronised {
    pub(crate) at: Instant,
}

impl Synchronised {
    /// Runs `wait`, which must return only when the device has finished all submitted work; the
    /// moment is the time of its return.
    ///
    /// # Errors
    /// The errors of `wait`.
    pub fn after<E>(wait: impl FnOnce() -> Result<(), E>) -> Result<Self, E> {
        wait()?;
        Ok(Self { at: Instant::now() })
    }

    /// Returns the present moment, in a program that uses no device and waits for its own threads.
    pub fn host_only() -> Self {
        Self { at: Instant::now() }
    }
}

/// Track of a span, and its role in the budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Track {
    /// A stage on the device. If there are any, these make the budget.
    Device,
    /// A dispatch on the device, inside a stage. Timed and shown, but not part of the budget.
    Kernels,
    /// The calling thread, timed without a guard.
    Host,
    /// A separate track that is only shown.
    Other(Name),
}

/// A span that was timed elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Name of the span; on [`Track::Device`] that of a stage.
    pub name: Name,
    /// Phase, for a span whose name has no stage in [`Setup::stages`](crate::Setup::stages); the
    /// phase of such a stage has priority.
    pub phase: Option<Phase>,
    /// Beginning, ns after [`Recorder::origin`](crate::Recorder::origin) on the host's clock.
    pub start_ns: i64,
    /// Duration, ns.
    pub duration_ns: u64,
    /// Step of the span.
    pub step: Option<u64>,
    /// Number of the submission. The device's idle time between spans of one submission is a gap,
    /// not a wait for the host. If absent, a step counts as one submission.
    pub submission: Option<u64>,
    /// Stage of a kernel.
    pub stage: Option<Name>,
}

impl Span {
    /// Creates a span with only a name and its time.
    pub fn new(name: impl Into<Name>, start_ns: i64, duration_ns: u64) -> Self {
        Self {
            name: name.into(),
            phase: None,
            start_ns,
            duration_ns,
            step: None,
            submission: None,
            stage: None,
        }
    }

    /// Sets the phase.
    pub fn phase(mut self, phase: Phase) -> Self {
        self.phase = Some(phase);
        self
    }

    /// Sets the step.
    pub fn step(mut self, step: u64) -> Self {
        self.step = Some(step);
        self
    }

    /// Sets the number of the submission.
    pub fn submission(mut self, submission: u64) -> Self {
        self.submission = Some(submission);
        self
    }

    /// Sets the stage of a kernel.
    pub fn stage(mut self, stage: impl Into<Name>) -> Self {
        self.stage = Some(stage.into());
        self
    }

    /// Returns the end, ns after the origin.
    pub fn end_ns(&self) -> i64 {
        self.start_ns.saturating_add_unsigned(self.duration_ns)
    }
}

/// A span of a thread.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HostSpan {
    pub name: Name,
    pub phase: Phase,
    /// Index into [`Recording::threads`].
    pub thread: u32,
    /// Guards open around it, which distinguishes nested spans with the same beginning.
    pub depth: u32,
    pub start_ns: i64,
    pub duration_ns: u64,
    pub step: Option<u64>,
}

impl HostSpan {
    pub fn end_ns(&self) -> i64 {
        self.start_ns.saturating_add_unsigned(self.duration_ns)
    }
}

/// A counter's value at a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Count {
    /// Index into [`Recording::counters`].
    pub counter: usize,
    pub step: u64,
    pub value: f64,
}

/// Records of a finished, synchronised window. Times are ns after the recorder's origin.
#[derive(Debug, Clone)]
pub struct Recording {
    pub(crate) begin_ns: i64,
    pub(crate) end_ns: i64,
    /// The thread that opened the window: the budget is about its time.
    pub(crate) driver: u32,
    pub(crate) device: Vec<Span>,
    pub(crate) kernels: Vec<Span>,
    pub(crate) host: Vec<HostSpan>,
    pub(crate) other: Vec<(Name, Span)>,
    /// Number and end of each step that ended, in order of ends; each number once.
    pub(crate) steps: Vec<(u64, i64)>,
    /// Name and unit.
    pub(crate) counters: Vec<(String, String)>,
    pub(crate) counts: Vec<Count>,
    pub(crate) losses: Vec<(u64, f64)>,
    pub(crate) threads: Vec<String>,
}

impl Recording {
    /// Returns the window's length, ns.
    pub fn wall_ns(&self) -> u64 {
        self.end_ns.abs_diff(self.begin_ns)
    }

    /// Returns the number of steps that ended inside the window.
    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    /// Returns the records per step. Times
    /// [`Recorder::measure_cost`](crate::Recorder::measure_cost), this is the cost of recording in
    /// a step.
    pub fn records_per_step(&self) -> f64 {
        let spans = self.device.len() + self.kernels.len() + self.host.len() + self.other.len();
        let records = spans + self.counts.len() + self.losses.len() + self.steps.len();
        records as f64 / self.steps.len().max(1) as f64
    }
}
