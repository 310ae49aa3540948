//! Rendered images to PNG files.

use dapple::contract::Rendered;
use dapple::scene::atomic::write_atomically;
use dapple::scene::{Error, Photo, Result};
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
        Self::from_floats(rendered.width, rendered.height, &rendered.rgb)
    }

    /// A photo as a renderer should show it: over the background where it is transparent.
    pub fn from_photo(photo: &Photo, background: [f32; 3]) -> Self {
        let target = dapple::train::evaluate::target(photo, background);
        Self::from_floats(photo.width, photo.height, &target)
    }

    /// Colours as floats, `[height, width, 3]`, clamped and rounded.
    pub fn from_floats(width: u32, height: u32, rgb: &[f32]) -> Self {
        Self {
            width,
            height,
            // The cast saturates, and turns NaN into 0.
            rgb: rgb.iter().map(|v| (v * 255.0 + 0.5) as u8).collect(),
        }
    }

    /// This picture with another of the same height to its right.
    pub fn beside(self, right: &Self) -> Result<Self> {
        if self.height != right.height {
            return Err(Error::internal("two pictures of different heights"));
        }
        let (a, b) = (self.width as usize * 3, right.width as usize * 3);
        let rows = self
            .rgb
            .chunks_exact(a.max(1))
            .zip(right.rgb.chunks_exact(b.max(1)));
        Ok(Self {
            width: self.width + right.width,
            height: self.height,
            rgb: rows.flat_map(|(l, r)| l.iter().chain(r).copied()).collect(),
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_stand_beside_each_other() {
        let one = |value: f32, width: u32| {
            Picture::from_floats(width, 2, &vec![value; width as usize * 6])
        };
        let both = one(1.0, 1).beside(&one(f32::NAN, 2)).unwrap();
        let row = [255, 255, 255, 0, 0, 0, 0, 0, 0];
        assert_eq!((both.width, both.height), (3, 2));
        assert_eq!(both.rgb, [row, row].concat());
    }
}
