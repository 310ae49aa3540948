//! What a step costs: a fixed part, a part for each pixel, a part for each Gaussian.
//!
//! Pixels stand for everything that works on images (blending, loss), Gaussians for everything that works
//! on them (projection, update). How many Gaussians a pixel sees changes during a run; the pacer makes up
//! for it.

/// Seconds of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostModel {
    /// Whatever the scene.
    pub fixed: f64,
    /// A pixel of the photo.
    pub per_pixel: f64,
    /// A Gaussian.
    pub per_gaussian: f64,
}

/// A timed step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timed {
    /// Pixels of the photo.
    pub pixels: f64,
    /// Gaussians.
    pub gaussians: f64,
    /// What it took.
    pub seconds: f64,
}

impl CostModel {
    /// From steps at the full size, at fewer pixels, and with fewer Gaussians too: on small images a
    /// Gaussian costs little beyond itself, and it is there that haste puts them. Clocks are noisy: a part
    /// that comes out negative is none, and the whole step costs what it took.
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

    /// Of a machine that takes so many times as long.
    #[must_use]
    pub fn slowed(self, factor: f64) -> Self {
        Self {
            fixed: factor * self.fixed,
            per_pixel: factor * self.per_pixel,
            per_gaussian: factor * self.per_gaussian,
        }
    }

    /// A step with so many pixels and Gaussians. Never zero.
    pub fn seconds(&self, pixels: f64, gaussians: f64) -> f64 {
        (self.fixed + self.per_pixel * pixels + self.per_gaussian * gaussians).max(1e-6)
    }
}
