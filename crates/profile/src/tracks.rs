//! The trace of a window: its spans on tracks.

use crate::profile::{Phase, Trace, TraceSpan};
use crate::recording::{Name, Recording, Span};
use crate::setup::Setup;
use crate::stages::phase_of;
use std::collections::BTreeMap;

/// Position of a track in the picture; from above.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Row {
    Driver,
    Stages,
    Kernels,
    Thread(u32),
    Other(Name),
}

/// Returns every span that is at least partly inside the window.
pub(crate) fn trace(recording: &Recording, setup: &Setup) -> Trace {
    let inside = |from: i64, to: i64| to > recording.begin_ns && from < recording.end_ns;
    let mut rows: BTreeMap<Row, Vec<TraceSpan>> = BTreeMap::new();
    let host = recording
        .host
        .iter()
        .filter(|span| inside(span.start_ns, span.end_ns()));
    for span in host {
        let row = if span.thread == recording.driver {
            Row::Driver
        } else {
            Row::Thread(span.thread)
        };
        rows.entry(row).or_default().push(TraceSpan {
            track: 0,
            name: span.name.to_string(),
            phase: phase_of(setup, &span.name, Some(span.phase)),
            start_ns: span.start_ns,
            duration_ns: span.duration_ns,
            step: span.step,
        });
    }
    let mut add = |row: Row, span: &Span| {
        if !inside(span.start_ns, span.end_ns()) {
            return;
        }
        let of_stage = span.stage.as_ref();
        let phase = phase_of(setup, of_stage.unwrap_or(&span.name), span.phase);
        rows.entry(row).or_default().push(TraceSpan {
            track: 0,
            name: span.name.to_string(),
            phase: phase.filter(|phase| *phase != Phase::Unexplained),
            start_ns: span.start_ns,
            duration_ns: span.duration_ns,
            step: span.step,
        });
    };
    for span in &recording.device {
        add(Row::Stages, span);
    }
    for span in &recording.kernels {
        add(Row::Kernels, span);
    }
    for (name, span) in &recording.other {
        add(Row::Other(name.clone()), span);
    }
    let mut trace = Trace::default();
    for (track, (row, mut spans)) in rows.into_iter().enumerate() {
        let name = title(&row, recording, &trace.tracks);
        trace.tracks.push(name);
        // Spans with the same beginning: the outer span first, the order in which viewers stack
        // them.
        spans.sort_by_key(|span| (span.start_ns, std::cmp::Reverse(span.duration_ns)));
        for span in &mut spans {
            span.track = track;
        }
        trace.spans.append(&mut spans);
    }
    trace
}

/// Returns a name that no other track has.
fn title(row: &Row, recording: &Recording, taken: &[String]) -> String {
    let thread = |index: u32| {
        let name = recording.threads.get(index as usize);
        name.map_or("thread", String::as_str)
    };
    let name = match row {
        Row::Driver => thread(recording.driver),
        Row::Thread(index) => thread(*index),
        Row::Stages => "device: stages",
        Row::Kernels => "device: kernels",
        Row::Other(name) => name,
    };
    if !taken.iter().any(|taken| taken == name) {
        return name.to_owned();
    }
    let numbered = (2..).map(|n| format!("{name} ({n})"));
    let mut free = numbered.filter(|name| !taken.contains(name));
    free.next().unwrap_or_default()
}
