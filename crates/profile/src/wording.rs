//! Tests of the reports: every section is present, nothing is too wide, missing data is reported.

use crate::planted::{plain_step, profile, setup};
use crate::profile::{Fact, Phase, Table};
use crate::{Recorder, Span, Track, compare, comparison_markdown, comparison_text};
use crate::{profile_markdown, profile_text};

const SECTIONS: [&str; 12] = [
    "Summary",
    "Budget",
    "Top five",
    "Stages",
    "Kernels",
    "Timeline",
    "Roofline",
    "Diagnosis",
    "Scene and counts",
    "Memory",
    "Configuration",
    "Methodology",
];

fn assert_sections(text: &str) {
    let mut rest = text;
    for section in SECTIONS {
        let at = rest.find(&format!("\n## {section}\n\n"));
        assert!(at.is_some(), "no {section} in\n{text}");
        rest = &rest[at.unwrap_or(0) + 1..];
        let body = rest.split("\n## ").next().unwrap_or("");
        assert!(body.trim().lines().count() > 1, "{section} is empty");
    }
}

fn assert_narrow(text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "too wide: {line}");
    }
}

#[test]
fn the_long_form_has_all_sections_and_numbers() {
    let mut told = setup();
    for (title, name) in [("Memory", "peak"), ("Scene", "Gaussians")] {
        told.tables.push(Table {
            title: title.into(),
            facts: vec![Fact {
                name: name.into(),
                value: "7".into(),
            }],
        });
    }
    told.method.notes.push("counted by formula".into());
    let (profile, _) = profile(plain_step, &told);
    let text = profile_markdown(&profile);
    assert_sections(&text);
    // The terminal does not show the notes on the method.
    assert!(text.contains("\n- counted by formula\n"));
    assert!(!profile_text(&profile).contains("counted by formula"));
    for expected in [
        "| forward | 0.2000 | 20.0 % | ###### |",
        "| wall | 1.0000 | 100.0 % |",
        "| blend | 20 | 200 us | 0 ns | 200 us | 200 us | 200 us | 200 us | 100.0 % | 20.0 % |",
        "| blend | 16 MB | 1 MFLOP | 0.06 | 80 GB/s | 80.0 % | 5 GFLOP/s | 0.5 % | 160 us | 200 us | bandwidth |",
        "**bandwidth_bound** (blend): at most 19.9 %",
        "| device busy | 35.0 % |",
        "| instances |  | 110 | 100 |",
        "| peak | 7 |",
        "Loss from 1.00000 to 0.05000.",
    ] {
        assert!(text.contains(expected), "no `{expected}` in\n{text}");
    }
}

#[test]
fn without_a_device_it_is_said_and_no_number_is_made_up() {
    let host_only = |recorder: &Recorder, _, begin: i64| {
        let span = Span::new("enqueue", begin, 100_000).phase(Phase::Forward);
        recorder.add_span(Track::Host, span);
    };
    let mut bare = setup();
    bare.ceilings = None;
    let (profile, _) = profile(host_only, &bare);
    let text = profile_markdown(&profile);
    assert_sections(&text);
    for expected in [
        "There is none: no device was timed.",
        "Times are the host's: no device was timed.",
        "The device gave no timestamps",
        "ceilings were not measured",
    ] {
        assert!(text.contains(expected), "no `{expected}` in\n{text}");
    }
    assert!(!text.contains("device busy") && !text.contains("NaN"));
    let short = profile_text(&profile);
    assert!(short.contains("No device was timed"));
    assert!(short.contains("beware: The device gave no timestamps"));
    assert_narrow(&short);
}

#[test]
fn the_short_form_fits_a_terminal_whatever_names_are() {
    let long = "a name that the caller made far too long | with a bar and <b>markup</b>";
    let step = |recorder: &Recorder, i: u64, begin: i64| {
        plain_step(recorder, i, begin);
        let span = Span::new(long, begin + 700_000, 200_000).step(i);
        recorder.add_span(Track::Device, span.phase(Phase::Backward));
    };
    let (new, _) = profile(step, &setup());
    let (old, _) = profile(plain_step, &setup());
    assert_narrow(&profile_text(&new));
    let comparison = compare(&old, &new);
    assert_narrow(&comparison_text(&comparison));
    assert!(comparison_text(&comparison).contains("  new\n"));
    let markdown = comparison_markdown(&comparison);
    assert!(markdown.contains("long \\| with a bar and &lt;b>"));
    assert!(!profile_markdown(&new).contains("<b>"));
}
