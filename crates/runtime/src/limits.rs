//! What a device does at most: arithmetic and memory bandwidth, measured.
//!
//! 1. Arithmetic: each invocation runs 32 independent chains of fused multiply-adds in registers, which
//!    hides their latency. An FMA is two operations.
//! 2. Bandwidth: one buffer is copied into another, both larger than caches where the device allows.
//!    Bytes read and bytes written count.
//! 3. Dispatches are repeated within one submission until it takes long enough that submitting it is
//!    lost in the noise. A rate is the median of several goes.

use crate::kernel::Bound;
use crate::{Gpu, Groups, Kernel, Recording};
use dapple_scene::Result;
use std::time::{Duration, Instant};

/// What a device was measured to reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GpuLimits {
    /// Bytes read and written a second.
    pub bytes_per_second: f64,
    /// `f32` operations a second, an FMA being two.
    pub flops_per_second: f64,
    /// The slowest go over the median one, the worse of both measurements: near 1 where nothing
    /// else runs.
    pub spread: f64,
}

/// A submission is at least this long: starting and waiting take some 0.1 ms.
const LONG_ENOUGH: Duration = Duration::from_millis(30);
/// Dispatches of a submission at most.
const MOST_DISPATCHES: u32 = 4096;
/// Submissions of which the median counts.
const GOES: usize = 5;

/// Bytes of each buffer of the copy, where the device takes so large ones; on software renderers,
/// which share the processor's caches, less will do.
const COPY_BYTES: u64 = 512 << 20;
const SOFTWARE_COPY_BYTES: u64 = 96 << 20;
const WORKGROUP: u32 = 256;

const COPY: &str = "
@group(0) @binding(0) var<storage, read> copy_from: array<vec4f>;
@group(0) @binding(1) var<storage, read_write> copy_to: array<vec4f>;

@compute @workgroup_size(256)
fn copy(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) t: u32,
) {
    let i = (id.x + id.y * dispatched.x) * 256u + t;
    if i < arrayLength(&copy_from) {
        copy_to[i] = copy_from[i];
    }
}
";

/// FMAs of an invocation: rounds of four on eight vectors of four.
const ROUNDS: u64 = 64;
const FMAS: u64 = ROUNDS * 4 * 8 * 4;
/// Workgroups of a dispatch; software renderers take long for few.
const CHAIN_GROUPS: u32 = 8192;
const SOFTWARE_CHAIN_GROUPS: u32 = 64;

/// Rounds, factor and term come from a buffer, and the result might be stored: nothing can be left
/// out.
const CHAINS: &str = "
@group(0) @binding(0) var<storage, read> numbers: array<f32>;
@group(0) @binding(1) var<storage, read_write> sink: array<vec4f>;

@compute @workgroup_size(256)
fn chains(@builtin(global_invocation_id) id: vec3u) {
    let rounds = u32(numbers[0]);
    let a = vec4f(numbers[1]);
    let b = vec4f(numbers[2]);
    var x = array<vec4f, 8>();
    for (var k = 0u; k < 8u; k++) {
        x[k] = vec4f(f32(id.x + k));
    }
    var x0 = x[0]; var x1 = x[1]; var x2 = x[2]; var x3 = x[3];
    var x4 = x[4]; var x5 = x[5]; var x6 = x[6]; var x7 = x[7];
    for (var i = 0u; i < rounds; i++) {
        x0 = fma(x0, a, b); x1 = fma(x1, a, b); x2 = fma(x2, a, b); x3 = fma(x3, a, b);
        x4 = fma(x4, a, b); x5 = fma(x5, a, b); x6 = fma(x6, a, b); x7 = fma(x7, a, b);
        x0 = fma(x0, a, b); x1 = fma(x1, a, b); x2 = fma(x2, a, b); x3 = fma(x3, a, b);
        x4 = fma(x4, a, b); x5 = fma(x5, a, b); x6 = fma(x6, a, b); x7 = fma(x7, a, b);
        x0 = fma(x0, a, b); x1 = fma(x1, a, b); x2 = fma(x2, a, b); x3 = fma(x3, a, b);
        x4 = fma(x4, a, b); x5 = fma(x5, a, b); x6 = fma(x6, a, b); x7 = fma(x7, a, b);
        x0 = fma(x0, a, b); x1 = fma(x1, a, b); x2 = fma(x2, a, b); x3 = fma(x3, a, b);
        x4 = fma(x4, a, b); x5 = fma(x5, a, b); x6 = fma(x6, a, b); x7 = fma(x7, a, b);
    }
    let sum = x0 + x1 + x2 + x3 + x4 + x5 + x6 + x7;
    if id.x == 0u || sum.x == -1.0 {
        sink[0] = sum;
    }
}
";

/// Measures the device; takes about a second. Waits for it.
///
/// # Errors
/// No memory for the copy, a lost device.
pub fn measure_limits(gpu: &Gpu) -> Result<GpuLimits> {
    let (bytes_per_second, copy_spread) = bandwidth(gpu)?;
    let (flops_per_second, chain_spread) = arithmetic(gpu)?;
    Ok(GpuLimits {
        bytes_per_second,
        flops_per_second,
        spread: copy_spread.max(chain_spread),
    })
}

fn bandwidth(gpu: &Gpu) -> Result<(f64, f64)> {
    let report = gpu.report();
    let wanted = if report.is_software {
        SOFTWARE_COPY_BYTES
    } else {
        COPY_BYTES
    };
    let most = report.max_binding_bytes.min(report.max_buffer_bytes);
    // Room is left on small devices, and a vector is 16 bytes.
    let bytes = wanted
        .min(most)
        .min(report.memory_bytes.map_or(wanted, |memory| memory / 8))
        / 16
        * 16;
    let from = gpu.buffer("copy_from", bytes)?;
    let to = gpu.buffer("copy_to", bytes)?;
    let kernel = Kernel::from_wgsl(gpu, "limits.copy", COPY, "copy")?;
    let bound = kernel.bind(gpu, &[("copy_from", &from), ("copy_to", &to)])?;
    let groups = (bytes / 16).div_ceil(u64::from(WORKGROUP)) as u32;
    rate(gpu, &bound, groups, 2.0 * bytes as f64)
}

fn arithmetic(gpu: &Gpu) -> Result<(f64, f64)> {
    let groups = if gpu.report().is_software {
        SOFTWARE_CHAIN_GROUPS
    } else {
        CHAIN_GROUPS
    };
    // Below 1, so that chains stay finite.
    let numbers = gpu.upload("numbers", &[ROUNDS as f32, 0.999, 0.001])?;
    let sink = gpu.buffer("sink", 16)?;
    let kernel = Kernel::from_wgsl(gpu, "limits.chains", CHAINS, "chains")?;
    let bound = kernel.bind(gpu, &[("numbers", &numbers), ("sink", &sink)])?;
    let invocations = f64::from(groups) * f64::from(WORKGROUP);
    rate(gpu, &bound, groups, 2.0 * FMAS as f64 * invocations)
}

/// What a second of such dispatches does, and slowest over median time.
fn rate(gpu: &Gpu, bound: &Bound, groups: u32, amount: f64) -> Result<(f64, f64)> {
    let mut dispatches = 1;
    let mut recording = repeated(bound, groups, dispatches);
    // The first also warms up.
    run(gpu, &recording)?;
    while run(gpu, &recording)? < LONG_ENOUGH && dispatches < MOST_DISPATCHES {
        dispatches *= 2;
        recording = repeated(bound, groups, dispatches);
    }
    let mut goes = Vec::with_capacity(GOES);
    for _ in 0..GOES {
        goes.push(run(gpu, &recording)?.as_secs_f64().max(1e-9));
    }
    goes.sort_by(f64::total_cmp);
    let median = goes[GOES / 2];
    let rate = amount * f64::from(dispatches) / median;
    Ok((rate, goes[GOES - 1] / median))
}

fn repeated(bound: &Bound, groups: u32, dispatches: u32) -> Recording {
    let mut recording = Recording::new();
    recording.span("limits");
    for _ in 0..dispatches {
        recording.dispatch(bound.clone(), Groups::flat(groups));
    }
    recording
}

fn run(gpu: &Gpu, recording: &Recording) -> Result<Duration> {
    gpu.wait()?;
    let started = Instant::now();
    recording.submit(gpu, &[]);
    gpu.wait()?;
    Ok(started.elapsed())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::{GpuOptions, adapters};

    #[test]
    fn chains_converge_and_copies_copy() {
        let Some(adapter) = adapters().into_iter().find(|a| a.unusable.is_none()) else {
            eprintln!("SKIPPED: there is no GPU driver, not even Mesa's lavapipe");
            return;
        };
        let gpu = Gpu::open(&GpuOptions {
            choice: crate::Choice::Index(adapter.index),
            validate: true,
            ..GpuOptions::default()
        })
        .unwrap();
        let numbers = gpu.upload("numbers", &[2000.0f32, 0.999, 0.001]).unwrap();
        let sink = gpu.buffer("sink", 16).unwrap();
        let kernel = Kernel::from_wgsl(&gpu, "limits.chains", CHAINS, "chains").unwrap();
        let bound = kernel
            .bind(&gpu, &[("numbers", &numbers), ("sink", &sink)])
            .unwrap();
        run(&gpu, &repeated(&bound, 1, 1)).unwrap();
        // x -> 0.999 x + 0.001 tends to 1; eight chains.
        let sum: Vec<f32> = gpu.read(&sink, 4).unwrap();
        assert!(sum.iter().all(|v| (v - 8.0).abs() < 0.02), "{sum:?}");

        let values: Vec<f32> = (0..4 * 1001).map(|i| i as f32).collect();
        let from = gpu.upload("copy_from", &values).unwrap();
        let to = gpu.buffer("copy_to", 16 * 1001).unwrap();
        let kernel = Kernel::from_wgsl(&gpu, "limits.copy", COPY, "copy").unwrap();
        let bound = kernel
            .bind(&gpu, &[("copy_from", &from), ("copy_to", &to)])
            .unwrap();
        run(&gpu, &repeated(&bound, 4, 2)).unwrap();
        let copied: Vec<f32> = gpu.read(&to, 4 * 1001).unwrap();
        assert_eq!(copied, values);
    }
}
