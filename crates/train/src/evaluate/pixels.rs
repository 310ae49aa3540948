//! Pixels of a photo and its render: the expected output, the pixels that count, and their differences.

use dapple_engine::score::{mask_counts, over};
use dapple_scene::Photo;
use rayon::prelude::*;

/// Returns the photo as the expected output of a renderer: values in 0..1, `[height, width, 3]`, composited over
/// `background` where it has alpha.
pub fn target(photo: &Photo, background: [f32; 3]) -> Vec<f32> {
    let mut target = vec![0.0; photo.rgb.len()];
    let rows = target.par_chunks_mut(row_floats(photo)).enumerate();
    rows.for_each(|(y, row)| target_row(photo, background, y, row));
    target
}

/// Values of a row.
fn row_floats(photo: &Photo) -> usize {
    photo.width.max(1) as usize * 3
}

/// Row `y` of [`target`], into `row`.
pub(crate) fn target_row(photo: &Photo, background: [f32; 3], y: usize, row: &mut [f32]) {
    let bytes = &photo.rgb[y * row_floats(photo)..];
    for (value, &byte) in row.iter_mut().zip(bytes) {
        *value = f32::from(byte) / 255.0;
    }
    let Some(alpha) = &photo.alpha else {
        return;
    };
    let alpha = &alpha[y * photo.width as usize..];
    for (pixel, &alpha) in row.as_chunks_mut::<3>().0.iter_mut().zip(alpha) {
        let a = f32::from(alpha) / 255.0;
        for (value, behind) in pixel.iter_mut().zip(background) {
            *value = over(*value, a, behind);
        }
    }
}

/// Returns the sum of squared differences of one row over the pixels that `mask` shows, and the number of values.
pub(super) fn squared_errors(image: &[f32], target: &[f32], mask: Option<&[u8]>) -> (f64, u64) {
    let square = |(a, b): (&f32, &f32)| {
        let difference = f64::from(a - b);
        difference * difference
    };
    match mask {
        None => {
            let sum = image.iter().zip(target).map(square).sum();
            (sum, image.len() as u64)
        }
        Some(mask) => {
            let pairs = image.iter().zip(target).enumerate();
            let shown = pairs.filter(|(i, _)| counts(mask[i / 3]));
            shown.fold((0.0, 0), |(sum, count), (_, pair)| {
                (sum + square(pair), count + 1)
            })
        }
    }
}

/// Returns the mean absolute difference over the pixels that a mask shows. The render is not clamped.
pub(crate) fn mean_difference(rgb: &[f32], photo: &Photo, background: [f32; 3]) -> f64 {
    let (width, floats) = (photo.width as usize, row_floats(photo));
    let rows: Vec<(f64, f64)> = rgb
        .par_chunks(floats)
        .enumerate()
        .map_init(
            || vec![0.0; floats],
            |target, (y, rgb)| {
                target_row(photo, background, y, target);
                let mask = photo.mask.as_ref().map(|mask| &mask[y * width..]);
                let shown = |i: usize| mask.is_none_or(|mask| counts(mask[i / 3]));
                let pairs = rgb.iter().zip(target.iter()).enumerate();
                pairs
                    .filter(|(i, _)| shown(*i))
                    .fold((0.0, 0.0), |(sum, count), (_, (a, b))| {
                        (sum + f64::from((a - b).abs()), count + 1.0)
                    })
            },
        )
        .collect();
    let (sum, count) = rows
        .iter()
        .fold((0.0, 0.0), |(s, n), (row, count)| (s + row, n + count));
    if count > 0.0 { sum / count } else { 0.0 }
}

/// Returns true if a mask's value shows its pixel. Masks are 0 or 255; scaled masks have values between.
pub(crate) fn counts(mask: u8) -> bool {
    mask_counts(mask)
}

/// Clamps a value to 0..1. NaN becomes 0, so that a broken pixel costs PSNR and does not make the mean NaN.
pub(super) fn clamped(value: f32) -> f32 {
    if value > 0.0 { value.min(1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_difference_counts_what_masks_show() {
        let photo = Photo {
            mask: Some(vec![255, 0]),
            ..Photo::from_rgb(2, 1, vec![255, 0, 0, 9, 9, 9])
        };
        let rgb = [0.7, 0.0, 0.3, 50.0, 50.0, 50.0];
        let found = mean_difference(&rgb, &photo, [0.0; 3]);
        assert!((found - 0.2).abs() < 1e-6, "{found}");
    }
}
