//! `report.html`: a profile as one self-contained page, which needs no network.
//!
//! 1. The contents go in as JSON ([`Page`]): the profile, the spans of the last steps, the heat map with its picture,
//!    the flamegraph, the comparison. `<` is escaped, so no name can end the script element that holds the data.
//! 2. The shell (`html/shell.html`) has the sections with their headings. Each script next to it draws one kind of
//!    picture into them, and builds elements, never markup from strings.
//! 3. A section without data shows the reason. Each section has its result in `data-filled`: `true`, `absent`, or
//!    `empty` and `error`, which are bugs. Scripts that fail are listed in `data-errors` of the root, and `data-ready`
//!    is set last. `cargo xtask page` reads these.
//!
//! The page forbids itself all requests by its Content-Security-Policy.

use crate::profile::{HeatMap, Phase, Profile, StepRecord, Trace, TraceSpan};
use crate::trace::is_device_track;
use serde::Serialize;
use std::collections::HashMap;

/// Number of last steps in the timeline: enough to see one follow the other.
const TIMELINE_STEPS: usize = 4;
/// Most spans in the timeline (the last ones): a page stays a few megabytes.
const TIMELINE_SPANS: usize = 20_000;

const SHELL: &str = include_str!("html/shell.html");
const STYLE: &str = include_str!("html/report.css");
/// In the order of execution: the first catches errors of all others, the last calls them.
const SCRIPTS: [&str; 9] = [
    include_str!("html/kit.js"),
    include_str!("html/tables.js"),
    include_str!("html/summary.js"),
    include_str!("html/steps.js"),
    include_str!("html/timeline.js"),
    include_str!("html/roofline.js"),
    include_str!("html/heat.js"),
    include_str!("html/flame.js"),
    include_str!("html/report.js"),
];

/// Contents of the page.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    /// The profile.
    pub profile: &'a Profile,
    /// Spans of the profile; the spans of the last few steps are shown.
    pub trace: &'a Trace,
    /// Load per tile over a render.
    pub heat: Option<&'a HeatMap>,
    /// Flamegraph of the host's threads, an SVG file as text. Its scripts run, isolated from the rest of the page.
    pub flamegraph_svg: Option<&'a str>,
    /// Comparison of an earlier profile with this profile.
    pub comparison: Option<&'a ComparisonView>,
}

/// Comparison of an earlier profile with this profile, ready to show.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ComparisonView {
    /// Names of the two profiles.
    pub title: String,
    /// Reasons that the two may not be comparable.
    pub warnings: Vec<String>,
    /// In the order to show.
    pub rows: Vec<ComparisonRow>,
}

/// Two times and their ratio.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ComparisonRow {
    /// Name of the timed item.
    pub name: String,
    /// Old time, ms.
    pub old_ms: f64,
    /// New time, ms.
    pub new_ms: f64,
    /// New over old: below 1 is faster.
    pub ratio: f64,
    /// Lower bound of the ratio with the confidence that the title names; NaN if it is not known.
    pub low: f64,
    /// Upper bound of the ratio; NaN if it is not known.
    pub high: f64,
    /// True if the difference is more than noise.
    pub significant: bool,
}

/// Data for the scripts.
#[derive(Serialize)]
struct Data<'a> {
    profile: &'a Profile,
    timeline: Window<'a>,
    heat: Option<Heat<'a>>,
    flamegraph: Option<&'a str>,
    comparison: Option<&'a ComparisonView>,
}

/// The spans of the last steps. Each name is listed once. A span is `[track, name, phase, start, length, step]`, phase
/// and step -1 if unknown, times in ns after `origin_ns`.
#[derive(Serialize)]
struct Window<'a> {
    tracks: Vec<Track<'a>>,
    names: Vec<&'a str>,
    phases: Vec<Phase>,
    origin_ns: i64,
    spans: Vec<[i64; 6]>,
    /// Number of spans of these steps that are not shown.
    left_out: usize,
}

#[derive(Serialize)]
struct Track<'a> {
    name: &'a str,
    device: bool,
}

#[derive(Serialize)]
struct Heat<'a> {
    title: &'a str,
    columns: usize,
    rows: usize,
    values: &'a [f64],
    /// A `data:` address of the picture, or empty.
    picture: String,
}

/// Returns the page as text.
#[must_use]
pub fn report_html(page: &Page<'_>) -> String {
    let data = Data {
        profile: page.profile,
        timeline: window(page.profile, page.trace),
        heat: page.heat.map(heat),
        flamegraph: page.flamegraph_svg,
        comparison: page.comparison,
    };
    // Writing plain data does not fail; if it did, the page would show a script error.
    let data = serde_json::to_string(&data).unwrap_or_else(|error| error.to_string());
    let title = format!("{} profile", page.profile.program.name);
    // One pass over the shell: inserted text is never searched for placeholders.
    let mut html = String::with_capacity(SHELL.len() + STYLE.len() + data.len() + (1 << 16));
    for piece in SHELL.split("{{") {
        match piece.split_once("}}") {
            Some(("title", rest)) => {
                html.push_str(&escape_text(&title));
                html.push_str(rest);
            }
            Some(("style", rest)) => {
                html.push_str(STYLE);
                html.push_str(rest);
            }
            Some(("data", rest)) => {
                html.push_str(&data.replace('<', "\\u003c"));
                html.push_str(rest);
            }
            Some(("script", rest)) => {
                for script in SCRIPTS {
                    html.push_str(script);
                }
                html.push_str(rest);
            }
            _ => html.push_str(piece),
        }
    }
    html
}

fn escape_text(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Returns the beginning of the last few steps, ns.
fn window_start(steps: &[StepRecord]) -> Option<i64> {
    let first = steps.len().saturating_sub(TIMELINE_STEPS);
    let first = steps.get(first)?;
    Some(
        first
            .end_ns
            .saturating_sub(first.duration_ns.max(0.0) as i64),
    )
}

fn window<'a>(profile: &Profile, trace: &'a Trace) -> Window<'a> {
    let start = window_start(&profile.steps).unwrap_or(i64::MIN);
    let mut shown: Vec<&TraceSpan> = trace
        .spans
        .iter()
        .filter(|span| span.track < trace.tracks.len())
        .filter(|span| span.start_ns.saturating_add_unsigned(span.duration_ns) > start)
        .collect();
    shown.sort_by_key(|span| (span.start_ns, std::cmp::Reverse(span.duration_ns)));
    let left_out = shown.len().saturating_sub(TIMELINE_SPANS);
    let shown = &shown[left_out..];
    let origin_ns = shown.first().map_or(0, |span| span.start_ns);
    let mut names = Names::default();
    let spans = shown
        .iter()
        .map(|span| {
            [
                span.track as i64,
                names.index(&span.name),
                span.phase.map_or(-1, phase_index),
                span.start_ns - origin_ns,
                span.duration_ns as i64,
                span.step.map_or(-1, |step| step as i64),
            ]
        })
        .collect();
    Window {
        tracks: trace
            .tracks
            .iter()
            .map(|name| Track {
                name,
                device: is_device_track(name),
            })
            .collect(),
        names: names.list,
        phases: Phase::ALL.to_vec(),
        origin_ns,
        spans,
        left_out,
    }
}

fn phase_index(phase: Phase) -> i64 {
    Phase::ALL
        .iter()
        .position(|&other| other == phase)
        .map_or(-1, |i| i as i64)
}

/// Names in the order of their first occurrence.
#[derive(Default)]
struct Names<'a> {
    list: Vec<&'a str>,
    index: HashMap<&'a str, i64>,
}

impl<'a> Names<'a> {
    fn index(&mut self, name: &'a str) -> i64 {
        *self.index.entry(name).or_insert_with(|| {
            self.list.push(name);
            self.list.len() as i64 - 1
        })
    }
}

fn heat(map: &HeatMap) -> Heat<'_> {
    let picture = if map.picture_png.is_empty() {
        String::new()
    } else {
        format!("data:image/png;base64,{}", base64(&map.picture_png))
    };
    Heat {
        title: &map.title,
        columns: map.columns,
        rows: map.rows,
        values: &map.values,
        picture,
    }
}

/// Base 64 with padding (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |i: usize| u32::from(three.get(i).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            if digit <= three.len() {
                let index = (word >> (18 - 6 * digit)) & 63;
                text.push(char::from(DIGITS[index as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
        assert_eq!(base64(&[0xff, 0xef, 0xbe]), "/+++");
    }
}
