//! Steps on ranks in a profile.
//!
//! Ranks work at the same time, so the budget has means over ranks: the parts of a mean rank are spans of the host, one
//! after the other, in the call that took the steps. Each rank has a track of its own with its sums. The order of these
//! spans in a call is not that of the work, which alternates between the parts.

use super::facts::fact;
use super::probe::phase_of;
use crate::machine::human_bytes;
use dapple::RankTimes;
use dapple::contract::{Stage, StepReport};
use dapple_profile::profile::{Phase, Table};
use dapple_profile::{RankLoad, Recorder, Span, Track};
use std::collections::VecDeque;

/// Steps that ranks took in one call.
struct Call {
    /// Begin on the host.
    begin_ns: i64,
    /// Step of the profile.
    step: u64,
    /// Times of each rank.
    times: Vec<RankTimes>,
}

/// Steps that ranks have taken since the recorder was set.
#[derive(Default)]
pub(super) struct OnRanks {
    /// Calls whose steps have not all reported.
    calls: VecDeque<Call>,
    /// Reports of the oldest call, and the times of its stages, summed over views.
    reported: u64,
    stages: Vec<(Stage, u64)>,
    /// Sums of the last step of the profile that has spans.
    of_step: (u64, Vec<RankTimes>),
    /// Sums of all calls.
    total: Vec<RankTimes>,
}

impl OnRanks {
    /// Returns true if steps run on ranks.
    pub fn are_used(&self) -> bool {
        !self.total.is_empty()
    }

    /// Returns the sums of each rank.
    pub fn total(&self) -> Vec<RankTimes> {
        self.total.clone()
    }

    /// Notes a call that began at `begin_ns`.
    pub fn called(&mut self, begin_ns: i64, step: u64, times: Vec<RankTimes>) {
        add(&mut self.total, &times);
        if times.iter().any(|rank| rank.views > 0) {
            self.calls.push_back(Call {
                begin_ns,
                step,
                times,
            });
        }
    }

    /// Notes the report of a step. After the last one of a call, records the call.
    pub fn reported(&mut self, recorder: &Recorder, report: &StepReport) {
        let Some(call) = self.calls.front() else {
            return;
        };
        for time in &report.stages {
            match self.stages.iter_mut().find(|(name, _)| *name == time.stage) {
                Some((_, sum)) => *sum += time.duration_ns,
                None => self.stages.push((time.stage, time.duration_ns)),
            }
        }
        self.reported += 1;
        let views = call.times.first().map_or(0, |rank| rank.views);
        if self.reported < views {
            return;
        }
        self.reported = 0;
        let stages = std::mem::take(&mut self.stages);
        if let Some(call) = self.calls.pop_front() {
            self.record(recorder, &call, &stages);
        }
    }

    fn record(&mut self, recorder: &Recorder, call: &Call, stages: &[(Stage, u64)]) {
        record_parts(
            recorder,
            Track::Host,
            call,
            &mean_parts(&call.times, stages),
        );
        for (number, rank) in call.times.iter().enumerate() {
            let track = Track::Other(format!("rank {number}").into());
            record_parts(recorder, track, call, &parts(rank));
        }
        if self.of_step.0 != call.step {
            self.of_step = (call.step, Vec::new());
        }
        let (step, times) = &mut self.of_step;
        add(times, &call.times);
        let sent: u64 = times.iter().map(|rank| rank.sent_bytes).sum();
        let views = times.first().map_or(1, |rank| rank.views.max(1));
        let waits: u64 = times.iter().map(|rank| rank.wait_ns).sum();
        let waits = waits as f64 / times.len().max(1) as f64;
        recorder.counter(
            "bytes between ranks, a photo",
            "B",
            *step,
            sent as f64 / views as f64,
        );
        recorder.counter(
            "slowest rank's busy time over the mean",
            "",
            *step,
            RankTimes::balance(times),
        );
        recorder.counter("wait for slower ranks, mean", "ns", *step, waits);
    }
}

/// Adds times to those of the same ranks.
fn add(sums: &mut Vec<RankTimes>, times: &[RankTimes]) {
    if sums.len() < times.len() {
        sums.resize(times.len(), RankTimes::default());
    }
    for (sum, times) in sums.iter_mut().zip(times) {
        sum.add(times);
    }
}

/// Part of a step: name, phase, nanoseconds.
type PartOfStep = (&'static str, Phase, u64);

/// Returns the parts of a rank's steps.
fn parts(rank: &RankTimes) -> [PartOfStep; 5] {
    [
        ("project", Phase::Forward, rank.project_ns),
        ("render", Phase::Forward, rank.compare_ns),
        ("update", Phase::Update, rank.update_ns),
        ("wait for ranks", Phase::Exchange, rank.wait_ns),
        ("transfer", Phase::Exchange, rank.transfer_ns()),
    ]
}

/// Returns the parts of a mean rank's steps, with the stages of its renders if they were timed.
fn mean_parts(ranks: &[RankTimes], stages: &[(Stage, u64)]) -> Vec<PartOfStep> {
    let count = ranks.len().max(1) as u64;
    let mut sum = RankTimes::default();
    ranks.iter().for_each(|rank| sum.add(rank));
    let mut mean = Vec::new();
    for (name, phase, ns) in parts(&sum) {
        if name != "render" || stages.is_empty() {
            mean.push((name, phase, ns / count));
            continue;
        }
        let staged: u64 = stages.iter().map(|(_, ns)| ns).sum();
        mean.extend(stages.iter().map(|(stage, ns)| {
            let name = stage.name();
            (name, phase_of(name), ns / count)
        }));
        let rest = ns.saturating_sub(staged) / count;
        mean.push(("receive and sum", phase, rest));
    }
    mean
}

/// Records parts one after the other, from the begin of a call.
fn record_parts(recorder: &Recorder, track: Track, call: &Call, parts: &[PartOfStep]) {
    let mut at = call.begin_ns;
    for &(name, phase, ns) in parts {
        if ns > 0 {
            let span = Span::new(name, at, ns).phase(phase).step(call.step);
            recorder.add_span(track.clone(), span);
            at += ns as i64;
        }
    }
}

/// Returns the load of each rank in a step of the profile, of `steps` steps.
pub(super) fn loads(ranks: &[RankTimes], steps: u32) -> Vec<RankLoad> {
    let each = |sum: u64| sum as f64 / f64::from(steps.max(1));
    let ranks = ranks.iter();
    let loads = ranks.map(|rank| RankLoad {
        busy_ns: each(rank.busy_ns()),
        wait_ns: each(rank.wait_ns),
        transfer_ns: each(rank.transfer_ns()),
        sent_bytes: each(rank.sent_bytes),
    });
    loads.collect()
}

/// Returns a row for each rank.
pub(super) fn table(ranks: &[RankTimes]) -> Table {
    let rows = ranks.iter().enumerate().map(|(number, rank)| {
        let views = rank.views.max(1);
        let ms = |ns: u64| ns as f64 * 1e-6 / views as f64;
        fact(
            &format!("rank {number}, ms a photo of the step"),
            format!(
                "project {:.3}, render {:.3}, update {:.3}, wait {:.3}, transfer {:.3}; sends {}",
                ms(rank.project_ns),
                ms(rank.compare_ns),
                ms(rank.update_ns),
                ms(rank.wait_ns),
                ms(rank.transfer_ns()),
                human_bytes(rank.sent_bytes / views)
            ),
        )
    });
    let mut facts: Vec<_> = rows.collect();
    let balance = format!("{:.3}", RankTimes::balance(ranks));
    facts.push(fact("slowest rank's busy time over the mean", balance));
    Table {
        title: "Ranks".to_owned(),
        facts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple::contract::StageTime;
    use dapple::contract::StepCounts;

    /// A step of two photos on two ranks: the budget has the mean rank, and each rank its track.
    #[test]
    fn a_call_becomes_the_parts_of_the_mean_rank() {
        let rank = |compare_ns, wait_ns| RankTimes {
            views: 2,
            project_ns: 10,
            compare_ns,
            update_ns: 4,
            exchange_ns: 6 + wait_ns,
            wait_ns,
            sent_bytes: 50,
        };
        let stages = [(Stage::Blend, 60), (Stage::Loss, 20)];
        let parts = mean_parts(&[rank(100, 0), rank(60, 40)], &stages);
        assert_eq!(
            parts,
            [
                ("project", Phase::Forward, 10),
                ("blend", Phase::Forward, 30),
                ("loss", Phase::Loss, 10),
                ("receive and sum", Phase::Forward, 40),
                ("update", Phase::Update, 4),
                ("wait for ranks", Phase::Exchange, 20),
                ("transfer", Phase::Exchange, 6),
            ]
        );
        let sum: u64 = parts.iter().map(|(_, _, ns)| ns).sum();
        assert_eq!(sum, 120, "the time of the call");
    }

    #[test]
    fn a_call_is_recorded_after_its_last_report() {
        let recorder = Recorder::off();
        let mut ranks = OnRanks::default();
        let times = |views| {
            vec![
                RankTimes {
                    views,
                    sent_bytes: 5,
                    ..RankTimes::default()
                };
                2
            ]
        };
        assert!(!ranks.are_used());
        ranks.called(0, 8, times(0));
        assert!(
            ranks.are_used() && ranks.calls.is_empty(),
            "no step was taken"
        );
        ranks.called(7, 8, times(2));
        let report = StepReport {
            step: 8,
            loss: 0.0,
            counts: StepCounts::default(),
            stages: vec![StageTime {
                stage: Stage::Blend,
                duration_ns: 3,
            }],
            not_finite: None,
        };
        ranks.reported(&recorder, &report);
        assert_eq!(
            (ranks.calls.len(), &ranks.stages[..]),
            (1, &[(Stage::Blend, 3)][..])
        );
        ranks.reported(&recorder, &report);
        assert!(ranks.calls.is_empty() && ranks.stages.is_empty());
        assert_eq!(ranks.of_step.1[1].sent_bytes, 5);
    }
}
