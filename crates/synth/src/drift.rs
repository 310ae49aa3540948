//! Differences of exposure and white balance between photos of one capture.
//!
//! 1. Each photo draws its exposure from -drift..drift stops, and for red and blue a third of that each, like a camera
//!    with automatic exposure and white balance. The light is multiplied before it is encoded.
//! 2. Every eighth photo, held out from training by default, is unchanged, so that it is compared with the scene
//!    itself.
//! 3. The mean of the other photos over the capture is that scene too: their mean in stops is subtracted.

use super::SynthOptions;
use super::cameras::HELD_OUT_EVERY;
use super::random::Random;
use glam::{DVec3, Vec3A};

/// Stream of random numbers of this module.
const DRIFT: u64 = 0x6472_6966;

/// Ratio of the drift of white balance to that of exposure.
const BALANCE: f64 = 1.0 / 3.0;

/// Computes the factors of each photo's red, green and blue light.
pub(super) fn gains(options: &SynthOptions) -> Vec<Vec3A> {
    let drawn = |index: usize| {
        if index.is_multiple_of(HELD_OUT_EVERY) {
            return None;
        }
        let mut random = Random::new(options.seed, DRIFT, index as u64);
        let mut stops = |most: f64| random.uniform(-most, most) * options.drift;
        let exposure = stops(1.0);
        let (red, blue) = (stops(BALANCE), stops(BALANCE));
        Some(DVec3::new(exposure + red, exposure, exposure + blue))
    };
    let stops: Vec<Option<DVec3>> = (0..options.photos).map(drawn).collect();
    let count = stops.iter().flatten().count().max(1) as f64;
    let mean = stops.iter().flatten().sum::<DVec3>() / count;
    stops
        .into_iter()
        .map(|stops| stops.map_or(Vec3A::ONE, |stops| (stops - mean).exp2().as_vec3a()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_out_photos_and_the_mean_are_the_scene() {
        let options = SynthOptions {
            photos: 30,
            drift: 1.0,
            ..SynthOptions::default()
        };
        let all = gains(&options);
        assert_eq!(all, gains(&options));
        assert_eq!(all[0], Vec3A::ONE);
        assert_eq!(all[16], Vec3A::ONE);
        let stops: Vec<Vec3A> = all.iter().map(|gain| gain.map(f32::log2)).collect();
        let sum: Vec3A = stops.iter().sum();
        assert!(sum.abs().max_element() < 1e-4, "{sum}");
        assert!(stops.iter().any(|s| s.y > 0.4) && stops.iter().any(|s| s.y < -0.4));
        let still = SynthOptions {
            drift: 0.0,
            ..options
        };
        assert!(gains(&still).iter().all(|gain| *gain == Vec3A::ONE));
    }
}
