//! Sentences and tables about a profile that Markdown and the terminal share.

use crate::compare::{Comparison, Ratio, Row, RowKind};
use crate::format::{digits, percent, time};
use crate::profile::{Bound, Finding, Profile, StageSummary};
use crate::table::Grid;

/// Number of largest stages that are listed separately.
pub(crate) const TOP: usize = 5;

/// Returns one sentence per fact, the most important first.
pub(crate) fn summary(profile: &Profile) -> Vec<String> {
    let step = &profile.step;
    let mut lines = vec![format!(
        "A step takes {} (median of {}; mean {}, p95 {}): {} steps a second by the mean.",
        time(step.median),
        step.count,
        time(step.mean),
        time(step.p95),
        digits(1e9 / step.mean.max(1.0)),
    )];
    let rows = profile.budget.rows.iter();
    if let Some(row) = rows.max_by(|a, b| a.share.total_cmp(&b.share)) {
        lines.push(format!(
            "Most of it is {}: {}.",
            row.phase.name(),
            percent(row.share)
        ));
    }
    match &profile.timeline {
        Some(timeline) => lines.push(format!(
            "The device is busy {} of the time, in {} dispatches a step of {} each.",
            percent(timeline.busy),
            digits(timeline.kernels_per_step),
            time(timeline.mean_kernel_ns)
        )),
        None => lines.push("No device was timed: all times are the host's.".into()),
    }
    let fired = profile.findings.iter().filter(|finding| finding.fired);
    lines.push(match fired.clone().next() {
        Some(first) => format!(
            "{} rules fired; first {} ({}): {}; without it at most {} of the time would go.",
            fired.count(),
            first.rule,
            first.subject,
            first.evidence,
            percent(first.possible_gain)
        ),
        None => "No rule fired.".into(),
    });
    let mut losses = profile.steps.iter().filter_map(|step| step.loss);
    if let Some(first) = losses.next() {
        let last = losses.next_back().unwrap_or(first);
        lines.push(format!("Loss from {first:.5} to {last:.5}."));
    }
    lines
}

/// Returns the table of every nanosecond of the window, by row.
pub(crate) fn budget(profile: &Profile) -> Grid {
    let mut grid = Grid::new(&["phase", "ms a step", "share of wall", ""]).text(&[3]);
    let steps = profile.steps.len().max(1) as f64;
    let rows = profile.budget.rows.iter();
    for row in rows.filter(|row| row.total_ns > 0.0 || !row.phase.is_rare()) {
        grid.row(vec![
            row.phase.name().into(),
            format!("{:.4}", row.per_step_ns / 1e6),
            percent(row.share),
            "#".repeat((row.share.clamp(0.0, 1.0) * 30.0).round() as usize),
        ]);
    }
    let sum: f64 = profile.budget.rows.iter().map(|row| row.share).sum();
    grid.row(vec![
        "wall".into(),
        format!("{:.4}", profile.budget.wall_ns / steps / 1e6),
        percent(sum),
        String::new(),
    ]);
    grid
}

/// Returns the stages with the largest shares, largest first.
pub(crate) fn largest(profile: &Profile) -> Vec<&StageSummary> {
    let mut stages: Vec<&StageSummary> = profile.stages.iter().collect();
    stages.sort_by(|a, b| b.share_of_step.total_cmp(&a.share_of_step));
    stages.truncate(TOP);
    stages
}

pub(crate) fn bound(bound: Bound) -> &'static str {
    match bound {
        Bound::Bandwidth => "bandwidth",
        Bound::Compute => "compute",
        Bound::Latency => "latency",
        Bound::Launch => "launch",
    }
}

/// Returns the bound of a stage, or `-`.
pub(crate) fn bound_of(stage: &StageSummary) -> String {
    stage
        .roofline
        .map_or("-".into(), |place| bound(place.bound).into())
}

/// Returns the findings that fired, or those that did not, by possible gain.
pub(crate) fn findings(profile: &Profile, fired: bool) -> impl Iterator<Item = &Finding> {
    profile.findings.iter().filter(move |f| f.fired == fired)
}

/// Returns the note on the clock, above stage tables.
pub(crate) fn whose_clock(profile: &Profile) -> &'static str {
    if profile.method.device_timestamps {
        "Times are the device's."
    } else {
        "Times are the host's: no device was timed. A stage that only gives work to a device is \
         shown with the time to give it, not with the device's."
    }
}

/// Returns a comparison's rows.
pub(crate) fn comparison(comparison: &Comparison) -> Grid {
    let titles = ["what", "", "old", "new", "new / old", "95 % of chance", ""];
    let mut grid = Grid::new(&titles).text(&[1, 6]);
    for row in &comparison.rows {
        let known = |ns: Option<f64>| ns.map_or("absent".into(), time);
        let interval = row.ratio.and_then(|ratio| ratio.interval);
        grid.row(vec![
            row.name.clone(),
            kind(row.kind).into(),
            known(row.old_ns),
            known(row.new_ns),
            row.ratio.map_or("-".into(), |r| format!("{:.3}", r.value)),
            interval.map_or("-".into(), |[a, b]| format!("{a:.3} .. {b:.3}")),
            verdict(row).into(),
        ]);
    }
    grid
}

fn kind(kind: RowKind) -> &'static str {
    match kind {
        RowKind::Step => "",
        RowKind::Phase => "phase",
        RowKind::Stage => "stage",
    }
}

fn verdict(row: &Row) -> &'static str {
    match (row.significant, row.ratio) {
        (true, Some(Ratio { value, .. })) if value < 1.0 => "* faster",
        (true, Some(_)) => "* slower",
        _ if row.old_ns.is_none() => "new",
        _ if row.new_ns.is_none() => "gone",
        _ => "",
    }
}

/// Note below a comparison.
pub(crate) const COMPARISON_NOTE: &str = "Under 1 is faster. * marks a change above 2 % whose \
     interval excludes 1 and what the control changed by; without an interval nothing is marked.";

/// Returns the note on the control below a comparison.
pub(crate) fn control(comparison: &Comparison) -> Option<String> {
    let ratio = comparison.control?;
    let [low, high] = ratio.interval?;
    Some(format!(
        "Control: a loop that nothing changed took {:.3} times as long ({low:.3} .. {high:.3} from moment to \
         moment).",
        ratio.value
    ))
}
