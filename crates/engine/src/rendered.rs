//! [`Rendered`]: a render of a view.

use crate::colour_bytes::to_byte;
use crate::depth::DepthImage;
use crate::{StepCounts, SurfaceImage};
use dapple_scene::Photo;

/// Render of a view.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rendered {
    /// Width, pixels.
    pub width: u32,
    /// Height, pixels.
    pub height: u32,
    /// Colours over the background, not clamped, `[height, width, 3]`.
    pub rgb: Vec<f32>,
    /// Alpha: one minus the remaining transmittance, `[height, width]`.
    pub alpha: Vec<f32>,
    /// Depths, if [`crate::RenderSettings::depth`] is true.
    pub depth: Option<DepthImage>,
    /// Surface, if [`crate::RenderSettings::surface`] is true.
    pub surface: Option<SurfaceImage>,
    /// Counts of the render.
    pub counts: StepCounts,
}

impl Rendered {
    /// Returns the colours as bytes, clamped and rounded.
    pub fn photo(&self) -> Photo {
        let bytes = self.rgb.iter().map(|&value| to_byte(value)).collect();
        Photo::from_rgb(self.width, self.height, bytes)
    }
}
