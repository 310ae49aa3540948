//! Sharpness of a photo, and the difference between two frames.
//!
//! Sharpness compares the gradients of a reduced photo with those of the same photo reduced by two again. A blurred
//! photo has smooth gradients, which halve at the finer scale; sharp edges keep more. The ratio depends little on what
//! the photo shows.

use dapple_scene::Photo;

/// Longest edge of the photo that sharpness is measured in, pixels.
const EDGE: usize = 1000;

/// Step of 8-bit values.
const LEVEL: f64 = 1.0 / 255.0;

/// Coarse detail below which a photo shows nothing, steps.
const NOTHING: f64 = 0.5;

/// Grey image with values from 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Grey {
    /// Width, pixels.
    pub width: usize,
    /// Height, pixels.
    pub height: usize,
    /// Rows from the top.
    pub values: Vec<f32>,
    /// Variance of a value that comes from rounding to 8 bits.
    pub rounding: f64,
}

impl Grey {
    /// Reduces a photo by whole numbers until its longest edge is at most `edge` pixels.
    pub fn from_photo(photo: &Photo, edge: usize) -> Self {
        let (width, height) = (photo.width as usize, photo.height as usize);
        let by = width.max(height).div_ceil(edge).max(1);
        let (to_width, to_height) = ((width / by).max(1), (height / by).max(1));
        let mut values = vec![0.0; to_width * to_height];
        for (y, row) in values.chunks_exact_mut(to_width).enumerate() {
            for (x, value) in row.iter_mut().enumerate() {
                let mut sum = 0u32;
                for dy in 0..by.min(height) {
                    let start = ((y * by + dy) * width + x * by) * 3;
                    let end = start + by.min(width) * 3;
                    let line = photo.rgb.get(start..end).unwrap_or(&[]);
                    // Weights of Rec. 601, as parts of 256.
                    let grey = |p: &[u8]| {
                        77 * u32::from(p[0]) + 150 * u32::from(p[1]) + 29 * u32::from(p[2])
                    };
                    sum += line.chunks_exact(3).map(grey).sum::<u32>() / 256;
                }
                *value = sum as f32 / (by * by * 255) as f32;
            }
        }
        Self {
            width: to_width,
            height: to_height,
            values,
            // A rounded number is off by at most a half; a mean of n numbers has an n-th of the variance.
            rounding: LEVEL * LEVEL / 12.0 / (by * by) as f64,
        }
    }

    /// Returns the mean.
    pub fn mean(&self) -> f32 {
        self.values.iter().sum::<f32>() / self.values.len().max(1) as f32
    }

    /// Averages squares of two by two pixels.
    fn halved(&self) -> Self {
        let (width, height) = (self.width / 2, self.height / 2);
        let at = |x: usize, y: usize| self.values[y * self.width + x];
        let square = |index: usize| {
            let (x, y) = (2 * (index % width), 2 * (index / width));
            (at(x, y) + at(x + 1, y) + at(x, y + 1) + at(x + 1, y + 1)) / 4.0
        };
        Self {
            width,
            height,
            values: (0..width * height).map(square).collect(),
            rounding: self.rounding / 4.0,
        }
    }

    /// Returns the root mean square of second differences, which slopes change little, without the part that comes from
    /// rounding. That part is most of the detail of a very blurred photo.
    fn detail(&self) -> f64 {
        let (mut sum, mut count) = (0.0, 0.0);
        for row in self.values.chunks_exact(self.width.max(1)) {
            for w in row.windows(3) {
                sum += f64::from(w[0] - 2.0 * w[1] + w[2]).powi(2);
                count += 1.0;
            }
        }
        for (index, &value) in self.values.iter().enumerate().skip(self.width) {
            if let Some(&below) = self.values.get(index + self.width) {
                sum += f64::from(self.values[index - self.width] - 2.0 * value + below).powi(2);
                count += 1.0;
            }
        }
        // 1, -2 and 1 times independent values.
        let rounding = 6.0 * self.rounding;
        (sum / f64::max(count, 1.0) - rounding).max(0.0).sqrt()
    }

    /// Returns the mean absolute difference as a fraction of the contrast; 0 for equal images, about 1 for unrelated
    /// ones.
    pub fn difference(&self, other: &Self) -> f64 {
        if (self.width, self.height) != (other.width, other.height) {
            return 1.0;
        }
        let mean = f64::from(self.mean());
        let pairs = self.values.iter().zip(&other.values);
        let (mut apart, mut contrast) = (0.0, 0.0);
        for (&a, &b) in pairs {
            apart += f64::from(a - b).abs();
            contrast += (f64::from(a) - mean).abs();
        }
        apart / contrast.max(1e-3 * self.values.len() as f64)
    }
}

/// Returns the sharpness: ratio of detail at the fine and at the coarse scale; 1 for a photo that shows nothing to
/// compare. Photos of ten captures have 0.55 to 1.16; blurred by a thousandth of their edge, they have 0.34 to 0.56.
pub fn sharpness(photo: &Photo) -> f64 {
    let fine = Grey::from_photo(photo, EDGE);
    if fine.width < 8 || fine.height < 8 {
        return 0.0;
    }
    let coarse = fine.halved().detail();
    if coarse < NOTHING * LEVEL {
        return 1.0;
    }
    fine.detail() / coarse
}

/// Returns true for a photo that is blurred, given the sharpness of the photos around it.
pub fn is_blurred(sharpness: f64, typical: f64) -> bool {
    // Second differences of a smooth image shrink by four at twice the scale.
    const SMOOTH: f64 = 0.25;
    sharpness - SMOOTH < 0.35 * (typical - SMOOTH).max(0.0)
}

/// Returns the upper quartile: the sharpness of a good photo, also if half of them are blurred.
pub fn typical(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() * 3 / 4).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(image: &image::RgbImage) -> f64 {
        sharpness(&Photo {
            width: image.width(),
            height: image.height(),
            rgb: image.as_raw().clone(),
            alpha: None,
            mask: None,
        })
    }

    #[test]
    fn rounding_is_no_detail_of_a_blurred_photo() {
        // Squares of 7 pixels in unrelated greys.
        let image = image::RgbImage::from_fn(300, 200, |x, y| {
            let mixed = (x / 7 * 131 + y / 7 * 71).wrapping_mul(2_654_435_761);
            image::Rgb([(mixed >> 24) as u8; 3])
        });
        let sharp = measured(&image);
        assert!(!is_blurred(sharp, sharp));
        for sigma in [2.0, 4.0, 7.0] {
            let blurred = measured(&image::imageops::blur(&image, sigma));
            assert!(is_blurred(blurred, sharp), "{sigma}: {blurred} of {sharp}");
        }
    }

    #[test]
    fn a_photo_that_shows_nothing_is_not_blurred() {
        let wall = measured(&image::RgbImage::from_pixel(300, 200, image::Rgb([200; 3])));
        assert!(!is_blurred(wall, 0.8), "{wall}");
    }
}
