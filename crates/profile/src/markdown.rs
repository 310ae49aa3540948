//! `PROFILE.md`: all contents of a profile, and comparisons of two profiles.

use crate::compare::Comparison;
use crate::format::{digits, percent, scaled, time};
use crate::profile::{Fact, Finding, Phase, Profile, StageSummary, Stats, Table, Timeline};
use crate::table::{Grid, escape};
use crate::words;
use std::fmt::Write as _;

/// Returns `PROFILE.md`: all contents of a profile.
pub fn profile_markdown(profile: &Profile) -> String {
    let mut out = format!("# Profile of {}\n", escape(&profile.program.name));
    let mut section = |title: &str, body: &str| {
        let _ = write!(out, "\n## {title}\n\n{}\n", body.trim_end());
    };
    section("Summary", &list(words::summary(profile)));
    section("Budget", &budget(profile));
    section("Top five", &top(profile));
    section("Stages", &stages(profile));
    section("Kernels", &kernels(profile));
    section("Timeline", &timeline(profile));
    section("Roofline", &roofline(profile));
    section("Diagnosis", &diagnosis(profile));
    let (memory, other): (Vec<&Table>, Vec<&Table>) =
        profile.tables.iter().partition(|table| is_memory(table));
    section("Scene and counts", &scene(profile, &other));
    section("Memory", &tables(&memory));
    section("Configuration", &configuration(profile));
    section("Methodology", &methodology(profile));
    out
}

/// Returns a comparison as Markdown.
pub fn comparison_markdown(comparison: &Comparison) -> String {
    let mut out = String::from("# Comparison\n\n");
    for warning in &comparison.warnings {
        let _ = writeln!(out, "- **Beware:** {}", escape(warning));
    }
    let _ = writeln!(out, "- Old: {}", escape(&comparison.old));
    let _ = writeln!(out, "- New: {}", escape(&comparison.new));
    let _ = write!(
        out,
        "\n{}\n{}\n",
        words::comparison(comparison).markdown(),
        words::COMPARISON_NOTE
    );
    if let Some(control) = words::control(comparison) {
        let _ = writeln!(out, "{control}");
    }
    out
}

fn list(lines: Vec<String>) -> String {
    lines.iter().map(|l| format!("- {}\n", escape(l))).collect()
}

fn facts(facts: &[Fact]) -> String {
    let mut grid = Grid::new(&["what", "value"]).text(&[1]);
    for fact in facts {
        grid.row(vec![fact.name.clone(), fact.value.clone()]);
    }
    grid.markdown()
}

fn is_memory(table: &Table) -> bool {
    let title = table.title.to_lowercase();
    title.contains("memory") || title.contains("pool")
}

fn tables(tables: &[&Table]) -> String {
    if tables.is_empty() {
        return "Nothing was recorded.".into();
    }
    let each = tables
        .iter()
        .map(|table| format!("### {}\n\n{}\n", escape(&table.title), facts(&table.facts)));
    each.collect()
}

fn budget(profile: &Profile) -> String {
    let clock = if profile.method.device_timestamps {
        "A nanosecond in which the device runs is its stage's; in which it idles between two \
         kernels of a submission, a gap's; otherwise that of the span the host is in."
    } else {
        "A nanosecond is that of the innermost span that the host is in. No device was timed."
    };
    format!(
        "{} of wall time in {} steps. {clock}\n\n{}",
        time(profile.budget.wall_ns),
        profile.steps.len(),
        words::budget(profile).markdown()
    )
}

fn top(profile: &Profile) -> String {
    let titles = [
        "stage",
        "phase",
        "median",
        "share of step",
        "bound",
        "floor",
    ];
    let mut grid = Grid::new(&titles).text(&[1, 4]);
    for stage in words::largest(profile) {
        grid.row(vec![
            stage.name.clone(),
            stage.phase.name().into(),
            time(stage.time.median),
            percent(stage.share_of_step),
            words::bound_of(stage),
            stage.roofline.map_or("-".into(), |p| time(p.floor_ns)),
        ]);
    }
    or_none(&grid, "No stage was timed.")
}

fn or_none(grid: &Grid, none: &str) -> String {
    if grid.is_empty() {
        none.into()
    } else {
        grid.markdown()
    }
}

/// Returns the columns of a distribution of times.
fn spread(stats: &Stats) -> Vec<String> {
    let mut cells = vec![stats.count.to_string()];
    let times = [
        stats.mean,
        stats.std,
        stats.min,
        stats.median,
        stats.p95,
        stats.max,
    ];
    cells.extend(times.map(time));
    cells
}

fn stage_table(stages: &[&StageSummary]) -> String {
    let titles = [
        "stage",
        "count",
        "mean",
        "std",
        "min",
        "median",
        "p95",
        "max",
        "share of phase",
        "share of step",
    ];
    let mut grid = Grid::new(&titles);
    for stage in stages {
        let mut cells = vec![stage.name.clone()];
        cells.extend(spread(&stage.time));
        cells.push(percent(stage.share_of_phase));
        cells.push(percent(stage.share_of_step));
        grid.row(cells);
    }
    grid.markdown()
}

fn stages(profile: &Profile) -> String {
    if profile.stages.is_empty() {
        return "No stage was timed.".into();
    }
    let mut out = format!(
        "Time in a step, over the steps in which a stage ran. {}\n",
        words::whose_clock(profile)
    );
    for phase in Phase::ALL {
        let of_phase = |stage: &&StageSummary| stage.phase == phase;
        let stages: Vec<&StageSummary> = profile.stages.iter().filter(of_phase).collect();
        if !stages.is_empty() {
            let _ = write!(out, "\n### {}\n\n{}", phase.name(), stage_table(&stages));
        }
    }
    if !profile.host.is_empty() {
        let spans: Vec<&StageSummary> = profile.host.iter().collect();
        let _ = write!(
            out,
            "\n### Host\n\nThe driving thread, by the host's clock, mostly while the device works: \
             these shares do not add up with those above.\n\n{}",
            stage_table(&spans)
        );
    }
    out
}

fn kernels(profile: &Profile) -> String {
    let titles = [
        "kernel", "stage", "a step", "count", "mean", "std", "min", "median", "p95", "max",
    ];
    let mut grid = Grid::new(&titles).text(&[1]);
    for kernel in &profile.kernels {
        let per_step = digits(kernel.per_step);
        let mut cells = vec![kernel.name.clone(), kernel.stage.clone(), per_step];
        cells.extend(spread(&kernel.time));
        grid.row(cells);
    }
    or_none(&grid, "Kernels were not timed alone.")
}

fn timeline(profile: &Profile) -> String {
    let Some(timeline) = &profile.timeline else {
        return "There is none: no device was timed.".into();
    };
    facts(&timeline_facts(timeline))
}

fn timeline_facts(t: &Timeline) -> Vec<Fact> {
    let fact = |name: &str, value: String| Fact {
        name: name.into(),
        value,
    };
    let mut facts = vec![
        fact("device busy", percent(t.busy)),
        fact("kernels a step", digits(t.kernels_per_step)),
        fact("mean kernel", time(t.mean_kernel_ns)),
        fact("mean gap", time(t.gap.mean)),
        fact("p95 gap", time(t.gap.p95)),
        fact(
            "launch efficiency (kernels over wall)",
            percent(t.launch_efficiency),
        ),
        fact("submissions a step", digits(t.submissions_per_step)),
        fact(
            "waits of the host for the device a step",
            digits(t.syncs_per_step),
        ),
        fact(
            "to the device a step",
            scaled(t.bytes_written_per_step, "B"),
        ),
        fact("from the device a step", scaled(t.bytes_read_per_step, "B")),
        fact("buffers made a step", digits(t.allocations_per_step)),
    ];
    if let Some(check) = t.clock_check {
        facts.push(fact(
            "stages with gaps against timestamps around a step",
            format!(
                "{} against {}: {} apart",
                time(check.stages_ns),
                time(check.whole_ns),
                percent((check.stages_ns / check.whole_ns - 1.0).abs())
            ),
        ));
    }
    facts
}

fn roofline(profile: &Profile) -> String {
    let Some(ceilings) = &profile.ceilings else {
        return "There is none: this device's ceilings were not measured.".into();
    };
    let titles = [
        "stage",
        "bytes",
        "flops",
        "flops a byte",
        "achieved",
        "of bandwidth",
        "achieved",
        "of arithmetic",
        "floor",
        "median",
        "bound",
    ];
    let mut grid = Grid::new(&titles).text(&[10]);
    for stage in &profile.stages {
        let Some((cost, place)) = stage.cost.zip(stage.roofline) else {
            continue;
        };
        grid.row(vec![
            stage.name.clone(),
            scaled(cost.bytes, "B"),
            scaled(cost.flops, "FLOP"),
            if cost.bytes > 0.0 {
                format!("{:.2}", place.intensity)
            } else {
                "-".into()
            },
            scaled(place.bytes_per_second, "B/s"),
            percent(place.share_of_bandwidth),
            scaled(place.flops_per_second, "FLOP/s"),
            percent(place.share_of_compute),
            time(place.floor_ns),
            time(stage.time.median),
            words::bound(place.bound).into(),
        ]);
    }
    let dispatch = ceilings.dispatch_ns.map_or(String::new(), |ns| {
        format!(", an empty dispatch {}", time(ns))
    });
    format!(
        "Ceilings: {}, {}{dispatch} ({}). Bytes and operations are counted by formula, not \
         measured; above 100 %, caches serve part of the bytes.\n\n{}",
        scaled(ceilings.bytes_per_second, "B/s"),
        scaled(ceilings.flops_per_second, "FLOP/s"),
        escape(&ceilings.source),
        or_none(&grid, "No stage's work is known.")
    )
}

fn diagnosis(profile: &Profile) -> String {
    let mut out = String::from(
        "Gains are limits by Amdahl's law: the part of wall time that would go if what a rule \
         found went entirely. They overlap and do not add up.\n",
    );
    let mut told: Vec<&str> = Vec::new();
    for (i, finding) in words::findings(profile, true).enumerate() {
        let Finding {
            rule,
            subject,
            condition,
            evidence,
            remedy,
            possible_gain,
            ..
        } = finding;
        // A remedy for the same finding in several stages is given once.
        let remedy = match told.iter().position(|other| other == remedy) {
            Some(before) => format!("as for {}", before + 1),
            None => escape(remedy).to_string(),
        };
        told.push(&finding.remedy);
        let _ = write!(
            out,
            "\n{}. **{rule}** ({}): at most {}\n   - Rule: {}\n   - Seen: {}\n   - Remedy: {}\n",
            i + 1,
            escape(subject),
            percent(*possible_gain),
            escape(condition),
            escape(evidence),
            remedy
        );
    }
    let mut grid = Grid::new(&["rule", "subject", "condition", "seen", "at most"]).text(&[1, 2, 3]);
    for finding in words::findings(profile, false) {
        grid.row(vec![
            finding.rule.clone(),
            finding.subject.clone(),
            finding.condition.clone(),
            finding.evidence.clone(),
            percent(finding.possible_gain),
        ]);
    }
    if !grid.is_empty() {
        let _ = write!(out, "\nDid not fire:\n\n{}", grid.markdown());
    }
    out
}

fn scene(profile: &Profile, other: &[&Table]) -> String {
    let titles = [
        "counter", "unit", "mean", "min", "median", "p95", "p99", "max",
    ];
    let mut grid = Grid::new(&titles).text(&[1]);
    for counter in &profile.counters {
        let s = counter.stats;
        let mut cells = vec![counter.name.clone(), counter.unit.clone()];
        cells.extend([s.mean, s.min, s.median, s.p95, s.p99, s.max].map(digits));
        grid.row(cells);
    }
    if grid.is_empty() {
        return tables(other);
    }
    let mut out = String::new();
    if !other.is_empty() {
        out = tables(other);
    }
    out + &format!("### Counted in each step\n\n{}", grid.markdown())
}

fn configuration(profile: &Profile) -> String {
    let program = &profile.program;
    let mut about = Vec::new();
    let known = [
        ("program", program.name.as_str()),
        ("version", &program.version),
        ("commit", program.commit.as_deref().unwrap_or("unknown")),
        ("command", &program.command),
        ("started", &program.started),
    ];
    for (name, value) in known {
        if !value.is_empty() {
            about.push(Fact {
                name: name.into(),
                value: value.into(),
            });
        }
    }
    let mut out = facts(&about);
    for (title, list) in [("Device", &profile.device), ("Settings", &profile.settings)] {
        if !list.is_empty() {
            let _ = write!(out, "\n### {title}\n\n{}", facts(list));
        }
    }
    out
}

fn methodology(profile: &Profile) -> String {
    let method = &profile.method;
    let mut lines = Vec::new();
    for (title, text) in [
        ("Clock", &method.clock),
        ("Synchronisation", &method.synchronisation),
    ] {
        if !text.is_empty() {
            lines.push(format!("{title}: {text}"));
        }
    }
    lines.push(format!(
        "Steps: {} to warm up, {} measured",
        method.warm_up_steps, method.measured_steps
    ));
    lines.push(match (method.device_timestamps, method.calibration_error_ns) {
        (true, Some(ns)) => format!(
            "Places of the device's spans on the host's clock are off by at most {}; lengths are \
             not affected",
            time(ns)
        ),
        (true, None) => "How far the clocks of device and host are off is not known".into(),
        (false, _) => "The device was not timed: all times are the host's".into(),
    });
    lines.push(match method.overhead {
        Some(cost) => format!(
            "Profiling: a step takes {} with and {} without it ({}); recording itself {}",
            time(cost.on_ns),
            time(cost.off_ns),
            match cost.on_ns > cost.off_ns {
                true => format!("{:+.2} %", (cost.on_ns / cost.off_ns - 1.0) * 100.0),
                false => "a cost below what steps vary by".to_owned(),
            },
            time(cost.recording_ns)
        ),
        None => "The cost of profiling was not measured".into(),
    });
    if let Some(control) = &profile.control {
        let medians = control.medians().into_iter().map(time);
        lines.push(format!(
            "Control: a loop that no change touches, on {} threads, took {} at moments around the window",
            control.threads,
            medians.collect::<Vec<_>>().join(", ")
        ));
    }
    lines.push(
        "Percentiles are by nearest rank; standard deviations are those of a sample (n - 1)".into(),
    );
    lines.extend(method.cautions.iter().map(|text| format!("Beware: {text}")));
    lines.extend(method.notes.iter().cloned());
    list(lines)
}
