//! The textbook renderer in `f64`: slow, readable, right.

/// A rendered view in `f64`, shaped like [`crate::Rendered`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Image {
    /// Width, pixels.
    pub width: u32,
    /// Height, pixels.
    pub height: u32,
    /// Colours over the background, not clamped, `[height, width, 3]`.
    pub rgb: Vec<f64>,
    /// One minus the remaining transmittance, `[height, width]`.
    pub alpha: Vec<f64>,
}
