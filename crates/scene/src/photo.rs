//! Photos in the form that the engines use: 8 bits per channel, row by row.

use crate::Result;
use crate::atomic::write_atomically;
use crate::provenance::{PngPixels, png_bytes};
use std::path::Path;

/// A decoded photo. Stored as `u8` so that a thousand photos fit in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Photo {
    /// Width, pixels.
    pub width: u32,
    /// Height, pixels.
    pub height: u32,
    /// sRGB values as stored in the file, `[height, width, 3]`.
    pub rgb: Vec<u8>,
    /// Opacity of each pixel, `[height, width]`; `None` if the photo is opaque.
    pub alpha: Option<Vec<u8>>,
    /// Mask, `[height, width]`, 0 = ignore, 255 = use; `None` if all pixels count.
    pub mask: Option<Vec<u8>>,
}

impl Photo {
    /// Builds an opaque photo without mask. `rgb` is `[height, width, 3]`.
    ///
    /// # Panics
    /// If `rgb` has not `width * height * 3` values: a defect of the caller, not of its input.
    pub fn from_rgb(width: u32, height: u32, rgb: Vec<u8>) -> Self {
        assert_eq!(rgb.len(), width as usize * height as usize * 3);
        Self {
            width,
            height,
            rgb,
            alpha: None,
            mask: None,
        }
    }

    /// Writes the photo as a PNG file, with its alpha if it has one. Masks are not written.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write_png(&self, path: &Path) -> Result<()> {
        let (width, height) = (self.width, self.height);
        let bytes = match &self.alpha {
            None => png_bytes(width, height, PngPixels::Rgb8(&self.rgb)),
            Some(alpha) => {
                let pixels = self.rgb.chunks_exact(3).zip(alpha);
                let rgba = pixels.flat_map(|(rgb, &alpha)| [rgb[0], rgb[1], rgb[2], alpha]);
                png_bytes(width, height, PngPixels::Rgba8(&rgba.collect::<Vec<u8>>()))
            }
        };
        let bytes = bytes.map_err(|e| e.at_path(path))?;
        write_atomically(path, |file| file.write_all(&bytes))
    }

    /// Returns the bytes of all pixels.
    pub fn bytes(&self) -> u64 {
        let planes = [Some(&self.rgb), self.alpha.as_ref(), self.mask.as_ref()];
        planes
            .into_iter()
            .flatten()
            .map(|plane| plane.len() as u64)
            .sum()
    }

    /// Returns the number of pixels.
    pub fn pixel_count(&self) -> usize {
        self.width as usize * self.height as usize
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_photo_is_written_with_its_opacity() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.png");
        let mut photo = Photo::from_rgb(2, 1, vec![1, 2, 3, 4, 5, 6]);
        photo.write_png(&path).unwrap();
        let read = image::open(&path).unwrap();
        assert_eq!(read.as_rgb8().unwrap().as_raw(), &photo.rgb);
        photo.alpha = Some(vec![9, 8]);
        photo.write_png(&path).unwrap();
        let read = image::open(&path).unwrap();
        assert_eq!(read.as_rgba8().unwrap().as_raw(), &[1, 2, 3, 9, 4, 5, 6, 8]);
        assert!(photo.write_png(&folder.path().join("no/a.png")).is_err());
    }
}
