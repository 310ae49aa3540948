//! `dapple bench device`: peak rates of a device, to compare other measurements with.
//!
//! 1. Open the selected device; without a selection, the best GPU and the CPU.
//! 2. Measure all rates (`dapple::runtime::ceilings`, `dapple::cpu::ceilings`), and store them.
//! 3. Print a table of rates, and the bandwidth over sizes as bars.

use super::common::SCHEMA;
use crate::ceilings;
use crate::console::Console;
use crate::machine::human_bytes;
use crate::options::DeviceOptions;
use dapple::scene::{Error, Result};
use dapple::{AnyEngine, Device};
use dapple_profile::ceilings::{Curve, Measured, Rate, Unit, is_scattered};
use serde::Serialize;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
Without --device: the best GPU, and the CPU. Results are stored for each device, for `dapple doctor`
and `dapple profile`; measuring again replaces them.

docs/PROFILING.md explains the rates and the fields of --json.

Examples:
  dapple bench device                          the best GPU and the CPU, about 20 seconds
  dapple bench device --device cpu --threads 4
  dapple bench device --json | jq '.devices[].rates[] | select(.name == \"copy\")'";

/// Characters of the longest bar.
const BAR: f64 = 40.0;
const ONE_THREAD: &str = ".one_thread";

/// Measures peak rates of a device: memory, caches, arithmetic, latencies, transfers
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Print one JSON object
    #[arg(long, help_heading = "Output")]
    json: bool,

    #[command(flatten)]
    device: DeviceOptions,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Results {
    schema: u32,
    devices: Vec<Row>,
}

/// One device.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    measured: Measured,
    kept_in: Option<PathBuf>,
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    let mut results = Results {
        schema: SCHEMA,
        devices: Vec::new(),
    };
    let first = args.device.open(false, console)?;
    let both = args.device.device.clone().unwrap_or(Device::Auto) == Device::Auto
        && matches!(first, AnyEngine::Gpu(_));
    results.devices.push(one(args, &first, console)?);
    drop(first);
    if both {
        let processor = DeviceOptions {
            device: Some(Device::Cpu),
            precision: None,
            ..args.device.clone()
        };
        let engine = processor.open_quietly(false)?.engine;
        results.devices.push(one(args, &engine, console)?);
    }
    if args.json {
        console.json(&results)?;
    }
    Ok(())
}

/// Measures a device, and prints its rates unless --json prints them at the end.
fn one(args: &Args, engine: &AnyEngine, console: &Console) -> Result<Row> {
    let measured = ceilings::measure(engine.instrument(), &console.progress())?;
    let kept_in = ceilings::store(&measured)
        .map_err(|e| console.note(&not_stored(&e)))
        .ok();
    if is_scattered(measured.spread()) {
        console.always(&format!(
            "warning: {}: slow goes took {:.2} times the median: the machine is busy\n  \
             hint: end other programs and measure again",
            measured.device.name,
            measured.spread()
        ));
    }
    if !args.json {
        let mut lines = shown(&measured);
        if let Some(file) = &kept_in {
            lines.push(format!("kept      {}\n", file.display()));
        }
        console.data(&lines.join("\n"))?;
    }
    Ok(Row { measured, kept_in })
}

/// Returns the warning that a result was not stored, so that it must be measured again.
fn not_stored(error: &Error) -> String {
    match error.place() {
        Some(place) => format!("warning: not kept in {place}: {}", error.what()),
        None => format!("warning: not kept: {}", error.what()),
    }
}

/// Returns the results as text.
fn shown(measured: &Measured) -> Vec<String> {
    let device = &measured.device;
    let mut lines = vec![
        format!("device    {}, {}", device.name, device.driver),
        format!(
            "measured  {}, in {:.1} s",
            measured.date(),
            measured.seconds
        ),
        String::new(),
    ];
    let of_one = |rate: &Rate| {
        let name = format!("{}{ONE_THREAD}", rate.name);
        measured.rates.iter().find(move |other| other.name == name)
    };
    let has_one = measured.rates.iter().any(|rate| of_one(rate).is_some());
    let column = |text: &str| match has_one {
        true => format!("{text:>16}"),
        false => String::new(),
    };
    let all = if has_one { "all threads" } else { "" };
    lines.push(format!(
        "{:<19}{all:>16}{}{:>8}",
        "",
        column("one thread"),
        "spread"
    ));
    for rate in &measured.rates {
        if rate.name.ends_with(ONE_THREAD) {
            continue;
        }
        let value = rate.unit.shown(rate.value);
        let one = of_one(rate).map_or(String::new(), |one| one.unit.shown(one.value));
        lines.push(format!(
            "{:<19}{value:>16}{}{:>8.2}  {}",
            rate.name,
            column(&one),
            rate.spread,
            meaning(&rate.name)
        ));
    }
    for curve in &measured.curves {
        lines.push(String::new());
        lines.extend(bars(curve));
    }
    lines.push(String::new());
    lines
}

/// Returns the unit of a rate in words.
fn meaning(name: &str) -> &'static str {
    match name {
        "copy" => "memory to memory, read + written",
        "read" => "memory, read",
        "write" => "memory, written",
        "triad" => "a = b + k c, read + written",
        "fma_f32" | "fma_f16" => "multiply-adds in registers, two operations each",
        "exp2" => "exponentials in registers",
        "dispatch" => "a dispatch that needs the one before, in a pass",
        "submission" => "from submitting until the host knows it is done",
        "atomics_spread" => "additions, each to its own place",
        "atomics_contended" => "additions, all to one place",
        "subgroup_add" => "values summed over subgroups",
        _ => "",
    }
}

/// Returns a curve as bars.
fn bars(curve: &Curve) -> Vec<String> {
    let title = match curve.name.as_str() {
        "working_set" => "reading a working set again and again: caches show",
        "working_set.one_thread" => "the same with one thread",
        "upload" => "host to device, waited for",
        "download" => "device to host, waited for",
        name => name,
    };
    let rates = curve.points.iter().map(|point| point.bytes_per_second);
    let most = rates.fold(f64::MIN_POSITIVE, f64::max);
    let bar = |rate: f64| "#".repeat((BAR * rate / most).round().max(1.0) as usize);
    let lines = curve.points.iter().map(|point| {
        format!(
            "{:>11}{:>14}  {}",
            human_bytes(point.bytes),
            Unit::BytesPerSecond.shown(point.bytes_per_second),
            bar(point.bytes_per_second)
        )
    });
    std::iter::once(title.to_owned()).chain(lines).collect()
}
