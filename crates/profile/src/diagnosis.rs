//! [`diagnose`]: rules with thresholds, their evidence, a remedy, and the largest possible gain.
//!
//! A gain is a part of the wall time, by Amdahl's law: the time that is saved if the cause disappears entirely and
//! nothing else changes. It is a limit, not a forecast. The limits of two rules overlap, so they do not add up.
//!
//! | rule | time that would be saved |
//! |---|---|
//! | `launch_bound` | gaps inside submissions, and an empty dispatch's time for each dispatch; of a stage, the latter |
//! | `host_bound` | the host's row: the device idle (or, without one, the program outside its stages) |
//! | `sync_bound` | the same row: after a wait the device starts again with an empty queue |
//! | `transfer_bound` | the transfers' row |
//! | `allocation_in_steady_state` | at most the host's row, where allocating would be |
//! | `bandwidth_bound` | a stage's time above what its operations need, were bytes free |
//! | `compute_bound` | a stage's time above what its bytes need, were operations free |
//! | `latency_bound` | a stage's time above the ceilings' floor |
//! | `load_imbalance` | the part of the stages in which only the fullest unit still works |
//! | `too_small` | the stages with short kernels |
//! | `wire_bound` | the part of the exchanges between ranks in which no rank is late |
//! | `unbalanced` | the part of the exchanges in which ranks wait for slower ranks |
//! | `decode_bound` | the input's row |
//! | `slow_tail` | time of steps above the median |
//! | `unexplained_time` | its row |
//! | `noisy_measurement` | nothing: it is about the measurement |

use crate::format::{digits, percent, scaled, time, whole_percent};
use crate::profile::{Finding, Phase, Profile, StageSummary};
use crate::rank_rules;
use crate::roofline::MOSTLY_LAUNCH;
use crate::setup::Setup;
use crate::stage_rules;

/// Gaps and launches, of wall time.
const LAUNCH: f64 = 0.2;
/// The host's row, of wall time.
const HOST: f64 = 0.1;
/// Waits a step: programs that read results back every N steps have fewer.
const WAITS: f64 = 0.1;
/// The host's row, of wall time, where there are waits.
const WAITED: f64 = 0.05;
/// The transfers' row, of wall time.
const TRANSFER: f64 = 0.1;
/// Buffers created a step; 1 in 100 steps is growth, not steady state.
const ALLOCATIONS: f64 = 0.01;
/// A stage below this part of the step is not worth a finding.
pub(crate) const STAGE: f64 = 0.05;
/// For kernels shorter than this, launching and draining takes as long as the kernel, ns.
const SHORT_KERNEL_NS: f64 = 10_000.0;
/// If kernels fill this part of wall time, their shortness costs nothing.
const FILLED: f64 = 0.7;
/// 95th percentile over median.
const TAIL: f64 = 1.5;
/// The unexplained row, of wall time.
const UNEXPLAINED: f64 = 0.05;
/// Standard error of the mean step.
const NOISE: f64 = 0.02;
/// Steps that a measurement needs.
const STEPS: u64 = 10;

/// Evaluates every rule; best possible gain first, rules that did not fire included.
pub(crate) fn diagnose(profile: &Profile, setup: &Setup) -> Vec<Finding> {
    let rules = [
        launch_bound,
        host_bound,
        sync_bound,
        transfer_bound,
        allocation_in_steady_state,
        stage_rules::bandwidth_bound,
        stage_rules::compute_bound,
        stage_rules::latency_bound,
        stage_rules::load_imbalance,
        too_small,
        rank_rules::wire_bound,
        rank_rules::unbalanced,
        rank_rules::decode_bound,
        slow_tail,
        unexplained_time,
        noisy_measurement,
    ];
    let mut findings: Vec<Finding> = rules
        .into_iter()
        .flat_map(|rule| rule(profile, setup))
        .collect();
    let gain = |finding: &Finding| finding.possible_gain;
    findings.sort_by(|a, b| {
        let by_gain = gain(b).total_cmp(&gain(a));
        by_gain.then(b.fired.cmp(&a.fired))
    });
    findings
}

/// Texts of a rule; findings are made from it.
pub(crate) struct Rule {
    name: &'static str,
    condition: String,
    remedy: &'static str,
}

impl Rule {
    pub fn new(name: &'static str, condition: String, remedy: &'static str) -> Self {
        Self {
            name,
            condition,
            remedy,
        }
    }

    pub fn about(&self, subject: &str, fired: bool, gain: f64, evidence: String) -> Finding {
        Finding {
            rule: self.name.into(),
            subject: subject.into(),
            fired,
            condition: self.condition.clone(),
            evidence,
            remedy: self.remedy.into(),
            // Not a number if nothing was measured; a sum of nothing is -0.
            possible_gain: if gain > 0.0 { gain.min(1.0) } else { 0.0 },
        }
    }

    pub fn step(&self, fired: bool, gain: f64, evidence: String) -> Vec<Finding> {
        vec![self.about("step", fired, gain, evidence)]
    }

    pub fn cannot_tell(&self, why: &str) -> Vec<Finding> {
        self.step(false, 0.0, format!("unknown: {why}"))
    }
}

pub(crate) fn share_of(profile: &Profile, phase: Phase) -> f64 {
    let row = profile.budget.rows.iter().find(|row| row.phase == phase);
    row.map_or(0.0, |row| row.share)
}

fn launch_bound(profile: &Profile, setup: &Setup) -> Vec<Finding> {
    let rule = Rule::new(
        "launch_bound",
        format!(
            "gaps between kernels and launching them take more than {} of wall time, or empty \
             dispatches alone {} of a stage above {} of the step",
            whole_percent(LAUNCH),
            whole_percent(MOSTLY_LAUNCH),
            whole_percent(STAGE)
        ),
        "fuse kernels, record once and replay, drop barriers, give each dispatch more work",
    );
    let Some(timeline) = &profile.timeline else {
        return rule.cannot_tell("no device was timed");
    };
    let gaps = share_of(profile, Phase::Gaps);
    let dispatch_ns = profile.ceilings.as_ref().and_then(|c| c.dispatch_ns);
    let launches = dispatch_ns.map_or(0.0, |each| {
        let a_step = profile.budget.wall_ns / profile.steps.len().max(1) as f64;
        // Launching is inside spans: it cannot take longer than they do.
        (each * timeline.kernels_per_step / a_step.max(1.0)).min(timeline.busy)
    });
    let each = dispatch_ns.map_or("not measured".to_owned(), time);
    let mut findings = rule.step(
        gaps + launches > LAUNCH,
        gaps + launches,
        format!(
            "gaps {}, launches {} ({} dispatches a step, an empty one {each}), mean kernel {}",
            percent(gaps),
            percent(launches),
            digits(timeline.kernels_per_step),
            time(timeline.mean_kernel_ns),
        ),
    );
    findings.extend(stage_rules::launched(&rule, profile, setup));
    findings
}

fn host_bound(profile: &Profile, _: &Setup) -> Vec<Finding> {
    let on_device = profile.timeline.is_some();
    let rule = Rule::new(
        "host_bound",
        format!(
            "the host's own work {} more than {} of wall time",
            if on_device {
                "keeps the device idle for"
            } else {
                "outside the stages takes"
            },
            whole_percent(HOST)
        ),
        "prepare the next step while this one runs, keep more steps in flight, \
         move work off the thread that drives",
    );
    let share = share_of(profile, Phase::Host);
    let longest = longest_span(profile, Phase::Host);
    rule.step(
        share > HOST,
        share,
        format!("host {}{longest}", percent(share)),
    )
}

/// Returns a clause on the longest span of the host in a phase; empty without such spans.
pub(crate) fn longest_span(profile: &Profile, phase: Phase) -> String {
    let spans = profile.host.iter().chain(&profile.stages);
    let spans = spans.filter(|span| span.phase == phase);
    let longest = spans.max_by(|a, b| a.time.sum.total_cmp(&b.time.sum));
    longest.map_or(String::new(), |span| {
        format!(
            "; its longest span is \"{}\", {} a step",
            span.name,
            time(span.time.mean)
        )
    })
}

fn sync_bound(profile: &Profile, setup: &Setup) -> Vec<Finding> {
    let rule = Rule::new(
        "sync_bound",
        format!(
            "the host waits for the device more than {WAITS} times a step, and the device idles \
             for the host more than {} of wall time",
            whole_percent(WAITED)
        ),
        "read results back some steps later, without waiting for them",
    );
    let Some(counts) = setup.counts else {
        return rule.cannot_tell("waits were not counted");
    };
    if profile.timeline.is_none() {
        return rule.cannot_tell(&format!(
            "no device was timed; the host waits {} times a step",
            digits(counts.syncs)
        ));
    }
    let idle = share_of(profile, Phase::Host);
    rule.step(
        counts.syncs > WAITS && idle > WAITED,
        if counts.syncs > 0.0 { idle } else { 0.0 },
        format!(
            "{} waits a step, device idle for the host {}",
            digits(counts.syncs),
            percent(idle)
        ),
    )
}

fn transfer_bound(profile: &Profile, setup: &Setup) -> Vec<Finding> {
    let rule = Rule::new(
        "transfer_bound",
        format!(
            "moving bytes takes more than {} of wall time",
            whole_percent(TRANSFER)
        ),
        "keep data on the device, copy less and in smaller types, copy while computing",
    );
    let share = share_of(profile, Phase::Transfer);
    let bytes = setup.counts.map_or(String::new(), |counts| {
        format!(
            ", {} to the device and {} back a step",
            scaled(counts.bytes_written, "B"),
            scaled(counts.bytes_read, "B")
        )
    });
    rule.step(
        share > TRANSFER,
        share,
        format!("transfers {}{bytes}", percent(share)),
    )
}

fn allocation_in_steady_state(profile: &Profile, setup: &Setup) -> Vec<Finding> {
    let rule = Rule::new(
        "allocation_in_steady_state",
        format!("the driver makes more than {ALLOCATIONS} buffers a step"),
        "size buffers ahead, take them from a pool, return them before the next is needed",
    );
    let Some(counts) = setup.counts else {
        return rule.cannot_tell("allocations were not counted");
    };
    let gain = if counts.allocations > 0.0 {
        share_of(profile, Phase::Host)
    } else {
        0.0
    };
    let evidence = format!("{} buffers made a step", digits(counts.allocations));
    rule.step(counts.allocations > ALLOCATIONS, gain, evidence)
}

fn too_small(profile: &Profile, _: &Setup) -> Vec<Finding> {
    let rule = Rule::new(
        "too_small",
        format!(
            "the device's mean kernel is shorter than {}, and kernels fill less than {} of wall time",
            time(SHORT_KERNEL_NS),
            whole_percent(FILLED)
        ),
        "more work a step: a larger picture, several views, larger batches; or take a smaller device, or the CPU",
    );
    let Some(timeline) = &profile.timeline else {
        return rule.cannot_tell("no device was timed");
    };
    let short = |stage: &&StageSummary| {
        stage.time.mean / stage.dispatches.unwrap_or(1.0).max(1.0) < SHORT_KERNEL_NS
    };
    let stages: Vec<&StageSummary> = profile.stages.iter().filter(short).collect();
    rule.step(
        timeline.kernels_per_step > 0.0
            && timeline.mean_kernel_ns < SHORT_KERNEL_NS
            && timeline.launch_efficiency < FILLED,
        stages.iter().map(|stage| stage.share_of_step).sum(),
        format!(
            "mean kernel {}, kernels {} of wall time; {} of {} stages have shorter ones than the threshold",
            time(timeline.mean_kernel_ns),
            percent(timeline.launch_efficiency),
            stages.len(),
            profile.stages.len()
        ),
    )
}

fn slow_tail(profile: &Profile, _: &Setup) -> Vec<Finding> {
    let rule = Rule::new(
        "slow_tail",
        format!("the 95th percentile of steps is above {TAIL} medians"),
        "look at the slowest steps in the timeline: rare stages, growing buffers, other programs",
    );
    let step = &profile.step;
    let above = |ns: f64| (ns - step.median).max(0.0);
    let excess: f64 = profile.steps.iter().map(|s| above(s.duration_ns)).sum();
    let slowest = profile
        .steps
        .iter()
        .max_by(|a, b| a.duration_ns.total_cmp(&b.duration_ns));
    let slowest = slowest.map_or(String::new(), |s| {
        format!("; the slowest, step {}, {}", s.step, time(s.duration_ns))
    });
    rule.step(
        step.p95 > TAIL * step.median,
        excess / step.sum,
        format!(
            "median {}, p95 {}{slowest}",
            time(step.median),
            time(step.p95)
        ),
    )
}

fn unexplained_time(profile: &Profile, _: &Setup) -> Vec<Finding> {
    let rule = Rule::new(
        "unexplained_time",
        format!(
            "no span covers more than {} of wall time",
            whole_percent(UNEXPLAINED)
        ),
        "put spans around what the driving thread does between steps",
    );
    let share = share_of(profile, Phase::Unexplained);
    rule.step(
        share > UNEXPLAINED,
        share,
        format!("unexplained {}", percent(share)),
    )
}

fn noisy_measurement(profile: &Profile, _: &Setup) -> Vec<Finding> {
    let rule = Rule::new(
        "noisy_measurement",
        format!(
            "fewer than {STEPS} steps, or the mean step's standard error is above {}",
            whole_percent(NOISE)
        ),
        "measure more steps, on a machine that does nothing else",
    );
    let step = &profile.step;
    let error = step.relative_error();
    rule.step(
        step.count < STEPS || error > NOISE,
        0.0,
        format!(
            "{} steps, mean {} +- {}",
            step.count,
            time(step.mean),
            percent(error)
        ),
    )
}
