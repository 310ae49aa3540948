//! Pictures of scored views: photo and render side by side, and an error map. See [`dapple_engine::score`].

use crate::evaluate::{counts, target_row};
use dapple_engine::score::{HIDDEN, error_colour, to_byte};
use dapple_engine::{Pictures, Rendered};
use dapple_scene::provenance::{PngPixels, png_bytes};
use dapple_scene::{Photo, Result};
use rayon::prelude::*;

/// Bytes of a PNG file.
pub(crate) type Png = Vec<u8>;

/// Returns pictures of a render on the host that has its photo's size.
pub(crate) fn pictures_of(rendered: &Rendered, photo: &Photo, background: [f32; 3]) -> Pictures {
    let width = rendered.width as usize;
    let floats = width.max(1) * 3;
    let mut bytes = vec![0; rendered.rgb.len()];
    let mut errors = vec![0; rendered.rgb.len()];
    let rows = bytes
        .par_chunks_mut(floats)
        .zip(errors.par_chunks_mut(floats));
    let rows = rows.zip(rendered.rgb.par_chunks(floats)).enumerate();
    rows.for_each_init(
        || vec![0.0; floats],
        |target, (y, ((bytes, errors), rgb))| {
            target_row(photo, background, y, target);
            for (byte, &value) in bytes.iter_mut().zip(rgb) {
                *byte = to_byte(value);
            }
            let mask = photo.mask.as_ref().map(|mask| &mask[y * width..]);
            let targets = target.as_chunks::<3>().0.iter();
            let pixels = targets.zip(rgb.as_chunks::<3>().0);
            let places = errors.as_chunks_mut::<3>().0.iter_mut();
            for (x, (place, (target, colour))) in places.zip(pixels).enumerate() {
                *place = match mask.is_none_or(|mask| counts(mask[x])) {
                    true => error_colour(*target, *colour),
                    false => HIDDEN,
                };
            }
        },
    );
    Pictures {
        width: rendered.width,
        height: rendered.height,
        rendered: bytes,
        errors,
    }
}

/// Encodes the photo, over the background where it is transparent, next to the rendered view.
pub(crate) fn side_by_side(
    photo: &Photo,
    background: [f32; 3],
    pictures: &Pictures,
) -> Result<Png> {
    let floats = pictures.width.max(1) as usize * 3;
    let mut pixels = Vec::with_capacity(2 * pictures.rendered.len());
    let mut target = vec![0.0; floats];
    let photo_rows = photo.rgb.chunks_exact(floats);
    let rows = photo_rows.zip(pictures.rendered.chunks_exact(floats));
    for (y, (left, right)) in rows.enumerate() {
        match photo.alpha {
            None => pixels.extend_from_slice(left),
            Some(_) => {
                target_row(photo, background, y, &mut target);
                pixels.extend(target.iter().map(|&value| to_byte(value)));
            }
        }
        pixels.extend_from_slice(right);
    }
    png(&pixels, 2 * pictures.width, pictures.height)
}

/// Encodes the error map.
pub(crate) fn error_map(pictures: &Pictures) -> Result<Png> {
    png(&pictures.errors, pictures.width, pictures.height)
}

fn png(pixels: &[u8], width: u32, height: u32) -> Result<Png> {
    png_bytes(width, height, PngPixels::Rgb8(pixels))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use dapple_engine::score::turbo;

    fn decoded(png: &[u8]) -> image::RgbImage {
        image::load_from_memory(png).unwrap().into_rgb8()
    }

    #[test]
    fn hidden_pixels_are_grey_in_maps_of_errors() {
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
        let pictures = pictures_of(&rendered, &photo, [0.0; 3]);
        let map = decoded(&error_map(&pictures).unwrap());
        assert_eq!(map.get_pixel(0, 0).0, turbo(0.0));
        assert_eq!(map.get_pixel(1, 0).0, turbo(1.0));
        assert_eq!(map.get_pixel(2, 0).0, HIDDEN);
    }

    #[test]
    fn the_photo_is_on_the_left_over_the_background() {
        let rendered = Rendered {
            width: 2,
            height: 2,
            rgb: (0..12).map(|i| i as f32 / 10.0).collect(),
            ..Rendered::default()
        };
        let mut photo = Photo::from_rgb(2, 2, (0..12).map(|i| 20 * i).collect());
        let beside = |photo: &Photo| {
            let pictures = pictures_of(&rendered, photo, [0.2, 0.4, 1.0]);
            decoded(&side_by_side(photo, [0.2, 0.4, 1.0], &pictures).unwrap())
        };
        let picture = beside(&photo);
        assert_eq!((picture.width(), picture.height()), (4, 2));
        assert_eq!(picture.get_pixel(1, 1).0, [180, 200, 220]);
        assert_eq!(picture.get_pixel(3, 1).0, [230, 255, 255]);
        assert_eq!(picture.get_pixel(2, 0).0, [0, 26, 51]);
        photo.alpha = Some(vec![255, 255, 255, 0]);
        assert_eq!(beside(&photo).get_pixel(1, 1).0, [51, 102, 255]);
        assert_eq!(beside(&photo).get_pixel(0, 1).0, [120, 140, 160]);
    }
}
