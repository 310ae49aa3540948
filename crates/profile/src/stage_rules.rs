//! Rules that evaluate single stages: see [`crate::diagnosis`].

use crate::diagnosis::{Rule, STAGE};
use crate::format::{digits, percent, scaled, time, whole_percent};
use crate::profile::{Bound, Finding, Profile, StageSummary};
use crate::roofline::{GOOD_PART, MOSTLY_LAUNCH, bytes_ns, flops_ns};
use crate::setup::{Imbalance, Setup};

/// The fullest unit over the mean one.
const IMBALANCE: f64 = 4.0;

/// Returns one finding for each stage under `bound`. `least_ns` is its least time, `left` the condition for that time.
fn under(
    rule: &Rule,
    (profile, setup): (&Profile, &Setup),
    bound: Bound,
    left: &str,
    least_ns: impl Fn(&StageSummary) -> f64,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for stage in &profile.stages {
        let Some(place) = stage.roofline.filter(|place| place.bound == bound) else {
            continue;
        };
        let least = least_ns(stage);
        let gain = stage.share_of_step * (1.0 - least / stage.time.median);
        let mut finding = rule.about(
            &stage.name,
            stage.share_of_step > STAGE,
            gain,
            format!(
                "{} of the step; {} ({} of the ceiling), {} ({}); {}, and {} {left}",
                percent(stage.share_of_step),
                scaled(place.bytes_per_second, "B/s"),
                percent(place.share_of_bandwidth),
                scaled(place.flops_per_second, "FLOP/s"),
                percent(place.share_of_compute),
                time(stage.time.median),
                time(least),
            ),
        );
        let known = setup.stages.iter().find(|known| known.name == stage.name);
        if let Some(remedy) = known.and_then(|known| known.remedy) {
            finding.remedy = remedy.to_owned();
        }
        findings.push(finding);
    }
    findings
}

/// Returns the findings of [`under`], or one finding with the reason that there are none.
fn by_stage(
    rule: &Rule,
    (profile, setup): (&Profile, &Setup),
    bound: Bound,
    left: &str,
    least_ns: impl Fn(&StageSummary) -> f64,
) -> Vec<Finding> {
    if profile.ceilings.is_none() {
        return rule.cannot_tell("this device's ceilings were not measured");
    }
    if profile.stages.iter().all(|stage| stage.roofline.is_none()) {
        return rule.cannot_tell("no stage's bytes and operations are known");
    }
    let mut findings = under(rule, (profile, setup), bound, left, least_ns);
    if findings.is_empty() {
        findings.push(rule.about("stages", false, 0.0, "no stage".into()));
    }
    findings
}

/// Finds stages that are mostly empty dispatches: their launches would be saved.
pub(crate) fn launched(rule: &Rule, profile: &Profile, setup: &Setup) -> Vec<Finding> {
    let dispatch_ns = profile.ceilings.as_ref().and_then(|c| c.dispatch_ns);
    let of = (profile, setup);
    under(rule, of, Bound::Launch, "without launching", |stage| {
        let launches = stage.dispatches.unwrap_or(0.0) * dispatch_ns.unwrap_or(0.0);
        (stage.time.median - launches).max(0.0)
    })
}

/// Returns the remedy for the place of execution: a device with kernels, or the CPU's threads.
fn remedy(
    profile: &Profile,
    setup: &Setup,
    on_device: &'static str,
    on_processor: &'static str,
) -> &'static str {
    match setup.counts.is_some() || profile.timeline.is_some() {
        true => on_device,
        false => on_processor,
    }
}

pub(crate) fn bandwidth_bound(profile: &Profile, setup: &Setup) -> Vec<Finding> {
    let rule = Rule::new(
        "bandwidth_bound",
        format!(
            "a stage above {} of the step reaches {} of the bandwidth ceiling",
            whole_percent(STAGE),
            whole_percent(GOOD_PART)
        ),
        remedy(
            profile,
            setup,
            "move fewer bytes: smaller types, fused passes, reuse in registers and shared memory",
            "move fewer bytes: smaller types, fused passes, blocks that stay in the caches",
        ),
    );
    by_stage(
        &rule,
        (profile, setup),
        Bound::Bandwidth,
        "if bytes were free",
        |stage| {
            let known = stage.cost.zip(profile.ceilings.as_ref());
            known.map_or(0.0, |(cost, ceilings)| flops_ns(cost, ceilings))
        },
    )
}

pub(crate) fn compute_bound(profile: &Profile, setup: &Setup) -> Vec<Finding> {
    let rule = Rule::new(
        "compute_bound",
        format!(
            "a stage above {} of the step reaches {} of the arithmetic ceiling",
            whole_percent(STAGE),
            whole_percent(GOOD_PART)
        ),
        remedy(
            profile,
            setup,
            "do fewer operations: skip what does not count, share results, use cheaper formulas",
            "do fewer operations: skip what does not count, share results, use cheaper formulas and wider \
             vectors",
        ),
    );
    by_stage(
        &rule,
        (profile, setup),
        Bound::Compute,
        "if operations were free",
        |stage| {
            let known = stage.cost.zip(profile.ceilings.as_ref());
            known.map_or(0.0, |(cost, ceilings)| bytes_ns(cost, ceilings))
        },
    )
}

pub(crate) fn latency_bound(profile: &Profile, setup: &Setup) -> Vec<Finding> {
    let rule = Rule::new(
        "latency_bound",
        format!(
            "a stage above {} of the step reaches neither {} of a ceiling, nor are empty \
             dispatches {} of it",
            whole_percent(STAGE),
            whole_percent(GOOD_PART),
            whole_percent(MOSTLY_LAUNCH)
        ),
        remedy(
            profile,
            setup,
            "more threads in flight, fewer registers, loads further ahead of their use, \
             less divergence, fewer barriers",
            "read memory in order, keep vectors full, take branches out of inner loops, cut work so that no \
             thread waits for another",
        ),
    );
    by_stage(
        &rule,
        (profile, setup),
        Bound::Latency,
        "at the ceilings",
        |stage| stage.roofline.map_or(0.0, |place| place.floor_ns),
    )
}

pub(crate) fn load_imbalance(profile: &Profile, setup: &Setup) -> Vec<Finding> {
    let rule = Rule::new(
        "load_imbalance",
        format!(
            "the fullest unit has more than {IMBALANCE} times the mean, and works on after the \
             others are done"
        ),
        remedy(
            profile,
            setup,
            "split full units, begin with the fullest, let idle workgroups take from busy ones",
            "split full units, begin with the fullest, let idle threads take from busy ones",
        ),
    );
    if setup.imbalances.is_empty() {
        return rule.cannot_tell("no loads were counted");
    }
    let finding = |load: &Imbalance| {
        let ratio = load.max / load.mean;
        // An even distribution keeps all concurrent units equally busy; the fullest unit takes its own load. If the
        // number of concurrent units is unknown, all units count as concurrent.
        let even = match load.at_once {
            Some(at_once) => load.mean * (load.units / at_once).max(1.0),
            None => load.mean,
        };
        let alone = (1.0 - even / load.max).max(0.0);
        let stages = profile
            .stages
            .iter()
            .filter(|s| load.stages.contains(&s.name));
        let share: f64 = stages.map(|stage| stage.share_of_step).sum();
        let gain = share * alone;
        rule.about(
            &load.name,
            ratio > IMBALANCE && gain > 0.0,
            gain,
            format!(
                "mean {}, p99 {}, max {} over {} units: {} times the mean; {} take {}",
                digits(load.mean),
                digits(load.p99),
                digits(load.max),
                digits(load.units),
                digits(ratio),
                load.stages.join(", "),
                percent(share),
            ),
        )
    };
    setup.imbalances.iter().map(finding).collect()
}
