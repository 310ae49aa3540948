//! Region of interest of density control.
//!
//! Gaussians with centres outside the region are copied and grown less:
//!
//! 1. In relocation, the weight of the draw is multiplied by [`DensityFocus::outside`] / 256 and is at least 1.
//! 2. In adaptive density control, the mean gradient is multiplied by [`DensityFocus::outside`] / 256 before it is
//!    compared with the threshold and with other gradients.
//!
//! Reference: `dapple_reference::relocate` and `dapple_reference::conformance::focus`.

use serde::{Deserialize, Serialize};

/// [`DensityFocus::outside`] of Gaussians that count as much as those inside.
pub const WHOLE: u32 = 256;

/// Region of interest of density control: a ball or an oriented box, as a map to the unit ball or cube.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DensityFocus {
    /// Rows of the affine map from world coordinates to those of the region: factors of x, y and z, and an offset.
    pub rows: [[f32; 4]; 3],
    /// True for the cube of the coordinates -1 to 1; false for the ball of radius 1.
    pub is_box: bool,
    /// Share of Gaussians outside, 0 to [`WHOLE`].
    pub outside: u32,
}

impl DensityFocus {
    /// Returns true if a centre is in the region.
    pub fn contains(&self, mean: [f32; 3]) -> bool {
        let place = self
            .rows
            .map(|[a, b, c, d]| a * mean[0] + b * mean[1] + c * mean[2] + d);
        match self.is_box {
            true => place.iter().all(|v| v.abs() <= 1.0),
            false => place.iter().map(|v| v * v).sum::<f32>() <= 1.0,
        }
    }

    /// Returns the weight of a live Gaussian in the draw of a relocation, from its weight without a region.
    pub fn weight(&self, weight: u32, mean: [f32; 3]) -> u32 {
        match self.contains(mean) {
            true => weight,
            false => ((weight * self.outside) >> 8).max(1),
        }
    }

    /// Returns the factor of a Gaussian's mean gradient.
    pub fn gradient_factor(&self, mean: [f32; 3]) -> f32 {
        match self.contains(mean) {
            true => 1.0,
            false => self.outside as f32 * (1.0 / WHOLE as f32),
        }
    }
}
