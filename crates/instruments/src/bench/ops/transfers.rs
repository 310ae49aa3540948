//! Benchmarks of transfers between host and device, and of buffers from the pool or newly allocated.
//!
//! An upload is timed until the device has the bytes, a download until the host has them; each transfer is waited for.

use super::{Ceilings, Micros, Options, Row, SAMPLE};
use dapple::runtime::Gpu;
use dapple_base::Result;
use dapple_tensor::{Context, DType, Device, PlanWork, Tensor};
use std::time::Instant;

/// 16-bit elements per transfer.
const SIZES: [usize; 5] = [1_024, 10_240, 102_400, 1_024_000, 64 << 20];
/// Elements of a tensor that is created and dropped.
const TAKEN: usize = 10_000;

/// Measures the seconds of one call: the calls per sample are chosen so that each sample takes some milliseconds.
fn sampled(samples: usize, mut call: impl FnMut() -> Result<()>) -> Result<(Micros, usize)> {
    let mut once = |runs: usize| -> Result<f64> {
        let started = Instant::now();
        (0..runs).try_for_each(|_| call())?;
        Ok(started.elapsed().as_secs_f64())
    };
    once(2)?;
    let each = once(2)? / 2.0;
    let runs = (SAMPLE.as_secs_f64() / each.max(1e-7))
        .ceil()
        .clamp(1.0, 1000.0) as usize;
    let mut times = Vec::with_capacity(samples);
    for _ in 0..samples.max(1) {
        times.push(once(runs)? * 1e6 / runs as f64);
    }
    Ok((Micros::from_samples(times), runs))
}

/// Waits until all submitted work is done.
fn flushed(gpu: &Gpu) -> Result<()> {
    gpu.submit(gpu.encoder());
    gpu.wait()
}

/// Measures the creation of a tensor, in a buffer from the pool or in a new buffer. Returns the times, the calls per
/// sample, and the buffers created per call.
fn creation(
    (context, gpu): (&Context, &Gpu),
    pooled: bool,
    samples: usize,
) -> Result<(Micros, usize, f64)> {
    let data = vec![0.5; TAKEN];
    let before = gpu.counters().buffers_created;
    let mut calls = 0;
    let (us, runs) = sampled(samples, || {
        calls += 1;
        if !pooled {
            gpu.pool().trim();
        }
        let tensor: Tensor = context.tensor_of(DType::F16, &[TAKEN], &data);
        tensor.check()?;
        drop(tensor);
        flushed(gpu)
    })?;
    let made = gpu.counters().buffers_created - before;
    let each = made as f64 / f64::from(calls.max(1));
    Ok((us, runs, each))
}

/// Measures rows of the families `transfer` and `pool`, which a GPU has and a CPU has not.
///
/// # Errors
/// No memory; a lost device; errors of `found`.
pub(super) fn run(
    context: &Context,
    options: &Options,
    ceilings: Ceilings,
    found: &mut dyn FnMut(&Row) -> Result<()>,
) -> Result<Vec<Row>> {
    let Device::Gpu(gpu) = context.device() else {
        return Ok(Vec::new());
    };
    let mut rows = Vec::new();
    let mut row = |family: &'static str, name: String, bytes: usize, measured| -> Result<()> {
        let (us, runs, buffers): (Micros, usize, f64) = measured;
        let work = PlanWork {
            bytes: bytes as f64,
            ..PlanWork::default()
        };
        let mut row = super::row(
            (family, name, DType::F16),
            "waited",
            (us, runs),
            work,
            ceilings,
        );
        row.buffers_created = buffers;
        found(&row)?;
        rows.push(row);
        Ok(())
    };
    let is_named =
        |family: &str| options.only.is_empty() || options.only.iter().any(|o| o == family);
    for count in SIZES
        .into_iter()
        .filter(|c| is_named("transfer") && *c <= options.most)
    {
        let leaf = context.zeros(DType::F16, &[count]);
        leaf.check()?;
        let data = vec![0.5; count];
        let before = gpu.counters().buffers_created;
        let up = sampled(options.samples, || {
            leaf.write(&data)?;
            flushed(gpu)
        })?;
        let made = gpu.counters().buffers_created - before;
        let each = made as f64 / (up.1 * options.samples).max(1) as f64;
        row(
            "transfer",
            format!("upload {count}"),
            2 * count,
            (up.0, up.1, each),
        )?;
        let down = sampled(options.samples, || leaf.read().map(drop))?;
        row(
            "transfer",
            format!("download {count}"),
            2 * count,
            (down.0, down.1, 0.0),
        )?;
    }
    for (name, pooled) in [("from the pool", true), ("newly allocated", false)] {
        if !is_named("pool") {
            break;
        }
        let measured = creation((context, gpu), pooled, options.samples)?;
        let name = format!("tensor of {TAKEN}, {name}");
        row("pool", name, 2 * TAKEN, measured)?;
    }
    Ok(rows)
}
