//! Photo files to pixels.
//!
//! 1. The format is told by the content: JPEG or PNG, nothing else.
//! 2. A JPEG's header is read first: CMYK (4 components) and 12-bit files are refused, since their
//!    colours cannot be told without the printer's profile, and so is one that ends early, which
//!    decoders would fill with grey.
//! 3. The size is compared with the camera's before anything large is allocated.
//! 4. Everything becomes 8-bit RGB as stored: grey and palette files are expanded, 16-bit PNGs
//!    rounded to 8 bits (the caller is told), colour profiles, gamma chunks and EXIF orientation
//!    ignored (structure-from-motion tools take pixels as they are stored, and the camera's pose
//!    belongs to those). A PNG's alpha becomes [`Photo::alpha`].

use crate::{Error, FileSum, Photo, Result};
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader};
use std::fs;
use std::io::Cursor;
use std::path::Path;

/// Largest decoded photo, bytes: 350 megapixels of RGB.
const MAX_DECODED_BYTES: u64 = 1 << 30;

const CONVERT_HINT: &str =
    "convert it to an 8-bit RGB JPEG or PNG, e.g. `magick photo.tif -colorspace sRGB photo.png`";

/// A decoded photo and what had to be done to it.
pub(crate) struct Decoded {
    pub photo: Photo,
    /// It had 16 bits a channel.
    pub deep: bool,
    /// Of its file.
    pub sum: FileSum,
}

/// What a photo's header says.
pub(crate) struct Header {
    pub width: u32,
    pub height: u32,
    /// It has 16 bits a channel.
    pub deep: bool,
    /// Pixels may be transparent.
    pub alpha: bool,
    /// Of the file.
    pub sum: FileSum,
}

/// Width and height from a photo's header.
pub(crate) fn dimensions(path: &Path) -> Result<(u32, u32)> {
    header(path).map(|header| (header.width, header.height))
}

/// Reads a photo's file and checks everything that can be without decoding it: format, header, and
/// that its end is there.
pub(crate) fn header(path: &Path) -> Result<Header> {
    let bytes = read(path)?;
    let parse = || {
        check_format(&bytes)?;
        let reader = ImageReader::new(Cursor::new(&bytes))
            .with_guessed_format()
            .map_err(|e| undecodable(&e.into()))?;
        let png = reader.format() == Some(ImageFormat::Png);
        let decoder = reader.into_decoder().map_err(|e| undecodable(&e))?;
        let (width, height) = decoder.dimensions();
        check_amount(width, height, decoder.total_bytes())?;
        // The last chunk of a PNG.
        if png && !bytes.windows(4).rev().any(|name| name == b"IEND") {
            return Err(ends_early());
        }
        let colour = decoder.color_type();
        Ok(Header {
            width,
            height,
            deep: is_deep(colour),
            alpha: colour.has_alpha(),
            sum: FileSum::of(&bytes),
        })
    };
    parse().map_err(|e| e.at_path(path))
}

/// Decodes a photo; `accept` sees its width and height first and may refuse.
pub(crate) fn decode(path: &Path, accept: impl FnOnce(u32, u32) -> Result<()>) -> Result<Decoded> {
    let bytes = read(path)?;
    let image = decode_bytes(&bytes, accept).map_err(|e| match e.place() {
        Some(_) => e,
        None => e.at_path(path),
    })?;
    Ok(to_photo(image, FileSum::of(&bytes)))
}

/// Decodes a mask to one byte a pixel, from 0 = leave out to 255 = use, at its own size.
pub(crate) fn decode_mask(path: &Path) -> Result<(u32, u32, Vec<u8>)> {
    let bytes = read(path)?;
    let image = decode_bytes(&bytes, |_, _| Ok(())).map_err(|e| e.at_path(path))?;
    let grey = image.into_luma8();
    let (width, height) = grey.dimensions();
    Ok((width, height, grey.into_raw()))
}

/// From half coverage on a pixel is used.
pub(crate) fn threshold(mask: &mut [u8]) {
    for m in mask {
        *m = if *m >= 128 { 255 } else { 0 };
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|e| Error::io("cannot read the photo", path, e))
}

fn undecodable(error: &image::ImageError) -> Error {
    Error::input(format!("the photo cannot be decoded: {error}")).hint(
        "open it in an image viewer; if it is damaged, copy it again or remove it from the capture",
    )
}

fn decode_bytes(bytes: &[u8], accept: impl FnOnce(u32, u32) -> Result<()>) -> Result<DynamicImage> {
    check_format(bytes)?;
    let mut reader = ImageReader::new(Cursor::new(bytes))
        .with_guessed_format()
        .map_err(|e| undecodable(&e.into()))?;
    let mut limits = image::Limits::default();
    limits.max_alloc = Some(MAX_DECODED_BYTES);
    reader.limits(limits);
    let decoder = reader.into_decoder().map_err(|e| undecodable(&e))?;
    let (width, height) = decoder.dimensions();
    accept(width, height)?;
    check_amount(width, height, decoder.total_bytes())?;
    DynamicImage::from_decoder(decoder).map_err(|e| undecodable(&e))
}

/// Refuses a photo without pixels, and one with more than can be.
fn check_amount(width: u32, height: u32, bytes: u64) -> Result<()> {
    if width == 0 || height == 0 {
        return Err(Error::input("the photo has no pixels"));
    }
    if bytes > MAX_DECODED_BYTES {
        return Err(Error::unsupported(format!(
            "the photo says it has {width}x{height} pixels, more than 1 GiB when decoded"
        ))
        .hint("if the size is right, reduce the photo first"));
    }
    Ok(())
}

fn ends_early() -> Error {
    Error::input("the photo ends early: its last part is missing")
        .hint("copy it again from where it came")
}

fn is_deep(colour: image::ColorType) -> bool {
    colour.bytes_per_pixel() / colour.channel_count() > 1
}

fn check_format(bytes: &[u8]) -> Result<()> {
    match image::guess_format(bytes) {
        Ok(ImageFormat::Jpeg) => check_jpeg(bytes),
        Ok(ImageFormat::Png) => Ok(()),
        Ok(other) => Err(Error::unsupported(format!(
            "the photo is a {} file; JPEG and PNG are read",
            other.extensions_str().first().unwrap_or(&"foreign")
        ))
        .hint(CONVERT_HINT)),
        Err(_) if bytes.is_empty() => Err(Error::input("the photo is an empty file")
            .hint("copy it again: nothing of it is there")),
        Err(_) => {
            Err(Error::input("the photo is neither a JPEG nor a PNG file").hint(CONVERT_HINT))
        }
    }
}

/// Walks the segments of a JPEG (ITU T.81, annex B) up to its first scan.
fn check_jpeg(bytes: &[u8]) -> Result<()> {
    let mut at = 2;
    let mut frame = None;
    // A segment: FF, marker, then (for all but a few) a length that includes itself.
    while let [0xff, marker, rest @ ..] = bytes.get(at..).unwrap_or(&[]) {
        let length = match rest {
            [high, low, ..] => usize::from(u16::from_be_bytes([*high, *low])),
            _ => break,
        };
        match *marker {
            // Fill bytes before a marker, and markers without a segment.
            0xff => {
                at += 1;
                continue;
            }
            0x01 | 0xd0..=0xd8 => {
                at += 2;
                continue;
            }
            // Start of frame: length(2) precision(1) height(2) width(2) components(1).
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                if let (Some(&precision), Some(&components)) = (rest.get(2), rest.get(7)) {
                    frame = Some((precision, components));
                }
            }
            // Start of scan: from here on the pixels, ended by FF D9.
            0xda => {
                let ended = bytes[at..]
                    .windows(2)
                    .rev()
                    .any(|pair| pair == [0xff, 0xd9]);
                return match frame {
                    Some((_, 4)) => Err(Error::unsupported(
                        "the photo is a CMYK JPEG: its colours are meant for print",
                    )
                    .hint(CONVERT_HINT)),
                    Some((precision, _)) if precision != 8 => Err(Error::unsupported(format!(
                        "the photo is a JPEG of {precision} bits a channel"
                    ))
                    .hint(CONVERT_HINT)),
                    _ if !ended => Err(ends_early()),
                    _ => Ok(()),
                };
            }
            _ => {}
        }
        at += 2 + length.max(2);
    }
    Err(Error::input("the photo has no image data").hint("copy it again from where it came"))
}

fn to_photo(image: DynamicImage, sum: FileSum) -> Decoded {
    let deep = is_deep(image.color());
    let (width, height) = (image.width(), image.height());
    let photo = if image.color().has_alpha() {
        let rgba = image.into_rgba8().into_raw();
        let mut photo = Photo::from_rgb(
            width,
            height,
            rgba.chunks_exact(4)
                .flat_map(|p| [p[0], p[1], p[2]])
                .collect(),
        );
        if rgba.chunks_exact(4).any(|p| p[3] != 255) {
            photo.alpha = Some(rgba.chunks_exact(4).map(|p| p[3]).collect());
        }
        photo
    } else {
        Photo::from_rgb(width, height, image.into_rgb8().into_raw())
    };
    Decoded { photo, deep, sum }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use image::{
        ExtendedColorType, ImageEncoder, codecs::jpeg::JpegEncoder, codecs::png::PngEncoder,
    };

    fn png(data: &[u8], width: u32, height: u32, colour: ExtendedColorType) -> Vec<u8> {
        let mut bytes = Vec::new();
        PngEncoder::new(&mut bytes)
            .write_image(data, width, height, colour)
            .unwrap();
        bytes
    }

    fn jpeg() -> Vec<u8> {
        let mut bytes = Vec::new();
        let grey: Vec<u8> = (0..32 * 24 * 3).map(|i| (i % 251) as u8).collect();
        JpegEncoder::new(&mut bytes)
            .write_image(&grey, 32, 24, ExtendedColorType::Rgb8)
            .unwrap();
        bytes
    }

    fn decoded(bytes: &[u8]) -> Result<Decoded> {
        let sum = FileSum::of(bytes);
        decode_bytes(bytes, |_, _| Ok(())).map(|image| to_photo(image, sum))
    }

    #[track_caller]
    fn refused(bytes: &[u8], kind: ErrorKind, word: &str) {
        match decoded(bytes) {
            Ok(_) => panic!("accepted"),
            Err(e) => {
                assert_eq!(e.kind(), kind, "{e}");
                assert!(e.to_string().contains(word), "{e}");
                assert!(e.hint_text().is_some(), "{e}");
            }
        }
    }

    #[test]
    fn sixteen_bit_png_is_rounded_to_eight() {
        // 0x0000, 0x8080 (= 128 * 257), 0xffff, and 0x0180: 384/257 = 1.49 -> 1.
        let values: [u16; 6] = [0, 0x8080, 0xffff, 0x0180, 0x0200, 0xfe00];
        let raw: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
        let got = decoded(&png(&raw, 2, 1, ExtendedColorType::Rgb16)).unwrap();
        assert!(got.deep);
        assert_eq!(got.photo.rgb, [0, 128, 255, 1, 2, 253]);
    }

    #[test]
    fn grey_and_alpha_become_rgb_and_alpha() {
        let got = decoded(&png(&[7, 255, 9, 0], 2, 1, ExtendedColorType::La8)).unwrap();
        assert_eq!(got.photo.rgb, [7, 7, 7, 9, 9, 9]);
        assert_eq!(got.photo.alpha, Some(vec![255, 0]));
        // Fully opaque alpha is no alpha.
        let got = decoded(&png(&[7, 8, 9, 255], 1, 1, ExtendedColorType::Rgba8)).unwrap();
        assert_eq!((got.photo.alpha, got.deep), (None, false));
    }

    #[test]
    fn cmyk_and_deep_jpegs_are_refused() {
        assert!(decoded(&jpeg()).is_ok());
        let start_of_frame = jpeg().windows(2).position(|w| w == [0xff, 0xc0]).unwrap();
        let mut cmyk = jpeg();
        cmyk[start_of_frame + 9] = 4;
        refused(&cmyk, ErrorKind::Unsupported, "CMYK");
        let mut deep = jpeg();
        deep[start_of_frame + 4] = 12;
        refused(&deep, ErrorKind::Unsupported, "12 bits");
    }

    #[test]
    fn a_file_cut_anywhere_is_refused() {
        let whole = jpeg();
        for length in 0..whole.len() - 1 {
            assert!(decoded(&whole[..length]).is_err(), "jpeg cut at {length}");
        }
        let data: Vec<u8> = (0..12 * 9 * 3).map(|i| (i * 37 % 256) as u8).collect();
        let whole = png(&data, 12, 9, ExtendedColorType::Rgb8);
        // The last chunk (IEND, 12 bytes) carries nothing.
        for length in 0..whole.len() - 12 {
            assert!(decoded(&whole[..length]).is_err(), "png cut at {length}");
        }
    }

    #[test]
    fn foreign_formats_and_bombs_are_refused() {
        refused(b"GIF89a....", ErrorKind::Unsupported, "gif");
        refused(b"hello", ErrorKind::Input, "neither");
        refused(b"", ErrorKind::Input, "empty");
        // A PNG header that promises 60000 x 60000 pixels.
        let mut bomb = png(&[0; 3], 1, 1, ExtendedColorType::Rgb8);
        bomb[16..20].copy_from_slice(&60_000u32.to_be_bytes());
        bomb[20..24].copy_from_slice(&60_000u32.to_be_bytes());
        assert!(decoded(&bomb).is_err());
    }
}
