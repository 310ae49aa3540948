//! What scoring shows: photo and render side by side, and where they differ.
//!
//! An error map colours each pixel by the mean absolute difference of its three channels, from 0 to
//! [`FULL_ERROR`], one scale for all pictures so that they compare. Pixels that a mask hides are grey.

use crate::evaluate::{counts, target};
use dapple_engine::Rendered;
use dapple_scene::provenance::{PngPixels, png_bytes};
use dapple_scene::{Photo, Result};

/// The error that has the map's last colour: a quarter of the range.
pub const FULL_ERROR: f32 = 0.25;

/// What hidden pixels look like: no colour of the map.
const HIDDEN: [u8; 3] = [96; 3];

/// A PNG of the photo beside the rendered view.
pub(crate) fn side_by_side(
    photo: &Photo,
    background: [f32; 3],
    rendered: &Rendered,
) -> Result<Vec<u8>> {
    let (left, right) = (photo.width as usize, rendered.width as usize);
    let height = photo.height.max(rendered.height) as usize;
    let mut pixels = vec![0u8; (left + right) * height * 3];
    let target = target(photo, background);
    let mut place = |values: &[f32], x: usize, width: usize| {
        for (y, row) in values.chunks_exact(width.max(1) * 3).enumerate() {
            let start = (y * (left + right) + x) * 3;
            for (byte, value) in pixels[start..].iter_mut().zip(row) {
                *byte = to_byte(*value);
            }
        }
    };
    place(&target, 0, left);
    place(&rendered.rgb, left, right);
    png(pixels, (left + right) as u32, height as u32)
}

/// A PNG of where the rendered view differs from the photo, and by how much.
pub(crate) fn error_map(
    photo: &Photo,
    background: [f32; 3],
    rendered: &Rendered,
) -> Result<Vec<u8>> {
    let target = target(photo, background);
    let pairs = target
        .as_chunks::<3>()
        .0
        .iter()
        .zip(rendered.rgb.as_chunks::<3>().0);
    let pixels = pairs.enumerate().flat_map(|(i, (photo_pixel, pixel))| {
        if photo.mask.as_ref().is_some_and(|mask| !counts(mask[i])) {
            return HIDDEN;
        }
        let error = |c: usize| (photo_pixel[c] - pixel[c].clamp(0.0, 1.0)).abs();
        turbo((error(0) + error(1) + error(2)) / (3.0 * FULL_ERROR))
    });
    png(pixels.collect(), rendered.width, rendered.height)
}

/// The colour map Turbo (Mikhailov 2019, "Turbo, an improved rainbow colormap for visualization"), by the
/// polynomials of degree 5 that were published with it. `x` is clamped to 0..1; NaN is the last colour.
fn turbo(x: f32) -> [u8; 3] {
    let x = if x.is_nan() { 1.0 } else { x.clamp(0.0, 1.0) };
    // Coefficients from the constant one up.
    const RED: [f32; 6] = [0.13572, 4.61539, -42.66032, 132.13108, -152.94239, 59.28638];
    const GREEN: [f32; 6] = [0.09140, 2.19419, 4.84297, -14.18503, 4.27730, 2.82957];
    const BLUE: [f32; 6] = [0.10667, 12.64195, -60.58205, 110.36277, -89.90311, 27.34825];
    [RED, GREEN, BLUE].map(|channel| to_byte(channel.iter().rev().fold(0.0, |sum, c| sum * x + c)))
}

/// The cast saturates and turns NaN into 0.
fn to_byte(value: f32) -> u8 {
    (value * 255.0 + 0.5) as u8
}

fn png(pixels: Vec<u8>, width: u32, height: u32) -> Result<Vec<u8>> {
    png_bytes(width, height, PngPixels::Rgb8(&pixels))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn errors_go_from_blue_to_red_and_hidden_pixels_are_grey() {
        // The published table; the polynomials leave it most at its dark end.
        let near = |colour: [u8; 3], expected: [u8; 3]| {
            colour.iter().zip(expected).all(|(a, b)| a.abs_diff(b) < 36)
        };
        assert!(near(turbo(0.0), [48, 18, 59]), "{:?}", turbo(0.0));
        assert!(near(turbo(0.5), [164, 252, 60]), "{:?}", turbo(0.5));
        assert!(near(turbo(1.0), [122, 4, 3]), "{:?}", turbo(1.0));
        assert_eq!(turbo(9.0), turbo(1.0));
        assert_eq!(turbo(f32::NAN), turbo(1.0));

        let photo = Photo {
            mask: Some(vec![255, 255, 0]),
            ..Photo::from_rgb(3, 1, vec![0, 0, 0, 255, 255, 255, 9, 9, 9])
        };
        let rendered = Rendered {
            width: 3,
            height: 1,
            rgb: vec![-1.0, 0.0, 0.0, 0.75, 0.75, 0.75, 1.0, 1.0, 1.0],
            ..Rendered::default()
        };
        let png = error_map(&photo, [0.0; 3], &rendered).unwrap();
        let map = image::load_from_memory(&png).unwrap().into_rgb8();
        // Beyond black is black: no error. A quarter is the whole scale.
        assert_eq!(map.get_pixel(0, 0).0, turbo(0.0));
        assert_eq!(map.get_pixel(1, 0).0, turbo(1.0));
        assert_eq!(map.get_pixel(2, 0).0, HIDDEN);
    }
}
