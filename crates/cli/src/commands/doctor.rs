//! `dapple doctor`: lists this machine's devices, what is missing, and the consequences.

use crate::ceilings;
use crate::console::Console;
use crate::machine;
use dapple::runtime::{AdapterReport, adapters};
use dapple::scene::Result;
use dapple::scene::atomic::try_writing;
use dapple_profile::ceilings::{DeviceKey, Measured, Unit};
use serde::Serialize;
use std::borrow::Cow;
use std::path::Path;

const AFTER_HELP: &str = "\
Include the output in a bug report. The exit code is 0 also if something is missing, since
anything missing costs only speed or a feature; the output names which.

Examples:
  dapple doctor
  dapple doctor --json | jq '.findings[] | select(.adapter)'";

/// Lists this machine's devices and tools, what is missing and what that costs
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Print one JSON object
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Missing,
    Problem,
}

/// One checked item.
#[derive(Debug, Serialize)]
struct Finding {
    name: Cow<'static, str>,
    verdict: Verdict,
    value: String,
    /// Consequence, and remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
    /// Full report of a GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    adapter: Option<AdapterReport>,
    /// Measured peak rates of a device.
    #[serde(skip_serializing_if = "Option::is_none")]
    ceilings: Option<Measured>,
}

impl Finding {
    fn ok(name: &'static str, value: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            verdict: Verdict::Ok,
            value: value.into(),
            advice: None,
            adapter: None,
            ceilings: None,
        }
    }

    fn not_ok(
        name: &'static str,
        verdict: Verdict,
        value: impl Into<String>,
        advice: &str,
    ) -> Self {
        Self {
            name: name.into(),
            verdict,
            value: value.into(),
            advice: Some(advice.to_owned()),
            adapter: None,
            ceilings: None,
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

/// Memory below which a capture of a hundred photos of two megapixels may not fit.
const COMFORTABLE_MEMORY_BYTES: u64 = 4 << 30;

pub fn run(args: &Args, console: &Console) -> Result<()> {
    let adapters = adapters();
    let mut findings = vec![
        Finding::ok("system", machine::operating_system()),
        Finding::ok(
            "processor",
            machine::processor().unwrap_or_else(|| "unknown".to_owned()),
        ),
        simd(),
        threads(),
        memory(),
    ];
    if let Ok(threads) = std::thread::available_parallelism() {
        let key = ceilings::processor_key(threads.get());
        findings.push(limits("cpu", &key));
    }
    findings.push(auto(&adapters));
    for adapter in adapters {
        let (name, key) = (
            format!("gpu:{}", adapter.index),
            dapple::runtime::ceilings::key(&adapter),
        );
        let usable = adapter.unusable.is_none();
        findings.push(gpu(adapter));
        findings.extend(usable.then(|| limits(&name, &key)));
    }
    findings.push(photo_tool());
    findings.push(video_tool());
    findings.push(writable("temporary folder", &std::env::temp_dir()));
    findings.push(writable("current folder", Path::new(".")));
    let report = Report {
        version: env!("CARGO_PKG_VERSION"),
        commit: option_env!("DAPPLE_COMMIT"),
        findings,
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
        let advice = finding.advice.iter().flat_map(|text| text.lines());
        lines.extend(advice.map(|line| format!("    {:<17} {line}", "")));
    }
    console.data(&lines.join("\n"))
}

/// Returns the structure-from-motion tool of `dapple photos`.
fn photo_tool() -> Finding {
    match dapple_photos::Tool::find(None, Path::new("capture")) {
        Ok(tool) => {
            let value = format!("{} ({})", tool.title(), tool.program().display());
            Finding::ok("photos", value)
        }
        Err(why) => Finding::not_ok(
            "photos",
            Verdict::Missing,
            why.what().to_owned(),
            why.hint_text().unwrap_or("`dapple photos` cannot run"),
        ),
    }
}

/// Returns the program that reads and writes videos.
fn video_tool() -> Finding {
    match dapple_photos::video::installed(&dapple_photos::video::program()) {
        Some(version) => Finding::ok("videos", format!("ffmpeg {version}")),
        None => Finding::not_ok(
            "videos",
            Verdict::Missing,
            "ffmpeg is not installed",
            "`dapple photos` reads no videos, `dapple render` writes none; install ffmpeg",
        ),
    }
}

/// Returns the device that `--device auto` selects.
fn auto(adapters: &[AdapterReport]) -> Finding {
    match dapple::best(adapters) {
        Ok(adapter) => Finding::ok("device auto", format!("gpu:{}", adapter.index)),
        Err(why) => Finding::not_ok(
            "device auto",
            Verdict::Missing,
            format!("cpu: {why}"),
            "training and rendering run on the CPU",
        ),
    }
}

/// Returns the findings of one GPU: its features, missing features, and their consequences.
fn gpu(adapter: AdapterReport) -> Finding {
    let mut value = vec![format!("{} ({})", adapter.name, adapter.backend)];
    if !adapter.driver.is_empty() {
        value.push(format!("driver {}", adapter.driver));
    }
    value.push(match adapter.subgroup_sizes {
        Some([least, most]) if least == most => format!("subgroups of {least}"),
        Some([least, most]) => format!("subgroups of {least} to {most}"),
        None => "no subgroups".to_owned(),
    });
    let bytes = machine::human_bytes;
    value.push(format!(
        "{} shared by a workgroup",
        bytes(adapter.workgroup_memory_bytes.into())
    ));
    value.push(format!("{} in a binding", bytes(adapter.max_binding_bytes)));
    if let Some(memory) = adapter.memory_bytes {
        value.push(format!("{} of memory", bytes(memory)));
    }
    let mut advice = Vec::new();
    if let Some(why) = &adapter.unusable {
        advice.push(format!("cannot be used: {why}; update its driver"));
    }
    if adapter.is_software {
        advice.push(format!(
            "a software renderer, slower than --device cpu; taken only as gpu:{} or by name",
            adapter.index
        ));
    }
    advice.extend(adapter.missing.iter().map(|m| format!("missing {m}")));
    if let Some(watchdog) = &adapter.watchdog {
        advice.push(format!("{watchdog}: the work of a dispatch is bounded"));
    }
    Finding {
        name: format!("gpu:{}", adapter.index).into(),
        verdict: match (&adapter.unusable, adapter.is_software) {
            (Some(_), _) => Verdict::Problem,
            (None, true) => Verdict::Missing,
            (None, false) if !adapter.missing.is_empty() => Verdict::Missing,
            (None, false) => Verdict::Ok,
        },
        value: value.join(", "),
        advice: (!advice.is_empty()).then(|| advice.join("\n")),
        adapter: Some(adapter),
        ceilings: None,
    }
}

/// Returns the finding with the device's measured peak rates, if any are stored.
fn limits(device: &str, key: &DeviceKey) -> Finding {
    let found = ceilings::cached(key);
    let value = found.as_ref().map(|measured| {
        let rate = |what: &str, unit: Unit, value: Option<f64>| {
            value.map(|value| format!("{what} {}", unit.shown(value)))
        };
        let rates = [
            rate("memory", Unit::BytesPerSecond, measured.bytes_per_second()),
            rate(
                "f32",
                Unit::OperationsPerSecond,
                measured.flops_per_second(),
            ),
            rate("dispatch", Unit::Seconds, measured.get("dispatch")),
        ];
        let rates: Vec<String> = rates.into_iter().flatten().collect();
        format!("{}, measured {}", rates.join(", "), measured.date())
    });
    Finding {
        name: format!("limits {device}").into(),
        verdict: if found.is_some() {
            Verdict::Ok
        } else {
            Verdict::Missing
        },
        advice: found.is_none().then(|| {
            format!("`dapple bench device --device {device}` measures them, in some seconds")
        }),
        value: value.unwrap_or_else(|| "not measured yet".to_owned()),
        adapter: None,
        ceilings: found,
    }
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
    match try_writing(folder) {
        Ok(()) => Finding::ok(name, value),
        Err(e) => Finding::not_ok(
            name,
            Verdict::Problem,
            format!("{value}: cannot be written to: {e}"),
            "results have to go elsewhere: name a folder with --out",
        ),
    }
}
