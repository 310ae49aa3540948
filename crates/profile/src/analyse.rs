//! [`analyse`]: computes a profile from a recording.
//!
//! 1. If a device span still runs where the window opens or closes, the window was not synchronised: an error, and no
//!    numbers.
//! 2. The window is swept ([`crate::sweep`]): each nanosecond goes to one row of the budget.
//! 3. Stages are those of the device if it was timed, otherwise the driving thread's spans. The statistics of a stage
//!    are over the steps in which it ran.
//! 4. Timeline, rooflines and findings follow from these and from the [`Setup`].

use crate::diagnosis::diagnose;
use crate::profile::{
    Budget, BudgetRow, ClockCheck, CounterSummary, Fact, KernelSummary, Method, Phase, Profile,
    SCHEMA, StageSummary, Stats, StepRecord, Table, Timeline, Trace, VERSION,
};
use crate::recording::{HostSpan, Name, Recording, Span};
use crate::setup::{Counts, Setup};
use crate::stages::{Steps, Times, phase_of, share};
use crate::sweep::{Gap, Owner, Slice, gaps, sweep};
use crate::tracks;
use crate::{Error, Result};
use std::collections::{BTreeMap, HashMap};

/// Largest drift of host and device clocks, as a part of the time since calibration: crystals are good to some 50 parts
/// in a million.
const DRIFT: f64 = 1e-4;

/// Least number of steps for useful statistics.
const FEW_STEPS: usize = 10;

/// Computes a profile and a trace from a recording.
///
/// # Errors
/// No step ended in the window; the device still ran when the window opened or closed, so that its times are not
/// synchronised.
pub fn analyse(recording: &Recording, setup: &Setup) -> Result<(Profile, Trace)> {
    if recording.steps.is_empty() {
        return Err(Error::input("no step ended in the measured window")
            .hint("profile at least one step, better 200, and end each with end_step"));
    }
    check_synchronised(recording, setup)?;
    let window = Window::new(recording, setup);
    let wall_ns = recording.wall_ns() as f64;
    let step = Stats::from_values(&window.durations());
    let timed = window.times.timed_steps(&window.steps);
    // Only timed steps have stages: their shares are of those steps' part of the window.
    let timed_wall = wall_ns * timed as f64 / window.steps.len() as f64;
    let stages = window.times.summaries(timed_wall, setup);
    let kernels = if setup.kernels.is_empty() {
        kernels_of(recording)
    } else {
        setup.kernels.clone()
    };
    let counters = window.counters();
    let mut tables = setup.tables.clone();
    let timeline = window.timeline(setup, &stages, &kernels, timed);
    if let (None, Some(counts)) = (&timeline, setup.counts) {
        tables.push(traffic(counts));
    }
    let mut profile = Profile {
        schema: SCHEMA.into(),
        version: VERSION,
        program: setup.program.clone(),
        device: setup.device.clone(),
        settings: setup.settings.clone(),
        method: window.method(setup, timed),
        step,
        budget: window.budget(setup),
        stages,
        host: window.host_stages(setup),
        kernels,
        timeline,
        counters: counters.iter().map(|c| c.summary.clone()).collect(),
        tables,
        ceilings: setup.ceilings.clone(),
        control: setup.control.clone(),
        findings: Vec::new(),
        steps: window.records(&counters),
    };
    profile.findings = diagnose(&profile, setup);
    Ok((profile, tracks::trace(recording, setup)))
}

/// Returns the kernels of a recording whose kernels were timed one by one, in the order of their first run.
pub fn kernels_of(recording: &Recording) -> Vec<KernelSummary> {
    let measured = Steps::new(recording);
    // Kernels of steps before the window also arrive late.
    let inside = |span: &&Span| {
        let step = measured.find(span.step, span.start_ns, span.end_ns());
        step.is_some() && span.end_ns() > recording.begin_ns && span.start_ns < recording.end_ns
    };
    let mut order: Vec<&Span> = recording.kernels.iter().filter(inside).collect();
    let mut steps: Vec<_> = order.iter().filter_map(|span| span.step).collect();
    order.sort_by_key(|span| span.start_ns);
    let mut kernels: Vec<((&str, &str), Vec<f64>)> = Vec::new();
    let mut index = HashMap::new();
    for span in order {
        let key = (span.stage.as_deref().unwrap_or(""), &*span.name);
        let at = *index.entry(key).or_insert_with(|| {
            kernels.push((key, Vec::new()));
            kernels.len() - 1
        });
        kernels[at].1.push(span.duration_ns as f64);
    }
    steps.sort_unstable();
    steps.dedup();
    let steps = if steps.is_empty() {
        measured.len()
    } else {
        steps.len()
    };
    let summary = |((stage, name), times): ((&str, &str), Vec<f64>)| KernelSummary {
        name: name.into(),
        stage: stage.into(),
        per_step: times.len() as f64 / steps.max(1) as f64,
        time: Stats::from_values(&times),
    };
    kernels.into_iter().map(summary).collect()
}

/// Checks that no device span runs across an end of the window, within the error of the clocks.
fn check_synchronised(recording: &Recording, setup: &Setup) -> Result<()> {
    let off = setup.method.calibration_error_ns.unwrap_or(0.0).max(0.0);
    let slack = (2.0 * off + DRIFT * recording.wall_ns() as f64) as i64;
    for span in recording.device.iter().chain(&recording.kernels) {
        let across = |at: i64| span.start_ns < at - slack && span.end_ns() > at + slack;
        let (when, at) = if across(recording.begin_ns) {
            ("opened", recording.begin_ns)
        } else if across(recording.end_ns) {
            ("closed", recording.end_ns)
        } else {
            continue;
        };
        return Err(Error::input(format!(
            "the device still ran \"{}\" when the measured window {when}, for {} us more: its \
             times are not synchronised",
            span.name,
            (span.end_ns() - at) / 1000,
        ))
        .hint("open and close the window after waiting for all that the device was given"));
    }
    Ok(())
}

/// Data of the recording in the window.
struct Window<'a> {
    recording: &'a Recording,
    device: Vec<Span>,
    host: Vec<HostSpan>,
    gaps: Vec<Gap>,
    slices: Vec<Slice>,
    steps: Steps,
    times: Times,
}

/// A counter, step by step.
struct Counter {
    summary: CounterSummary,
    by_step: BTreeMap<u64, f64>,
}

impl<'a> Window<'a> {
    fn new(recording: &'a Recording, setup: &Setup) -> Self {
        let ends = [recording.begin_ns, recording.end_ns];
        let inside = |from: i64, to: i64| to > ends[0] && from < ends[1];
        // If dispatches were timed and stages were not, dispatches are the stages.
        let device: Vec<Span> = if recording.device.is_empty() {
            recording.kernels.iter().map(as_stage).collect()
        } else {
            recording.device.clone()
        };
        let device: Vec<Span> = device
            .into_iter()
            .filter(|span| inside(span.start_ns, span.end_ns()))
            .collect();
        let host: Vec<HostSpan> = recording
            .host
            .iter()
            .filter(|span| span.thread == recording.driver)
            .filter(|span| inside(span.start_ns, span.end_ns()))
            .cloned()
            .collect();
        let gaps = gaps(&device);
        let cuts = recording.steps.iter().map(|&(_, end)| end);
        let slices = sweep(ends, &device, &host, &gaps, cuts);
        let steps = Steps::new(recording);
        let times = if device.is_empty() {
            Times::of_host(&host, &slices, &steps, setup)
        } else {
            Times::of_device(&device, &steps, setup)
        };
        Self {
            recording,
            device,
            host,
            gaps,
            slices,
            steps,
            times,
        }
    }

    fn has_device(&self) -> bool {
        !self.device.is_empty()
    }

    /// Returns the time from each step's end back to the end of the step before, or to the window's beginning.
    fn durations(&self) -> Vec<f64> {
        let mut last = self.recording.begin_ns;
        let ends = self.recording.steps.iter();
        ends.map(|&(_, end)| (end - std::mem::replace(&mut last, end)) as f64)
            .collect()
    }

    fn budget(&self, setup: &Setup) -> Budget {
        let mut total: HashMap<Phase, f64> = HashMap::new();
        for slice in &self.slices {
            let phase = match slice.owner {
                Owner::Device(i) => {
                    let span = &self.device[i];
                    phase_of(setup, &span.name, span.phase).unwrap_or(Phase::Unexplained)
                }
                Owner::Gap => Phase::Gaps,
                Owner::Host(i) => {
                    let span = &self.host[i];
                    phase_of(setup, &span.name, Some(span.phase)).unwrap_or(span.phase)
                }
                Owner::Nobody => Phase::Unexplained,
            };
            *total.entry(phase).or_default() += slice.ns();
        }
        let wall_ns = self.recording.wall_ns() as f64;
        let rows = Phase::ALL.into_iter().map(|phase| {
            let total_ns = total.get(&phase).copied().unwrap_or(0.0);
            BudgetRow {
                phase,
                total_ns,
                per_step_ns: total_ns / self.steps.len() as f64,
                share: share(total_ns, wall_ns),
            }
        });
        Budget {
            wall_ns,
            rows: rows.collect(),
        }
    }

    /// Returns the table of the host's spans if the stages are the device's.
    fn host_stages(&self, setup: &Setup) -> Vec<StageSummary> {
        if !self.has_device() {
            return Vec::new();
        }
        let bare = Setup {
            stages: setup.stages.clone(),
            ..Setup::default()
        };
        Times::of_host(&self.host, &self.slices, &self.steps, &bare)
            .summaries(self.recording.wall_ns() as f64, &bare)
            .into_iter()
            .map(|stage| StageSummary {
                // These are the device's, if a host span has the name of a stage.
                dispatches: None,
                cost: None,
                ..stage
            })
            .collect()
    }

    fn counters(&self) -> Vec<Counter> {
        let names = self.recording.counters.iter();
        let mut counters: Vec<Counter> = names
            .map(|(name, unit)| Counter {
                summary: CounterSummary {
                    name: name.clone(),
                    unit: unit.clone(),
                    stats: Stats::default(),
                },
                by_step: BTreeMap::new(),
            })
            .collect();
        for count in &self.recording.counts {
            if self.steps.find(Some(count.step), 0, 0).is_some() {
                counters[count.counter]
                    .by_step
                    .insert(count.step, count.value);
            }
        }
        counters.retain(|counter| !counter.by_step.is_empty());
        for counter in &mut counters {
            let values: Vec<f64> = counter.by_step.values().copied().collect();
            counter.summary.stats = Stats::from_values(&values);
        }
        counters
    }

    fn records(&self, counters: &[Counter]) -> Vec<StepRecord> {
        let losses: HashMap<u64, f64> = self.recording.losses.iter().copied().collect();
        let steps = self.recording.steps.iter().zip(self.durations());
        steps
            .enumerate()
            .map(|(i, (&(step, end_ns), duration_ns))| StepRecord {
                step,
                end_ns,
                duration_ns,
                loss: losses.get(&step).copied(),
                stages_ns: self.times.of_step(i),
                counters: counters
                    .iter()
                    .map(|counter| counter.by_step.get(&step).copied().unwrap_or(f64::NAN))
                    .collect(),
            })
            .collect()
    }

    /// Returns the method of the caller's setup, completed from the recording.
    fn method(&self, setup: &Setup, timed: usize) -> Method {
        let mut method = setup.method.clone();
        let steps = self.steps.len();
        method.measured_steps = steps as u64;
        method.device_timestamps = self.has_device();
        let mut beware = |text: String| method.cautions.push(text);
        if !self.has_device() && setup.counts.is_some() {
            beware(
                "The device gave no timestamps: all times here are the host's. They show how long \
                 the host spent giving work to the device and waiting for it, not how long the \
                 device took for a stage."
                    .into(),
            );
        }
        if timed < steps {
            beware(format!(
                "{} of {steps} measured steps have no stage times; in the budget, the device's \
                 time in them counts for the host or as unexplained.",
                steps - timed,
            ));
        }
        let mut strange: Vec<&Name> = self
            .device
            .iter()
            .filter(|span| phase_of(setup, &span.name, span.phase).is_none())
            .map(|span| &span.name)
            .collect();
        strange.sort_unstable();
        strange.dedup();
        for name in strange {
            beware(format!(
                "The device span \"{name}\" has no phase: its time is unexplained."
            ));
        }
        if steps < FEW_STEPS {
            let measured = match steps {
                1 => "One step was measured".to_owned(),
                _ => format!("Only {steps} steps were measured"),
            };
            beware(format!(
                "{measured}: percentiles and deviations say little."
            ));
        }
        method
    }

    fn timeline(
        &self,
        setup: &Setup,
        stages: &[StageSummary],
        kernels: &[KernelSummary],
        timed: usize,
    ) -> Option<Timeline> {
        if !self.has_device() {
            return None;
        }
        let wall_ns = self.recording.wall_ns() as f64;
        let on_device = |slice: &&Slice| matches!(slice.owner, Owner::Device(_));
        let busy: f64 = self.slices.iter().filter(on_device).map(Slice::ns).sum();
        let timed = timed.max(1) as f64;
        let step_wall = wall_ns / self.steps.len() as f64;
        // By step: number of kernels, and their time.
        let (many, sum) = if kernels.is_empty() {
            let of = |s: &StageSummary| {
                let spans = self.device.iter().filter(|span| *span.name == s.name);
                s.dispatches.unwrap_or(spans.count() as f64 / timed)
            };
            let sum: f64 = stages.iter().map(|s| s.time.sum).sum();
            (stages.iter().map(of).sum(), sum / timed)
        } else {
            let sum = kernels.iter().map(|k| k.time.mean * k.per_step).sum();
            (kernels.iter().map(|k| k.per_step).sum::<f64>(), sum)
        };
        // Kernels that are timed one by one take longer than side by side. Their sum is at most the busy time of the
        // device.
        let sum = sum.min(busy / self.steps.len() as f64);
        let gaps: Vec<f64> = self.gaps.iter().map(|g| (g.to - g.from) as f64).collect();
        let counts = setup.counts.unwrap_or_default();
        Some(Timeline {
            busy: share(busy, wall_ns),
            kernels_per_step: many,
            mean_kernel_ns: share(sum, many),
            gap: Stats::from_values(&gaps),
            launch_efficiency: share(sum, step_wall),
            submissions_per_step: counts.submissions,
            syncs_per_step: counts.syncs,
            bytes_written_per_step: counts.bytes_written,
            bytes_read_per_step: counts.bytes_read,
            allocations_per_step: counts.allocations,
            clock_check: setup.whole_step_ns.and_then(|whole_ns| {
                self.median_extent().map(|stages_ns| ClockCheck {
                    stages_ns,
                    whole_ns,
                })
            }),
        })
    }

    /// Returns the median, over steps, of the time from the first device span's beginning to the last's end.
    fn median_extent(&self) -> Option<f64> {
        let mut extents: HashMap<usize, (i64, i64)> = HashMap::new();
        for span in &self.device {
            let (from, to) = (span.start_ns, span.end_ns());
            if let Some(step) = self.steps.find(span.step, from, to) {
                let extent = extents.entry(step).or_insert((from, to));
                *extent = (extent.0.min(from), extent.1.max(to));
            }
        }
        let lengths: Vec<f64> = extents.values().map(|e| (e.1 - e.0) as f64).collect();
        (!lengths.is_empty()).then(|| Stats::from_values(&lengths).median)
    }
}

fn as_stage(kernel: &Span) -> Span {
    Span {
        name: kernel.stage.clone().unwrap_or_else(|| kernel.name.clone()),
        ..kernel.clone()
    }
}

/// Returns the counts of a device that has no timeline.
fn traffic(counts: Counts) -> Table {
    let fact = |name: &str, value: f64| Fact {
        name: name.into(),
        value: format!("{value:.2}"),
    };
    Table {
        title: "Host and device, a step".into(),
        facts: vec![
            fact("submissions", counts.submissions),
            fact("waits for the device", counts.syncs),
            fact("bytes to the device", counts.bytes_written),
            fact("bytes from the device", counts.bytes_read),
            fact("buffers made", counts.allocations),
        ],
    }
}
