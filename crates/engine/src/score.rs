//! Scores of a render against its photo, computed on the device that has both: the sums of PSNR and SSIM, and
//! images of the comparison. A few bytes per pixel are copied to the host instead of four floats.
//!
//! 1. Colours of the render are clamped to 0..1, NaN to 0, and compared with the photo over the render's
//!    background (`dapple_reference::photo_target`).
//! 2. A pixel that the photo's mask hides is excluded. In windows of SSIM, it has the photo's colour.
//! 3. SSIM's windows are those of the loss: whole windows, counted by their centre.
//! 4. An error map colours each pixel by the mean absolute difference of its three channels, from 0 to
//!    [`FULL_ERROR`]. All error maps have this scale, so that they are comparable. Hidden pixels are
//!    [`HIDDEN`].

pub use crate::colour_bytes::to_byte;
use crate::{Rendered, StepCounts};
use dapple_scene::Photo;
use rayon::prelude::*;

/// Error with the last colour of the map: a quarter of the range.
pub const FULL_ERROR: f32 = 0.25;

/// Colour of hidden pixels in error maps; the map has no such colour.
pub const HIDDEN: [u8; 3] = [96; 3];

/// Coefficients of the colour map Turbo (Mikhailov 2019, "Turbo, an improved rainbow colormap for
/// visualization"): the published polynomials of degree 5 for red, green and blue, from the constant up.
pub const TURBO: [[f32; 6]; 3] = [
    [0.13572, 4.61539, -42.66032, 132.13108, -152.94239, 59.28638],
    [0.09140, 2.19419, 4.84297, -14.18503, 4.27730, 2.82957],
    [0.10667, 12.64195, -60.58205, 110.36277, -89.90311, 27.34825],
];

/// Optional results of a score.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScoreAsks {
    /// True to return [`ScoredView::pictures`].
    pub pictures: bool,
}

/// Distance of a rendered view from its photo.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredView {
    /// Counts of the render.
    pub counts: StepCounts,
    /// Number of counted values, three per pixel. Not 0.
    pub values: u64,
    /// Sum over the counted values of the squared difference, the render clamped.
    pub squared_error: f64,
    /// Sum over the counted values of the absolute difference, the render not clamped.
    pub absolute_error: f64,
    /// Number of counted SSIM windows, three per pixel. Not 0.
    pub windows: u64,
    /// Sum over the counted windows of the structural similarity.
    pub similarity: f64,
    /// Images of the comparison, if requested.
    pub pictures: Option<Pictures>,
}

/// Images of the comparison of a view, `[height, width, 3]` each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pictures {
    /// Width, pixels.
    pub width: u32,
    /// Height, pixels.
    pub height: u32,
    /// Render, clamped and rounded.
    pub rendered: Vec<u8>,
    /// Error map: see [`error_colour`].
    pub errors: Vec<u8>,
}

/// Returns true if a mask's value shows its pixel. Masks are 0 or 255; scaled masks have values between.
pub fn mask_counts(mask: u8) -> bool {
    mask >= 128
}

/// Blends a value of a photo, 0..1, with this opacity over `behind`.
pub fn over(value: f32, alpha: f32, behind: f32) -> f32 {
    value * alpha + behind * (1.0 - alpha)
}

/// Returns the colour of a photo's pixel over a background.
pub fn target_colour(photo: &Photo, pixel: usize, background: [f32; 3]) -> [f32; 3] {
    let value = |c: usize| f32::from(photo.rgb[3 * pixel + c]) / 255.0;
    let colour = [0, 1, 2].map(value);
    match photo.alpha.as_ref().map(|alpha| alpha[pixel]) {
        None => colour,
        Some(alpha) => {
            let alpha = f32::from(alpha) / 255.0;
            [0, 1, 2].map(|c| over(colour[c], alpha, background[c]))
        }
    }
}

/// Computes the error map of a render of any size against a photo of its view, `[height, width, 3]` of the
/// render. Each pixel is compared with the photo's pixel at the same place. Runs on all cores.
pub fn error_map(rendered: &Rendered, photo: &Photo, background: [f32; 3]) -> Vec<u8> {
    let [width, height] = [rendered.width, rendered.height].map(|v| v as usize);
    let [across, down] = [photo.width, photo.height].map(|v| v as usize);
    let mut map = vec![0; 3 * width * height];
    if photo.pixel_count() == 0 {
        return map;
    }
    let rows = map.par_chunks_mut(3 * width.max(1));
    let rows = rows.zip(rendered.rgb.par_chunks(3 * width.max(1)));
    rows.enumerate().for_each(|(y, (row, rgb))| {
        let first = y * down / height * across;
        let places = row.as_chunks_mut::<3>().0.iter_mut();
        for (x, (place, &colour)) in places.zip(rgb.as_chunks::<3>().0).enumerate() {
            let pixel = first + x * across / width;
            let mask = photo.mask.as_ref();
            *place = match mask.is_none_or(|mask| mask_counts(mask[pixel])) {
                true => error_colour(target_colour(photo, pixel, background), colour),
                false => HIDDEN,
            };
        }
    });
    map
}

/// Returns the colour of an error map for the photo's `target`, 0..1, and the render's `rendered`, of any
/// range.
pub fn error_colour(target: [f32; 3], rendered: [f32; 3]) -> [u8; 3] {
    let error = |c: usize| (target[c] - rendered[c].clamp(0.0, 1.0)).abs();
    turbo((error(0) + error(1) + error(2)) / (3.0 * FULL_ERROR))
}

/// Returns Turbo's colour at `x`, clamped to 0..1; NaN is the last colour.
pub fn turbo(x: f32) -> [u8; 3] {
    let x = if x.is_nan() { 1.0 } else { x.clamp(0.0, 1.0) };
    TURBO.map(|channel| to_byte(channel.iter().rev().fold(0.0, |sum, c| sum * x + c)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_of_other_sizes_look_at_the_same_place() {
        // Black, half white over the background, hidden; the render is twice as wide and high.
        let photo = Photo {
            alpha: Some(vec![255, 128, 255]),
            mask: Some(vec![255, 128, 127]),
            ..Photo::from_rgb(3, 1, vec![0, 0, 0, 255, 255, 255, 9, 9, 9])
        };
        let rendered = Rendered {
            width: 6,
            height: 2,
            rgb: vec![0.1; 36],
            ..Rendered::default()
        };
        let map = error_map(&rendered, &photo, [0.2; 3]);
        let mixed = over(1.0, 128.0 / 255.0, 0.2);
        assert_eq!(target_colour(&photo, 1, [0.2; 3]), [mixed; 3]);
        let row = [
            error_colour([0.0; 3], [0.1; 3]),
            error_colour([mixed; 3], [0.1; 3]),
            HIDDEN,
        ];
        let wide: Vec<u8> = row.iter().flat_map(|c| [*c, *c]).flatten().collect();
        assert_eq!(map, [wide.clone(), wide].concat());
    }

    #[test]
    fn errors_go_from_blue_to_red() {
        // From the published table; the polynomials deviate from it most at its dark end.
        let near = |colour: [u8; 3], expected: [u8; 3]| {
            colour.iter().zip(expected).all(|(a, b)| a.abs_diff(b) < 36)
        };
        assert!(near(turbo(0.0), [48, 18, 59]), "{:?}", turbo(0.0));
        assert!(near(turbo(0.5), [164, 252, 60]), "{:?}", turbo(0.5));
        assert!(near(turbo(1.0), [122, 4, 3]), "{:?}", turbo(1.0));
        assert_eq!(turbo(9.0), turbo(1.0));
        assert_eq!(turbo(f32::NAN), turbo(1.0));
        // Below black counts as black: no error. A quarter is the whole scale.
        assert_eq!(error_colour([0.0; 3], [-1.0, 0.0, 0.0]), turbo(0.0));
        assert_eq!(error_colour([1.0; 3], [0.75; 3]), turbo(1.0));
    }
}
