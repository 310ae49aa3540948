//! `dapple bench ops`: times of tensor operations, compared with the device's limits; see [`dapple_instruments::bench::ops`].

use super::common::{SCHEMA, remark_limits};
use crate::ceilings;
use crate::console::Console;
use crate::options::DeviceOptions;
use dapple::AnyEngine;
use dapple::runtime::PoolStats;
use dapple::scene::{Error, Result, bounded};
use dapple_instruments::bench::Machine;
use dapple_instruments::bench::ops::bars::{self, Bar};
use dapple_instruments::bench::ops::torch::Torch;
use dapple_instruments::bench::ops::{
    Ceilings, Micros, Options, Row, families, run as measure, summary,
};
use dapple_tensor::{Context, DType};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
docs/TENSORS.md explains the modes, the options, and the fields of --json.

Examples:
  dapple bench ops                                        all operations, a few minutes
  dapple bench ops --only norms,lora --dtype f32
  dapple bench ops --only fused --unfused                 the gain of fusion
  dapple bench ops --only mlp --kernels                   where the time goes
  dapple bench ops --json > old.json                      then, after a change:
  dapple bench ops --compare old.json
  dapple bench ops --suite performance";

/// Least change of a median that a comparison calls faster or slower.
const NOTABLE: f64 = 0.05;

/// Measures tensor operations: elements, reductions, norms, products, LoRA, small networks
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Families to measure: elements, fused, reduce, norms, matmul, linear, lora, mlp, adam, cat, conv, lpips,
    /// training, transfer, pool [default: all]
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    only: Vec<String>,

    /// Storage of elements: f32, f16. Sums are always f32
    #[arg(long, value_name = "TYPE,..", value_delimiter = ',', default_value = "f32,f16", value_parser = parse_dtype, hide_short_help = true)]
    dtype: Vec<DType>,

    /// Samples of each operation
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(1..), hide_short_help = true)]
    samples: u32,

    /// Skip operations on more elements (products: of the same time) than this
    #[arg(long, value_name = "ELEMENTS", hide_short_help = true)]
    most: Option<usize>,

    /// Use one kernel per operation
    #[arg(long, hide_short_help = true)]
    unfused: bool,

    /// Compute products of 16-bit matrices without cooperative matrices
    #[arg(long, hide_short_help = true)]
    no_cooperative: bool,

    /// Measure each kernel of an operation too, on a GPU
    #[arg(long)]
    kernels: bool,

    /// Compare with an earlier --json file, or with PyTorch's rows (see docs/TENSORS.md)
    #[arg(long, value_name = "FILE.json")]
    compare: Option<PathBuf>,

    /// Measure performance tests with pass limits instead: `performance`, the tests of another tensor library
    #[arg(long, value_name = "SUITE", value_parser = ["performance"], conflicts_with_all = ["only", "compare", "unfused", "most", "kernels", "no_cooperative"], hide_short_help = true)]
    suite: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    device: DeviceOptions,
}

fn parse_dtype(text: &str) -> Result<DType, String> {
    match text {
        "f32" => Ok(DType::F32),
        "f16" => Ok(DType::F16),
        _ => Err("types are f32 and f16".to_owned()),
    }
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Results {
    schema: u32,
    machine: Machine,
    fused: bool,
    ceilings: Ceilings,
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<PoolUse>,
    rows: Vec<Row>,
}

impl Results {
    /// Prints the rows that exceeded the ceilings `first`, if these were measured again, then the pool and the totals.
    fn print_end(
        &self,
        first: Ceilings,
        earlier: Option<&Earlier>,
        console: &Console,
    ) -> Result<()> {
        let rows = &self.rows;
        if self.ceilings != first {
            for row in rows
                .iter()
                .filter(|row| row.held_against(first).exceeds_ceiling())
            {
                console.data(&line(row, earlier))?;
            }
        }
        if let Some(pool) = &self.pool {
            console.data(&format!("\n{}", pool.line()))?;
        }
        let scattered = rows
            .iter()
            .filter(|row| row.us.scattered().is_some())
            .count();
        if scattered * 4 > rows.len() {
            console.always(&format!(
                "warning: {scattered} of {} rows scatter: the machine is busy\n  \
                 hint: end other programs and measure again",
                rows.len()
            ));
        }
        console.data(&totals(rows))
    }
}

/// State of the device's pool after all rows.
#[derive(Debug, Serialize)]
struct PoolUse {
    #[serde(flatten)]
    stats: PoolStats,
    reuse_rate: f64,
    total_bytes: u64,
}

impl PoolUse {
    fn from_context(context: &Context) -> Option<Self> {
        let dapple_tensor::Device::Gpu(gpu) = context.device() else {
            return None;
        };
        let stats = gpu.pool().stats();
        Some(Self {
            stats,
            reuse_rate: stats.reuse_rate(),
            total_bytes: stats.total_bytes(),
        })
    }

    fn line(&self) -> String {
        format!(
            "pool      {:.1} % of {} requests reused a buffer; {} free in {} size classes, {} evicted, {:.1} MB at most",
            100.0 * self.reuse_rate,
            self.stats.reuses + self.stats.allocations,
            self.stats.pooled,
            self.stats.size_classes,
            self.stats.evicted,
            self.stats.peak_bytes as f64 * 1e-6
        )
    }
}

/// Input of `--compare`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Earlier {
    Torch(Torch),
    Rows { rows: Vec<Row> },
}

impl Earlier {
    /// Times of the same operation, microseconds. Files of PyTorch contain only the median.
    fn us(&self, row: &Row) -> Option<Micros> {
        match self {
            Self::Torch(torch) => torch.us(row).map(|median| Micros {
                median,
                ..Micros::default()
            }),
            Self::Rows { rows } => {
                let same = rows.iter().find(|old| old.key() == row.key());
                same.map(|old| old.us)
            }
        }
    }
}

/// Most elements on the CPU or a software GPU, so that operations do not take minutes.
const MOST_ON_PROCESSOR: usize = 1 << 24;
const MOST_IN_SOFTWARE: usize = 1 << 20;

pub fn run(args: &Args, console: &Console) -> Result<()> {
    let mut options = Options {
        only: args.only.clone(),
        dtypes: args.dtype.clone(),
        samples: args.samples as usize,
        fuse: !args.unfused,
        cooperative: !args.no_cooperative,
        kernels: args.kernels,
        ..Options::default()
    };
    options.check().map_err(|e| e.at("--only"))?;
    let earlier = args.compare.as_deref().map(read_earlier).transpose()?;
    let engine = args.device.open(false, console)?;
    let machine = Machine::from_engine(&engine);
    let (limits, spread) = ceilings::for_engine(engine.instrument())?;
    if let Some(spread) = spread {
        remark_limits(spread, console);
    }
    let ceilings = Ceilings {
        copy: limits.bytes_per_second,
        flops: limits.flops_per_second,
    };
    let first = ceilings;
    let (context, most) = context_of(&engine);
    if args.suite.is_some() {
        return with_threads(args.device.threads, || {
            suite(args, machine, &context, console)
        })?;
    }
    options.most = args.most.unwrap_or(most);
    if let (Some(Earlier::Torch(torch)), false) = (&earlier, args.json) {
        let Torch { gpu, torch, .. } = torch;
        console.note(&format!("note: compared with PyTorch {torch} on {gpu}"));
    }
    if !args.json {
        console.data(&format!(
            "{}\nlimits    {}: {}\n",
            machine.line(),
            rates(ceilings),
            limits.source
        ))?;
        console.data(&heading(earlier.is_some()))?;
    }
    let mut found = |row: &Row| -> Result<()> {
        if args.json {
            console.detail(&format!("{} {}", row.name, row.dtype));
            return Ok(());
        }
        console.data(&line(row, earlier.as_ref()))
    };
    let mut rows = with_threads(args.device.threads, || {
        measure(&context, &options, ceilings, &mut found)
    })??;
    if rows.is_empty() {
        let hint = format!(
            "--most skips larger operations; families are {}",
            families().join(", ")
        );
        return Err(Error::input("no operation is left to measure")
            .at("--most")
            .hint(hint));
    }
    let ceilings = held_again(&mut rows, ceilings, (&engine, &limits.source), console)?;
    let pool = PoolUse::from_context(&context);
    let results = Results {
        schema: SCHEMA,
        machine,
        fused: !args.unfused,
        ceilings,
        pool,
        rows,
    };
    if args.json {
        return console.json(&results);
    }
    results.print_end(first, earlier.as_ref(), console)
}

/// Returns the tensor context of an engine's device, and the most elements of an operation on the device.
fn context_of(engine: &AnyEngine) -> (Context, usize) {
    match engine {
        AnyEngine::Gpu(engine) if engine.gpu().report().is_software => {
            (Context::gpu(engine.gpu()), MOST_IN_SOFTWARE)
        }
        AnyEngine::Gpu(engine) => (Context::gpu(engine.gpu()), usize::MAX),
        _ => (Context::cpu(), MOST_ON_PROCESSOR),
    }
}

/// Returns the ceilings, measured again if a row exceeds them, since stored ones may be from a busy machine. Rows are
/// then compared with the new ones.
fn held_again(
    rows: &mut [Row],
    ceilings: Ceilings,
    (engine, source): (&AnyEngine, &str),
    console: &Console,
) -> Result<Ceilings> {
    let beyond = rows.iter().filter(|row| row.exceeds_ceiling()).count();
    if beyond == 0 {
        return Ok(ceilings);
    }
    let (limits, spread) = ceilings::measured_now(engine.instrument())?;
    let now = Ceilings {
        copy: limits.bytes_per_second.max(ceilings.copy),
        flops: limits.flops_per_second.max(ceilings.flops),
    };
    for row in rows.iter_mut() {
        *row = row.held_against(now);
    }
    let still = rows.iter().filter(|row| row.exceeds_ceiling()).count();
    console.always(&format!(
        "note: {beyond} of {} rows exceed their ceilings ({source})\n  \
         ceilings were measured again: {}; {still} rows exceed these\n  \
         hint: store new ceilings with `dapple bench device`, on an idle machine",
        rows.len(),
        rates(now)
    ));
    remark_limits(spread, console);
    Ok(now)
}

/// Output of `--suite --json`.
#[derive(Debug, Serialize)]
struct Suite {
    schema: u32,
    machine: Machine,
    bars: Vec<Bar>,
}

/// Measures the tests with limits. A missed limit is not an error, since times vary.
fn suite(args: &Args, machine: Machine, context: &Context, console: &Console) -> Result<()> {
    if !args.json {
        console.data(&format!("{}\n", machine.line()))?;
    }
    let bars = bars::run(context, &mut |bar| match args.json {
        true => Ok(()),
        false => console.data(&bar_line(bar)),
    })?;
    if args.json {
        return console.json(&Suite {
            schema: SCHEMA,
            machine,
            bars,
        });
    }
    let missed = bars.iter().filter(|bar| !bar.met).count();
    console.data(&format!("\n{} of {} met", bars.len() - missed, bars.len()))
}

fn bar_line(bar: &Bar) -> String {
    let word = if bar.met { "met" } else { "missed" };
    format!(
        "{:<60}{:>12.3} {:<14} bar {:>8} {word}",
        bar.name, bar.value, bar.unit, bar.bar
    )
}

/// Runs `work` on this number of CPU threads.
pub fn with_threads<T: Send>(threads: Option<usize>, work: impl FnOnce() -> T + Send) -> Result<T> {
    let Some(threads) = threads else {
        return Ok(work());
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|e| {
        Error::unsupported(format!("cannot start {threads} threads: {e}")).at("--threads")
    })?;
    Ok(pool.install(work))
}

fn read_earlier(file: &Path) -> Result<Earlier> {
    let text = bounded::read("cannot read the result", file, bounded::CAMERAS_BYTES)?;
    serde_json::from_slice(&text).map_err(|e| {
        Error::input(format!("the file is not a result of bench ops: {e}"))
            .at_path(file)
            .hint("make one with `dapple bench ops --json > FILE.json`")
    })
}

fn rates(ceilings: Ceilings) -> String {
    format!(
        "{:.1} GFLOP/s, {:.1} GB/s",
        ceilings.flops * 1e-9,
        ceilings.copy * 1e-9
    )
}

fn heading(compared: bool) -> String {
    let more = if compared { "       old" } else { "" };
    format!(
        "{:<54}{:<5}{:<9}{:>10}{:>10}{:>10}{:>10}{:>10}{:>9}{:>6}{:>10}{:>6}{:>4}{more}",
        "us of one run",
        "",
        "",
        "avg",
        "min",
        "median",
        "p95",
        "max",
        "GB/s",
        "%",
        "GFLOP/s",
        "%",
        "k"
    )
}

fn line(row: &Row, earlier: Option<&Earlier>) -> String {
    let us = row.us;
    let old = earlier.map(|earlier| {
        let old = earlier.us(row);
        old.map_or("         -".to_owned(), |old| compared(us, old))
    });
    format!(
        "{:<54}{:<5}{:<9}{:>10.2}{:>10.2}{:>10.2}{:>10.2}{:>10.2}{:>9.1}{:>6.0}{:>10.1}{:>6.1}{:>4}{}",
        row.name,
        row.dtype,
        row.mode,
        us.avg,
        us.min,
        us.median,
        us.p95,
        us.max,
        row.gb_per_s,
        row.percent_of_copy,
        row.gflop_per_s,
        row.percent_of_flops,
        row.kernels,
        old.unwrap_or_default()
    )
}

/// Returns an earlier time, the ratio of the medians, and the interval of the ratio from both intervals. A median
/// without an interval counts as exact.
fn compared(now: Micros, before: Micros) -> String {
    let ends = |us: Micros| match us.interval {
        [low, high] if low > 0.0 && high > 0.0 => [low, high],
        _ => [us.median; 2],
    };
    let ratio = |now: f64, before: f64| now / before.max(1e-9);
    let ([now_low, now_high], [old_low, old_high]) = (ends(now), ends(before));
    let (low, high) = (ratio(now_low, old_high), ratio(now_high, old_low));
    let middle = ratio(now.median, before.median);
    let word = match middle {
        r if r < 1.0 - NOTABLE && high < 1.0 => "faster",
        r if r > 1.0 + NOTABLE && low > 1.0 => "slower",
        _ => "same",
    };
    format!(
        "{:>10.2} x{middle:.2} [{low:.2}, {high:.2}] {word}",
        before.median
    )
}

/// Returns the best row of each family.
fn totals(rows: &[Row]) -> String {
    let mut lines = vec![format!(
        "\n{:<12}{:>14}{:>14}{:>22}",
        "peaks", "GB/s", "GFLOP/s", "mean of medians, us"
    )];
    for (family, gb, gflops, average) in summary(rows) {
        lines.push(format!(
            "{family:<12}{gb:>14.1}{gflops:>14.1}{average:>22.1}"
        ));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_say_which_way() {
        let us = |median: f64, interval: [f64; 2]| Micros {
            median,
            interval,
            ..Micros::default()
        };
        let exact = |median| us(median, [0.0; 2]);
        assert!(compared(exact(1.0), exact(2.0)).ends_with("x0.50 [0.50, 0.50] faster"));
        assert!(compared(exact(2.0), exact(1.0)).ends_with("x2.00 [2.00, 2.00] slower"));
        assert!(compared(exact(1.01), exact(1.0)).ends_with("same"));
        // Overlapping intervals are no change, regardless of the distance of the medians.
        let wide = compared(us(1.0, [0.9, 2.2]), us(2.0, [1.8, 2.5]));
        assert!(wide.ends_with("x0.50 [0.36, 1.22] same"), "{wide}");
    }

    #[test]
    fn types_are_two() {
        assert_eq!(parse_dtype("f16"), Ok(DType::F16));
        assert!(parse_dtype("u32").is_err() && parse_dtype("").is_err());
    }
}
