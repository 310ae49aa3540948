//! Colours of surfaces that no photo shows: those of the nearest splats.

use dapple_scene::{SH_C0, Splats};
use glam::Vec3;
use kiddo::{ImmutableKdTree, SquaredEuclidean};

/// Least opacity of a splat whose colour is used.
const LEAST_OPACITY: f32 = 0.3;

/// Grey of a mesh without splats.
const GREY: [u8; 3] = [128; 3];

/// Nearest splats.
pub struct Unseen {
    tree: Option<ImmutableKdTree<f32, 3>>,
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
                points.push(splats.means[i]);
                let byte = |v: f32| ((0.5 + SH_C0 * v).clamp(0.0, 1.0) * 255.0).round() as u8;
                colours.push(splats.sh0[i].map(byte));
            }
        }
        let tree = (!points.is_empty()).then(|| ImmutableKdTree::new_from_slice(&points));
        Self { tree, colours }
    }

    /// Returns the colour at a place.
    pub fn at(&self, place: Vec3) -> [u8; 3] {
        let Some(tree) = &self.tree else {
            return GREY;
        };
        let nearest = tree.nearest_one::<SquaredEuclidean>(&place.to_array());
        self.colours.get(nearest.item as usize).copied().unwrap_or(GREY)
    }
}
