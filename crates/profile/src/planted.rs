//! Synthetic timelines, exact to the nanosecond, for tests of everything that reads timelines.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::profile::{Ceilings, Control, Finding, KernelSummary, Phase, Profile, Stats, Trace};
use crate::{Counts, Recorder, Recording, Setup, Span, Stage, Synchronised, Track, analyse};
use std::time::Duration;

/// A step's length, ns.
pub(crate) const STEP: i64 = 1_000_000;

/// Returns a window of `steps` steps of 1 ms. `step` records each and gets its number and
/// beginning.
pub(crate) fn recording(steps: u64, step: impl Fn(&Recorder, u64, i64)) -> Recording {
    let recorder = Recorder::new();
    let at = |ns: i64| Synchronised {
        at: recorder.origin() + Duration::from_nanos(ns as u64),
    };
    recorder.begin_window(at(STEP));
    for i in 0..steps {
        let begin = STEP * (i as i64 + 1);
        step(&recorder, i, begin);
        recorder.end_step_at(i, begin + STEP);
    }
    recorder.end_window(at(STEP * (steps as i64 + 1)));
    recorder.finish().unwrap()
}

pub(crate) fn setup() -> Setup {
    Setup {
        stages: vec![
            Stage::new("blend", Phase::Forward)
                .dispatches(2.0)
                .cost(16e6, 1e6),
            Stage::new("loss", Phase::Loss),
            Stage::new("update", Phase::Update).dispatches(1.0),
        ],
        ceilings: Some(Ceilings {
            bytes_per_second: 100e9,
            flops_per_second: 1e12,
            dispatch_ns: Some(2000.0),
            source: "by hand".into(),
        }),
        counts: Some(Counts {
            submissions: 1.0,
            ..Counts::default()
        }),
        control: Some(control([1.0; 4])),
        ..Setup::default()
    }
}

/// Returns a control whose rounds took this number of milliseconds at each moment.
pub(crate) fn control(ms: [f64; 4]) -> Control {
    Control {
        threads: 2,
        moments_ns: ms.map(|ms| vec![ms * 1e6; 5]).to_vec(),
    }
}

/// Records a step on a device: blend 200..400, a gap of 50, update 450..600 us; the host enqueues
/// in 0..100 us and waits in 100..1000 us.
pub(crate) fn plain_step(recorder: &Recorder, i: u64, begin: i64) {
    let us = |from: i64, length: u64| (begin + 1000 * from, 1000 * length);
    let device = |name: &'static str, (from, length): (i64, u64)| {
        recorder.add_span(Track::Device, Span::new(name, from, length).step(i));
    };
    let host = |name: &'static str, (from, length): (i64, u64)| {
        recorder.add_span(Track::Host, Span::new(name, from, length));
    };
    host("enqueue", us(0, 100));
    host("wait", us(100, 900));
    device("blend", us(200, 200));
    device("update", us(450, 150));
    recorder.counter("instances", "", i, 100.0 + i as f64);
    recorder.loss(i, 1.0 / (1.0 + i as f64));
}

pub(crate) fn profile(step: impl Fn(&Recorder, u64, i64), setup: &Setup) -> (Profile, Trace) {
    let (profile, trace) = analyse(&recording(20, step), setup).unwrap();
    let sum: f64 = profile.budget.rows.iter().map(|row| row.total_ns).sum();
    assert_eq!(sum, profile.budget.wall_ns, "the budget closes");
    (profile, trace)
}

/// Returns us a step of each row that has any.
pub(crate) fn budget(profile: &Profile) -> Vec<(Phase, f64)> {
    let rows = profile.budget.rows.iter();
    rows.filter(|row| row.total_ns > 0.0)
        .map(|row| (row.phase, row.per_step_ns / 1000.0))
        .collect()
}

pub(crate) fn finding<'a>(profile: &'a Profile, rule: &str) -> &'a Finding {
    let mut found = profile.findings.iter().filter(|f| f.rule == rule);
    found.next().unwrap()
}

pub(crate) fn about(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn a_plain_step_is_told_as_it_was() {
    let (profile, trace) = profile(plain_step, &setup());
    assert_eq!(
        budget(&profile),
        [
            (Phase::Forward, 200.0),
            (Phase::Update, 150.0),
            (Phase::Host, 600.0),
            (Phase::Gaps, 50.0),
        ]
    );
    let names: Vec<_> = profile.stages.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["blend", "update"], "what never ran is not shown");
    let blend = &profile.stages[0];
    assert_eq!((blend.time.count, blend.time.median), (20, 200_000.0));
    assert!(about(blend.share_of_step, 0.2) && about(blend.share_of_phase, 1.0));
    // 16 MB in 200 us are 80 GB/s.
    assert!(about(blend.roofline.unwrap().share_of_bandwidth, 0.8));
    let timeline = profile.timeline.as_ref().unwrap();
    assert!(about(timeline.busy, 0.35) && about(timeline.launch_efficiency, 0.35));
    assert!(about(timeline.kernels_per_step, 3.0));
    assert!(about(timeline.mean_kernel_ns, 350_000.0 / 3.0));
    // 20 gaps of 50 us inside steps, 19 of 600 us between them.
    assert_eq!((timeline.gap.count, timeline.gap.max), (39, 600_000.0));
    assert!(about(timeline.gap.sum, 20.0 * 50e3 + 19.0 * 600e3));
    let host: Vec<_> = profile
        .host
        .iter()
        .map(|s| (&*s.name, s.time.median))
        .collect();
    assert_eq!(host, [("enqueue", 100e3), ("wait", 900e3)]);
    let counter = &profile.counters[0];
    assert!(about(counter.stats.mean, 109.5));
    let second = &profile.steps[1];
    assert_eq!((second.step, second.loss), (1, Some(0.5)));
    assert_eq!(second.duration_ns, STEP as f64);
    assert_eq!(second.stages_ns, [200e3, 150e3]);
    assert_eq!(second.counters, [101.0]);
    assert_eq!(trace.tracks[1], "device: stages");
    assert_eq!(trace.spans.len(), 80);
}

#[test]
fn kernels_fill_no_more_than_the_device_was_busy() {
    // Timed one by one they took twice as long as side by side.
    let kernel = |name: &str, ns: f64| KernelSummary {
        name: name.to_owned(),
        stage: name.to_owned(),
        time: Stats::from_values(&[ns]),
        per_step: 1.0,
    };
    let setup = Setup {
        kernels: vec![kernel("blend", 400e3), kernel("update", 300e3)],
        ..setup()
    };
    let (profile, _) = profile(plain_step, &setup);
    let timeline = profile.timeline.as_ref().unwrap();
    assert!(about(timeline.launch_efficiency, 0.35), "{timeline:?}");
    assert!(about(timeline.mean_kernel_ns, 175e3), "{timeline:?}");
}

#[test]
fn a_planted_dispatch_is_a_stage_of_its_own() {
    let (profile, _) = profile(
        |recorder, i, begin| {
            plain_step(recorder, i, begin);
            let span = Span::new("extra", begin + 700_000, 100_000).step(i);
            recorder.add_span(Track::Device, span.phase(Phase::Backward));
        },
        &setup(),
    );
    let row = |phase| budget(&profile).into_iter().find(|r| r.0 == phase);
    assert_eq!(row(Phase::Backward), Some((Phase::Backward, 100.0)));
    assert_eq!(row(Phase::Forward), Some((Phase::Forward, 200.0)));
    assert_eq!(row(Phase::Gaps), Some((Phase::Gaps, 150.0)));
    assert_eq!(row(Phase::Host), Some((Phase::Host, 400.0)));
    assert_eq!(profile.stages[2].name, "extra");
}

#[test]
fn overlapping_spans_are_counted_once() {
    let (profile, _) = profile(
        |recorder, i, begin| {
            plain_step(recorder, i, begin);
            let span = Span::new("loss", begin + 350_000, 100_000).step(i);
            recorder.add_span(Track::Device, span);
        },
        &setup(),
    );
    assert_eq!(
        budget(&profile),
        [
            (Phase::Forward, 150.0),
            (Phase::Loss, 100.0),
            (Phase::Update, 150.0),
            (Phase::Host, 600.0),
        ]
    );
    // The stage's own time is all of the time.
    assert_eq!(profile.stages[0].time.median, 200_000.0);
    assert!(about(profile.timeline.unwrap().busy, 0.4));
}

#[test]
fn a_planted_sync_is_the_hosts_time_and_its_rule_fires() {
    // The same device work as two submissions, and the host waits and reads in between.
    let split = |recorder: &Recorder, i: u64, begin: i64| {
        let device = |name: &'static str, us: i64, half: u64| {
            let span = Span::new(name, begin + us * 1000, 150_000);
            let span = span.step(i).submission(2 * i + half);
            recorder.add_span(Track::Device, span);
        };
        device("blend", 100, 0);
        device("update", 550, 1);
        let span = Span::new("read back", begin + 100_000, 450_000);
        recorder.add_span(Track::Host, span);
    };
    let mut waiting = setup();
    let (quiet, _) = profile(split, &waiting);
    assert!(!finding(&quiet, "sync_bound").fired);
    waiting.counts = Some(Counts {
        syncs: 1.0,
        ..Counts::default()
    });
    let (profile, _) = profile(split, &waiting);
    assert_eq!(
        budget(&profile),
        [
            (Phase::Forward, 150.0),
            (Phase::Update, 150.0),
            (Phase::Host, 300.0),
            (Phase::Unexplained, 400.0),
        ]
    );
    let sync = finding(&profile, "sync_bound");
    assert!(sync.fired && about(sync.possible_gain, 0.3), "{sync:?}");
    assert!(finding(&profile, "host_bound").fired);
    assert!(finding(&profile, "unexplained_time").fired);
}

#[test]
fn rules_fire_by_their_thresholds_and_gains_are_amdahls() {
    let (profile, _) = profile(plain_step, &setup());
    // Blend: 80 % of bandwidth, 20 % of the step; its operations take only 1 of its 200 us.
    let bandwidth = finding(&profile, "bandwidth_bound");
    assert_eq!(
        (bandwidth.subject.as_str(), bandwidth.fired),
        ("blend", true)
    );
    assert!(about(bandwidth.possible_gain, 0.2 * 0.995));
    // Gaps 5 %, 3 dispatches of 2 us in 1 ms.
    let launch = finding(&profile, "launch_bound");
    assert!(!launch.fired && about(launch.possible_gain, 0.05 + 0.006));
    assert!(finding(&profile, "host_bound").fired);
    for rule in [
        "slow_tail",
        "noisy_measurement",
        "too_small",
        "transfer_bound",
    ] {
        assert!(!finding(&profile, rule).fired, "{rule}");
    }
    let gains: Vec<f64> = profile.findings.iter().map(|f| f.possible_gain).collect();
    assert!(gains.is_sorted_by(|a, b| a >= b), "{gains:?}");
}

#[test]
fn a_stage_of_empty_dispatches_is_bound_by_launching() {
    // 75 dispatches of 2 us in 200 us, and hardly any work.
    let mut tiny = setup();
    tiny.stages[0] = Stage::new("blend", Phase::Forward)
        .dispatches(75.0)
        .cost(1e6, 1e6);
    let (profile, _) = profile(plain_step, &tiny);
    let mut found = profile.findings.iter().filter(|f| f.rule == "launch_bound");
    let blend = found.find(|f| f.subject == "blend").unwrap();
    assert!(
        blend.fired && about(blend.possible_gain, 0.2 * 0.75),
        "{blend:?}"
    );
    // Gaps of 5 %, 76 dispatches of 2 us in 1 ms.
    let step = profile
        .findings
        .iter()
        .find(|f| f.subject == "step" && f.rule == "launch_bound");
    assert!(about(step.unwrap().possible_gain, 0.05 + 0.152));
    assert!(
        finding(&profile, "too_small")
            .evidence
            .contains("1 of 2 stages")
    );
}

#[test]
fn imbalance_counts_only_what_the_fullest_works_alone() {
    let mut uneven = setup();
    let load = |at_once| crate::Imbalance {
        name: "instances a tile".into(),
        stages: vec!["blend".into()],
        units: 1000.0,
        at_once,
        mean: 10.0,
        p99: 50.0,
        max: 200.0,
    };
    // 1000 units of 10 on 100 places: 100 each if even; the fullest takes 200.
    uneven.imbalances = vec![load(Some(100.0)), load(Some(10.0)), load(None)];
    let (profile, _) = profile(plain_step, &uneven);
    let mut gains: Vec<(bool, f64)> = profile
        .findings
        .iter()
        .filter(|f| f.rule == "load_imbalance")
        .map(|f| (f.fired, f.possible_gain))
        .collect();
    gains.sort_by(|a, b| a.1.total_cmp(&b.1));
    assert_eq!(
        gains[0],
        (false, 0.0),
        "10 places are busy with 1000 anyway"
    );
    assert!(gains[1].0 && about(gains[1].1, 0.2 * 0.5));
    assert!(gains[2].0 && about(gains[2].1, 0.2 * 0.95));
}

#[test]
fn without_timestamps_it_says_so() {
    let host_only = |recorder: &Recorder, _, begin: i64| {
        let span = Span::new("enqueue", begin, 100_000);
        recorder.add_span(Track::Host, span);
    };
    let mut claims = setup();
    claims.method.device_timestamps = true;
    let (profile, _) = profile(host_only, &claims);
    assert!(profile.timeline.is_none() && !profile.method.device_timestamps);
    assert!(profile.method.cautions[0].contains("no timestamps"));
    assert_eq!(profile.tables[0].title, "Host and device, a step");
    assert!(
        finding(&profile, "launch_bound")
            .evidence
            .contains("unknown: ")
    );
}

#[test]
fn one_step_and_steps_that_were_not_timed() {
    let one = analyse(&recording(1, plain_step), &setup()).unwrap().0;
    assert_eq!((one.step.count, one.step.std), (1, 0.0));
    assert!(finding(&one, "noisy_measurement").fired);

    let (half, _) = profile(
        |recorder, i, begin| {
            if i % 2 == 0 {
                plain_step(recorder, i, begin);
            }
        },
        &setup(),
    );
    assert!(half.method.cautions[0].starts_with("10 of 20 measured steps have no stage times"));
    assert!(
        about(half.stages[0].share_of_step, 0.2),
        "of the timed steps"
    );
    assert!(half.steps[1].stages_ns.is_empty() && half.steps[1].counters[0].is_nan());
}

#[test]
fn a_span_without_a_purpose_is_unexplained_and_named() {
    let (profile, _) = profile(
        |recorder, i, begin| {
            let span = Span::new("mystery", begin, 300_000).step(i);
            recorder.add_span(Track::Device, span);
        },
        &setup(),
    );
    assert_eq!(budget(&profile), [(Phase::Unexplained, 1000.0)]);
    assert!(profile.method.cautions[0].contains("\"mystery\""));
}

#[test]
fn kernels_alone_make_stages_and_their_own_table() {
    let (profile, _) = profile(
        |recorder, i, begin| {
            for k in 0..4 {
                let span = Span::new("pass", begin + k * 10_000, 5_000).step(i);
                recorder.add_span(Track::Kernels, span.stage("blend"));
            }
        },
        &setup(),
    );
    assert_eq!(profile.stages[0].name, "blend");
    assert_eq!(profile.stages[0].time.median, 20_000.0);
    let kernel = &profile.kernels[0];
    assert_eq!((&*kernel.name, &*kernel.stage), ("pass", "blend"));
    assert_eq!((kernel.per_step, kernel.time.count), (4.0, 80));
    assert!(finding(&profile, "too_small").fired);
}

#[test]
fn a_slow_tail_is_found() {
    // One step in ten takes ten times as long: 18 of 1 ms, 2 of 10 ms.
    let recorder = Recorder::new();
    let at = |ns: i64| Synchronised {
        at: recorder.origin() + Duration::from_nanos(ns as u64),
    };
    recorder.begin_window(at(0));
    let mut end = 0;
    for i in 0..20 {
        end += if i % 10 == 9 { 10 * STEP } else { STEP };
        recorder.end_step_at(i, end);
    }
    recorder.end_window(at(end));
    let profile = analyse(&recorder.finish().unwrap(), &setup()).unwrap().0;
    let tail = finding(&profile, "slow_tail");
    assert!(
        tail.fired && about(tail.possible_gain, 18.0 / 38.0),
        "{tail:?}"
    );
}

#[test]
fn a_step_done_again_ends_when_it_ends_last() {
    let recorder = Recorder::new();
    recorder.begin_window(Synchronised {
        at: recorder.origin(),
    });
    for (step, end) in [(0, 10), (1, 20), (1, 30), (2, 40), (3, 900)] {
        recorder.end_step_at(step, end);
    }
    recorder.end_window(Synchronised {
        at: recorder.origin() + Duration::from_nanos(100),
    });
    let profile = analyse(&recorder.finish().unwrap(), &setup()).unwrap().0;
    let steps: Vec<_> = profile
        .steps
        .iter()
        .map(|s| (s.step, s.duration_ns))
        .collect();
    assert_eq!(steps, [(0, 10.0), (1, 20.0), (2, 10.0)]);
}
