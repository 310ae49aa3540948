//! Photos in shades of grey, as comparisons of patches need them.

use crate::Photo;

/// A photo in shades of grey.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GreyPhoto {
    /// Width and height, pixels: those of the view, or a fraction.
    pub size: [u32; 2],
    /// Shades 1 to 255, `[height, width]`; 0 = the pixel does not count.
    pub shades: Vec<u8>,
}

impl GreyPhoto {
    /// Returns the shades of a photo. Pixels that are masked or transparent do not count.
    pub fn of(photo: &Photo) -> Self {
        let is_whole =
            |plane: &Option<Vec<u8>>, i: usize| plane.as_ref().is_none_or(|p| p[i] == 255);
        let shade = |(i, rgb): (usize, &[u8])| {
            let [r, g, b] = [0, 1, 2].map(|k| u32::from(rgb[k]));
            match is_whole(&photo.alpha, i) && is_whole(&photo.mask, i) {
                true => ((77 * r + 150 * g + 29 * b + 128) >> 8).max(1) as u8,
                false => 0,
            }
        };
        let pixels = photo.rgb.chunks_exact(3).enumerate();
        Self {
            size: [photo.width, photo.height],
            shades: pixels.map(shade).collect(),
        }
    }

    /// Returns the photo at half the size. A pixel counts if the four that it is the mean of do.
    #[must_use]
    pub fn halved(&self) -> Self {
        let [width, _] = self.size.map(|n| n as usize);
        let size = self.size.map(|n| n / 2);
        let shade = |(x, y): (usize, usize)| {
            let at = 2 * y * width + 2 * x;
            let all = [at, at + 1, at + width, at + width + 1].map(|i| u32::from(self.shades[i]));
            match all.contains(&0) {
                true => 0,
                false => ((all.iter().sum::<u32>() + 2) / 4) as u8,
            }
        };
        let [columns, rows] = size.map(|n| n as usize);
        let places = (0..rows).flat_map(|y| (0..columns).map(move |x| (x, y)));
        Self {
            size,
            shades: places.map(shade).collect(),
        }
    }
}

/// Returns how often photos of these sizes are halved until their shades have at most `most` bytes.
pub fn halvings(sizes: impl Iterator<Item = [u32; 2]> + Clone, most: u64) -> u32 {
    let bytes = |times: u32| -> u64 {
        let pixels = |size: [u32; 2]| size.map(|n| u64::from(n >> times));
        sizes
            .clone()
            .map(|size| pixels(size)[0] * pixels(size)[1])
            .sum()
    };
    (0..u32::BITS).find(|&n| bytes(n) <= most).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_pixel_counts_if_all_of_its_pixels_do() {
        let mut photo = Photo::from_rgb(5, 4, (0..60).collect());
        let whole = GreyPhoto::of(&photo);
        assert_eq!(whole.size, [5, 4]);
        // Nearly the green of pixels 0, 1, 5 and 6, and the mean of the four.
        assert_eq!([0, 1, 5, 6].map(|i| whole.shades[i]), [1, 4, 16, 19]);
        let half = whole.halved();
        assert_eq!((half.size, half.shades[0]), ([2, 2], 10));
        let mut mask = vec![255; 20];
        mask[6] = 0;
        photo.mask = Some(mask);
        let masked = GreyPhoto::of(&photo).halved();
        assert_eq!(masked.shades[0], 0);
        assert_eq!(masked.shades[1..], half.shades[1..]);
        let black = GreyPhoto::of(&Photo::from_rgb(1, 1, vec![0; 3]));
        assert_eq!(black.shades, [1], "black counts");
    }

    #[test]
    fn photos_are_halved_until_they_fit() {
        let sizes = [[8, 8], [5, 4]];
        for (most, times) in [(84, 0), (83, 1), (20, 1), (19, 2), (1, 3), (0, 4)] {
            assert_eq!(halvings(sizes.into_iter(), most), times, "{most} bytes");
        }
    }
}
