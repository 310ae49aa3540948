//! [`Profile`]: all contents of a profile, as plain data. `profile.json` holds a [`Profile`], and all reports are
//! written from it.
//!
//! Times are nanoseconds on the host's clock, counted from the profile's origin; shares are fractions of 1. A field
//! that the device does not provide is absent: nothing here is ever estimated from times that were not synchronised.

use serde::{Deserialize, Serialize};

/// Value of [`Profile::schema`].
pub const SCHEMA: &str = "dapple-profile";
/// The version of the schema that this crate writes, and the only one it reads.
pub const VERSION: u32 = 1;

/// A finished profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// [`SCHEMA`].
    pub schema: String,
    /// [`VERSION`].
    pub version: u32,
    /// The program.
    pub program: Program,
    /// The system: device, driver, threads, and so on.
    pub device: Vec<Fact>,
    /// Settings of the run.
    pub settings: Vec<Fact>,
    /// Method of the measurement.
    pub method: Method,
    /// Time between the ends of one step and the next, over the measured steps.
    pub step: Stats,
    /// Wall time of the measured window, by phase.
    pub budget: Budget,
    /// By stage, in the order of execution.
    pub stages: Vec<StageSummary>,
    /// Times of the driving thread's spans, without inner spans, if [`Self::stages`] are those of a device. Most are
    /// concurrent with the device's work, so these shares do not add up with the stages'.
    #[serde(default)]
    pub host: Vec<StageSummary>,
    /// By kernel (one dispatch of a stage), in the order of execution, if kernels were timed one by one.
    pub kernels: Vec<KernelSummary>,
    /// Utilization of the device, if it has a clock.
    pub timeline: Option<Timeline>,
    /// Counters, step by step.
    pub counters: Vec<CounterSummary>,
    /// Other facts, by title: the scene, memory, pools.
    pub tables: Vec<Table>,
    /// Measured limits of this device.
    pub ceilings: Option<Ceilings>,
    /// Times of a loop that show the load of the machine, if they were measured.
    #[serde(default)]
    pub control: Option<Control>,
    /// Evaluated rules, by the most that a fix can gain, best first.
    pub findings: Vec<Finding>,
    /// Every measured step.
    pub steps: Vec<StepRecord>,
}

/// A loop that no change to the program affects, timed at some moments of the run: see
/// [`ControlTimer`](crate::ControlTimer).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Control {
    /// Threads of the loop.
    pub threads: u64,
    /// Time of each round, ns, by moment.
    pub moments_ns: Vec<Vec<f64>>,
}

/// The program that was profiled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Name of the program.
    pub name: String,
    /// Version of the program.
    pub version: String,
    /// Commit of the build, if known.
    pub commit: Option<String>,
    /// Command line.
    pub command: String,
    /// Start time, RFC 3339, UTC.
    pub started: String,
}

/// A name and a value, both for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// Name of the fact.
    pub name: String,
    /// Value, with its unit.
    pub value: String,
}

/// Facts under a title.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// The title.
    pub title: String,
    /// In the order to show.
    pub facts: Vec<Fact>,
}

/// Method of a measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Method {
    /// Clock of the stage times, and its use.
    pub clock: String,
    /// Moments at which host and device were synchronised.
    pub synchronisation: String,
    /// Steps before the measured ones.
    pub warm_up_steps: u64,
    /// Measured steps.
    pub measured_steps: u64,
    /// True if the device itself timed the stages.
    pub device_timestamps: bool,
    /// Largest error of the positions of device spans on the host's clock, ns.
    pub calibration_error_ns: Option<f64>,
    /// A step with the profiler on compared with a step with it off.
    pub overhead: Option<Overhead>,
    /// Facts that make this run's numbers less reliable: few steps, no timestamps, spans of no known phase.
    #[serde(default)]
    pub cautions: Vec<String>,
    /// Other notes for the reader.
    pub notes: Vec<String>,
}

/// Cost of profiling.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// Mean step without the profiler, ns.
    pub off_ns: f64,
    /// Mean step with the profiler, ns.
    pub on_ns: f64,
    /// Host time of recording itself in a step, ns.
    pub recording_ns: f64,
}

/// Statistics of a set of numbers. Percentiles by nearest rank; the median of an even number is the mean of the middle
/// two; `std` is that of a sample (over n - 1; 0 for one).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// Number of values.
    pub count: u64,
    /// Sum of the values.
    pub sum: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation.
    pub std: f64,
    /// Smallest.
    pub min: f64,
    /// Median.
    pub median: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

/// Purpose of a stage; a row of the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Computing a result.
    Forward,
    /// Comparing the result with the target.
    Loss,
    /// Derivatives.
    Backward,
    /// Changing parameters.
    Update,
    /// Moving bytes between host and device.
    Transfer,
    /// Exchanging bytes with other ranks, with the waits for them.
    Exchange,
    /// Waiting for input that is read and decoded.
    Input,
    /// The device waited for the host, or the host itself worked.
    Host,
    /// Between spans of one submission: launching, barriers, draining.
    Gaps,
    /// Time that no span covers.
    Unexplained,
}

impl Phase {
    /// Returns the name in tables, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Loss => "loss",
            Self::Backward => "backward",
            Self::Update => "update",
            Self::Transfer => "transfer",
            Self::Exchange => "exchange",
            Self::Input => "input",
            Self::Host => "host",
            Self::Gaps => "gaps",
            Self::Unexplained => "unexplained",
        }
    }

    /// Returns the phase of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.name() == name)
    }

    /// All phases, in the order of the budget.
    pub const ALL: [Self; 10] = [
        Self::Forward,
        Self::Loss,
        Self::Backward,
        Self::Update,
        Self::Transfer,
        Self::Exchange,
        Self::Input,
        Self::Host,
        Self::Gaps,
        Self::Unexplained,
    ];

    /// Returns true for a phase that few programs have. Summaries omit its row if it took no time.
    pub(crate) fn is_rare(self) -> bool {
        matches!(self, Self::Exchange | Self::Input)
    }
}

/// Wall time by phase. Every nanosecond of the window is in exactly one row.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// The window's length, ns, by the host's clock between two moments at which the device had nothing to do.
    pub wall_ns: f64,
    /// Rows, [`Phase::Unexplained`] last.
    pub rows: Vec<BudgetRow>,
}

/// A row of the budget.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BudgetRow {
    /// Phase of the row.
    pub phase: Phase,
    /// Time over the whole window, ns.
    pub total_ns: f64,
    /// Time of one step, ns.
    pub per_step_ns: f64,
    /// Share of wall time.
    pub share: f64,
}

/// A stage's times and its distance from the hardware's limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageSummary {
    /// Name of the stage.
    pub name: String,
    /// Phase of the stage.
    pub phase: Phase,
    /// Time in a step, ns.
    pub time: Stats,
    /// Share of its phase's time.
    pub share_of_phase: f64,
    /// Share of wall time.
    pub share_of_step: f64,
    /// Dispatches in a step, if known.
    pub dispatches: Option<f64>,
    /// Work in a step, counted by formula.
    pub cost: Option<Cost>,
    /// Position under the ceilings.
    pub roofline: Option<Placement>,
}

/// Work of a stage in a step, counted by formula, not measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Bytes read and written.
    pub bytes: f64,
    /// Floating-point operations; an FMA counts as two.
    pub flops: f64,
}

/// A stage under the roofline (Williams et al. 2009), from its median time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Placement {
    /// Achieved bytes a second.
    pub bytes_per_second: f64,
    /// Achieved operations a second.
    pub flops_per_second: f64,
    /// Share of the bandwidth ceiling.
    pub share_of_bandwidth: f64,
    /// Share of the arithmetic ceiling.
    pub share_of_compute: f64,
    /// Operations a byte.
    pub intensity: f64,
    /// The least time that ceilings allow, ns.
    pub floor_ns: f64,
    /// The ceiling that limits the stage.
    pub bound: Bound,
}

/// Limit of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Bytes: it reaches a good part of the bandwidth ceiling.
    Bandwidth,
    /// Operations: it reaches a good part of the arithmetic ceiling.
    Compute,
    /// Neither: dependencies, divergence, too few threads, instructions that are not counted.
    Latency,
    /// It is so short that launching is most of its time.
    Launch,
}

/// A kernel's times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KernelSummary {
    /// Name of the kernel.
    pub name: String,
    /// Stage of the kernel.
    pub stage: String,
    /// Time per dispatch, ns.
    pub time: Stats,
    /// Dispatches in a step.
    pub per_step: f64,
}

/// Utilization of the device, over the measured window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// Part of the window in which the device ran something.
    pub busy: f64,
    /// Dispatches in a step.
    pub kernels_per_step: f64,
    /// Mean dispatch, ns; of kernels timed one by one if available, else of stages over their dispatches.
    pub mean_kernel_ns: f64,
    /// Time between one span's end and the next one's beginning, ns.
    pub gap: Stats,
    /// Sum of kernels over wall time.
    pub launch_efficiency: f64,
    /// Submissions in a step.
    pub submissions_per_step: f64,
    /// Times in a step that the host waited for the device.
    pub syncs_per_step: f64,
    /// Bytes from host to device in a step.
    pub bytes_written_per_step: f64,
    /// Bytes from device to host in a step.
    pub bytes_read_per_step: f64,
    /// Buffers that the driver created in a step.
    pub allocations_per_step: f64,
    /// The stages' sum compared with timestamps around whole steps.
    pub clock_check: Option<ClockCheck>,
}

/// Two ways to time the same steps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClockCheck {
    /// Stages and the gaps between them, median step, ns.
    pub stages_ns: f64,
    /// Two timestamps around the whole step, median step, ns.
    pub whole_ns: f64,
}

/// A number that every step has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CounterSummary {
    /// Name of the counter.
    pub name: String,
    /// Unit, may be empty.
    pub unit: String,
    /// Statistics over the measured steps.
    pub stats: Stats,
}

/// Measured limits of a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ceilings {
    /// Bytes read and written a second.
    pub bytes_per_second: f64,
    /// `f32` operations a second; an FMA counts as two.
    pub flops_per_second: f64,
    /// Time of an empty dispatch inside a pass, ns.
    pub dispatch_ns: Option<f64>,
    /// Time and method of the measurement.
    pub source: String,
}

/// Result of a rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Name of the rule: `launch_bound`, `bandwidth_bound` and so on.
    pub rule: String,
    /// Name of the stage that it evaluated, or the step.
    pub subject: String,
    /// True if the threshold was passed.
    pub fired: bool,
    /// The condition in words, with the threshold.
    pub condition: String,
    /// Measured values.
    pub evidence: String,
    /// Advice.
    pub remedy: String,
    /// Part of the wall time that would be saved, by Amdahl's law, if the cause disappeared entirely.
    pub possible_gain: f64,
}

/// A measured step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Number of the step.
    pub step: u64,
    /// End of the step, ns after the profile's origin.
    pub end_ns: i64,
    /// Time since the step before ended, ns.
    pub duration_ns: f64,
    /// Loss of the step.
    pub loss: Option<f64>,
    /// Time of each stage, ns, in the order of [`Profile::stages`]; empty if unknown.
    pub stages_ns: Vec<f64>,
    /// Counters of the step, in the order of [`Profile::counters`]; NaN (`null` in JSON) for missing values.
    #[serde(with = "or_null")]
    pub counters: Vec<f64>,
}

/// Spans on tracks, the input of a trace viewer. Not part of `profile.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// Rows of the picture, from above.
    pub tracks: Vec<String>,
    /// Spans, by track and beginning.
    pub spans: Vec<TraceSpan>,
}

/// A span on a track.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceSpan {
    /// Index into [`Trace::tracks`].
    pub track: usize,
    /// Name of the span.
    pub name: String,
    /// Phase of the span, if known.
    pub phase: Option<Phase>,
    /// Beginning, ns after the profile's origin.
    pub start_ns: i64,
    /// Duration, ns.
    pub duration_ns: u64,
    /// Step of the span.
    pub step: Option<u64>,
}

/// A value for each cell of a grid, over a picture.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HeatMap {
    /// Title of the values.
    pub title: String,
    /// Cells across.
    pub columns: usize,
    /// Cells down.
    pub rows: usize,
    /// Row by row, `[rows, columns]`.
    pub values: Vec<f64>,
    /// A PNG file of the picture below, may be empty.
    pub picture_png: Vec<u8>,
}

/// Numbers that may be absent: NaN here, `null` in JSON.
mod or_null {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(values: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
        // serde_json writes non-finite numbers as null already.
        serializer.collect_seq(values)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
        let values = Vec::<Option<f64>>::deserialize(deserializer)?;
        Ok(values.into_iter().map(|v| v.unwrap_or(f64::NAN)).collect())
    }
}
