//! `dapple doctor`: what this machine has, what is missing, and what that costs.

use crate::console::Console;
use crate::machine;
use dapple::scene::Result;
use serde::Serialize;
use std::path::Path;

const AFTER_HELP: &str = "\
Put its output into a bug report. It ends with code 0 also when something is missing: everything
that is missing here costs speed or a feature, and says which.

Examples:
  dapple doctor
  dapple doctor --json";

/// Says what this machine has, what is missing and what that costs
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// How a finding is to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Missing,
    Problem,
}

/// One thing looked at.
#[derive(Debug, Serialize)]
struct Finding {
    name: &'static str,
    verdict: Verdict,
    value: String,
    /// What it costs, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl Finding {
    fn ok(name: &'static str, value: impl Into<String>) -> Self {
        Self {
            name,
            verdict: Verdict::Ok,
            value: value.into(),
            advice: None,
        }
    }

    fn not_ok(
        name: &'static str,
        verdict: Verdict,
        value: impl Into<String>,
        advice: &str,
    ) -> Self {
        Self {
            name,
            verdict,
            value: value.into(),
            advice: Some(advice.to_owned()),
        }
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    version: &'static str,
    commit: Option<&'static str>,
    findings: Vec<Finding>,
}

/// Below this a capture of a hundred photos of two megapixels gets tight.
const COMFORTABLE_MEMORY_BYTES: u64 = 4 << 30;

pub fn run(args: &Args, console: &Console) -> Result<()> {
    let report = Report {
        version: env!("CARGO_PKG_VERSION"),
        commit: option_env!("DAPPLE_COMMIT"),
        findings: vec![
            Finding::ok("system", machine::operating_system()),
            Finding::ok(
                "processor",
                machine::processor().unwrap_or_else(|| "unknown".to_owned()),
            ),
            simd(),
            threads(),
            memory(),
            Finding::not_ok(
                "gpu",
                Verdict::Missing,
                "not in this build",
                "training and rendering run on the processor",
            ),
            writable("temporary folder", &std::env::temp_dir()),
            writable("current folder", Path::new(".")),
        ],
    };
    if args.json {
        return console.json(&report);
    }
    let commit = report.commit.map_or(String::new(), |c| format!(" ({c})"));
    let mut lines = vec![format!("dapple {}{commit}", report.version)];
    for finding in &report.findings {
        let mark = match finding.verdict {
            Verdict::Ok => "ok",
            Verdict::Missing => "--",
            Verdict::Problem => "!!",
        };
        lines.push(format!("{mark}  {:<17} {}", finding.name, finding.value));
        if let Some(advice) = &finding.advice {
            lines.push(format!("    {:<17} {advice}", ""));
        }
    }
    console.data(&lines.join("\n"))
}

fn simd() -> Finding {
    let level = dapple::cpu::level_name();
    if level == "scalar" {
        return Finding::not_ok(
            "vector units",
            Verdict::Missing,
            level,
            "none that this build knows (AVX-512, AVX2, NEON): rendering takes several times as long",
        );
    }
    Finding::ok("vector units", level)
}

fn threads() -> Finding {
    match std::thread::available_parallelism() {
        Ok(count) => Finding::ok("threads", count.to_string()),
        Err(e) => Finding::not_ok(
            "threads",
            Verdict::Problem,
            format!("unknown: {e}"),
            "give their number with --threads",
        ),
    }
}

fn memory() -> Finding {
    let Some(total) = machine::memory_bytes() else {
        return Finding::ok("memory", "unknown on this system");
    };
    let available = machine::available_memory_bytes().unwrap_or(total);
    let value = format!(
        "{} ({} free)",
        machine::human_bytes(total),
        machine::human_bytes(available)
    );
    if available < COMFORTABLE_MEMORY_BYTES {
        return Finding::not_ok(
            "memory",
            Verdict::Problem,
            value,
            "large captures need more: use --downscale and --max-gaussians, or close other programs",
        );
    }
    Finding::ok("memory", value)
}

fn writable(name: &'static str, folder: &Path) -> Finding {
    let shown = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let value = shown.display().to_string();
    match tempfile::Builder::new()
        .prefix(".dapple-")
        .tempfile_in(folder)
    {
        Ok(_) => Finding::ok(name, value),
        Err(e) => Finding::not_ok(
            name,
            Verdict::Problem,
            format!("{value}: cannot be written to: {e}"),
            "results have to go elsewhere: name a folder with --out",
        ),
    }
}
