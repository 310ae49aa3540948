//! Cost model of a step: a fixed part, a part for each pixel, a part for each Gaussian.
//!
//! Pixels represent all work on images (blending, loss), Gaussians all work on Gaussians (projection, update). The
//! number of Gaussians that a pixel sees changes during a run; the step rate controller corrects for it.

/// Parts of the time of a step, s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostModel {
    /// Independent of the scene.
    pub fixed: f64,
    /// For each pixel of the photo.
    pub per_pixel: f64,
    /// For each Gaussian.
    pub per_gaussian: f64,
}

/// A timed step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timed {
    /// Pixels of the photo.
    pub pixels: f64,
    /// Gaussians.
    pub gaussians: f64,
    /// Measured time.
    pub seconds: f64,
}

impl CostModel {
    /// Fits the parts to steps at full size, with fewer pixels, and with fewer pixels and Gaussians. The third case is
    /// measured on small images, because a Gaussian costs little beyond its own part there, and a short time budget
    /// uses small images. Times are noisy: a negative part becomes zero, and the full step keeps its measured time.
    pub fn fit(whole: Timed, fewer_pixels: Timed, fewer_of_both: Timed) -> Self {
        let slope = |seconds: f64, difference: f64| {
            let slope = seconds / difference;
            if slope.is_finite() {
                slope.max(0.0)
            } else {
                0.0
            }
        };
        let per_pixel = slope(
            whole.seconds - fewer_pixels.seconds,
            whole.pixels - fewer_pixels.pixels,
        );
        let per_gaussian = slope(
            fewer_pixels.seconds - fewer_of_both.seconds,
            fewer_pixels.gaussians - fewer_of_both.gaussians,
        );
        let parts = per_pixel * whole.pixels + per_gaussian * whole.gaussians;
        let too_much = (parts / whole.seconds.max(f64::MIN_POSITIVE)).max(1.0);
        Self {
            fixed: (whole.seconds - parts).max(0.0),
            per_pixel: per_pixel / too_much,
            per_gaussian: per_gaussian / too_much,
        }
    }

    /// Returns the model of a machine that takes `factor` times as long.
    #[must_use]
    pub fn slowed(self, factor: f64) -> Self {
        Self {
            fixed: factor * self.fixed,
            per_pixel: factor * self.per_pixel,
            per_gaussian: factor * self.per_gaussian,
        }
    }

    /// Returns the time of a step with these pixels and Gaussians, s. Never zero.
    pub fn seconds(&self, pixels: f64, gaussians: f64) -> f64 {
        (self.fixed + self.per_pixel * pixels + self.per_gaussian * gaussians).max(1e-6)
    }
}
