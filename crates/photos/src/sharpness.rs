//! Sharpness of a photo, and the difference between two frames.
//!
//! Sharpness compares the gradients of a reduced photo with those of the same photo reduced by two again. A blurred
//! photo has smooth gradients, which halve at the finer scale; sharp edges keep more. The ratio depends little on what
//! the photo shows.

use dapple_scene::Photo;

/// Longest edge of the photo that sharpness is measured in, pixels.
const EDGE: usize = 1000;

/// Grey image with values from 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Grey {
    /// Width, pixels.
    pub width: usize,
    /// Height, pixels.
    pub height: usize,
    /// Rows from the top.
    pub values: Vec<f32>,
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
        }
    }

    /// Returns the root mean square of second differences, which noise and slopes change little.
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
        (sum / f64::max(count, 1.0)).sqrt()
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

/// Returns the sharpness: ratio of detail at the fine and at the coarse scale. Photos of ten
/// captures have 0.55 to 1.16; blurred by a thousandth of their edge, they have 0.34 to 0.56.
pub fn sharpness(photo: &Photo) -> f64 {
    let fine = Grey::from_photo(photo, EDGE);
    if fine.width < 8 || fine.height < 8 {
        return 0.0;
    }
    let coarse = fine.halved();
    fine.detail() / coarse.detail().max(1e-6)
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
