//! `dapple profile ops`: measures what limits tensor operations on this machine. [`dapple_instruments::ops`]
//! measures; this file has the options, the folder and the messages.

use super::{prepare, program, say};
use crate::ceilings;
use crate::commands::bench::{remark_limits, with_threads};
use crate::console::{Console, ProfileProgress};
use crate::interrupt;
use crate::options::{DeviceOptions, NewFolders};
use dapple::AnyEngine;
use dapple::scene::Result;
use dapple_instruments::ops::workload::{InjectedFault, check};
use dapple_instruments::ops::{OpsOptions, profile};
use dapple_instruments::profile::files::{self, Results};
use dapple_instruments::profile::{Told, device, fact};
use dapple_profile::{compare, read_profile};
use dapple_tensor::Context;
use std::path::{Path, PathBuf};
use std::time::Duration;

const AFTER_HELP: &str = "\
Runs LoRA, softmax, norms and products repeatedly, and reports a time budget that adds up to wall
time, and each operation against the measured bandwidth and arithmetic of this device.

docs/PROFILING.md explains the report and its files.

Examples:
  dapple profile ops
  dapple profile ops --only lora,softmax_1024 --iterations 5000 -o before
  dapple profile ops --device cpu --time-limit 5
  dapple profile ops --only lora --compare before/profile.json -o after";

/// Measures what limits tensor operations here: LoRA, softmax, norms, products
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Operations or families: lora, softmax, layer_norm, rms_norm, matmul [default: all]
    #[arg(
        long,
        value_name = "NAME,..",
        value_delimiter = ',',
        help_heading = "Input"
    )]
    only: Vec<String>,

    /// Inject a fault, to test its detection: unfused, readback, upload, no-pool, naive-matmul
    #[arg(
        long = "inject-fault",
        alias = "plant",
        value_name = "FAULT",
        hide = true,
        help_heading = "Input"
    )]
    plant: Option<InjectedFault>,

    /// Runs of each operation to measure, and again without the profiler, for its overhead
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = "Length and size")]
    iterations: u32,

    /// Time limit in seconds for all operations, which reduces the runs
    #[arg(long, value_name = "SECONDS", default_value = "20", value_parser = clap::value_parser!(u32).range(1..=3600), help_heading = "Length and size")]
    time_limit: u32,

    /// Folder for the results
    #[arg(
        short,
        long,
        value_name = "FOLDER",
        default_value = "profile/ops",
        help_heading = "Output"
    )]
    out: PathBuf,

    /// Replace a profile in OUT, and other files with its names
    #[arg(long, help_heading = "Output")]
    overwrite: bool,

    /// Earlier profile.json to compare with: lists faster and slower operations, and noise
    #[arg(long, value_name = "OLD.json", help_heading = "Output")]
    compare: Option<PathBuf>,

    /// Print profile.json instead of the summary
    #[arg(long, help_heading = "Output")]
    json: bool,

    #[command(flatten)]
    device: DeviceOptions,
}

/// Most multiply-adds of an operation on the CPU or a software GPU, unless --only selects it.
const MOST_ON_PROCESSOR: usize = 1 << 30;
const MOST_IN_SOFTWARE: usize = 1 << 24;

pub fn run(args: &Args, console: &Console) -> Result<()> {
    // Invalid input fails before the measurement.
    let old = args.compare.as_deref().map(read_profile).transpose()?;
    check(&args.only).map_err(|e| e.at("--only"))?;
    let folders = NewFolders::before(&args.out);
    interrupt::remove_if_empty(&folders);
    folders.unless_ok(prepare(&args.out, args.overwrite).and_then(|lock| {
        if let Some(note) = lock.note() {
            console.note(&format!("note: {note}"));
        }
        measure(args, &args.out, old.as_ref(), console)
    }))
}

fn measure(
    args: &Args,
    out: &Path,
    old: Option<&dapple_profile::Profile>,
    console: &Console,
) -> Result<()> {
    let program = program();
    let engine = args.device.open(false, console)?;
    let (ceilings, spread) = ceilings::for_engine(engine.instrument())?;
    if let Some(spread) = spread {
        remark_limits(spread, console);
    }
    let (context, most) = match &engine {
        AnyEngine::Gpu(engine) if engine.gpu().report().is_software => {
            (Context::gpu(engine.gpu()), MOST_IN_SOFTWARE)
        }
        AnyEngine::Gpu(engine) => (Context::gpu(engine.gpu()), usize::MAX),
        _ => (Context::cpu(), MOST_ON_PROCESSOR),
    };
    let options = OpsOptions {
        only: args.only.clone(),
        most,
        iterations: args.iterations,
        time_limit: Duration::from_secs(u64::from(args.time_limit)),
        plant: args.plant,
        samples: true,
    };
    let told = Told {
        program,
        settings: vec![
            fact(
                "only",
                if args.only.is_empty() {
                    "all".to_owned()
                } else {
                    args.only.join(", ")
                },
            ),
            fact("time limit", format!("{} s", args.time_limit)),
        ],
        ceilings,
    };
    let facts = device(engine.instrument());
    let grace = interrupt::grace();
    let progress = ProfileProgress::new(console, &grace);
    let profiled = with_threads(args.device.threads, || {
        profile(&context, facts, &options, told, &progress)
    })??;
    let comparison = old.map(|old| compare(old, &profiled.profile));
    let results = Results {
        profile: &profiled.profile,
        trace: &profiled.trace,
        heat: None,
        flamegraph: profiled.flamegraph.as_deref().ok(),
        comparison: comparison.as_ref(),
    };
    let written = files::write(out, &results)?;
    let shown = (&profiled.profile, &profiled.flamegraph);
    say(args.json, shown, comparison.as_ref(), &written, console)
}
