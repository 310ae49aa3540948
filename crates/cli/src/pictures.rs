//! Rendered images as PNG files.

use dapple::scene::Result;
use dapple::scene::provenance::{PngPixels, png_bytes};

/// 8-bit image, rows from the top.
#[derive(Debug, Clone)]
pub struct Picture {
    width: u32,
    height: u32,
    rgb: Vec<u8>,
}

impl Picture {
    /// Converts colours from floats, `[height, width, 3]`, clamped and rounded.
    pub fn from_floats(width: u32, height: u32, rgb: &[f32]) -> Self {
        Self {
            width,
            height,
            // The cast saturates, and turns NaN into 0.
            rgb: rgb.iter().map(|v| (v * 255.0 + 0.5) as u8).collect(),
        }
    }

    /// Encodes the image as PNG.
    pub fn into_png(self) -> Result<Vec<u8>> {
        png_bytes(self.width, self.height, PngPixels::Rgb8(&self.rgb))
    }
}
