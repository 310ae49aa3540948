//! Limits of this machine: arithmetic and memory bandwidth, measured with the engine's own threads
//! and vectors. [`ceilings`](crate::ceilings) measures more kinds of work.
//!
//! 1. Arithmetic: chains of fused multiply-adds on registers, enough of them at once to hide their
//!    latency. 12 chains fit CPUs with 16 vector registers, 24 those with 32. Both are measured,
//!    and the faster result counts. An FMA is two operations.
//! 2. Bandwidth: `a = b + k c` over three arrays far larger than any cache. Two words read and one
//!    written count, 12 bytes per value; reads of a cache line before it is overwritten do not.
//! 3. Each result is the median of several runs, as the times that are compared with it are. On a
//!    busy machine, both are affected alike.

use crate::simd::{Splat, V, each};
use dapple_profile::ceilings::{Limits, Rated};
use pulp::Simd;
use rayon::prelude::*;
use std::hint::black_box;
use std::time::Instant;

/// Runs of each measurement: more than for a GPU, because they are shorter.
const GOES: usize = 9;
/// FMAs per run and thread, in vectors: about 10 ms.
const VECTOR_FMAS: usize = 48_000_000;
/// Values of one of the three arrays: 96 MiB.
const VALUES: usize = 24 << 20;
/// Values per task.
pub(crate) const TASK: usize = 1 << 18;

/// Measures on the threads of `pool`, which takes about a second.
pub(crate) fn measure(pool: &rayon::ThreadPool) -> Limits {
    Limits::new(arithmetic(pool), triad(pool))
}

/// Returns the rate per second of runs of `amount` each. The first run warms up and is dropped.
pub(crate) fn rate(amount: f64, mut go: impl FnMut()) -> Rated {
    go();
    let seconds = (0..GOES).map(|_| {
        let start = Instant::now();
        go();
        start.elapsed().as_secs_f64()
    });
    Rated::from_seconds(amount, seconds.collect())
}

/// Returns operations per second, for the faster number of chains.
pub(crate) fn arithmetic(pool: &rayon::ThreadPool) -> Rated {
    let (few, many) = (chains::<2>(pool), chains::<4>(pool));
    few.or_faster(many)
}

fn chains<const GROUPS: usize>(pool: &rayon::ThreadPool) -> Rated {
    let lanes = pulp::Arch::new().dispatch(Chains::<GROUPS>(0)).1;
    let chains = (6 * GROUPS * lanes * pool.current_num_threads()) as f64;
    let length = VECTOR_FMAS / (6 * GROUPS);
    rate(2.0 * chains * length as f64, || {
        pool.broadcast(|_| black_box(pulp::Arch::new().dispatch(Chains::<GROUPS>(length))));
    })
}

/// Task: `6 * GROUPS` independent chains of this many FMAs.
pub(crate) struct Chains<const GROUPS: usize>(pub(crate) usize);

impl<const GROUPS: usize> pulp::WithSimd for Chains<GROUPS> {
    /// Value that depends on every result, and the lanes of a vector.
    type Output = (f32, usize);

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) -> (f32, usize) {
        // Unknown to the compiler, so that it emits the computation; below 1, so that the result is
        // finite.
        let factor = s.k(black_box(0.999));
        let term = s.k(black_box(0.001));
        let mut x = [each!(6, |i| s.k(black_box(i as f32))); GROUPS];
        for _ in 0..self.0 {
            for group in &mut x {
                for value in group {
                    *value = value.mul_add(factor, term);
                }
            }
        }
        let mut sum = s.k(0.0);
        for group in x {
            for value in group {
                sum += value;
            }
        }
        (sum.sum(), S::F32_LANES)
    }
}

/// Returns bytes per second of `a = b + k c`.
pub(crate) fn triad(pool: &rayon::ThreadPool) -> Rated {
    pool.install(|| {
        // Written by the threads that will use them, so that the pages are local to their cores.
        let fill =
            |value: f32| -> Vec<f32> { (0..VALUES).into_par_iter().map(|_| value).collect() };
        let (mut a, b, c) = (fill(0.0), fill(1.0), fill(2.0));
        let factor = black_box(0.5);
        let result = rate(12.0 * VALUES as f64, || {
            a.par_chunks_mut(TASK)
                .zip(b.par_chunks(TASK))
                .zip(c.par_chunks(TASK))
                .for_each(|((a, b), c)| pulp::Arch::new().dispatch(Triad { a, b, c, factor }));
            black_box(&mut a);
        });
        black_box((b, c));
        result
    })
}

struct Triad<'a> {
    a: &'a mut [f32],
    b: &'a [f32],
    c: &'a [f32],
    factor: f32,
}

impl pulp::WithSimd for Triad<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        let factor = s.k(self.factor);
        let lanes = self.a.chunks_exact_mut(S::F32_LANES);
        let sources = self
            .b
            .chunks_exact(S::F32_LANES)
            .zip(self.c.chunks_exact(S::F32_LANES));
        for (a, (b, c)) in lanes.zip(sources) {
            V::from_slice(s, c)
                .mul_add(factor, V::from_slice(s, b))
                .to_slice(a);
        }
    }
}

const _: () = assert!(
    3 * size_of::<f32>() * VALUES >= 256 << 20 && VALUES.is_multiple_of(16),
    "the arrays must be larger than caches, and whole vectors"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_computed_and_stay_finite() {
        let (none, lanes) = pulp::Arch::new().dispatch(Chains::<2>(0));
        assert_eq!(none, (2 * 15 * lanes) as f32);
        // x -> 0.999 x + 0.001 tends to 1.
        let (many, _) = pulp::Arch::new().dispatch(Chains::<2>(100_000));
        let each = many / (12 * lanes) as f32;
        assert!((each - 1.0).abs() < 1e-3, "{each}");
    }
}
