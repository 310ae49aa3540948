//! [`Setup`]: the facts that a recording cannot contain, for [`analyse`](crate::analyse).

use crate::profile::{Ceilings, Control, Cost, Fact, KernelSummary, Method, Phase, Program, Table};

/// Facts about a program's run in addition to its recording.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// The program.
    pub program: Program,
    /// Facts about the device.
    pub device: Vec<Fact>,
    /// Settings of the run.
    pub settings: Vec<Fact>,
    /// Method of the measurement. The values of `measured_steps` and `device_timestamps` are
    /// replaced by those of the recording.
    pub method: Method,
    /// Stages, in the order of execution. Spans of other names become stages after these, in the
    /// order of their first appearance.
    pub stages: Vec<Stage>,
    /// Kernels timed in a separate run ([`kernels_of`](crate::kernels_of)); if empty, those of this
    /// recording.
    pub kernels: Vec<KernelSummary>,
    /// Measured limits of the device.
    pub ceilings: Option<Ceilings>,
    /// The control, timed next to the window.
    pub control: Option<Control>,
    /// Other facts to show.
    pub tables: Vec<Table>,
    /// Counts of the host's calls of the device; `None` if there is no device.
    pub counts: Option<Counts>,
    /// Distribution of work over units that run concurrently.
    pub imbalances: Vec<Imbalance>,
    /// Ranks that compute a step together, by number; empty without ranks.
    pub ranks: Vec<RankLoad>,
    /// Median time of a step between two timestamps of the device around it, ns, from a separate
    /// run: checks the stages' sum.
    pub whole_step_ns: Option<f64>,
}

/// A stage that is known in advance.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// Name of the stage and of its spans.
    pub name: String,
    /// Phase of the stage.
    pub phase: Phase,
    /// Dispatches in a step, mean.
    pub dispatches: Option<f64>,
    /// Work in a step, mean, by formula.
    pub cost: Option<Cost>,
    /// Advice where a rule finds it slow, instead of the rule's own.
    pub remedy: Option<&'static str>,
}

impl Stage {
    /// Creates a stage with only a name and a phase.
    pub fn new(name: impl Into<String>, phase: Phase) -> Self {
        Self {
            name: name.into(),
            phase,
            dispatches: None,
            cost: None,
            remedy: None,
        }
    }

    /// Sets the number of dispatches in a step.
    pub fn dispatches(mut self, per_step: f64) -> Self {
        self.dispatches = Some(per_step);
        self
    }

    /// Names the advice for findings about this stage.
    pub fn remedy(mut self, remedy: &'static str) -> Self {
        self.remedy = Some(remedy);
        self
    }

    /// Sets the work in a step.
    pub fn cost(mut self, bytes: f64, flops: f64) -> Self {
        self.cost = Some(Cost { bytes, flops });
        self
    }
}

/// Counts of the host's calls of the device, a step, mean over the window.
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
    /// Buffers that the driver created.
    pub allocations: f64,
}

/// Time of a rank in a step, mean over the window. Ranks work at the same time, and wait for each other in exchanges.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RankLoad {
    /// Work of its own, ns.
    pub busy_ns: f64,
    /// Waits in exchanges for slower ranks, ns.
    pub wait_ns: f64,
    /// The rest of the exchanges: messages on the wire, ns.
    pub transfer_ns: f64,
    /// Bytes that it sent to other ranks.
    pub sent_bytes: f64,
}

/// Distribution of work over units that run concurrently: tiles, rows, threads.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Imbalance {
    /// Name of the load: "instances a tile".
    pub name: String,
    /// Stages whose time depends on the load.
    pub stages: Vec<String>,
    /// Number of units.
    pub units: f64,
    /// Units that the device processes concurrently, if known.
    pub at_once: Option<f64>,
    /// Mean over units.
    pub mean: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}
