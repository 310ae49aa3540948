//! [`Recording`]: what a [`Recorder`](crate::Recorder) saw of a window that was opened and closed
//! while the device had nothing to do.
//!
//! That claim is a value, [`Synchronised`]: without two of them there is no recording, and without
//! a recording there is no [`Profile`](crate::Profile). Analysis checks the claim as far as device
//! spans can: one that is still running when the window closes is an error, not a number.

use crate::profile::Phase;
use std::borrow::Cow;
use std::time::Instant;

/// A name: free if it is a literal.
pub type Name = Cow<'static, str>;

/// A moment at which the device had nothing to do. Windows open and close at such moments only,
/// since time between two others belongs partly to work that is not in it.
#[derive(Debug, Clone, Copy)]
pub struct Synchronised {
    pub(crate) at: Instant,
}

impl Synchronised {
    /// Runs `wait`, which must return only when the device has finished all that was given to it;
    /// the moment is when it does.
    ///
    /// # Errors
    /// Those of `wait`.
    pub fn after<E>(wait: impl FnOnce() -> Result<(), E>) -> Result<Self, E> {
        wait()?;
        Ok(Self { at: Instant::now() })
    }

    /// Now, in a program that gives work to no device and waits for its own threads.
    pub fn host_only() -> Self {
        Self { at: Instant::now() }
    }
}

/// Where a span is shown, and what it means to the budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Track {
    /// A stage on the device. These make the budget, where there are any.
    Device,
    /// A dispatch on the device, inside a stage. Timed, shown, no part of the budget.
    Kernels,
    /// The calling thread, timed by something else than a guard.
    Host,
    /// A track of its own, shown and nothing else.
    Other(Name),
}

/// A span that was timed elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Its name; on [`Track::Device`] that of a stage.
    pub name: Name,
    /// What it is for; if absent, what [`Setup::stages`](crate::Setup::stages) says of its name.
    pub phase: Option<Phase>,
    /// When it began, ns after [`Recorder::origin`](crate::Recorder::origin) on the host's clock.
    pub start_ns: i64,
    /// How long it took, ns.
    pub duration_ns: u64,
    /// The step it belongs to.
    pub step: Option<u64>,
    /// Spans of one submission have one number: the device's idle time between them is a gap, not
    /// a wait for the host. If absent, a step is taken to be one submission.
    pub submission: Option<u64>,
    /// Of a kernel: the stage it belongs to.
    pub stage: Option<Name>,
}

impl Span {
    /// A span with nothing but a name and its time.
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

    /// Says what it is for.
    pub fn phase(mut self, phase: Phase) -> Self {
        self.phase = Some(phase);
        self
    }

    /// Says which step it belongs to.
    pub fn step(mut self, step: u64) -> Self {
        self.step = Some(step);
        self
    }

    /// Says with which spans it was submitted.
    pub fn submission(mut self, submission: u64) -> Self {
        self.submission = Some(submission);
        self
    }

    /// Says which stage a kernel belongs to.
    pub fn stage(mut self, stage: impl Into<Name>) -> Self {
        self.stage = Some(stage.into());
        self
    }

    /// When it ended, ns after the origin.
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
    /// Guards open around it, to tell nested spans apart that began together.
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

/// What was recorded of a finished, synchronised window. Times are ns after the recorder's origin.
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
    /// The window's length, ns.
    pub fn wall_ns(&self) -> u64 {
        self.end_ns.abs_diff(self.begin_ns)
    }

    /// Steps that ended inside the window.
    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    /// Everything that was recorded, in records a step; times
    /// [`Recorder::measure_cost`](crate::Recorder::measure_cost) it is what recording took.
    pub fn records_per_step(&self) -> f64 {
        let spans = self.device.len() + self.kernels.len() + self.host.len() + self.other.len();
        let records = spans + self.counts.len() + self.losses.len() + self.steps.len();
        records as f64 / self.steps.len().max(1) as f64
    }
}
