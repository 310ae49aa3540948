//! Colours of surfaces that no photo shows: those of the nearest splats.

use crate::nearest::Nearest;
use dapple_scene::{SH_C0, Splats};
use glam::Vec3;

/// Least opacity of a splat whose colour is used.
const LEAST_OPACITY: f32 = 0.3;

/// Grey of a mesh without splats.
const GREY: [u8; 3] = [128; 3];

/// Nearest splats.
pub struct Unseen {
    nearest: Nearest,
    colours: Vec<[u8; 3]>,
}

impl Unseen {
    /// Prepares the splats. Without splats, all colours are grey.
    pub fn new(splats: Option<&Splats>) -> Self {
        let least = (LEAST_OPACITY / (1.0 - LEAST_OPACITY)).ln();
        let (mut points, mut colours) = (Vec::new(), Vec::new());
        if let Some(splats) = splats {
            let opaque = (0..splats.len()).filter(|&i| splats.opacities[i] >= least);
            for i in opaque.filter(|&i| splats.means[i].iter().all(|v| v.is_finite())) {
                points.push(Vec3::from(splats.means[i]));
                let byte = |v: f32| ((0.5 + SH_C0 * v).clamp(0.0, 1.0) * 255.0).round() as u8;
                colours.push(splats.sh0[i].map(byte));
            }
        }
        Self {
            nearest: Nearest::new(&points),
            colours,
        }
    }

    /// Returns the colour at a place.
    pub fn at(&self, place: Vec3) -> [u8; 3] {
        let nearest = self.nearest.find(place);
        nearest.map_or(GREY, |(i, _)| self.colours.get(i).copied().unwrap_or(GREY))
    }
}
