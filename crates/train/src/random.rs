//! Keyed random numbers, which have no state.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Purpose of random numbers. Each purpose has its own numbers, so that another draw for one does not change the
/// others.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    Views = 1,
    Sample = 2,
    Initial = 3,
    Background = 4,
    Bootstrap = 5,
    Crop = 6,
    Withheld = 7,
    Grown = 8,
    Focus = 9,
    Sky = 10,
    Matching = 11,
}

/// Returns random numbers keyed by (seed, purpose, index): the same on every platform.
pub(crate) fn generator(seed: u64, purpose: Purpose, index: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&(purpose as u64).to_le_bytes());
    key[16..24].copy_from_slice(&index.to_le_bytes());
    ChaCha8Rng::from_seed(key)
}

/// Uniform in `0..n` (Lemire 2019 without rejection: the bias is below `n / 2^64`).
pub(crate) fn below(n: usize, random: &mut ChaCha8Rng) -> usize {
    ((u128::from(random.next_u64()) * n as u128) >> 64) as usize
}

/// Uniform in `[0, 1)`, 24 bits.
pub(crate) fn unit(random: &mut ChaCha8Rng) -> f32 {
    (random.next_u32() >> 8) as f32 / (1u32 << 24) as f32
}

/// Fisher-Yates.
pub(crate) fn shuffle(values: &mut [usize], random: &mut ChaCha8Rng) {
    for i in (1..values.len()).rev() {
        values.swap(i, below(i + 1, random));
    }
}
