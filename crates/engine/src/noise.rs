//! Random numbers that are equal in all engines: a hash of the purpose, not a stream.
//!
//! A Gaussian that splits at a given step of a given run gets the same numbers in every engine and
//! for any number of threads. Only 32-bit integer arithmetic is used, so that shaders can compute
//! it too.

/// Hashes by PCG's output permutation (Jarzynski & Olano, "Hash Functions for GPU Rendering",
/// JCGT 2020).
pub const fn pcg(input: u32) -> u32 {
    let state = input.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
    let word = ((state >> ((state >> 28) + 4)) ^ state).wrapping_mul(277_803_737);
    (word >> 22) ^ word
}

/// Returns a hash of the run's seed, the step, the Gaussian's index and the number of the draw.
pub const fn hash(seed: u64, step: u32, index: u32, which: u32) -> u32 {
    let mut h = pcg(seed as u32);
    h = pcg(h ^ (seed >> 32) as u32);
    h = pcg(h ^ step);
    h = pcg(h ^ index);
    pcg(h ^ which)
}

/// Returns a uniform number in (0, 1).
pub fn uniform(seed: u64, step: u32, index: u32, which: u32) -> f32 {
    // 23 bits and a half: the result is neither 0 nor 1.
    ((hash(seed, step, index, which) >> 9) as f32 + 0.5) * (1.0 / 8_388_608.0)
}

/// Returns a standard normal number (Box & Muller 1958); `which` counts normals.
pub fn normal(seed: u64, step: u32, index: u32, which: u32) -> f32 {
    let radius = (-2.0 * uniform(seed, step, index, 2 * which).ln()).sqrt();
    let angle = std::f32::consts::TAU * uniform(seed, step, index, 2 * which + 1);
    radius * angle.cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normals_have_the_right_moments() {
        let n = 200_000;
        let values: Vec<f64> = (0..n).map(|i| normal(7, 600, i, i % 3).into()).collect();
        let mean = values.iter().sum::<f64>() / f64::from(n);
        let variance = values.iter().map(|v| v * v).sum::<f64>() / f64::from(n);
        let fourth = values.iter().map(|v| v.powi(4)).sum::<f64>() / f64::from(n);
        assert!(mean.abs() < 0.01, "{mean}");
        assert!((variance - 1.0).abs() < 0.02, "{variance}");
        assert!((fourth - 3.0).abs() < 0.1, "{fourth}");
    }

    #[test]
    fn neighbours_are_not_alike() {
        let pairs = (0..50_000).map(|i| (normal(1, 100, i, 0), normal(1, 100, i + 1, 0)));
        let correlation: f32 = pairs.map(|(a, b)| a * b).sum::<f32>() / 50_000.0;
        assert!(correlation.abs() < 0.02, "{correlation}");
    }
}
