//! Bandwidth of memory and of the caches.
//!
//! 1. `copy`: one buffer into another, both larger than the caches if the device permits; bytes read and bytes written
//!    count. `write`: one buffer filled.
//! 2. `read`: each invocation adds up words whose distance is one round of all invocations, so that a round reads one
//!    contiguous stretch; four sums hide the latency.
//! 3. The cache plot is `read` over sets of 16 KiB to 1 GiB, each read repeatedly.

use super::timing::{kernel, rate};
use super::{Measured, Unit};
use crate::Gpu;
use dapple_base::Result;
use dapple_profile::ceilings::{Point, Rated};
use std::sync::Arc;

/// Bytes of each buffer, if the device takes buffers of this size; software renderers get smaller ones.
const LARGE_BYTES: u64 = 512 << 20;
const SOFTWARE_LARGE_BYTES: u64 = 96 << 20;
/// Working sets grow by a factor of two.
const SMALLEST_SET: u64 = 16 << 10;
const LARGEST_SET: u64 = 1 << 30;
const SOFTWARE_LARGEST_SET: u64 = 64 << 20;
const WORKGROUP: u32 = 256;
/// Workgroups that read; a large GPU runs a thousand at once.
const READ_GROUPS: u32 = 4096;
const SOFTWARE_READ_GROUPS: u32 = 32;
/// Minimum rounds of reading in a dispatch; a loop iteration takes four.
const LEAST_ROUNDS: u64 = 32;
/// Bytes of a `vec4f`.
const VECTOR: u64 = 16;

pub(crate) const COPY: &str = "
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

pub(crate) const WRITE: &str = "
@group(0) @binding(0) var<storage, read_write> copy_to: array<vec4f>;

@compute @workgroup_size(256)
fn writing(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) t: u32,
) {
    let i = (id.x + id.y * dispatched.x) * 256u + t;
    if i < arrayLength(&copy_to) {
        copy_to[i] = vec4f(f32(t));
    }
}
";

/// Numbers: rounds, and the last index of the set, whose length is a power of two.
pub(crate) const READ: &str = "
@group(0) @binding(0) var<storage, read> copy_from: array<vec4f>;
@group(0) @binding(1) var<storage, read> numbers: array<u32>;
@group(0) @binding(2) var<storage, read_write> sink: array<vec4f>;

@compute @workgroup_size(256)
fn reading(
    @builtin(global_invocation_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
) {
    let rounds = numbers[0];
    let last = numbers[1];
    let stride = dispatched.x * 256u;
    var i = id.x;
    var a = vec4f(); var b = vec4f(); var c = vec4f(); var d = vec4f();
    for (var k = 0u; k < rounds; k += 4u) {
        a += copy_from[i & last];
        b += copy_from[(i + stride) & last];
        c += copy_from[(i + 2u * stride) & last];
        d += copy_from[(i + 3u * stride) & last];
        i += 4u * stride;
    }
    let sum = a + b + c + d;
    if id.x == 0u || sum.x == -1.0 {
        sink[0] = sum;
    }
}
";

/// Returns the bytes of each of two buffers on this device, at most `wanted`. Small devices keep some memory free.
fn allowed(gpu: &Gpu, wanted: u64) -> u64 {
    let report = gpu.report();
    let most = report.max_binding_bytes.min(report.max_buffer_bytes);
    let room = report.memory_bytes.map_or(wanted, |memory| memory / 8);
    wanted.min(most).min(room) / VECTOR * VECTOR
}

fn large(gpu: &Gpu) -> u64 {
    let software = gpu.report().is_software;
    allowed(
        gpu,
        if software {
            SOFTWARE_LARGE_BYTES
        } else {
            LARGE_BYTES
        },
    )
}

/// Returns the number of workgroups with an invocation for each vector of `bytes` bytes.
fn groups_of(bytes: u64) -> u32 {
    (bytes / VECTOR).div_ceil(u64::from(WORKGROUP)) as u32
}

pub(super) fn measure(gpu: &Gpu, measured: &mut Measured) -> Result<()> {
    measured.rate("copy", Unit::BytesPerSecond, copy(gpu)?);
    let bytes = large(gpu);
    let to = gpu.buffer("copy_to", bytes)?;
    let kernel = kernel(gpu, "ceilings.write", WRITE, "writing")?;
    let bound = kernel.bind(gpu, &[("copy_to", &to)])?;
    let written = rate(gpu, &bound, groups_of(bytes), bytes as f64)?;
    measured.rate("write", Unit::BytesPerSecond, written);
    // Largest set of a power of two that fits.
    let set = 1 << bytes.ilog2();
    let reading = Reading::new(gpu, &to)?;
    let read = reading.rate(gpu, set)?;
    measured.rate("read", Unit::BytesPerSecond, read);
    Ok(())
}

/// Measures bytes read and written per second by a copy.
pub(crate) fn copy(gpu: &Gpu) -> Result<Rated> {
    let bytes = large(gpu);
    let from = gpu.buffer("copy_from", bytes)?;
    let to = gpu.buffer("copy_to", bytes)?;
    let kernel = kernel(gpu, "ceilings.copy", COPY, "copy")?;
    let bound = kernel.bind(gpu, &[("copy_from", &from), ("copy_to", &to)])?;
    rate(gpu, &bound, groups_of(bytes), 2.0 * bytes as f64)
}

pub(super) fn working_sets(gpu: &Gpu, measured: &mut Measured) -> Result<()> {
    let software = gpu.report().is_software;
    let largest = allowed(
        gpu,
        if software {
            SOFTWARE_LARGEST_SET
        } else {
            LARGEST_SET
        },
    );
    let from = gpu.buffer("copy_from", largest)?;
    let reading = Reading::new(gpu, &from)?;
    let mut points = Vec::new();
    let mut bytes = SMALLEST_SET;
    while bytes <= largest {
        points.push(Point {
            bytes,
            bytes_per_second: reading.rate(gpu, bytes)?.per_second,
        });
        bytes *= 2;
    }
    measured.curve("working_set", points);
    Ok(())
}

/// The kernel that reads, and its input.
struct Reading {
    numbers: Arc<crate::Pooled>,
    bound: crate::Bound,
    groups: u32,
}

impl Reading {
    fn new(gpu: &Gpu, from: &wgpu::Buffer) -> Result<Self> {
        let numbers = gpu.buffer("numbers", 16)?;
        let sink = gpu.buffer("sink", 16)?;
        let kernel = kernel(gpu, "ceilings.read", READ, "reading")?;
        let buffers = [("copy_from", from), ("numbers", &numbers), ("sink", &sink)];
        let bound = kernel.bind(gpu, &buffers)?;
        let software = gpu.report().is_software;
        Ok(Self {
            numbers,
            bound,
            groups: if software {
                SOFTWARE_READ_GROUPS
            } else {
                READ_GROUPS
            },
        })
    }

    /// Measures bytes read per second from the first `set` bytes, a power of two.
    fn rate(&self, gpu: &Gpu, set: u64) -> Result<Rated> {
        let round = u64::from(self.groups * WORKGROUP) * VECTOR;
        // A dispatch reads the whole set.
        let rounds = (set / round).max(LEAST_ROUNDS).next_multiple_of(4);
        let last = set / VECTOR - 1;
        gpu.write(&self.numbers, 0, &[rounds as u32, last as u32]);
        rate(gpu, &self.bound, self.groups, (round * rounds) as f64)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::super::tests::gpu;
    use super::super::timing::run;
    use super::*;
    use crate::Kernel;

    #[test]
    fn copies_copy_writes_write_and_reads_read_everything() {
        let gpu = gpu();
        let values: Vec<f32> = (0..4 * 1001).map(|i| i as f32).collect();
        let from = gpu.upload("copy_from", &values).unwrap();
        let to = gpu.buffer("copy_to", 16 * 1001).unwrap();
        let kernel = Kernel::from_wgsl(&gpu, "ceilings.copy", COPY, "copy").unwrap();
        let bound = kernel
            .bind(&gpu, &[("copy_from", &from), ("copy_to", &to)])
            .unwrap();
        run(&gpu, &bound, 4, 2).unwrap();
        assert_eq!(gpu.read::<f32>(&to, 4 * 1001).unwrap(), values);

        let kernel = Kernel::from_wgsl(&gpu, "ceilings.write", WRITE, "writing").unwrap();
        let bound = kernel.bind(&gpu, &[("copy_to", &to)]).unwrap();
        run(&gpu, &bound, 4, 1).unwrap();
        let written = gpu.read::<f32>(&to, 4 * 1001).unwrap();
        assert!((0..1001).all(|i| written[4 * i + 3] == (i % 256) as f32));

        // One workgroup, 16 rounds of 256 over a set of 1024: invocation 0 reads 0, 256, 512, 768 four times.
        let sums: Vec<f32> = (0..4 * 1024).map(|i| (i / 4) as f32).collect();
        let from = gpu.upload("copy_from", &sums).unwrap();
        let numbers = gpu.upload("numbers", &[16_u32, 1023]).unwrap();
        let sink = gpu.buffer("sink", 16).unwrap();
        let kernel = Kernel::from_wgsl(&gpu, "ceilings.read", READ, "reading").unwrap();
        let bound = kernel
            .bind(
                &gpu,
                &[("copy_from", &from), ("numbers", &numbers), ("sink", &sink)],
            )
            .unwrap();
        run(&gpu, &bound, 1, 1).unwrap();
        let sum = 4.0 * (256.0 + 512.0 + 768.0);
        assert_eq!(gpu.read::<f32>(&sink, 4).unwrap(), [sum; 4]);
    }
}
