//! The table of stages: time by stage and step, from device spans or from slices of host spans.

use crate::profile::{Phase, StageSummary, Stats};
use crate::recording::{HostSpan, Name, Recording, Span};
use crate::roofline;
use crate::setup::Setup;
use crate::sweep::Slice;
use std::collections::HashMap;

/// The measured steps, for finding the step of a span.
#[derive(Debug)]
pub(crate) struct Steps {
    begin_ns: i64,
    index: HashMap<u64, usize>,
    ends: Vec<i64>,
}

impl Steps {
    pub fn new(recording: &Recording) -> Self {
        let numbers = recording.steps.iter().enumerate();
        Self {
            begin_ns: recording.begin_ns,
            index: numbers.map(|(i, &(step, _))| (step, i)).collect(),
            ends: recording.steps.iter().map(|&(_, end)| end).collect(),
        }
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the step by number if there is one, otherwise by the middle of the time. `None`
    /// outside measured steps.
    pub fn find(&self, step: Option<u64>, from: i64, to: i64) -> Option<usize> {
        if let Some(step) = step {
            return self.index.get(&step).copied();
        }
        let middle = from.midpoint(to);
        let at = self.ends.partition_point(|&end| end < middle);
        (middle >= self.begin_ns && at < self.ends.len()).then_some(at)
    }
}

/// Returns the phase of a span: that of the setup for its name, else its own.
pub(crate) fn phase_of(setup: &Setup, name: &str, own: Option<Phase>) -> Option<Phase> {
    let stage = setup.stages.iter().find(|stage| stage.name == name);
    stage.map(|stage| stage.phase).or(own)
}

/// Time by stage and step.
#[derive(Debug, Default)]
pub(crate) struct Times {
    stages: Vec<(Name, Phase)>,
    /// `[stage][step]`; `None` where the stage did not run.
    ns: Vec<Vec<Option<f64>>>,
}

impl Times {
    /// Collects spans on the device, each with all of its own time.
    pub fn of_device(device: &[Span], steps: &Steps, setup: &Setup) -> Self {
        let mut times = Self::default();
        let mut order: Vec<&Span> = device.iter().collect();
        order.sort_by_key(|span| span.start_ns);
        for span in order {
            let phase = phase_of(setup, &span.name, span.phase).unwrap_or(Phase::Unexplained);
            if let Some(step) = steps.find(span.step, span.start_ns, span.end_ns()) {
                times.add(&span.name, phase, step, steps, span.duration_ns as f64);
            }
        }
        times.in_order(setup)
    }

    /// Collects the driving thread's spans, each without the spans inside it.
    pub fn of_host(host: &[HostSpan], slices: &[Slice], steps: &Steps, setup: &Setup) -> Self {
        let mut times = Self::default();
        for slice in slices {
            let Some(span) = slice.host.map(|i| &host[i]) else {
                continue;
            };
            let phase = phase_of(setup, &span.name, Some(span.phase)).unwrap_or(span.phase);
            if let Some(step) = steps.find(span.step, slice.from, slice.to) {
                times.add(&span.name, phase, step, steps, slice.ns());
            }
        }
        times.in_order(setup)
    }

    fn add(&mut self, name: &Name, phase: Phase, step: usize, steps: &Steps, ns: f64) {
        let known = |(n, p): &(Name, Phase)| n == name && *p == phase;
        let stage = self.stages.iter().position(known).unwrap_or_else(|| {
            self.stages.push((name.clone(), phase));
            self.ns.push(vec![None; steps.len()]);
            self.stages.len() - 1
        });
        *self.ns[stage][step].get_or_insert(0.0) += ns;
    }

    /// Sorts the stages: those of the setup first, in its order.
    fn in_order(self, setup: &Setup) -> Self {
        let place = |name: &str| setup.stages.iter().position(|stage| stage.name == name);
        let mut rows: Vec<_> = self.stages.into_iter().zip(self.ns).collect();
        rows.sort_by_key(|((name, _), _)| place(name).unwrap_or(usize::MAX));
        let (stages, ns) = rows.into_iter().unzip();
        Self { stages, ns }
    }

    /// Returns the number of steps with at least one known stage.
    pub fn timed_steps(&self, steps: &Steps) -> usize {
        (0..steps.len()).filter(|&i| self.is_timed(i)).count()
    }

    fn is_timed(&self, step: usize) -> bool {
        self.ns.iter().any(|stage| stage[step].is_some())
    }

    /// Returns the time of each stage in a step; empty if none is known.
    pub fn of_step(&self, step: usize) -> Vec<f64> {
        if !self.is_timed(step) {
            return Vec::new();
        }
        let stages = self.ns.iter();
        stages.map(|stage| stage[step].unwrap_or(0.0)).collect()
    }

    /// Returns the table. `wall_ns` is that of the steps whose stages are known.
    pub fn summaries(&self, wall_ns: f64, setup: &Setup) -> Vec<StageSummary> {
        let stats: Vec<Stats> = self
            .ns
            .iter()
            .map(|stage| Stats::from_values(&stage.iter().flatten().copied().collect::<Vec<_>>()))
            .collect();
        let mut phases: HashMap<Phase, f64> = HashMap::new();
        for ((_, phase), stats) in self.stages.iter().zip(&stats) {
            *phases.entry(*phase).or_default() += stats.sum;
        }
        let rows = self.stages.iter().zip(stats);
        rows.map(|((name, phase), time)| {
            let stage = setup.stages.iter().find(|stage| stage.name == *name);
            let cost = stage.and_then(|stage| stage.cost);
            let dispatches = stage.and_then(|stage| stage.dispatches);
            let placed = cost.zip(setup.ceilings.as_ref());
            StageSummary {
                name: name.to_string(),
                phase: *phase,
                time,
                share_of_phase: share(time.sum, phases.get(phase).copied().unwrap_or(0.0)),
                share_of_step: share(time.sum, wall_ns),
                dispatches,
                cost,
                roofline: placed.and_then(|(cost, ceilings)| {
                    roofline::place(cost, time.median, dispatches, ceilings)
                }),
            }
        })
        .collect()
    }
}

/// Returns a part of a whole; 0 if the whole is 0.
pub(crate) fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
