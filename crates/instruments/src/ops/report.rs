//! Adds facts to a profile of operations that the recording does not contain.

use super::steps::{Runner, Timed};
use super::workload::Operation;
use super::{OpsOptions, Shape, phase};
use crate::machine::human_bytes;
use crate::profile::{Told, fact};
use dapple_profile::profile::{
    BudgetRow, Control, Fact, KernelSummary, Method, Overhead, Phase, Profile, Table, Timeline,
};
use dapple_profile::{Counts, Recorder, Setup, Stage};

/// Inputs of [`dapple_profile::analyse`].
pub(super) struct About<'a> {
    pub runner: &'a Runner<'a>,
    pub told: Told,
    pub device: Vec<Fact>,
    pub options: &'a OpsOptions,
    pub shape: Shape,
    pub timed: &'a Timed,
    pub off_ns: Option<f64>,
    pub dispatch_ns: Option<f64>,
    pub control: Control,
    pub kernels: Vec<KernelSummary>,
}

impl About<'_> {
    pub fn setup(self) -> Setup {
        let on_gpu = self.runner.gpu().is_some();
        let stages = self.stages();
        let method = self.method(on_gpu);
        let counts = self.counts();
        let mut settings = vec![
            fact("runs of each operation", self.runs().to_string()),
            fact("runs a step", self.shape.runs.to_string()),
            fact(
                "planted",
                self.options.plant.map_or("nothing", |plant| plant.name()),
            ),
        ];
        settings.extend(self.told.settings);
        let mut ceilings = self.told.ceilings;
        if let (None, Some(measured)) = (ceilings.dispatch_ns, self.dispatch_ns) {
            ceilings.dispatch_ns = Some(measured);
            ceilings.source.push_str("; an empty dispatch by this run");
        }
        Setup {
            program: self.told.program,
            device: self.device,
            settings,
            method,
            stages,
            kernels: self.kernels,
            ceilings: Some(ceilings),
            control: Some(self.control),
            tables: vec![memory(self.runner)],
            counts: on_gpu.then_some(counts),
            ..Setup::default()
        }
    }

    fn runs(&self) -> u64 {
        u64::from(self.shape.runs) * u64::from(self.shape.steps)
    }

    fn stages(&self) -> Vec<Stage> {
        let runs = f64::from(self.shape.runs);
        let one = |operation: &Operation| {
            let work = operation.work();
            let stage = Stage::new(operation.name, phase(operation.is_backward))
                .cost(work.bytes * runs, work.flops * runs);
            match self.runner.gpu() {
                Some(_) => stage.dispatches(work.kernels as f64 * runs),
                None => stage,
            }
        };
        self.runner.operations().iter().map(one).collect()
    }

    fn counts(&self) -> Counts {
        let asked = self.timed.asked;
        let each = |count: u64| count as f64 / f64::from(self.shape.steps);
        Counts {
            submissions: each(asked.submissions),
            syncs: each(asked.waits),
            bytes_written: each(asked.bytes_written),
            bytes_read: each(asked.bytes_read),
            allocations: each(asked.buffers_created),
        }
    }

    fn method(&self, on_gpu: bool) -> Method {
        let timed = self.timed;
        let clock = match (on_gpu, timed.device_clock) {
            (false, _) => "the host's monotonic clock, read around each operation's runs",
            (true, true) => {
                "timestamps of the device at the beginning and end of each operation's pass, placed on the \
                 host's clock by a calibration right before the window"
            }
            (true, false) => {
                "this device has no timestamps: the host's monotonic clock, with every step waited for"
            }
        };
        let synchronisation = match (on_gpu, timed.device_clock) {
            (false, _) => "a run is done when it returns",
            (true, true) => {
                "the window opened and closed when the device had nothing left to do; inside it nobody waited \
                 but for what the table counts"
            }
            (true, false) => "the host waited for the device after every step of the window",
        };
        let mut notes = vec![
            "bytes and operations are counted by formula, each array read or written once per kernel; they \
             are not measured"
                .to_owned(),
            "ratios between programs or versions count when taken on one machine, alternately".to_owned(),
        ];
        if self.runs() < u64::from(self.options.iterations) {
            notes.push(format!(
                "{} runs instead of {}: more would take longer than the time limit, or an injected fault takes \
                 many submissions a run",
                self.runs(),
                self.options.iterations
            ));
        }
        if timed.skipped > 0 {
            notes.push(format!(
                "{} submissions were not timed: too many were in flight",
                timed.skipped
            ));
        }
        Method {
            clock: clock.to_owned(),
            synchronisation: synchronisation.to_owned(),
            warm_up_steps: 2,
            measured_steps: u64::from(self.shape.steps),
            device_timestamps: timed.device_clock,
            calibration_error_ns: timed.calibration_error_ns,
            overhead: self.off_ns.map(|off_ns| Overhead {
                off_ns,
                on_ns: timed.recording.wall_ns() as f64 / f64::from(self.shape.steps),
                recording_ns: Recorder::measure_cost() * timed.recording.records_per_step(),
            }),
            cautions: Vec::new(),
            notes,
        }
    }
}

fn memory(runner: &Runner<'_>) -> Table {
    let plans = runner.operations().iter().map(Operation::work);
    let bytes: usize = plans.map(|work| work.buffer_bytes).sum();
    let mut facts = vec![fact("buffers of the plans", human_bytes(bytes as u64))];
    if let Some(gpu) = runner.gpu() {
        let stats = gpu.pool().stats();
        facts.extend([
            fact("pool: buffers made", stats.allocations.to_string()),
            fact(
                "pool: requests answered with a used one",
                stats.reuses.to_string(),
            ),
            fact(
                "pool: of all requests",
                format!("{:.1} %", 100.0 * stats.reuse_rate()),
            ),
            fact("pool: handed out", human_bytes(stats.live_bytes)),
            fact("pool: kept free", human_bytes(stats.pooled_bytes)),
            fact("pool: at most", human_bytes(stats.peak_bytes)),
            fact("pool: size classes", stats.size_classes.to_string()),
            fact("pool: let go", stats.evicted.to_string()),
        ]);
    }
    if let Some(bytes) = crate::machine::peak_memory_bytes() {
        facts.push(fact("the process, at most", human_bytes(bytes)));
    }
    Table {
        title: "Memory".to_owned(),
        facts,
    }
}

/// Returns the measures of the device's timeline: busy time, kernels, and gaps.
fn device_use(profile: &Profile, timeline: &Timeline, shape: Shape) -> [Fact; 6] {
    let of_gaps = |row: &&BudgetRow| row.phase == Phase::Gaps;
    let gaps_ns = profile.budget.rows.iter().find(of_gaps);
    let gaps_ns = gaps_ns.map_or(0.0, |row| row.per_step_ns);
    [
        fact(
            "device busy (aim: above 80 %)",
            format!("{:.1} %", 100.0 * timeline.busy),
        ),
        fact(
            "kernels of a run of all",
            format!("{:.1}", timeline.kernels_per_step / f64::from(shape.runs)),
        ),
        fact(
            "mean kernel",
            format!("{:.2} us", timeline.mean_kernel_ns * 1e-3),
        ),
        fact(
            "mean gap, of each kernel (aim: below 1 us)",
            format!(
                "{:.2} us",
                gaps_ns / timeline.kernels_per_step.max(1.0) * 1e-3
            ),
        ),
        fact(
            "mean gap between passes, an operation's runs each",
            format!("{:.2} us", timeline.gap.mean * 1e-3),
        ),
        fact(
            "launch efficiency: kernels over wall time (aim: above 70 %)",
            format!("{:.1} %", 100.0 * timeline.launch_efficiency),
        ),
    ]
}

/// Returns the common measures of tensor runtimes in one table, then the rate of each operation.
pub(super) fn measures(profile: &Profile, operations: &[Operation], shape: Shape) -> Table {
    let runs = f64::from(shape.runs) * f64::from(shape.steps);
    let wall = profile.budget.wall_ns;
    let count = operations.len() as f64;
    let mut facts = vec![fact(
        "total time",
        format!(
            "{:.2} ms for {runs} runs of {count} operations",
            wall * 1e-6
        ),
    )];
    if let Some(timeline) = &profile.timeline {
        facts.extend(device_use(profile, timeline, shape));
    }
    facts.push(fact(
        "operations a second",
        format!("{:.0}", count * runs / (wall * 1e-9)),
    ));
    let transfers = profile
        .budget
        .rows
        .iter()
        .find(|row| row.phase == Phase::Transfer);
    if let Some(row) = transfers.filter(|row| row.total_ns > 0.0) {
        facts.push(fact(
            "moving bytes between host and device",
            format!("{:.1} % of the time", 100.0 * row.share),
        ));
    }
    for stage in &profile.stages {
        let Some(place) = stage.roofline else {
            continue;
        };
        let each = stage.time.median / f64::from(shape.runs);
        facts.push(fact(
            &stage.name,
            format!(
                "{:.2} us a run, {:.0} op/s; {:.1} GB/s, {:.0} % of copy; {:.1} GFLOP/s, {:.0} %",
                each * 1e-3,
                1e9 / each.max(1.0),
                place.bytes_per_second * 1e-9,
                100.0 * place.share_of_bandwidth,
                place.flops_per_second * 1e-9,
                100.0 * place.share_of_compute,
            ),
        ));
    }
    Table {
        title: "Measures".to_owned(),
        facts,
    }
}
