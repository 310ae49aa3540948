//! `trace.json`: a profile's spans in the Trace Event Format, which `ui.perfetto.dev` and
//! `chrome://tracing` open.
//!
//! 1. Tracks go to two processes, host and device ([`is_device_track`]), a thread each; all spans
//!    are on one clock already, so the viewer shows them aligned.
//! 2. Viewers need the spans of a thread nested or disjoint. Spans that overlap otherwise (two
//!    queues on one track, a calibration that is slightly off) get separate threads.
//! 3. Spans become complete events ("X"), in microseconds with the nanoseconds as fractions. The
//!    counters at the end of each step become counter events ("C").
//!
//! Format: "Trace Event Format", Chromium project, 2016.

use crate::profile::{Phase, Profile, Trace, TraceSpan};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The process of host tracks and counters.
const HOST: u32 = 1;
/// The process of device tracks.
const DEVICE: u32 = 2;

/// Returns true if a track was timed by the device's clock: its name begins with `device` or `gpu`,
/// in upper or lower case.
#[must_use]
pub fn is_device_track(name: &str) -> bool {
    let name = name.trim_start().to_ascii_lowercase();
    name.starts_with("device") || name.starts_with("gpu")
}

/// An event; its fields have the names of the format.
#[derive(Serialize)]
struct Event<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<Phase>,
    ph: &'static str,
    pid: u32,
    tid: u32,
    /// Microseconds.
    ts: f64,
    /// Microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Value>,
}

/// Returns the file of a trace and of the counters of its profile, an event a line.
///
/// Times are counted from the profile's origin, or from the earliest span if that came before it.
#[must_use]
pub fn chrome_trace(profile: &Profile, trace: &Trace) -> String {
    let earliest = trace.spans.iter().map(|span| span.start_ns).min();
    let origin_ns = earliest.unwrap_or(0).min(0);
    let mut lines = Lines::default();
    for (pid, name) in [(HOST, "host"), (DEVICE, "device")] {
        if pid == HOST || trace.tracks.iter().any(|name| is_device_track(name)) {
            lines.describe("process_name", (pid, 0), &json!({ "name": name }));
            lines.describe(
                "process_sort_index",
                (pid, 0),
                &json!({ "sort_index": pid }),
            );
        }
    }
    let mut tid = 0;
    for (track, name) in trace.tracks.iter().enumerate() {
        let pid = if is_device_track(name) { DEVICE } else { HOST };
        for (lane, spans) in lanes(trace, track).into_iter().enumerate() {
            tid += 1;
            let name = if lane == 0 {
                name.clone()
            } else {
                format!("{name} ({})", lane + 1)
            };
            lines.describe("thread_name", (pid, tid), &json!({ "name": name }));
            lines.describe(
                "thread_sort_index",
                (pid, tid),
                &json!({ "sort_index": tid }),
            );
            for span in spans {
                lines.push(&span_event(span, (pid, tid), origin_ns));
            }
        }
    }
    counters(profile, origin_ns, &mut lines);
    format!(
        "{{\"displayTimeUnit\":\"ns\",\"otherData\":{},\"traceEvents\":[\n{}\n]}}\n",
        about(profile, origin_ns),
        lines.0.join(",\n")
    )
}

/// Lines of the file, an event each.
#[derive(Default)]
struct Lines(Vec<String>);

impl Lines {
    fn push(&mut self, event: &Event<'_>) {
        // Strings, numbers and maps with string keys: writing them as JSON does not fail.
        self.0.extend(serde_json::to_string(event));
    }

    fn describe(&mut self, name: &str, (pid, tid): (u32, u32), args: &Value) {
        self.push(&Event {
            name,
            cat: None,
            ph: "M",
            pid,
            tid,
            ts: 0.0,
            dur: None,
            args: Some(args.clone()),
        });
    }
}

/// Returns a track's spans in lanes, so that those of one lane are nested or disjoint.
fn lanes(trace: &Trace, track: usize) -> Vec<Vec<&TraceSpan>> {
    let mut spans: Vec<&TraceSpan> = trace.spans.iter().filter(|s| s.track == track).collect();
    // Outer before inner where they begin together.
    spans.sort_by_key(|span| (span.start_ns, std::cmp::Reverse(span.duration_ns)));
    // For each lane: its spans, and the ends of those that are still open, innermost last.
    let mut lanes: Vec<(Vec<&TraceSpan>, Vec<i64>)> = vec![(Vec::new(), Vec::new())];
    for span in spans {
        let end = end_ns(span);
        let mut place = None;
        for (i, (_, open)) in lanes.iter_mut().enumerate() {
            while open.last().is_some_and(|&outer| outer <= span.start_ns) {
                open.pop();
            }
            if open.last().is_none_or(|&outer| end <= outer) {
                place = Some(i);
                break;
            }
        }
        let place = place.unwrap_or_else(|| {
            lanes.push((Vec::new(), Vec::new()));
            lanes.len() - 1
        });
        lanes[place].0.push(span);
        lanes[place].1.push(end);
    }
    lanes.into_iter().map(|(spans, _)| spans).collect()
}

fn end_ns(span: &TraceSpan) -> i64 {
    span.start_ns.saturating_add_unsigned(span.duration_ns)
}

fn span_event(span: &TraceSpan, (pid, tid): (u32, u32), origin_ns: i64) -> Event<'_> {
    Event {
        name: &span.name,
        cat: span.phase,
        ph: "X",
        pid,
        tid,
        ts: (span.start_ns - origin_ns) as f64 / 1e3,
        dur: Some(span.duration_ns as f64 / 1e3),
        args: span.step.map(|step| json!({ "step": step })),
    }
}

/// Adds the time of each step, its loss and its counters, at its end.
fn counters(profile: &Profile, origin_ns: i64, lines: &mut Lines) {
    for record in &profile.steps {
        let ts = (record.end_ns - origin_ns) as f64 / 1e3;
        let mut counter = |name: &str, unit: &str, value: f64| {
            // JSON has no infinities, and a viewer could not draw them.
            if value.is_finite() {
                let series = if unit.is_empty() { "value" } else { unit };
                let args: Map<String, Value> = Map::from_iter([(series.to_owned(), json!(value))]);
                lines.push(&Event {
                    name,
                    cat: None,
                    ph: "C",
                    pid: HOST,
                    tid: 0,
                    ts,
                    dur: None,
                    args: Some(Value::Object(args)),
                });
            }
        };
        counter("step time", "ms", record.duration_ns / 1e6);
        if let Some(loss) = record.loss {
            counter("loss", "", loss);
        }
        for (about, &value) in profile.counters.iter().zip(&record.counters) {
            counter(&about.name, &about.unit, value);
        }
    }
}

/// Returns the metadata that a viewer shows for the whole file.
fn about(profile: &Profile, origin_ns: i64) -> Value {
    let mut about = Map::new();
    let program = &profile.program;
    about.insert("program".into(), json!(program.name));
    about.insert("version".into(), json!(program.version));
    about.insert("command".into(), json!(program.command));
    about.insert("started".into(), json!(program.started));
    about.insert("clock".into(), json!(profile.method.clock));
    about.insert("origin_ns".into(), json!(origin_ns));
    if let Some(error) = profile.method.calibration_error_ns {
        about.insert("calibration_error_ns".into(), json!(error));
    }
    for fact in &profile.device {
        about.insert(fact.name.clone(), json!(fact.value));
    }
    Value::Object(about)
}
