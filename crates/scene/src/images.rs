//! Photo files to pixels.
//!
//! 1. The format is told by the content: JPEG or PNG, nothing else.
//! 2. A JPEG's markers are read first ([`crate::jpeg`]): CMYK (4 components) and 12-bit files are
//!    refused, since their colours cannot be told without the printer's profile, and so is one that ends
//!    early, which decoders would fill with grey. [`verify`] looks into the pixels, too.
//! 3. The size is compared with the camera's before anything large is allocated.
//! 4. Everything becomes 8-bit RGB as stored: grey and palette files are expanded, 16-bit PNGs
//!    rounded to 8 bits (the caller is told), colour profiles, gamma chunks and EXIF orientation
//!    ignored (structure-from-motion tools take pixels as they are stored, and the camera's pose
//!    belongs to those). A PNG's alpha becomes [`Photo::alpha`].

use crate::{Error, FileSum, Photo, Result, bounded, jpeg};
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader};
use std::io::Cursor;
use std::path::Path;

/// Largest decoded photo, bytes: 350 megapixels of RGB.
const MAX_DECODED_BYTES: u64 = 1 << 30;

pub(crate) const CONVERT_HINT: &str =
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

/// Whether the EXIF data of a photo say that it is to be shown turned or mirrored. Decoding does not look
/// at them: cameras are of the pixels as they are stored.
pub(crate) fn is_turned_by_exif(path: &Path) -> bool {
    let orientation = || {
        let bytes = read(path).ok()?;
        let reader = ImageReader::new(Cursor::new(&bytes)).with_guessed_format();
        let mut decoder = reader.ok()?.into_decoder().ok()?;
        decoder.orientation().ok()
    };
    orientation().is_some_and(|found| found != image::metadata::Orientation::NoTransforms)
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

/// Refuses a photo that a decoder fills in, since bytes of its pixels are missing. Decodes it twice.
pub(crate) fn verify(path: &Path) -> Result<()> {
    let bytes = read(path)?;
    verify_bytes(&bytes).map_err(|e| e.at_path(path))
}

fn verify_bytes(bytes: &[u8]) -> Result<()> {
    let image = decode_bytes(bytes, |_, _| Ok(()))?;
    if image::guess_format(bytes).ok() != Some(ImageFormat::Jpeg) {
        // A PNG has checksums.
        return Ok(());
    }
    let other = decode_bytes(&jpeg::with_longer_end(bytes), |_, _| Ok(()));
    match other.is_ok_and(|other| other == image) {
        true => Ok(()),
        false => Err(Error::input(
            "the photo is damaged: bytes are missing in the middle, and decoders make up what they showed",
        )
        .hint("copy it again from where it came")),
    }
}

impl Photo {
    /// The pixels of a JPEG's or PNG's bytes, as [`crate::load()`] reads them from files.
    ///
    /// # Errors
    /// Other formats, damaged files, CMYK, sizes that cannot be.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let image = decode_bytes(bytes, |_, _| Ok(()))?;
        Ok(to_photo(image, FileSum::of(bytes)).photo)
    }
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
    bounded::read("cannot read the photo", path, bounded::IMAGE_BYTES)
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

pub(crate) fn ends_early() -> Error {
    Error::input("the photo ends early: its last part is missing")
        .hint("copy it again from where it came")
}

fn is_deep(colour: image::ColorType) -> bool {
    colour.bytes_per_pixel() / colour.channel_count() > 1
}

fn check_format(bytes: &[u8]) -> Result<()> {
    match image::guess_format(bytes) {
        Ok(ImageFormat::Jpeg) => jpeg::check(bytes),
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

    /// 16x16 pixels in ten scans, by libjpeg.
    const PROGRESSIVE: &[u8] = include_bytes!("../tests/all/data/progressive.jpg");

    /// The first bytes with an end of image after them, as programs that repair downloads write it.
    fn ended(bytes: &[u8], length: usize) -> Vec<u8> {
        [&bytes[..length], &[0xff, 0xd9]].concat()
    }

    #[test]
    fn a_progressive_jpeg_without_its_last_bytes_is_refused() {
        verify_bytes(PROGRESSIVE).unwrap();
        let whole = decoded(PROGRESSIVE).unwrap().photo.rgb;
        for length in 0..PROGRESSIVE.len() - 1 {
            assert!(decoded(&PROGRESSIVE[..length]).is_err(), "cut at {length}");
        }
        let scans = |bytes: &[u8]| bytes.windows(2).filter(|w| *w == [0xff, 0xda]).count();
        for length in 2..PROGRESSIVE.len() - 2 {
            let cut = ended(PROGRESSIVE, length);
            if scans(&cut) < scans(PROGRESSIVE) {
                assert!(decoded(&cut).is_err(), "cut at {length}");
            }
            // Inside the last scan the check finds it, unless nothing that shows is lost.
            if let (Ok(()), Ok(got)) = (verify_bytes(&cut), decoded(&cut)) {
                assert_eq!(got.photo.rgb, whole, "cut at {length}");
            }
        }
        // What stands for an end of image inside of a segment is none.
        let mut comment = PROGRESSIVE[..PROGRESSIVE.len() - 2].to_vec();
        comment.extend([0xff, 0xfe, 0, 4, 0xff, 0xd9]);
        refused(&comment, ErrorKind::Input, "ends early");
    }

    #[test]
    fn a_jpeg_that_lacks_some_of_its_pixels_does_not_pass_the_check() {
        let whole = jpeg();
        verify_bytes(&whole).unwrap();
        let pixels = decoded(&whole).unwrap().photo.rgb;
        let mut found = 0;
        for lost in 1..whole.len() / 3 {
            let cut = ended(&whole, whole.len() - 2 - lost);
            match (verify_bytes(&cut), decoded(&cut)) {
                (Ok(()), Ok(got)) => assert_eq!(got.photo.rgb, pixels, "{lost} bytes lost"),
                _ => found += 1,
            }
        }
        assert!(found > whole.len() / 4, "{found}");
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
