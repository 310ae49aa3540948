//! Amount of detail in a photo: the number of large Haar coefficients of its luma.

use dapple_engine::constants::LUMINANCE;
use dapple_scene::Photo;

/// Smallest amplitude of a coefficient that counts, of 0 to 255: JPEG preserves this amplitude in dark photos too.
const CONTRAST: f32 = 4.0;

/// Levels of the transform that count, without the finest: structures of 2 to 32 pixels.
const LEVELS: usize = 4;

/// Counts the large coefficients of a photo.
pub(super) fn details(photo: &Photo) -> u64 {
    let mut level = Level::from_photo(photo).halved();
    let mut found = 0;
    for _ in 0..LEVELS {
        found += level.stand_out();
        level = level.halved();
    }
    found
}

/// An image of a photo's pyramid.
struct Level {
    width: usize,
    height: usize,
    /// 0 to 255; NaN where a mask hides the pixel or it is not opaque. No comparison counts NaN as detail.
    luma: Vec<f32>,
}

impl Level {
    fn from_photo(photo: &Photo) -> Self {
        let shown = |i: usize| {
            let counts = |plane: &Option<Vec<u8>>| plane.as_ref().is_none_or(|p| p[i] >= 128);
            counts(&photo.mask) && counts(&photo.alpha)
        };
        let [of_red, of_green, of_blue] = LUMINANCE;
        let luma = |(i, &[r, g, b]): (usize, &[u8; 3])| match shown(i) {
            true => of_red * f32::from(r) + of_green * f32::from(g) + of_blue * f32::from(b),
            false => f32::NAN,
        };
        let pixels = photo.rgb.as_chunks::<3>().0.iter().enumerate();
        Self {
            width: photo.width as usize,
            height: photo.height as usize,
            luma: pixels.map(luma).collect(),
        }
    }

    /// Returns the four pixels of each block of two by two.
    fn blocks(&self) -> impl Iterator<Item = [f32; 4]> + '_ {
        (0..self.height / 2).flat_map(move |y| {
            let top = &self.luma[2 * y * self.width..][..self.width];
            let bottom = &self.luma[(2 * y + 1) * self.width..][..self.width];
            let (top, bottom) = (top.as_chunks::<2>().0, bottom.as_chunks::<2>().0);
            top.iter()
                .zip(bottom)
                .map(|(&[a, b], &[c, d])| [a, b, c, d])
        })
    }

    fn halved(&self) -> Self {
        Self {
            width: self.width / 2,
            height: self.height / 2,
            luma: self
                .blocks()
                .map(|[a, b, c, d]| 0.25 * (a + b + c + d))
                .collect(),
        }
    }

    fn stand_out(&self) -> u64 {
        let counts = |[a, b, c, d]: [f32; 4]| {
            [a - b + c - d, a + b - c - d, a - b - c + d]
                .into_iter()
                .filter(|sum| 0.25 * sum.abs() > CONTRAST)
                .count() as u64
        };
        self.blocks().map(counts).sum()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns squares of `size` pixels, alternately 100 - contrast and 100 + contrast.
    pub(crate) fn board(width: u32, size: u32, contrast: u8) -> Photo {
        let value = |i: u32| match (i % width / size + i / width / size) % 2 {
            0 => 100 - contrast,
            _ => 100 + contrast,
        };
        let rgb = (0..width * width).flat_map(|i| [value(i); 3]).collect();
        Photo::from_rgb(width, width, rgb)
    }

    #[test]
    fn details_are_what_stands_out_at_two_pixels_and_more() {
        assert_eq!(details(&board(64, 64, 50)), 0);
        // A board of single pixels is noise: the finest level does not count.
        assert_eq!(details(&board(64, 1, 50)), 0);
        // One diagonal coefficient for each four squares.
        assert_eq!(details(&board(64, 2, 50)), 16 * 16);
        assert_eq!(details(&board(64, 4, 50)), 8 * 8);
        assert_eq!(details(&board(64, 2, 4)), 0);
        assert_eq!(details(&board(64, 2, 5)), 16 * 16);
        // Smaller than a block, and odd sizes.
        assert_eq!(details(&board(1, 1, 50)), 0);
        assert_eq!(details(&board(9, 2, 50)), 4);
    }

    #[test]
    fn what_a_mask_hides_or_alpha_leaves_out_is_no_detail() {
        let mut photo = board(64, 2, 50);
        photo.mask = Some(
            (0..64 * 64)
                .map(|i| if i % 64 < 32 { 255 } else { 0 })
                .collect(),
        );
        assert_eq!(details(&photo), 16 * 8);
        photo.alpha = Some(
            (0..64 * 64)
                .map(|i| if i / 64 < 32 { 255 } else { 0 })
                .collect(),
        );
        assert_eq!(details(&photo), 8 * 8);
    }
}
