//! Reduces photos by area averaging.
//!
//! Each new pixel is the mean of the rectangle it covers in the old photo, weighted by overlap:
//! exact for any ratio, free of aliasing and of ringing, and one pass over the memory.
//!
//! 1. A row of the photo is averaged along x into the new width.
//! 2. It is added to the one or two new rows it overlaps; a new row that is complete is written.

use crate::Photo;

/// Smallest mask value of a used pixel.
pub(crate) const HALF: u8 = 128;

/// Turns a mask into 0 and 255: a pixel with at least half coverage is used.
pub(crate) fn threshold(mask: &mut [u8]) {
    for m in mask {
        *m = if *m >= HALF { 255 } else { 0 };
    }
}

impl Photo {
    /// Returns the photo at a smaller size, by area averaging. Each new pixel is the mean of the pixels that it covers,
    /// colours weighted with alpha. A masked pixel counts if at least half of the covered pixels do. Edges longer than
    /// the photo's own are limited to it.
    #[must_use]
    pub fn reduced(&self, width: u32, height: u32) -> Self {
        let (width, height) = (width.min(self.width), height.min(self.height));
        reduce(self, width, height)
    }
}

/// Returns the photo at `width` x `height`, neither larger than before. Colours are weighted with alpha.
pub(crate) fn reduce(photo: &Photo, width: u32, height: u32) -> Photo {
    let from = (photo.width as usize, photo.height as usize);
    let to = (width as usize, height as usize);
    let (rgb, alpha) = match &photo.alpha {
        None => {
            let rgb = average(from, to, 3, |at, pixel| {
                for (p, &c) in pixel.iter_mut().zip(&photo.rgb[at * 3..at * 3 + 3]) {
                    *p = f32::from(c);
                }
            });
            (rgb.iter().map(|&c| c.round() as u8).collect(), None)
        }
        Some(alpha) => {
            // Premultiplied, so that the colour of transparent pixels does not count.
            let mean = average(from, to, 4, |at, pixel| {
                let a = f32::from(alpha[at]) / 255.0;
                for (p, &c) in pixel.iter_mut().zip(&photo.rgb[at * 3..at * 3 + 3]) {
                    *p = a * f32::from(c);
                }
                pixel[3] = a;
            });
            let colour = |p: &[f32], c: usize| if p[3] > 0.0 { p[c] / p[3] } else { 0.0 };
            (
                mean.chunks_exact(4)
                    .flat_map(|p| [0, 1, 2].map(|c| colour(p, c).round() as u8))
                    .collect(),
                Some(
                    mean.chunks_exact(4)
                        .map(|p| (p[3] * 255.0).round() as u8)
                        .collect(),
                ),
            )
        }
    };
    Photo {
        width,
        height,
        rgb,
        alpha,
        mask: photo.mask.as_ref().map(|mask| reduce_mask(mask, from, to)),
    }
}

/// Reduces a mask: a pixel counts if at least half of the covered pixels do.
fn reduce_mask(mask: &[u8], from: (usize, usize), to: (usize, usize)) -> Vec<u8> {
    let mut reduced = reduce_grey(mask, from, to);
    threshold(&mut reduced);
    reduced
}

/// Reduces one channel.
pub(crate) fn reduce_grey(grey: &[u8], from: (usize, usize), to: (usize, usize)) -> Vec<u8> {
    let mean = average(from, to, 1, |at, pixel| pixel[0] = f32::from(grey[at]));
    mean.iter().map(|&m| m.round() as u8).collect()
}

/// Computes means over rectangles. `pixel` writes the `channels` values of an old pixel.
fn average(
    (w, h): (usize, usize),
    (new_w, new_h): (usize, usize),
    channels: usize,
    pixel: impl Fn(usize, &mut [f32]),
) -> Vec<f32> {
    let columns = overlaps(w, new_w);
    let rows = overlaps(h, new_h);
    let mut out = vec![0.0f32; new_w * new_h * channels];
    let mut row = vec![0.0f32; new_w * channels];
    let mut value = [0.0f32; 4];
    let value = &mut value[..channels];
    for (y, &(new_y, first, second)) in rows.iter().enumerate() {
        row.fill(0.0);
        for (x, &(new_x, near, far)) in columns.iter().enumerate() {
            pixel(y * w + x, value);
            for (c, v) in value.iter().enumerate() {
                row[new_x * channels + c] += near * v;
                if far > 0.0 {
                    row[(new_x + 1) * channels + c] += far * v;
                }
            }
        }
        let stride = new_w * channels;
        for (new_y, share) in [(new_y, first), (new_y + 1, second)] {
            if share > 0.0 {
                for (o, r) in out[new_y * stride..].iter_mut().zip(&row) {
                    *o += share * r;
                }
            }
        }
    }
    out
}

/// For each old cell: the new cell that contains its start, its share of that new cell's mean, and its share of the
/// next one's. Requires `new <= old`, so that an old cell overlaps at most two.
fn overlaps(old: usize, new: usize) -> Vec<(usize, f32, f32)> {
    // In units of 1/(old*new) of the whole: an old cell is `new` long, a new cell `old`.
    (0..old)
        .map(|i| {
            let (start, end) = (i * new, (i + 1) * new);
            let cell = start / old;
            let border = (cell + 1) * old;
            let near = end.min(border) - start;
            let far = end.saturating_sub(border);
            (cell, near as f32 / old as f32, far as f32 / old as f32)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_ratio_is_the_plain_mean() {
        let photo = Photo::from_rgb(
            4,
            2,
            (0..8u8).flat_map(|i| [i * 10, 255 - i * 10, 40]).collect(),
        );
        let half = reduce(&photo, 2, 1);
        // (0 + 10 + 40 + 50) / 4, (20 + 30 + 60 + 70) / 4
        assert_eq!(half.rgb, [25, 230, 40, 45, 210, 40]);
    }

    #[test]
    fn an_odd_ratio_weights_by_overlap_and_keeps_the_mean() {
        let photo = Photo::from_rgb(3, 1, vec![0, 0, 0, 90, 90, 90, 240, 240, 240]);
        // New pixels cover 1.5 old ones: (0 + 45) / 1.5, (45 + 240) / 1.5
        assert_eq!(reduce(&photo, 2, 1).rgb, [30, 30, 30, 190, 190, 190]);
        // A constant is unchanged at any size: the weights add up to one.
        let flat = Photo::from_rgb(37, 23, vec![201; 37 * 23 * 3]);
        for (w, h) in [(36, 22), (19, 7), (5, 23), (1, 1)] {
            assert!(reduce(&flat, w, h).rgb.iter().all(|&c| c == 201));
        }
    }

    #[test]
    fn colour_is_weighted_with_alpha_and_masks_stay_binary() {
        let mut photo = Photo::from_rgb(2, 2, vec![255; 12]);
        photo.rgb[..3].copy_from_slice(&[100, 50, 0]);
        photo.alpha = Some(vec![200, 0, 0, 0]);
        photo.mask = Some(vec![255, 255, 0, 0]);
        let one = reduce(&photo, 1, 1);
        assert_eq!(one.rgb, [100, 50, 0]);
        assert_eq!(one.alpha, Some(vec![50]));
        assert_eq!(one.mask, Some(vec![255]));
    }
}
