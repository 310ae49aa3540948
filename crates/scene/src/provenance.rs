//! Marks images that Dapple wrote, so that no image of another program is replaced.
//!
//! PNG files have a text `Software`, OpenEXR files an attribute `software`. Readers pass over both.

use crate::{Error, Result};
use exr::meta::MetaData;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Name in the images.
pub(crate) const SOFTWARE: &str = "Dapple";

/// The PNG text's name, one of those that the format's specification lists.
const KEYWORD: &str = "Software";

/// Pixels of a PNG, rows from the top.
#[derive(Debug, Clone, Copy)]
pub enum PngPixels<'a> {
    /// `[height, width, 3]`.
    Rgb8(&'a [u8]),
    /// `[height, width, 4]`.
    Rgba8(&'a [u8]),
    /// `[height, width]`.
    Grey16(&'a [u16]),
}

/// The bytes of a PNG file that says that Dapple wrote it.
///
/// # Errors
/// Pixels of another size than `width` times `height`: a defect of the caller.
pub fn png_bytes(width: u32, height: u32, pixels: PngPixels<'_>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    // One filter for all rows: on renders and maps of errors as small as after the best filter of each row,
    // at two to three times its speed.
    encoder.set_compression(png::Compression::Fast);
    encoder.set_filter(png::Filter::Paeth);
    let big_endian: Vec<u8>;
    let data = match pixels {
        PngPixels::Rgba8(rgba) => {
            encoder.set_color(png::ColorType::Rgba);
            encoder.set_depth(png::BitDepth::Eight);
            rgba
        }
        PngPixels::Rgb8(rgb) => {
            encoder.set_color(png::ColorType::Rgb);
            encoder.set_depth(png::BitDepth::Eight);
            rgb
        }
        PngPixels::Grey16(grey) => {
            encoder.set_color(png::ColorType::Grayscale);
            encoder.set_depth(png::BitDepth::Sixteen);
            big_endian = grey.iter().flat_map(|value| value.to_be_bytes()).collect();
            &big_endian
        }
    };
    let written = encoder
        .add_text_chunk(KEYWORD.to_owned(), SOFTWARE.to_owned())
        .and_then(|()| encoder.write_header())
        .and_then(|mut writer| {
            writer.write_image_data(data)?;
            writer.finish()
        });
    written
        .map_err(|e| Error::internal(format!("a picture cannot be encoded: {e}")).caused_by(e))?;
    Ok(bytes)
}

/// Returns true if the image at `path`, PNG or OpenEXR by its name, has Dapple's mark. Images of older versions
/// have none.
pub fn is_dapples_picture(path: &Path) -> bool {
    // To open a pipe would wait for its writer.
    if !path.is_file() {
        return false;
    }
    let Ok(file) = File::open(path) else {
        return false;
    };
    let file = BufReader::new(file);
    let is = |extension: &str| {
        path.extension()
            .is_some_and(|found| found.eq_ignore_ascii_case(extension))
    };
    if is("png") {
        let Ok(reader) = png::Decoder::new(file).read_info() else {
            return false;
        };
        let mut texts = reader.info().uncompressed_latin1_text.iter();
        return texts.any(|text| text.keyword == KEYWORD && text.text == SOFTWARE);
    }
    is("exr")
        && MetaData::read_from_buffered(file, false).is_ok_and(|meta| {
            meta.headers.iter().any(|header| {
                let software = header.own_attributes.software_name.as_ref();
                software.is_some_and(|name| name.eq(SOFTWARE))
            })
        })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::exr_file::FloatImage;

    #[test]
    fn pictures_tell_whose_they_are_and_keep_their_pixels() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let rgb: Vec<u8> = (0..2 * 3 * 3).map(|i| i * 14).collect();
        let grey = [0_u16, 1, 256, 65535];
        let png = png_bytes(2, 3, PngPixels::Rgb8(&rgb)).unwrap();
        std::fs::write(at("ours.png"), &png).unwrap();
        let decoded = image::load_from_memory(&png).unwrap();
        assert_eq!(decoded.into_rgb8().into_raw(), rgb);
        let png = png_bytes(4, 1, PngPixels::Grey16(&grey)).unwrap();
        let decoded = image::load_from_memory(&png).unwrap();
        assert_eq!(decoded.into_luma16().into_raw(), grey);
        assert!(png_bytes(5, 1, PngPixels::Grey16(&grey)).is_err());

        image::RgbImage::from_raw(2, 3, rgb)
            .unwrap()
            .save(at("theirs.png"))
            .unwrap();
        let float = FloatImage {
            width: 1,
            height: 1,
            channels: vec![("Z".to_owned(), vec![1.0])],
        };
        std::fs::write(at("ours.exr"), float.to_exr().unwrap()).unwrap();
        exr::prelude::write_rgb_file(at("theirs.exr"), 1, 1, |_, _| (0.0, 0.0, 0.0)).unwrap();
        std::fs::write(at("text.png"), "Software Dapple").unwrap();
        for (name, is_ours) in [
            ("ours.png", true),
            ("theirs.png", false),
            ("ours.exr", true),
            ("theirs.exr", false),
            ("text.png", false),
            ("missing.png", false),
        ] {
            assert_eq!(is_dapples_picture(&at(name)), is_ours, "{name}");
        }
    }
}
