//! [`Profile`]: everything that a profile says, as plain data. It is what `profile.json` holds, and
//! all that reports are written from.
//!
//! Times are nanoseconds on the host's clock, counted from the profile's origin; shares are
//! fractions of 1. Where a device cannot tell something, the field is absent: nothing here is ever
//! estimated from times that were not synchronised.

use serde::{Deserialize, Serialize};

/// What [`Profile::schema`] says.
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
    /// What ran.
    pub program: Program,
    /// What it ran on: device, driver, threads, and so on.
    pub device: Vec<Fact>,
    /// The settings it ran with.
    pub settings: Vec<Fact>,
    /// How it was measured.
    pub method: Method,
    /// Time between the ends of one step and the next, over the measured steps.
    pub step: Stats,
    /// Where the measured window's wall time went.
    pub budget: Budget,
    /// By stage, in the order they run.
    pub stages: Vec<StageSummary>,
    /// What the driving thread's spans took, inner spans apart, where [`Self::stages`] are those of a
    /// device: mostly beside its work, so these shares do not add up with the stages'.
    #[serde(default)]
    pub host: Vec<StageSummary>,
    /// By kernel (one dispatch of a stage), in the order they run, where they were timed alone.
    pub kernels: Vec<KernelSummary>,
    /// How the device was kept busy, where there is one with a clock.
    pub timeline: Option<Timeline>,
    /// What was counted, step by step.
    pub counters: Vec<CounterSummary>,
    /// Other facts, by title: the scene, memory, pools.
    pub tables: Vec<Table>,
    /// What this device was measured to do at most.
    pub ceilings: Option<Ceilings>,
    /// What the machine itself did meanwhile, where that was timed.
    #[serde(default)]
    pub control: Option<Control>,
    /// Rules that were looked at, by what fixing them can give at most, best first.
    pub findings: Vec<Finding>,
    /// Every measured step.
    pub steps: Vec<StepRecord>,
}

/// A loop that no change to the program touches, timed at some moments of the run: see
/// [`ControlTimer`](crate::ControlTimer).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Control {
    /// Threads it ran on.
    pub threads: u64,
    /// Time of each round, ns, by moment.
    pub moments_ns: Vec<Vec<f64>>,
}

/// What ran.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The commit it was built from, where known.
    pub commit: Option<String>,
    /// The command line.
    pub command: String,
    /// When it began, RFC 3339, UTC.
    pub started: String,
}

/// A name and a value, both for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// What.
    pub name: String,
    /// How much or which.
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

/// How a profile was measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Method {
    /// Which clock stages were timed with, and how.
    pub clock: String,
    /// When host and device were synchronised.
    pub synchronisation: String,
    /// Steps before the measured ones.
    pub warm_up_steps: u64,
    /// Measured steps.
    pub measured_steps: u64,
    /// Whether stages were timed by the device itself.
    pub device_timestamps: bool,
    /// Places of device spans on the host's clock are off by no more than this, ns.
    pub calibration_error_ns: Option<f64>,
    /// A step with the profiler on against one with it off.
    pub overhead: Option<Overhead>,
    /// What makes this run's numbers worth less: few steps, no timestamps, spans of no known purpose.
    #[serde(default)]
    pub cautions: Vec<String>,
    /// What else a reader should know.
    pub notes: Vec<String>,
}

/// What profiling costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// Mean step without the profiler, ns.
    pub off_ns: f64,
    /// Mean step with it, ns.
    pub on_ns: f64,
    /// Host time that recording itself took in a step, ns.
    pub recording_ns: f64,
}

/// What a set of numbers is like. Percentiles by nearest rank; the median of an even number is the
/// mean of the middle two; `std` is that of a sample (over n - 1; 0 for one).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// How many.
    pub count: u64,
    /// Their sum.
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

/// What a stage is for; the budget's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Computing a result.
    Forward,
    /// Comparing it with what is wanted.
    Loss,
    /// Derivatives.
    Backward,
    /// Changing parameters.
    Update,
    /// Moving bytes between host and device.
    Transfer,
    /// The device waited for the host, or the host itself worked.
    Host,
    /// Between spans of one submission: launching, barriers, draining.
    Gaps,
    /// What no span covers.
    Unexplained,
}

impl Phase {
    /// As tables call it, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Loss => "loss",
            Self::Backward => "backward",
            Self::Update => "update",
            Self::Transfer => "transfer",
            Self::Host => "host",
            Self::Gaps => "gaps",
            Self::Unexplained => "unexplained",
        }
    }

    /// The phase of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.name() == name)
    }

    /// All of them, as the budget shows them.
    pub const ALL: [Self; 8] = [
        Self::Forward,
        Self::Loss,
        Self::Backward,
        Self::Update,
        Self::Transfer,
        Self::Host,
        Self::Gaps,
        Self::Unexplained,
    ];
}

/// Where wall time went. Every nanosecond of the window is in exactly one row.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// The window's length, ns, by the host's clock between two moments at which the device had
    /// nothing to do.
    pub wall_ns: f64,
    /// Rows, [`Phase::Unexplained`] last.
    pub rows: Vec<BudgetRow>,
}

/// A row of the budget.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BudgetRow {
    /// What for.
    pub phase: Phase,
    /// Over the whole window, ns.
    pub total_ns: f64,
    /// Of one step, ns.
    pub per_step_ns: f64,
    /// Of wall time.
    pub share: f64,
}

/// A stage's times and distance from the hardware's limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageSummary {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub phase: Phase,
    /// Its time in a step, ns.
    pub time: Stats,
    /// Of its phase's time.
    pub share_of_phase: f64,
    /// Of wall time.
    pub share_of_step: f64,
    /// Dispatches in a step, where known.
    pub dispatches: Option<f64>,
    /// What it does in a step, counted by formula.
    pub cost: Option<Cost>,
    /// Where that puts it under the ceilings.
    pub roofline: Option<Placement>,
}

/// Work of a stage in a step, counted by formula, not measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Bytes read and written.
    pub bytes: f64,
    /// Floating-point operations, an FMA being two.
    pub flops: f64,
}

/// A stage under the roofline (Williams et al. 2009), from its median time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Placement {
    /// Achieved bytes a second.
    pub bytes_per_second: f64,
    /// Achieved operations a second.
    pub flops_per_second: f64,
    /// Of the bandwidth ceiling.
    pub share_of_bandwidth: f64,
    /// Of the arithmetic ceiling.
    pub share_of_compute: f64,
    /// Operations a byte.
    pub intensity: f64,
    /// The least time that ceilings allow, ns.
    pub floor_ns: f64,
    /// The ceiling it sits under.
    pub bound: Bound,
}

/// What holds a stage back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Bytes: it reaches a good part of the bandwidth ceiling.
    Bandwidth,
    /// Operations: it reaches a good part of the arithmetic ceiling.
    Compute,
    /// Neither: dependencies, divergence, too few threads, instructions that are not counted.
    Latency,
    /// It is so short that launching it is most of it.
    Launch,
}

/// A kernel's times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KernelSummary {
    /// Its name.
    pub name: String,
    /// The stage it belongs to.
    pub stage: String,
    /// Its time per dispatch, ns.
    pub time: Stats,
    /// Dispatches in a step.
    pub per_step: f64,
}

/// How busy the device was kept, over the measured window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// Part of the window in which the device ran something.
    pub busy: f64,
    /// Dispatches in a step.
    pub kernels_per_step: f64,
    /// Mean dispatch, ns; of kernels timed alone where that was done, else of stages over their
    /// dispatches.
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
    /// Buffers that the driver made in a step.
    pub allocations_per_step: f64,
    /// The stages' sum against timestamps around whole steps.
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
    /// Its name.
    pub name: String,
    /// Its unit, may be empty.
    pub unit: String,
    /// Over the measured steps.
    pub stats: Stats,
}

/// What a device was measured to do at most.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ceilings {
    /// Bytes read and written a second.
    pub bytes_per_second: f64,
    /// `f32` operations a second, an FMA being two.
    pub flops_per_second: f64,
    /// An empty dispatch inside a pass, ns.
    pub dispatch_ns: Option<f64>,
    /// When and by what they were measured.
    pub source: String,
}

/// A rule that was looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The rule's name: `launch_bound`, `bandwidth_bound` and so on.
    pub rule: String,
    /// What it looked at: a stage's name, or the step.
    pub subject: String,
    /// Whether its threshold was passed.
    pub fired: bool,
    /// The condition in words, with the threshold.
    pub condition: String,
    /// What was measured.
    pub evidence: String,
    /// What to do about it.
    pub remedy: String,
    /// By Amdahl's law, how much of the wall time would go if what it found went entirely.
    pub possible_gain: f64,
}

/// A measured step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Its number.
    pub step: u64,
    /// When it ended, ns after the profile's origin.
    pub end_ns: i64,
    /// Time since the step before ended, ns.
    pub duration_ns: f64,
    /// Its loss.
    pub loss: Option<f64>,
    /// Time of each stage, ns, in the order of [`Profile::stages`]; empty where unknown.
    pub stages_ns: Vec<f64>,
    /// Its counters, in the order of [`Profile::counters`]; NaN (`null` in JSON) where it has none.
    #[serde(with = "or_null")]
    pub counters: Vec<f64>,
}

/// Spans on tracks: what a trace viewer shows. Not part of `profile.json`.
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
    /// Its name.
    pub name: String,
    /// What it is for, where known.
    pub phase: Option<Phase>,
    /// When it began, ns after the profile's origin.
    pub start_ns: i64,
    /// How long it took, ns.
    pub duration_ns: u64,
    /// The step it belongs to.
    pub step: Option<u64>,
}

/// A value for each cell of a grid, over a picture.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HeatMap {
    /// What the values are.
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
        // serde_json writes numbers that are not finite as null already.
        serializer.collect_seq(values)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
        let values = Vec::<Option<f64>>::deserialize(deserializer)?;
        Ok(values.into_iter().map(|v| v.unwrap_or(f64::NAN)).collect())
    }
}
