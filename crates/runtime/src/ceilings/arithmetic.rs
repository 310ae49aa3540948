//! Arithmetic in registers: fused multiply-adds in `f32` and, if the device supports it, in `f16`; exponentials, of
//! which blending computes one for each Gaussian and pixel.
//!
//! Each invocation runs 32 independent chains (eight vectors of four), which hides their latency. Rounds, factor and
//! term come from a buffer, and the result might be stored, so the compiler can omit nothing.

use super::timing::{kernel, rate};
use super::{Measured, Unit};
use crate::Gpu;
use dapple_base::Result;
use dapple_profile::ceilings::Rated;

const WORKGROUP: u32 = 256;
/// Rounds of a dispatch: four times eight vectors of four.
const ROUNDS: u64 = 64;
const SOFTWARE_EXP2_ROUNDS: u64 = 16;
const STEPS: u64 = 4 * 8 * 4;
/// Workgroups of a dispatch; software renderers are slow and get fewer.
const GROUPS: u32 = 8192;
const SOFTWARE_GROUPS: u32 = 64;
/// Below 1, so that chains stay finite.
const FACTOR: f32 = 0.999;
const TERM: f32 = 0.001;

/// Returns the shader of chains: `step` is one step of the vector `x#`, with `a` and `b`.
fn chains(vector: &str, step: &str) -> String {
    let lines = |line: &str| -> String {
        let of = |k: u32| format!("    {}\n", line.replace('#', &k.to_string()));
        (0..8).map(of).collect()
    };
    let enable = if vector.contains("f16") {
        "enable f16;"
    } else {
        ""
    };
    let starts = lines("var x# = y + Vector(vec4f(#.0));");
    let steps = lines(step).repeat(4);
    format!(
        "{enable}
alias Vector = {vector};

@group(0) @binding(0) var<storage, read> numbers: array<f32>;
@group(0) @binding(1) var<storage, read_write> sink: array<vec4f>;

@compute @workgroup_size(256)
fn chains(@builtin(global_invocation_id) id: vec3u) {{
    let rounds = u32(numbers[0]);
    let a = Vector(vec4f(numbers[1]));
    let b = Vector(vec4f(numbers[2]));
    let y = Vector(vec4f(f32(id.x & 1023u)));
{starts}
    for (var i = 0u; i < rounds; i++) {{
{steps}    }}
    let sum = vec4f(x0 + x1 + x2 + x3 + x4 + x5 + x6 + x7);
    if id.x == 0u || sum.x == -1.0 {{
        sink[0] = sum;
    }}
}}
"
    )
}

pub(super) fn fma_f32() -> String {
    chains("vec4<f32>", "x# = fma(x#, a, b);")
}

pub(super) fn fma_f16() -> String {
    chains("vec4<f16>", "x# = fma(x#, a, b);")
}

/// Returns the shader of `x -> 2^-x`. The value tends to 0.64, so it stays finite, and the sign costs nothing.
pub(super) fn exponentials() -> String {
    chains("vec4<f32>", "x# = exp2(-x#);")
}

pub(super) fn measure(gpu: &Gpu, measured: &mut Measured) -> Result<()> {
    measured.rate("fma_f32", Unit::OperationsPerSecond, fma(gpu)?);
    if gpu.device().features().contains(wgpu::Features::SHADER_F16) {
        let halves = run(gpu, "fma_f16", &fma_f16(), ROUNDS, FACTOR, TERM)?;
        measured.rate("fma_f16", Unit::OperationsPerSecond, halves.times(2.0));
    }
    let rounds = if gpu.report().is_software {
        SOFTWARE_EXP2_ROUNDS
    } else {
        ROUNDS
    };
    let powers = run(gpu, "exp2", &exponentials(), rounds, FACTOR, TERM)?;
    measured.rate("exp2", Unit::PerSecond, powers);
    Ok(())
}

/// Measures `f32` operations per second; an FMA counts as two.
pub(crate) fn fma(gpu: &Gpu) -> Result<Rated> {
    let steps = run(gpu, "fma_f32", &fma_f32(), ROUNDS, FACTOR, TERM)?;
    Ok(steps.times(2.0))
}

/// Measures sums over subgroups: input values per second.
pub(super) fn subgroup_add(gpu: &Gpu) -> Result<Rated> {
    // Stays finite for subgroups of up to 128.
    run(
        gpu,
        "subgroup_add",
        &subgroup_sums(),
        ROUNDS,
        1.0 / 128.0,
        0.5,
    )
}

pub(super) fn subgroup_sums() -> String {
    chains("vec4<f32>", "x# = fma(subgroupAdd(x#), a, b);")
}

/// Measures steps of single values per second.
fn run(gpu: &Gpu, name: &str, wgsl: &str, rounds: u64, a: f32, b: f32) -> Result<Rated> {
    let groups = if gpu.report().is_software {
        SOFTWARE_GROUPS
    } else {
        GROUPS
    };
    let numbers = gpu.upload("numbers", &[rounds as f32, a, b])?;
    let sink = gpu.buffer("sink", 16)?;
    let kernel = kernel(gpu, &format!("ceilings.{name}"), wgsl, "chains")?;
    let bound = kernel.bind(gpu, &[("numbers", &numbers), ("sink", &sink)])?;
    let invocations = u64::from(groups * WORKGROUP);
    rate(gpu, &bound, groups, (invocations * rounds * STEPS) as f64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::super::tests::gpu;
    use super::*;
    use crate::Kernel;

    /// Returns the sum of eight chains after many steps, computed by the first invocation.
    fn sum(gpu: &Gpu, wgsl: &str, a: f32, b: f32) -> f32 {
        let numbers = gpu.upload("numbers", &[2000.0_f32, a, b]).unwrap();
        let sink = gpu.buffer("sink", 16).unwrap();
        let kernel = Kernel::from_wgsl(gpu, "ceilings", wgsl, "chains").unwrap();
        let bound = kernel
            .bind(gpu, &[("numbers", &numbers), ("sink", &sink)])
            .unwrap();
        super::super::timing::run(gpu, &bound, 1, 1).unwrap();
        let sums: Vec<f32> = gpu.read(&sink, 4).unwrap();
        assert!(sums.iter().all(|v| *v == sums[0]), "{sums:?}");
        sums[0]
    }

    #[test]
    fn chains_come_to_what_they_tend_to() {
        let gpu = gpu();
        let near =
            |is: f32, should: f32| assert!((is - should).abs() < 0.02 * should, "{is} {should}");
        // x -> 0.999 x + 0.001 tends to 1; eight chains.
        near(sum(&gpu, &fma_f32(), FACTOR, TERM), 8.0);
        // 2^-x = x.
        near(sum(&gpu, &exponentials(), 0.0, 0.0), 8.0 * 0.641_186);
        let features = gpu.device().features();
        if features.contains(wgpu::Features::SHADER_F16) {
            // 0.5 x + 0.5 tends to 1 in halves too.
            near(sum(&gpu, &fma_f16(), 0.5, 0.5), 8.0);
        }
        if let Some(size) = gpu.subgroup_size() {
            // x -> size x / 128 + 1/2, the same in all lanes.
            let limit = 0.5 / (1.0 - size as f32 / 128.0);
            near(sum(&gpu, &subgroup_sums(), 1.0 / 128.0, 0.5), 8.0 * limit);
        }
    }
}
