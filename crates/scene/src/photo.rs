//! Photos in the form that the engines use: 8 bits per channel, row by row.

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

    /// Returns the bytes of all pixels.
    pub fn bytes(&self) -> u64 {
        let planes = [Some(&self.rgb), self.alpha.as_ref(), self.mask.as_ref()];
        planes
            .into_iter()
            .flatten()
            .map(|plane| plane.len() as u64)
            .sum()
    }

    /// Returns the photo at a smaller size, by area averaging. Each new pixel is the mean of the pixels that it covers,
    /// colours weighted with alpha. A masked pixel counts if at least half of the covered pixels do. Edges longer than
    /// the photo's own are limited to it.
    #[must_use]
    pub fn reduced(&self, width: u32, height: u32) -> Self {
        let (width, height) = (width.min(self.width), height.min(self.height));
        crate::resize::reduce(self, width, height)
    }

    /// Returns the number of pixels.
    pub fn pixel_count(&self) -> usize {
        self.width as usize * self.height as usize
    }
}
