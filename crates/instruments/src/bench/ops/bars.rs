//! Ten measurements with a bar each: the performance tests of another tensor library, for this one. They report which
//! bars were met and which were missed, and fail no test: performance is measured by benchmarks.
//!
//! Every computation is waited for. Tensors are made from values, so that memory is taken and written.

use super::operations::values;
use super::{Mode, measure};
use dapple_base::Result;
use dapple_tensor::layers::Linear;
use dapple_tensor::{Context, DType, Device, Plan, Tensor};
use serde::Serialize;
use std::time::{Duration, Instant};

/// A measurement and its bar.
#[derive(Debug, Clone, Serialize)]
pub struct Bar {
    /// Name of the measurement.
    pub name: String,
    /// Measured value.
    pub value: f64,
    /// Unit of value and bar.
    pub unit: &'static str,
    /// Lower bound of the value; for times, the upper bound.
    pub bar: f64,
    /// True if the value meets the bar.
    pub met: bool,
}

impl Bar {
    fn above(name: impl Into<String>, value: f64, unit: &'static str, bar: f64) -> Self {
        Self {
            name: name.into(),
            value,
            unit,
            bar,
            met: value > bar,
        }
    }

    fn below(name: impl Into<String>, value: f64, unit: &'static str, bar: f64) -> Self {
        Self {
            name: name.into(),
            value,
            unit,
            bar,
            met: value < bar,
        }
    }
}

/// Samples of sampled measurements.
const SAMPLES: usize = 5;

/// Measures the seconds of one run of a plan: the median.
fn seconds(context: &Context, outputs: &[&Tensor]) -> Result<f64> {
    let plan = Plan::compile(outputs)?;
    let (us, _) = measure(context, &plan, (Mode::Replayed, None), SAMPLES)?;
    Ok((us.median * 1e-6).max(1e-12))
}

fn wait(context: &Context) -> Result<()> {
    match context.device() {
        Device::Gpu(gpu) => gpu.wait(),
        Device::Cpu => Ok(()),
    }
}

/// Measures the duration of `work`, including the wait for the device.
fn timed(context: &Context, work: impl FnOnce() -> Result<()>) -> Result<Duration> {
    wait(context)?;
    let started = Instant::now();
    work()?;
    wait(context)?;
    Ok(started.elapsed())
}

/// Measures all ten on a device, some seconds; `found` receives each.
///
/// # Errors
/// No memory; a lost device; errors of `found`.
pub fn run(context: &Context, found: &mut dyn FnMut(&Bar) -> Result<()>) -> Result<Vec<Bar>> {
    let mut all = Vec::new();
    for measure in [
        life_cycle,
        many_results,
        products,
        batches,
        images,
        many_tensors,
        elements,
        pool,
        sustained,
        regressions,
    ] {
        for bar in measure(context)? {
            found(&bar)?;
            all.push(bar);
        }
    }
    Ok(all)
}

fn life_cycle(context: &Context) -> Result<Vec<Bar>> {
    let time = timed(context, || {
        for count in [100, 1_000, 10_000] {
            let data = vec![1.0; count];
            for _ in 0..100 {
                context.tensor(&[count], &data).check()?;
            }
        }
        Ok(())
    })?;
    let name = "100 tensors each of 100, 1 000, 10 000 made and dropped";
    Ok(vec![Bar::below(name, time.as_secs_f64(), "s", 5.0)])
}

fn many_results(context: &Context) -> Result<Vec<Bar>> {
    let time = timed(context, || {
        let (a, b) = (
            values(context, DType::F32, &[1000], 1),
            values(context, DType::F32, &[1000], 2),
        );
        (0..50).try_for_each(|_| a.add(&b).relu().read().map(drop))
    })?;
    let name = "50 times add + relu of 1 000, compiled and read each";
    Ok(vec![Bar::below(name, time.as_secs_f64(), "s", 10.0)])
}

fn product(context: &Context, side: usize) -> Result<f64> {
    let (a, b) = (
        values(context, DType::F32, &[side, side], 1),
        values(context, DType::F32, &[side, side], 2),
    );
    let flops = 2.0 * (side as f64).powi(3);
    Ok(flops / seconds(context, &[&a.matmul(&b)])? * 1e-9)
}

fn products(context: &Context) -> Result<Vec<Bar>> {
    let sides = [256, 512, 1024].into_iter();
    let bars = sides.map(|side| {
        let rate = product(context, side)?;
        Ok(Bar::above(
            format!("matmul {side}^3"),
            rate,
            "GFLOP/s",
            10.0,
        ))
    });
    bars.collect()
}

fn batches(context: &Context) -> Result<Vec<Bar>> {
    let layer = Linear::new(context, 128, 128, 1);
    let bars = [16, 64, 256].into_iter().map(|batch| {
        let x = values(context, DType::F32, &[batch, 128], 1);
        let rate = batch as f64 / seconds(context, &[&layer.forward(&x).relu()])?;
        let name = format!("linear 128 to 128, relu, batches of {batch}");
        Ok(Bar::above(name, rate, "samples/s", 1000.0))
    });
    bars.collect()
}

fn images(context: &Context) -> Result<Vec<Bar>> {
    let shapes = [[8, 3, 224, 224], [32, 3, 128, 128], [64, 3, 64, 64]];
    let bars = shapes.into_iter().map(|shape| {
        let x = values(context, DType::F32, &shape, 1);
        let pixels = (shape[0] * shape[2] * shape[3]) as f64;
        let rate = pixels / seconds(context, &[&x.mul(2.0).relu()])? * 1e-6;
        let name = format!("mul + relu of {shape:?}");
        Ok(Bar::above(name, rate, "M pixels/s", 100.0))
    });
    bars.collect()
}

fn many_tensors(context: &Context) -> Result<Vec<Bar>> {
    let data = vec![1.0; 10_000];
    let time = timed(context, || {
        let all: Vec<Tensor> = (0..100).map(|_| context.tensor(&[10_000], &data)).collect();
        all.iter().try_for_each(Tensor::check)
    })?;
    let name = "100 tensors of 10 000 at one time";
    Ok(vec![Bar::below(name, time.as_secs_f64(), "s", 1.0)])
}

fn elements(context: &Context) -> Result<Vec<Bar>> {
    type Op = fn(&Tensor, &Tensor) -> Tensor;
    let both: [(&str, Op); 2] = [("add", |a, b| a.add(b)), ("mul", |a, b| a.mul(b))];
    let (a, b) = (
        values(context, DType::F32, &[1_000_000], 1),
        values(context, DType::F32, &[1_000_000], 2),
    );
    let bars = both.into_iter().map(|(name, op)| {
        let rate = 1e-3 / seconds(context, &[&op(&a, &b)])?;
        Ok(Bar::above(
            format!("{name} of 1 M"),
            rate,
            "G operations/s",
            0.3,
        ))
    });
    bars.collect()
}

fn pool(context: &Context) -> Result<Vec<Bar>> {
    let data = vec![1.0; 10_000];
    let turns = 200;
    let time = timed(context, || {
        (0..turns).try_for_each(|_| context.tensor(&[10_000], &data).check())
    })?;
    let name = "a tensor of 10 000 allocated, written and returned";
    let us = time.as_secs_f64() * 1e6 / f64::from(turns);
    Ok(vec![Bar::below(name, us, "us", 1000.0)])
}

fn sustained(context: &Context) -> Result<Vec<Bar>> {
    let (a, b) = (
        values(context, DType::F32, &[100_000], 1),
        values(context, DType::F32, &[100_000], 2),
    );
    let plans = [Plan::compile(&[&a.add(&b)])?, Plan::compile(&[&a.mul(&b)])?];
    let mut done = 0_u32;
    let time = timed(context, || {
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(2) {
            for plan in &plans {
                plan.run()?;
                done += 1;
            }
            wait(context)?;
        }
        Ok(())
    })?;
    let rate = f64::from(done) / time.as_secs_f64();
    let name = "two seconds of add and mul of 100 k, waited for";
    Ok(vec![Bar::above(name, rate, "operations/s", 100.0)])
}

fn regressions(context: &Context) -> Result<Vec<Bar>> {
    let x = values(context, DType::F32, &[1_000_000], 1);
    let bytes = 8e6 / seconds(context, &[&x.relu()])? * 1e-9;
    Ok(vec![
        Bar::above(
            "matmul 256^3, again",
            product(context, 256)?,
            "GFLOP/s",
            10.0,
        ),
        Bar::above("relu of 1 M", bytes, "GB/s", 0.5),
    ])
}
