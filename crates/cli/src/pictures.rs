//! Rendered images to PNG files.

use dapple::contract::Rendered;
use dapple::scene::atomic::write_atomically;
use dapple::scene::{Error, Result};
use image::{ImageFormat, RgbImage};
use std::io::Cursor;
use std::path::Path;

/// An 8-bit image, rows from the top.
#[derive(Debug, Clone)]
pub struct Picture {
    width: u32,
    height: u32,
    rgb: Vec<u8>,
}

impl Picture {
    /// A rendered view, clamped and rounded.
    pub fn from_rendered(rendered: &Rendered) -> Self {
        Self {
            width: rendered.width,
            height: rendered.height,
            // The cast saturates, and turns NaN into 0.
            rgb: rendered
                .rgb
                .iter()
                .map(|v| (v * 255.0 + 0.5) as u8)
                .collect(),
        }
    }

    /// Writes a PNG, whole or not at all.
    pub fn save(self, path: &Path) -> Result<()> {
        let png = self.into_png().map_err(|e| e.at_path(path))?;
        write_atomically(path, |file| file.write_all(&png))
    }

    /// The bytes of a PNG file.
    pub fn into_png(self) -> Result<Vec<u8>> {
        let failed = |e: &dyn std::fmt::Display| {
            Error::internal(format!("a picture cannot be encoded: {e}"))
        };
        let image = RgbImage::from_raw(self.width, self.height, self.rgb)
            .ok_or_else(|| failed(&"its size does not fit its pixels"))?;
        let mut png = Cursor::new(Vec::new());
        image
            .write_to(&mut png, ImageFormat::Png)
            .map_err(|e| failed(&e))?;
        Ok(png.into_inner())
    }
}
