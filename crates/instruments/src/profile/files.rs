//! Files that a profile writes to its folder, each atomically.

use dapple::Error;
use dapple::Result;
use dapple::scene::atomic::write_atomically;
use dapple_profile::html::{ComparisonRow, ComparisonView, Page, report_html};
use dapple_profile::profile::{HeatMap, Trace};
use dapple_profile::trace::chrome_trace;
use dapple_profile::{
    Comparison, Profile, RowKind, comparison_markdown, profile_markdown, write_profile,
};
use std::path::{Path, PathBuf};

/// The profile itself. A folder that has this file holds a profile.
pub const PROFILE: &str = "profile.json";

/// Contents of all files.
#[derive(Debug)]
pub struct Results<'a> {
    /// The profile.
    pub profile: &'a Profile,
    /// Timeline of the profile.
    pub trace: &'a Trace,
    /// Distribution of the load of a view over its tiles.
    pub heat: Option<&'a HeatMap>,
    /// CPU time of the host as an SVG.
    pub flamegraph: Option<&'a str>,
    /// Comparison with an earlier profile.
    pub comparison: Option<&'a Comparison>,
}

const REPORT: &str = "report.html";
const TEXT: &str = "PROFILE.md";
const TIMELINE: &str = "trace.json";
const FLAMEGRAPH: &str = "flamegraph.svg";

/// Names of all files.
pub const NAMES: [&str; 5] = [PROFILE, REPORT, TEXT, TIMELINE, FLAMEGRAPH];

/// Writes all files. Returns their descriptions and paths.
///
/// # Errors
/// A file cannot be written.
pub fn write(folder: &Path, results: &Results<'_>) -> Result<Vec<(&'static str, PathBuf)>> {
    let mut written = Vec::new();
    let mut text = |what: &'static str, name: &str, text: &str| {
        let path = folder.join(name);
        write_atomically(&path, |file| file.write_all(text.as_bytes()))?;
        written.push((what, path));
        Ok::<_, Error>(())
    };
    let view = results.comparison.map(view);
    let page = report_html(&Page {
        profile: results.profile,
        trace: results.trace,
        heat: results.heat,
        flamegraph_svg: results.flamegraph,
        comparison: view.as_ref(),
    });
    text("report", REPORT, &page)?;
    let mut markdown = profile_markdown(results.profile);
    if let Some(comparison) = results.comparison {
        markdown.push('\n');
        markdown.push_str(&comparison_markdown(comparison));
    }
    text("text", TEXT, &markdown)?;
    text(
        "timeline",
        TIMELINE,
        &chrome_trace(results.profile, results.trace),
    )?;
    if let Some(svg) = results.flamegraph {
        text("flamegraph", FLAMEGRAPH, svg)?;
    }
    let path = folder.join(PROFILE);
    write_profile(&path, results.profile)?;
    written.push(("data", path));
    Ok(written)
}

/// Converts a comparison for the page: rows that both profiles have.
fn view(comparison: &Comparison) -> ComparisonView {
    let rows = comparison.rows.iter().filter_map(|row| {
        let (old, new, ratio) = (row.old_ns?, row.new_ns?, row.ratio.as_ref()?);
        // An unknown interval is NaN, which the page shows as unknown.
        let [low, high] = ratio.interval.unwrap_or([f64::NAN; 2]);
        Some(ComparisonRow {
            // A stage may have the name of its phase, and a span of the host that of the step.
            name: match row.kind {
                RowKind::Phase => format!("{} (phase)", row.name),
                RowKind::Stage => row.name.clone(),
                RowKind::Step => "whole step".to_owned(),
            },
            old_ms: old * 1e-6,
            new_ms: new * 1e-6,
            ratio: ratio.value,
            low,
            high,
            significant: row.significant,
        })
    });
    ComparisonView {
        title: format!(
            "{} against {}; intervals of 95 %",
            comparison.new, comparison.old
        ),
        warnings: comparison.warnings.clone(),
        rows: rows.collect(),
    }
}
