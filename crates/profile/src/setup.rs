//! [`Setup`]: what a recording cannot know of itself, for [`analyse`](crate::analyse).

use crate::profile::{Ceilings, Control, Cost, Fact, KernelSummary, Method, Phase, Program, Table};

/// What a program says of its run beside what was recorded.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// What ran.
    pub program: Program,
    /// What it ran on.
    pub device: Vec<Fact>,
    /// Settings it ran with.
    pub settings: Vec<Fact>,
    /// How it was measured. `measured_steps` and `device_timestamps` are filled in from the
    /// recording, whatever is said here.
    pub method: Method,
    /// Its stages, in the order they run. Spans of other names become stages after these, in the
    /// order of their first appearance.
    pub stages: Vec<Stage>,
    /// Kernels timed in a run of their own ([`kernels_of`](crate::kernels_of)); if empty, those of
    /// this recording.
    pub kernels: Vec<KernelSummary>,
    /// What the device was measured to do at most.
    pub ceilings: Option<Ceilings>,
    /// The control, timed beside the window.
    pub control: Option<Control>,
    /// Other facts to show.
    pub tables: Vec<Table>,
    /// What the host asked of the device; `None` if there is no device.
    pub counts: Option<Counts>,
    /// How evenly work is spread over units that run side by side.
    pub imbalances: Vec<Imbalance>,
    /// Median time of a step between two timestamps of the device around it, ns, from a run of its
    /// own: checks the stages' sum.
    pub whole_step_ns: Option<f64>,
}

/// A stage that is known ahead.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// Its name: spans of this name are it.
    pub name: String,
    /// What it is for.
    pub phase: Phase,
    /// Dispatches in a step, mean.
    pub dispatches: Option<f64>,
    /// What it does in a step, mean, by formula.
    pub cost: Option<Cost>,
}

impl Stage {
    /// A stage of which nothing else is known.
    pub fn new(name: impl Into<String>, phase: Phase) -> Self {
        Self {
            name: name.into(),
            phase,
            dispatches: None,
            cost: None,
        }
    }

    /// Says how many dispatches it has in a step.
    pub fn dispatches(mut self, per_step: f64) -> Self {
        self.dispatches = Some(per_step);
        self
    }

    /// Says what it does in a step.
    pub fn cost(mut self, bytes: f64, flops: f64) -> Self {
        self.cost = Some(Cost { bytes, flops });
        self
    }
}

/// What the host asked of the device, a step, mean over the window.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counts {
    /// Submissions.
    pub submissions: f64,
    /// Times that the host waited for the device.
    pub syncs: f64,
    /// Bytes from host to device.
    pub bytes_written: f64,
    /// Bytes from device to host.
    pub bytes_read: f64,
    /// Buffers that the driver made.
    pub allocations: f64,
}

/// How evenly work is spread over units that run side by side: tiles, rows, threads.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Imbalance {
    /// What is counted: "instances a tile".
    pub name: String,
    /// The stages whose time it decides.
    pub stages: Vec<String>,
    /// How many units there are.
    pub units: f64,
    /// How many of them the device works on at a time, where known.
    pub at_once: Option<f64>,
    /// Mean over units.
    pub mean: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}
