//! Benchmarks of operations: the shapes that two other systems publish, and larger ones.
//!
//! 1. An operation is compiled to a plan and run until the device is warm.
//! 2. A sample is a number of runs, submitted together (in one command buffer, if nothing is copied to the host), and
//!    waited for. The number is chosen so that a sample takes some milliseconds. The time of a sample over its runs is
//!    the time of one replayed run.
//! 3. Samples are repeated; average, least, most, median, 95th percentile are over samples. Work that was not waited
//!    for is not counted.
//! 4. Bytes and operations are the plan's own count ([`PlanWork`]): each kernel's inputs once, its outputs once, a
//!    multiply-add two. Rates are printed with the measured ceilings of the device.

pub mod bars;
mod networks;
pub(crate) mod operations;
pub mod torch;
mod transfers;

use dapple_base::{Error, Result};
use dapple_profile::ceilings::is_scattered;
use dapple_tensor::{Context, DType, Device, Plan, PlanOptions, PlanWork, Tensor};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

pub use operations::families;

/// Options of the measurement.
#[derive(Debug, Clone)]
pub struct Options {
    /// Families to measure; empty for all: see [`families`].
    pub only: Vec<String>,
    /// Storage types of elements.
    pub dtypes: Vec<DType>,
    /// Samples of each operation.
    pub samples: usize,
    /// Skips operations on more than `most` elements, or with more than `most` multiply-adds to the power of two
    /// thirds.
    pub most: usize,
    /// True if operations may share kernels.
    pub fuse: bool,
    /// True if products of 16-bit matrices may be computed by cooperative matrices.
    pub cooperative: bool,
    /// True if each kernel of an operation is also measured by itself, on a GPU.
    pub kernels: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            only: Vec::new(),
            dtypes: vec![DType::F32, DType::F16],
            samples: 20,
            most: usize::MAX,
            fuse: true,
            cooperative: true,
            kernels: false,
        }
    }
}

impl Options {
    /// Checks that all named families exist.
    ///
    /// # Errors
    /// A name of no family.
    pub fn check(&self) -> Result<()> {
        let is_unknown = |name: &&String| !families().contains(&name.as_str());
        let Some(unknown) = self.only.iter().find(is_unknown) else {
            return Ok(());
        };
        let what = format!("there is no family of operations \"{unknown}\"");
        Err(Error::input(what).hint(format!("families are {}", families().join(", "))))
    }
}

/// Ceilings that rates are compared with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Ceilings {
    /// Copies from memory to memory, bytes read and written per second.
    pub copy: f64,
    /// `f32` multiply-adds per second, two operations each.
    pub flops: f64,
}

/// Times of one run, microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Micros {
    /// Mean.
    pub avg: f64,
    /// Fastest sample.
    pub min: f64,
    /// Slowest sample.
    pub max: f64,
    /// Median: half of the samples took no longer.
    pub median: f64,
    /// 95th percentile: 95 % of the samples took no longer.
    pub p95: f64,
    /// Standard deviation.
    pub std: f64,
    /// 95 % interval of the median, from the order of the samples only; `[0, 0]` in files of older versions.
    #[serde(default)]
    pub interval: [f64; 2],
}

/// Returns the indices, among `count` sorted samples, of the ends of a 95 % interval of the median: by the normal
/// approximation of the binomial distribution. For five samples and fewer, the interval is all of them.
fn interval_of_median(count: usize) -> [usize; 2] {
    let half = 0.98 * (count as f64).sqrt();
    let low = (0.5 * count as f64 - half).floor().max(0.0) as usize;
    [low, count - 1 - low]
}

impl Micros {
    fn from_samples(mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        let count = samples.len();
        if count == 0 {
            return Self::default();
        }
        let avg = samples.iter().sum::<f64>() / count as f64;
        let variance = samples.iter().map(|s| (s - avg) * (s - avg)).sum::<f64>() / count as f64;
        Self {
            avg,
            min: samples[0],
            max: samples[count - 1],
            median: 0.5 * (samples[(count - 1) / 2] + samples[count / 2]),
            p95: samples[(count * 95).div_ceil(100) - 1],
            std: variance.sqrt(),
            interval: interval_of_median(count).map(|at| samples[at]),
        }
    }
}

impl Micros {
    /// Returns the 95th percentile over the median if the ratio is so far from 1 that the machine was busy.
    pub fn scattered(&self) -> Option<f64> {
        let spread = self.p95 / self.median.max(f64::MIN_POSITIVE);
        is_scattered(spread).then_some(spread)
    }
}

/// One operation at one shape.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// Family, as in `only`: `add`, `softmax`, `lora`.
    pub family: String,
    /// Operation and shape.
    pub name: String,
    /// Storage type of elements.
    pub dtype: String,
    /// `replayed` (runs submitted together), `eager` (run after run, as the library submits them), `waited` (each
    /// waited for); `kernel`: one of the operation's kernels by itself, replayed.
    pub mode: String,
    /// Times of one run.
    pub us: Micros,
    /// Runs per sample.
    pub runs: usize,
    /// Kernels per run.
    pub kernels: usize,
    /// Buffers that the driver created for a run, if measured.
    #[serde(default)]
    pub buffers_created: f64,
    /// Minimum bytes that a run moves.
    pub bytes: f64,
    /// Operations per run.
    pub flops: f64,
    /// Bytes over the median, GB/s.
    pub gb_per_s: f64,
    /// Operations over the median, GFLOP/s.
    pub gflop_per_s: f64,
    /// Runs per second at the median.
    pub runs_per_s: f64,
    /// Percentage of the copy ceiling.
    pub percent_of_copy: f64,
    /// Percentage of the multiply-add ceiling.
    pub percent_of_flops: f64,
}

impl Row {
    /// Returns the row with its percentages of other ceilings.
    #[must_use]
    pub fn held_against(&self, ceilings: Ceilings) -> Self {
        Self {
            percent_of_copy: percent(1e9 * self.gb_per_s, ceilings.copy),
            percent_of_flops: percent(1e9 * self.gflop_per_s, ceilings.flops),
            ..self.clone()
        }
    }

    /// Returns true if a ceiling is below what the row reached, so that the ceiling is wrong: bytes beyond all caches,
    /// operations of 32 bits (units for 16-bit products exceed the ceiling of multiply-adds).
    pub fn exceeds_ceiling(&self) -> bool {
        const BEYOND_CACHES: f64 = 256e6;
        (self.percent_of_copy > 100.0 && self.bytes >= BEYOND_CACHES)
            || (self.percent_of_flops > 100.0 && self.dtype == DType::F32.name())
    }

    /// Returns the key that identifies the row in another run.
    pub fn key(&self) -> (&str, &str, &str) {
        (&self.name, &self.dtype, &self.mode)
    }
}

/// An operation to measure.
pub(crate) struct Case {
    pub family: &'static str,
    pub name: String,
    pub dtype: DType,
    pub outputs: Vec<Tensor>,
    pub updates: Vec<(Tensor, Tensor)>,
    /// True to also measure run by run, and with a wait for each.
    pub latencies: bool,
}

/// Minimum duration of a sample on a device.
const SAMPLE: Duration = Duration::from_millis(8);
/// Maximum runs per sample.
const MOST_RUNS: usize = 4000;
/// Time after which no more samples of an operation are taken.
const LONGEST: Duration = Duration::from_secs(4);

/// Time that a GPU works before it is timed. A GPU that was idle while a plan was compiled needs up to a third of a
/// second until its clocks reach their speed under load.
const AWAKE: Duration = Duration::from_millis(400);

/// Method of submitting runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Replayed,
    Eager,
    Waited,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Replayed => "replayed",
            Self::Eager => "eager",
            Self::Waited => "waited",
        }
    }
}

/// Measures all operations that options name, row by row; `found` receives each row.
///
/// # Errors
/// A name of no family; no memory; a lost device; errors of `found`.
pub fn run(
    context: &Context,
    options: &Options,
    ceilings: Ceilings,
    found: &mut dyn FnMut(&Row) -> Result<()>,
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for make in operations::cases(options)? {
        // Created one at a time: the largest fills a small device.
        let case = make(context);
        let outputs: Vec<&Tensor> = case.outputs.iter().collect();
        let plan_options = PlanOptions {
            fuse: options.fuse,
            cooperative: options.cooperative,
            updates: &case.updates,
            ..PlanOptions::default()
        };
        let plan = Plan::compile_with(&outputs, &plan_options)?;
        let modes: &[Mode] = match case.latencies {
            true => &[Mode::Replayed, Mode::Eager, Mode::Waited],
            false => &[Mode::Replayed],
        };
        wake(context, &plan)?;
        for mode in modes {
            let (us, runs) = measure(context, &plan, (*mode, None), options.samples)?;
            let what = (case.family, case.name.clone(), case.dtype);
            let row = row(what, mode.name(), (us, runs), plan.work(), ceilings);
            found(&row)?;
            rows.push(row);
        }
        let kernels = if options.kernels {
            plan.kernels()
        } else {
            Vec::new()
        };
        let is_gpu = matches!(context.device(), Device::Gpu(_));
        for (number, kernel) in kernels.iter().enumerate().filter(|_| is_gpu) {
            let (us, runs) = measure(
                context,
                &plan,
                (Mode::Replayed, Some(number)),
                options.samples,
            )?;
            let name = format!("  {}, {number}: {}", case.name, kernel.name);
            let work = PlanWork {
                kernels: 1,
                bytes: kernel.bytes,
                flops: kernel.flops,
                ..PlanWork::default()
            };
            let what = (case.family, name, case.dtype);
            let row = row(what, "kernel", (us, runs), work, ceilings);
            found(&row)?;
            rows.push(row);
        }
    }
    rows.extend(transfers::run(context, options, ceilings, found)?);
    Ok(rows)
}

fn percent(rate: f64, most: f64) -> f64 {
    if most > 0.0 { 100.0 * rate / most } else { 0.0 }
}

fn row(
    (family, name, dtype): (&str, String, DType),
    mode: &str,
    (us, runs): (Micros, usize),
    work: PlanWork,
    ceilings: Ceilings,
) -> Row {
    let seconds = (us.median * 1e-6).max(1e-12);
    Row {
        family: family.to_owned(),
        name,
        dtype: dtype.name().to_owned(),
        mode: mode.to_owned(),
        buffers_created: 0.0,
        us,
        runs,
        kernels: work.kernels,
        bytes: work.bytes,
        flops: work.flops,
        gb_per_s: work.bytes / seconds * 1e-9,
        gflop_per_s: work.flops / seconds * 1e-9,
        runs_per_s: 1.0 / seconds,
        percent_of_copy: percent(work.bytes / seconds, ceilings.copy),
        percent_of_flops: percent(work.flops / seconds, ceilings.flops),
    }
}

/// Method of running a plan, or one of its kernels.
type Ways = (Mode, Option<usize>);

/// Runs a plan on a GPU until the GPU has its clocks under load.
fn wake(context: &Context, plan: &Plan) -> Result<()> {
    let Device::Gpu(gpu) = context.device() else {
        return Ok(());
    };
    if gpu.report().is_software {
        return Ok(());
    }
    let started = Instant::now();
    let mut runs = 1;
    while started.elapsed() < AWAKE {
        let took = sample(context, plan, (Mode::Replayed, None), runs)?;
        if took < SAMPLE && runs < MOST_RUNS {
            runs *= 2;
        }
    }
    Ok(())
}

fn measure(context: &Context, plan: &Plan, mode: Ways, samples: usize) -> Result<(Micros, usize)> {
    // The first run compiles what drivers compile late, the second is warm.
    sample(context, plan, mode, 1)?;
    let mut runs = 1;
    let mut once = sample(context, plan, mode, runs)?;
    while once < SAMPLE && runs < MOST_RUNS {
        let wanted = SAMPLE.as_secs_f64() / once.as_secs_f64().max(1e-7);
        runs = (runs as f64 * wanted.clamp(1.5, 32.0)).ceil() as usize;
        runs = runs.min(MOST_RUNS);
        once = sample(context, plan, mode, runs)?;
    }
    let mut times = Vec::with_capacity(samples);
    let started = Instant::now();
    while times.len() < samples.max(1) && (times.len() < 3 || started.elapsed() < LONGEST) {
        let time = sample(context, plan, mode, runs)?;
        times.push(time.as_secs_f64() * 1e6 / runs as f64);
    }
    Ok((Micros::from_samples(times), runs))
}

/// Measures `runs` runs, including the wait for them.
fn sample(context: &Context, plan: &Plan, (mode, kernel): Ways, runs: usize) -> Result<Duration> {
    let Device::Gpu(gpu) = context.device() else {
        let started = Instant::now();
        (0..runs).try_for_each(|_| plan.run())?;
        return Ok(started.elapsed());
    };
    gpu.wait()?;
    if mode != Mode::Replayed {
        let started = Instant::now();
        for _ in 0..runs {
            plan.run()?;
            if mode == Mode::Waited {
                gpu.wait()?;
            }
        }
        gpu.wait()?;
        return Ok(started.elapsed());
    }
    // One pass for all runs, recorded before the clock starts.
    let all = match kernel {
        Some(kernel) => plan.kernel_repeated(kernel, runs)?,
        None => plan.repeated(runs)?,
    };
    let Some(all) = all else {
        return Ok(Duration::ZERO);
    };
    let mut encoder = gpu.encoder();
    all.encode(&mut encoder, &[]);
    let commands = encoder.finish();
    let started = Instant::now();
    gpu.queue().submit([commands]);
    gpu.wait()?;
    Ok(started.elapsed())
}

/// Returns true if a row is of replayed runs, or of an operation without kernels.
fn is_plain(row: &Row) -> bool {
    row.mode == "replayed" || row.kernels == 0
}

/// Returns the best of each family: name, and its rates.
pub fn summary(rows: &[Row]) -> Vec<(String, f64, f64, f64)> {
    let mut families: Vec<String> = Vec::new();
    for row in rows {
        if !families.contains(&row.family) {
            families.push(row.family.clone());
        }
    }
    let of = |family: String| {
        let mine = || {
            rows.iter()
                .filter(|row| row.family == family && is_plain(row))
        };
        let most = |value: fn(&Row) -> f64| mine().map(value).fold(0.0, f64::max);
        let average = mine().map(|row| row.us.median).sum::<f64>() / mine().count().max(1) as f64;
        let best = (most(|row| row.gb_per_s), most(|row| row.gflop_per_s));
        (family, best.0, best.1, average)
    };
    families.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_medians_interval_comes_from_the_samples_order() {
        let us = Micros::from_samples((0..20).rev().map(f64::from).collect());
        assert_eq!((us.median, us.interval), (9.5, [5.0, 14.0]));
        let few = Micros::from_samples(vec![3.0, 1.0, 2.0]);
        assert_eq!(few.interval, [1.0, 3.0]);
        assert_eq!(Micros::from_samples(vec![4.0]).interval, [4.0, 4.0]);
    }
}
