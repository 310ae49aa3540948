//! Ceilings of this CPU: its limits for each kind of work, measured with the engine's threads and
//! vectors. Each is measured on all threads, and on one thread (names that end in `.one_thread`).
//!
//! 1. `read` sums an array far larger than caches, `write` fills it, `copy` copies half of it to the
//!    other half with the system's copy, `triad` is `a = b + k c`. Words read and written count;
//!    reads of a cache line before it is overwritten do not.
//! 2. `fma_f32` and `exp2` run chains in registers (`limits.rs`); `exp2` is the engine's own
//!    function.
//! 3. The cache plot: each thread sums an array of its own, of 16 KiB to 256 MiB, repeatedly.
//! 4. The number of runs, their median and their spread are those of [`dapple_profile::ceilings`].

use crate::limits::{Chains, TASK, arithmetic, rate, triad};
use crate::simd::{Splat, V, each, level_name};
use dapple_profile::ceilings::{self, DeviceKey, Group, Measured, Point, Rated, Unit};
use dapple_scene::{Error, Progress, Result};
use pulp::Simd;
use rayon::prelude::*;
use std::hint::black_box;

/// Values of the array for reads, writes and copies: 384 MiB, more than the largest caches of today's
/// servers.
const LARGE_VALUES: usize = 96 << 20;
/// Exponentials per run and thread, in vectors: about 10 ms.
const VECTOR_EXP2: usize = 3_000_000;
/// Smallest working set of a thread, bytes; each working set is twice the previous one.
const SMALLEST_SET: usize = 16 << 10;
const LARGEST_SET: usize = 256 << 20;
/// Total size of all threads' working sets, bytes.
const ALL_SETS: usize = 1 << 30;
/// Least number of bytes that a thread reads in a run.
const READ_BYTES: usize = 96 << 20;

/// Returns the key of a CPU with this number of threads in the cache of ceilings.
pub fn key(processor: &str, threads: usize) -> DeviceKey {
    DeviceKey {
        name: processor.to_owned(),
        driver: format!("{threads} threads, {}", level_name()),
    }
}

/// Measures on the threads of `pool`, and on one thread.
pub(crate) fn measure(
    pool: &rayon::ThreadPool,
    processor: &str,
    progress: &dyn Progress,
) -> Result<Measured> {
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    let one = one.map_err(|e| Error::unsupported(format!("a thread could not be started: {e}")))?;
    let pools = [(pool, ""), (&one, ".one_thread")];
    let groups = pools.into_iter().flat_map(|(pool, suffix)| {
        GROUPS.map(|group| {
            Box::new(move |measured: &mut Measured| {
                group(pool, suffix, measured);
                Ok(())
            }) as Group<'_>
        })
    });
    let key = key(processor, pool.current_num_threads());
    let title = "measuring the limits of the CPU";
    ceilings::measure(key, title, groups.collect(), progress)
}

/// Measurement of one group of values on a pool's threads; their names end in the suffix.
type OnThreads = fn(&rayon::ThreadPool, &str, &mut Measured);
const GROUPS: [OnThreads; 4] = [memory, multiply_adds, exponentials, working_sets];

fn memory(pool: &rayon::ThreadPool, suffix: &str, measured: &mut Measured) {
    let mut add = |name: &str, rated: Rated| {
        measured.rate(&format!("{name}{suffix}"), Unit::BytesPerSecond, rated);
    };
    add("triad", triad(pool));
    pool.install(|| {
        // Written by the threads that will use them, so that the pages are local to their cores.
        let ones = (0..LARGE_VALUES).into_par_iter().map(|_| 1.0);
        let mut values: Vec<f32> = ones.collect();
        let bytes = size_of_val(values.as_slice()) as f64;
        let read = rate(bytes, || {
            let parts = values.par_chunks(TASK);
            let sums = parts.map(|part| pulp::Arch::new().dispatch(Sum(part)));
            black_box(sums.sum::<f32>());
        });
        add("read", read);
        let value = black_box(0.5);
        let written = rate(bytes, || {
            let parts = values.par_chunks_mut(TASK);
            parts.for_each(|part| part.fill(value));
            black_box(&mut values);
        });
        add("write", written);
        // Copies one half into the other: all values are read or written.
        let (a, b) = values.split_at_mut(LARGE_VALUES / 2);
        let copied = rate(bytes, || {
            let parts = a.par_chunks_mut(TASK).zip(b.par_chunks(TASK));
            parts.for_each(|(a, b)| a.copy_from_slice(b));
            black_box(&mut *a);
        });
        add("copy", copied);
    });
}

fn multiply_adds(pool: &rayon::ThreadPool, suffix: &str, measured: &mut Measured) {
    let name = format!("fma_f32{suffix}");
    measured.rate(&name, Unit::OperationsPerSecond, arithmetic(pool));
}

fn exponentials(pool: &rayon::ThreadPool, suffix: &str, measured: &mut Measured) {
    let lanes = pulp::Arch::new().dispatch(Chains::<2>(0)).1;
    let length = VECTOR_EXP2 / 12;
    let amount = (12 * length * lanes * pool.current_num_threads()) as f64;
    let powers = rate(amount, || {
        pool.broadcast(|_| black_box(pulp::Arch::new().dispatch(Powers(length))));
    });
    measured.rate(&format!("exp2{suffix}"), Unit::PerSecond, powers);
}

fn working_sets(pool: &rayon::ThreadPool, suffix: &str, measured: &mut Measured) {
    let threads = pool.current_num_threads();
    let largest = LARGEST_SET.min(ALL_SETS / threads).max(SMALLEST_SET);
    let mut points = Vec::new();
    let mut bytes = SMALLEST_SET;
    while bytes <= largest {
        let values = bytes / size_of::<f32>();
        let sets: Vec<Vec<f32>> = pool.broadcast(|_| vec![1.0_f32; values]);
        let repeats = (READ_BYTES / bytes).max(1);
        let amount = (bytes * repeats * threads) as f64;
        let rated = rate(amount, || {
            pool.broadcast(|thread| {
                for _ in 0..repeats {
                    black_box(pulp::Arch::new().dispatch(Sum(black_box(&sets[thread.index()]))));
                }
            });
        });
        points.push(Point {
            bytes: bytes as u64,
            bytes_per_second: rated.per_second,
        });
        bytes *= 2;
    }
    measured.curve(&format!("working_set{suffix}"), points);
}

/// Task: sums a slice whose length is a multiple of eight vectors.
struct Sum<'a>(&'a [f32]);

impl pulp::WithSimd for Sum<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) -> f32 {
        // Enough sums to hide the latency of an addition.
        let mut low = each!(4, |_i| s.k(0.0));
        let mut high = low;
        for part in self.0.chunks_exact(8 * S::F32_LANES) {
            for k in 0..4 {
                low[k] += V::from_slice(s, &part[k * S::F32_LANES..]);
                high[k] += V::from_slice(s, &part[(k + 4) * S::F32_LANES..]);
            }
        }
        let mut sum = s.k(0.0);
        for k in 0..4 {
            sum += low[k] + high[k];
        }
        sum.sum()
    }
}

/// Task: twelve independent chains of this many exponentials.
struct Powers(usize);

impl pulp::WithSimd for Powers {
    /// Value that depends on every result.
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) -> f32 {
        let mut x = [each!(6, |i| s.k(black_box(i as f32))); 2];
        for _ in 0..self.0 {
            for group in &mut x {
                for value in group {
                    *value = (-*value).exp2();
                }
            }
        }
        let mut sum = s.k(0.0);
        for group in x {
            for value in group {
                sum += value;
            }
        }
        sum.sum()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::{CpuEngine, CpuOptions};
    use dapple_scene::NoProgress;

    #[test]
    fn sums_sum_everything_and_powers_come_to_their_limit() {
        let values: Vec<f32> = (0..1024).map(|i| i as f32).collect();
        for arch in [pulp::Arch::new(), pulp::Arch::Scalar] {
            assert_eq!(arch.dispatch(Sum(&values)), 1023.0 * 512.0);
        }
        // 2^-x = x.
        let lanes = pulp::Arch::new().dispatch(Chains::<2>(0)).1;
        let each = pulp::Arch::new().dispatch(Powers(1000)) / (12 * lanes) as f32;
        assert!((each - 0.641_186).abs() < 1e-3, "{each}");
    }

    #[test]
    fn all_is_measured_and_can_be() {
        let engine = CpuEngine::new(CpuOptions { threads: Some(2) }).unwrap();
        let measured = engine.measure_ceilings("A CPU", &NoProgress).unwrap();
        assert_eq!(measured.device, key("A CPU", 2));
        for name in ["read", "write", "copy", "triad", "fma_f32", "exp2"] {
            for suffix in ["", ".one_thread"] {
                let value = measured.get(&format!("{name}{suffix}")).unwrap();
                assert!(value.is_finite() && value > 0.0, "{name}{suffix}");
            }
        }
        assert_eq!(measured.rates.len(), 12);
        for curve in &measured.curves {
            let bytes: Vec<u64> = curve.points.iter().map(|p| p.bytes).collect();
            assert_eq!(bytes[0], SMALLEST_SET as u64);
            assert!(bytes.is_sorted() && bytes.len() == 15, "{bytes:?}");
            assert!(curve.points.iter().all(|p| p.bytes_per_second > 0.0));
        }
        assert_eq!(measured.curves.len(), 2);
    }
}
