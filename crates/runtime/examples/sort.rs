//! Sorts ten million pairs on the GPU, stably, by all 32 bits of their keys.
//!
//! `cargo run --release --example sort -p dapple-runtime [gpu:N]`

use dapple_runtime::primitives::{Count, RadixSort, SortOn, radix_block};
use dapple_runtime::{Choice, CommandList, Gpu, GpuOptions, Groups};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let choice = match std::env::args().nth(1) {
        Some(name) => name.parse()?,
        None => Choice::Index(0),
    };
    let gpu = Gpu::open(&GpuOptions {
        choice,
        ..GpuOptions::default()
    })?;
    // A software renderer is slow, so it sorts fewer pairs.
    let count: u32 = if gpu.report().is_software {
        1 << 18
    } else {
        10_000_000
    };

    // The fractional parts of multiples of the golden ratio, as bits: no pattern, no two equal.
    let keys: Vec<u32> = (0..count).map(|i| i.wrapping_mul(2_654_435_769)).collect();
    let bytes = u64::from(count) * 4;
    let sorted = gpu.upload("keys", &keys)?;
    let places = gpu.buffer("places", bytes)?;
    let (keys_alt, places_alt) = (gpu.buffer("keys alt", bytes)?, gpu.buffer("alt", bytes)?);
    let scratch = gpu.buffer("scratch", 4 * RadixSort::scratch_words(&gpu, count.into()))?;
    // The device reads the count, which earlier kernels may have computed.
    let counted = gpu.upload("count", &[count])?;

    // With `true` the values are the positions of the pairs before the sort.
    let sort = RadixSort::new(&gpu, 32, true)?;
    let mut recording = CommandList::new();
    let on = SortOn {
        keys: &sorted,
        values: &places,
        keys_alt: &keys_alt,
        values_alt: &places_alt,
        count: Count {
            buffer: &counted,
            word: 0,
        },
        scratch: &scratch,
        groups: Groups::flat(count.div_ceil(radix_block(&gpu))),
    };
    sort.record(&gpu, &mut recording, on)?;

    gpu.wait()?;
    let started = Instant::now();
    recording.submit(&gpu, &[]);
    gpu.wait()?;
    let seconds = started.elapsed().as_secs_f64();

    let found: Vec<u32> = gpu.read(&sorted, count as usize)?;
    let from: Vec<u32> = gpu.read(&places, count as usize)?;
    let right = found.is_sorted()
        && found
            .iter()
            .zip(&from)
            .all(|(k, &i)| keys[i as usize] == *k);
    println!(
        "{}: {count} pairs in {:.2} ms, {}",
        gpu.device_name(),
        1e3 * seconds,
        if right { "in order" } else { "WRONG" }
    );
    Ok(())
}
