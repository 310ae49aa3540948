//! Random numbers by position: equal for any number of threads and in any future version.
//!
//! SplitMix64 (Steele et al. 2014). Each generator belongs to one thing (a photo, a point). Its state comes from the
//! seed, the kind of the thing, and its index, so that the order of work does not matter.

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    /// Starts the stream for thing number `index` of kind `kind`.
    pub(super) fn new(seed: u64, kind: u64, index: u64) -> Self {
        Self(mix(mix(mix(seed) ^ kind) ^ index))
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Draws uniformly from `0..1`.
    pub(super) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Draws uniformly from `low..high`.
    pub(super) fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Draws uniformly from `0..count`; 0 if `count` is 0.
    pub(super) fn index(&mut self, count: usize) -> usize {
        ((self.unit() * count as f64) as usize).min(count.saturating_sub(1))
    }

    /// Draws from the standard normal distribution (Box & Muller 1958).
    pub(super) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// Permutes the 64-bit numbers so that every input bit changes half of the output bits.
fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
