//! `trace.json`, read back like in a viewer.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use dapple_profile::profile::{CounterSummary, Phase, Profile, StepRecord, Trace, TraceSpan};
use dapple_profile::trace::{chrome_trace, is_device_track};
use serde_json::Value;

use crate::support;

fn span(track: usize, name: &str, start_ns: i64, duration_ns: u64) -> TraceSpan {
    TraceSpan {
        track,
        name: name.into(),
        phase: Some(Phase::Forward),
        start_ns,
        duration_ns,
        step: Some(7),
    }
}

fn read(profile: &Profile, trace: &Trace) -> (Value, Vec<Value>) {
    let file: Value = serde_json::from_str(&chrome_trace(profile, trace)).unwrap();
    let events = file["traceEvents"].as_array().unwrap().clone();
    (file, events)
}

fn of<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["ph"] == kind).collect()
}

/// Returns the names of processes or threads, by process and thread.
fn named<'a>(events: &'a [Value], what: &str) -> Vec<(u64, u64, &'a str)> {
    of(events, "M")
        .into_iter()
        .filter(|event| event["name"] == what)
        .map(|event| {
            let number = |key: &str| event[key].as_u64().unwrap();
            (
                number("pid"),
                number("tid"),
                event["args"]["name"].as_str().unwrap(),
            )
        })
        .collect()
}

fn traced(tracks: &[&str], spans: Vec<TraceSpan>) -> Trace {
    Trace {
        tracks: tracks.iter().map(|&name| name.to_owned()).collect(),
        spans,
    }
}

#[test]
fn host_and_device_are_two_processes_on_one_clock() {
    let trace = traced(
        &["host", "GPU stages"],
        vec![
            span(0, "submit", 1_000_001, 2_500),
            span(1, "blend", 1_004_321, 280_999),
        ],
    );
    let (_, events) = read(&support::minimal(), &trace);
    assert_eq!(
        named(&events, "process_name"),
        [(1, 0, "host"), (2, 0, "device")]
    );
    assert_eq!(
        named(&events, "thread_name"),
        [(1, 1, "host"), (2, 2, "GPU stages")]
    );
    let spans = of(&events, "X");
    assert_eq!(spans.len(), 2);
    assert_eq!((&spans[0]["pid"], &spans[1]["pid"]), (&1.into(), &2.into()));
    // To the nanosecond, in microseconds.
    assert_eq!(spans[0]["ts"].to_string(), "1000.001");
    assert_eq!(spans[0]["dur"].to_string(), "2.5");
    assert_eq!(spans[1]["ts"].to_string(), "1004.321");
    assert_eq!(spans[1]["dur"].to_string(), "280.999");
    assert_eq!(spans[1]["cat"], "forward");
    assert_eq!(spans[1]["args"]["step"], 7);
}

#[test]
fn a_trace_without_a_device_names_none() {
    let trace = traced(&["main thread"], vec![span(0, "step", 0, 10)]);
    let (_, events) = read(&support::minimal(), &trace);
    assert_eq!(named(&events, "process_name"), [(1, 0, "host")]);
    for (name, device) in [
        ("device", true),
        ("Device: kernels", true),
        ("gpu", true),
        ("host", false),
        ("main", false),
    ] {
        assert_eq!(is_device_track(name), device, "{name}");
    }
}

#[test]
fn spans_are_in_order_and_outer_ones_come_first() {
    let trace = traced(
        &["host"],
        vec![
            span(0, "inner", 100, 50),
            span(0, "later", 400, 10),
            span(0, "outer", 100, 200),
            span(0, "innermost", 120, 30),
            span(0, "next", 300, 100),
        ],
    );
    let (_, events) = read(&support::minimal(), &trace);
    let names: Vec<&str> = of(&events, "X")
        .iter()
        .map(|e| e["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["outer", "inner", "innermost", "next", "later"]);
    assert_eq!(named(&events, "thread_name").len(), 1);
}

#[test]
fn spans_that_cross_get_a_thread_of_their_own() {
    let trace = traced(
        &["device"],
        vec![
            span(0, "a", 0, 100),
            span(0, "b", 60, 100),
            span(0, "c", 170, 10),
        ],
    );
    let (_, events) = read(&support::minimal(), &trace);
    assert_eq!(
        named(&events, "thread_name"),
        [(2, 1, "device"), (2, 2, "device (2)")]
    );
    let threads: Vec<(&str, u64)> = of(&events, "X")
        .iter()
        .map(|e| (e["name"].as_str().unwrap(), e["tid"].as_u64().unwrap()))
        .collect();
    assert_eq!(threads, [("a", 1), ("c", 1), ("b", 2)]);
}

#[test]
fn names_are_escaped_and_times_before_the_origin_move_all() {
    let odd = "\"a\\b\"\n</script>\u{7}é";
    let trace = traced(&[odd], vec![span(0, odd, -2_000, 500)]);
    let mut profile = support::minimal();
    profile.program.command = odd.into();
    let (file, events) = read(&profile, &trace);
    assert_eq!(of(&events, "X")[0]["name"], odd);
    assert_eq!(of(&events, "X")[0]["ts"].as_f64(), Some(0.0));
    assert_eq!(named(&events, "thread_name")[0].2, odd);
    assert_eq!(file["otherData"]["command"], odd);
    assert_eq!(file["otherData"]["origin_ns"], -2_000);
    // Counters shift with the spans, so that the two are aligned.
    assert_eq!(of(&events, "C")[0]["ts"].as_f64(), Some(2_034_002.0));
}

#[test]
fn each_step_has_its_counters_at_its_end() {
    let mut profile = support::minimal();
    profile.counters = vec![CounterSummary {
        name: "instances".into(),
        unit: "of tiles".into(),
        stats: Default::default(),
    }];
    profile.steps = vec![StepRecord {
        step: 3,
        end_ns: 5_000_500,
        duration_ns: 2.1e6,
        loss: Some(f64::NAN),
        stages_ns: Vec::new(),
        counters: vec![4e6],
    }];
    let (_, events) = read(&profile, &Trace::default());
    let counters = of(&events, "C");
    // Values that are not numbers are omitted: JSON cannot represent them.
    assert_eq!(counters.len(), 2);
    assert_eq!(counters[0]["name"], "step time");
    assert_eq!(counters[0]["args"]["ms"].as_f64(), Some(2.1));
    assert_eq!(counters[1]["args"]["of tiles"].as_f64(), Some(4e6));
    assert_eq!(counters[1]["ts"].as_f64(), Some(5_000.5));
}

#[test]
fn a_full_profile_has_every_span_and_no_crossing_ones() {
    let profile = support::full();
    let trace = support::full_trace(&profile);
    let (_, events) = read(&profile, &trace);
    let spans = of(&events, "X");
    assert_eq!(spans.len(), trace.spans.len());
    let mut open: Vec<(u64, f64)> = Vec::new();
    for span in spans {
        let tid = span["tid"].as_u64().unwrap();
        let begin = span["ts"].as_f64().unwrap();
        let end = begin + span["dur"].as_f64().unwrap();
        // Half a nanosecond: sums of microseconds are rounded.
        open.retain(|&(thread, outer)| thread == tid && outer > begin + 5e-4);
        assert!(
            open.iter().all(|&(_, outer)| end <= outer + 5e-4),
            "{span} crosses another"
        );
        open.push((tid, end));
    }
    let counted = of(&events, "C").len();
    assert_eq!(counted, profile.steps.len() * (2 + profile.counters.len()));
}
