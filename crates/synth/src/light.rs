//! Differences of the light between photos of one capture.
//!
//! 1. A lamp above the middle is lit in about half of the photos, each time with another power. It lights the objects
//!    near it, and they cast shadows. The lamp itself is invisible.
//! 2. The sun is in another position in each photo, as over some hours: shadows move.
//!
//! Every photo draws its own light, the held-out photos too: their appearance is fitted on a part of them (`eval`'s
//! fitted scores). Sparse points have the colours of the constant light.

use super::random::Random;
use super::{LightKind, SynthOptions};
use glam::Vec3A;

/// Stream of random numbers of this module.
const LIGHT: u64 = 0x6c69_6768;

/// Default direction of the sun.
pub(super) const SUN: Vec3A = Vec3A::new(0.5, 0.78, 0.38);

/// Swing of the sun along the horizon to either side, radians, and its height.
const SUN_SWING: f64 = 0.9;
const SUN_HEIGHT: [f64; 2] = [0.6, 1.15];

/// Share of photos with a lit lamp, and its power.
const LAMP_LIT: f64 = 0.5;
const LAMP_POWER: [f64; 2] = [0.4, 1.0];

/// Light of a photo.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Light {
    /// Direction towards the sun, unit, y up.
    pub(super) sun: Vec3A,
    /// Power of the lamp; 0 if it is not lit.
    pub(super) lamp: f32,
}

impl Default for Light {
    fn default() -> Self {
        Self {
            sun: SUN.normalize(),
            lamp: 0.0,
        }
    }
}

/// Returns each photo's light.
pub(super) fn lights(options: &SynthOptions) -> Vec<Light> {
    let drawn = |index: usize| {
        let mut random = Random::new(options.seed, LIGHT, index as u64);
        // All numbers are drawn in every case, so that the lamps are equal with and without a moving sun.
        let lit = random.unit() < LAMP_LIT;
        let power = random.uniform(LAMP_POWER[0], LAMP_POWER[1]) as f32;
        let swing = random.uniform(-SUN_SWING, SUN_SWING) as f32;
        let height = random.uniform(SUN_HEIGHT[0], SUN_HEIGHT[1]) as f32;
        let mut light = Light::default();
        if matches!(options.light, LightKind::Lamp | LightKind::Both) && lit {
            light.lamp = power;
        }
        if matches!(options.light, LightKind::Sun | LightKind::Both) {
            let along = SUN.z.atan2(SUN.x) + swing;
            let level = height.cos();
            light.sun = Vec3A::new(level * along.cos(), height.sin(), level * along.sin());
        }
        light
    };
    (0..options.photos).map(drawn).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lit(light: LightKind) -> Vec<Light> {
        lights(&SynthOptions {
            photos: 40,
            light,
            ..SynthOptions::default()
        })
    }

    #[test]
    fn lamps_are_lit_in_some_photos_and_suns_move_in_all() {
        assert!(
            lit(LightKind::Still)
                .iter()
                .all(|light| *light == Light::default())
        );
        let lamps = lit(LightKind::Lamp);
        let on = lamps.iter().filter(|light| light.lamp > 0.0).count();
        assert!((10..=30).contains(&on), "{on}");
        assert!(lamps.iter().all(|light| light.sun == Light::default().sun));
        let suns = lit(LightKind::Sun);
        for light in &suns {
            assert!((light.sun.length() - 1.0).abs() < 1e-6 && light.sun.y > 0.5);
            assert_eq!(light.lamp, 0.0);
        }
        assert!(suns.windows(2).all(|two| two[0] != two[1]));
        // `Both` gives the lamps of `Lamp` and the suns of `Sun`.
        for ((both, lamp), sun) in lit(LightKind::Both).iter().zip(&lamps).zip(&suns) {
            assert_eq!((both.lamp, both.sun), (lamp.lamp, sun.sun));
        }
    }

    #[test]
    fn names_are_understood() {
        for kind in LightKind::ALL {
            assert_eq!(kind.name().parse::<LightKind>().unwrap(), kind);
        }
        let error = "dark".parse::<LightKind>().unwrap_err().to_string();
        assert!(error.contains("still, lamp, sun, both"), "{error}");
    }
}
