//! Renders for display: colours as bytes, and the Gaussians that a pixel blends: their number, and those of most weight.
//!
//! A byte is [`to_byte`] of a colour, on every device. An engine that rounds on its device returns the bytes
//! that the host computes from [`Rendered`], and copies 4 bytes per pixel instead of 16.
//!
//! A pixel blends a Gaussian if its alpha there is at least [`ALPHA_MIN`] and it comes before the pixel is
//! finished. These Gaussians are the terms of the pixel's colour, in the engine's own arithmetic. The work of a
//! render is proportional to their sum.
//!
//! [`ALPHA_MIN`]: crate::constants::ALPHA_MIN

use crate::colour_bytes::to_byte;
use crate::{Rendered, StepCounts};
use dapple_scene::{Error, Result};
use rayon::prelude::*;

/// Rendered view as bytes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RenderedBytes {
    /// Width, pixels.
    pub width: u32,
    /// Height, pixels.
    pub height: u32,
    /// Red, green and blue over the background, and alpha (one minus the remaining transmittance), each by
    /// [`to_byte`], `[height, width, 4]`. The colours are not multiplied by alpha, because they are already
    /// over the background.
    pub rgba: Vec<u8>,
    /// Counts of the render.
    pub counts: StepCounts,
}

/// Number of Gaussians that each pixel of a view blends.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BlendCounts {
    /// Width, pixels.
    pub width: u32,
    /// Height, pixels.
    pub height: u32,
    /// Gaussians that the pixel blends, `[height, width]`.
    pub blended: Vec<u32>,
    /// Counts of the render.
    pub counts: StepCounts,
}

impl BlendCounts {
    /// Returns the largest count; 0 for an empty image.
    pub fn most(&self) -> u32 {
        self.blended.iter().copied().max().unwrap_or(0)
    }
}

/// Largest number of contributors of a pixel: a render with more would not fit into memory.
pub const MOST_CONTRIBUTORS: usize = 64;

/// Index of a contributor that a pixel lacks.
pub const NO_CONTRIBUTOR: u32 = u32::MAX;

/// The Gaussians that each pixel of a view shows most, by weight: alpha times the transmittance in front.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Contributors {
    /// Width, pixels.
    pub width: u32,
    /// Height, pixels.
    pub height: u32,
    /// Contributors of a pixel.
    pub most: usize,
    /// Indices of the Gaussians as in a download, largest weight first, of equal ones the nearest, then
    /// [`NO_CONTRIBUTOR`] if the pixel blends fewer, `[height, width, most]`.
    pub gaussians: Vec<u32>,
    /// Weights, 0 to 1, 0 where the pixel blends fewer, `[height, width, most]`.
    pub weights: Vec<f32>,
    /// Counts of the render.
    pub counts: StepCounts,
}

impl Contributors {
    /// Checks the number of contributors that a caller requests.
    ///
    /// # Errors
    /// Zero, and more than [`MOST_CONTRIBUTORS`].
    pub fn check(most: usize) -> Result<()> {
        if (1..=MOST_CONTRIBUTORS).contains(&most) {
            return Ok(());
        }
        Err(Error::input(format!("{most} contributors of a pixel"))
            .at("Showing::contributors")
            .hint(format!("ask for 1 to {MOST_CONTRIBUTORS}")))
    }
}

impl From<&Rendered> for RenderedBytes {
    /// Converts the colours on all cores.
    fn from(rendered: &Rendered) -> Self {
        let mut rgba = vec![0; 4 * rendered.alpha.len()];
        let colours = rendered.rgb.par_chunks_exact(3);
        let pixels = rgba.par_chunks_exact_mut(4).zip(colours);
        pixels
            .zip(&rendered.alpha)
            .with_min_len(1 << 12)
            .for_each(|((pixel, colour), &alpha)| {
                for (byte, &value) in pixel.iter_mut().zip(colour.iter().chain([&alpha])) {
                    *byte = to_byte(value);
                }
            });
        Self {
            width: rendered.width,
            height: rendered.height,
            rgba,
            counts: rendered.counts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_rounded_colours() {
        let rendered = Rendered {
            width: 2,
            height: 1,
            rgb: vec![0.5, -1.0, 2.0, f32::NAN, 0.25, 1.0],
            alpha: vec![0.0, 1.0],
            ..Rendered::default()
        };
        let bytes = RenderedBytes::from(&rendered);
        assert_eq!(bytes.rgba, [128, 0, 255, 0, 0, 64, 255, 255]);
        assert_eq!((bytes.width, bytes.height), (2, 1));
    }
}
