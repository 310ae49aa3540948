//! The short form, for a terminal: plain text, [`WIDTH`] columns.

use crate::compare::Comparison;
use crate::format::{digits, percent, scaled, time};
use crate::profile::Profile;
use crate::table::{Grid, wrap};
use crate::words;
use std::fmt::Write as _;

/// Most columns of a line.
const WIDTH: usize = 100;

/// Most stages that are shown; the rest is in the long form.
const STAGES: usize = 16;

/// Most findings that are shown.
const FINDINGS: usize = 5;

/// Returns a profile's summary, at most 100 columns wide.
pub fn profile_text(profile: &Profile) -> String {
    let mut out = wrap(
        &format!("{} {}", profile.program.name, profile.program.version),
        0,
        WIDTH,
    );
    for line in words::summary(profile) {
        out += &wrap(&line, 2, WIDTH);
    }
    // The long form has the notes on the method.
    for caution in &profile.method.cautions {
        out += &wrap(&format!("beware: {caution}"), 2, WIDTH);
    }
    let _ = write!(out, "\nBudget\n{}", words::budget(profile).plain(2));
    out += &stages(profile);
    if let Some(t) = &profile.timeline {
        let line = format!(
            "gap mean {}, p95 {}; launch efficiency {}; a step: {} submissions, {} waits, {} to \
             and {} from the device, {} buffers made",
            time(t.gap.mean),
            time(t.gap.p95),
            percent(t.launch_efficiency),
            digits(t.submissions_per_step),
            digits(t.syncs_per_step),
            scaled(t.bytes_written_per_step, "B"),
            scaled(t.bytes_read_per_step, "B"),
            digits(t.allocations_per_step),
        );
        let _ = write!(out, "\nTimeline\n{}", wrap(&line, 2, WIDTH));
    }
    out += &diagnosis(profile);
    out
}

fn stages(profile: &Profile) -> String {
    if profile.stages.is_empty() {
        return "\nNo stage was timed.\n".into();
    }
    let mut grid = Grid::new(&[
        "stage", "phase", "median", "p95", "of step", "bound", "floor",
    ])
    .text(&[1, 5]);
    for stage in profile.stages.iter().take(STAGES) {
        grid.row(vec![
            stage.name.clone(),
            stage.phase.name().into(),
            time(stage.time.median),
            time(stage.time.p95),
            percent(stage.share_of_step),
            words::bound_of(stage),
            stage.roofline.map_or("-".into(), |p| time(p.floor_ns)),
        ]);
    }
    let more = match profile.stages.len().saturating_sub(STAGES) {
        0 => String::new(),
        more => format!("  and {more} more\n"),
    };
    let clock = wrap(words::whose_clock(profile), 2, WIDTH);
    format!("\nStages\n{clock}{}{more}", grid.plain(2))
}

fn diagnosis(profile: &Profile) -> String {
    let mut out = String::from("\nDiagnosis\n");
    let fired = words::findings(profile, true).count();
    if fired == 0 {
        return out + "  no rule fired\n";
    }
    // Rules for stages find the same in several stages: the remedy is shown once.
    let mut told: Vec<&str> = Vec::new();
    for finding in words::findings(profile, true).take(FINDINGS) {
        let head = format!(
            "{} ({}), at most {}: {}",
            finding.rule,
            finding.subject,
            percent(finding.possible_gain),
            finding.evidence
        );
        out += &wrap(&head, 2, WIDTH);
        if !told.contains(&finding.remedy.as_str()) {
            out += &wrap(&finding.remedy, 6, WIDTH);
            told.push(&finding.remedy);
        }
    }
    if fired > FINDINGS {
        let _ = writeln!(out, "  and {} more", fired - FINDINGS);
    }
    out
}

/// Returns a comparison, at most 100 columns wide.
pub fn comparison_text(comparison: &Comparison) -> String {
    // First, because the warnings decide the value of the rest.
    let mut out = String::new();
    for warning in &comparison.warnings {
        out += &wrap(&format!("warning: {warning}"), 0, WIDTH);
    }
    out += &wrap(&format!("old: {}", comparison.old), 0, WIDTH);
    out += &wrap(&format!("new: {}", comparison.new), 0, WIDTH);
    let _ = write!(
        out,
        "\n{}\n{}",
        words::comparison(comparison).plain(0),
        wrap(words::COMPARISON_NOTE, 0, WIDTH)
    );
    if let Some(control) = words::control(comparison) {
        out += &wrap(&control, 0, WIDTH);
    }
    out
}
