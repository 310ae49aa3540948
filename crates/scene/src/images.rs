//! Decodes photo files to pixels.
//!
//! 1. The content determines the format: JPEG, PNG, WebP, TIFF or BMP, nothing else. For a foreign format, the error
//!    names the format and the command that converts it.
//! 2. A JPEG's markers are read first ([`crate::jpeg`]). CMYK (4 components) and 12-bit files are refused, because
//!    their colours need the printer's profile. Truncated files are refused, because decoders would fill the rest with
//!    grey. [`verify`] also checks the pixels.
//! 3. The size is compared with the camera's before anything large is allocated.
//! 4. The result is 8-bit RGB as stored. Grey and palette files are expanded. 16-bit files are rounded to 8 bits
//!    ([`Decoded::deep`]). Colour profiles, gamma chunks and EXIF orientation are ignored, because
//!    structure-from-motion tools use the stored pixels, and the camera's pose belongs to those. Alpha becomes
//!    [`Photo::alpha`].
//! 5. Animations, CMYK, 32-bit floats and palettes of TIFF are refused, because the file does not specify which frame
//!    or colour is meant.

mod formats;

use crate::photo_faults::{CONVERT_HINT, ends_early};
use crate::{Error, FileSum, Photo, Result, bounded, jpeg};
use dapple_base::decoder_fault;
use formats::check_format;
use image::metadata::Orientation;
use image::{ColorType, DynamicImage, ExtendedColorType, ImageDecoder, ImageFormat, ImageReader};
use std::io::Cursor;
use std::path::Path;

/// Largest decoded photo, bytes: 350 megapixels of RGB.
const MAX_DECODED_BYTES: u64 = 1 << 30;

/// A decoded photo and the conversions applied to it.
pub(crate) struct Decoded {
    pub photo: Photo,
    /// True if the file has 16 bits per channel.
    pub deep: bool,
    /// True if EXIF turns or mirrors the photo in a way that its size does not show.
    pub turned: bool,
    /// Checksum of the photo's file.
    pub sum: FileSum,
}

/// Header of a photo.
pub(crate) struct Header {
    pub width: u32,
    pub height: u32,
    /// True if the file has 16 bits per channel.
    pub deep: bool,
    /// True if pixels may be transparent.
    pub alpha: bool,
    /// See [`Decoded::turned`].
    pub turned: bool,
    /// Checksum of the photo's file.
    pub sum: FileSum,
}

/// Reads width and height from a photo's header.
pub(crate) fn dimensions(path: &Path) -> Result<(u32, u32)> {
    header(path).map(|header| (header.width, header.height))
}

/// Reads a photo's file and checks everything that can be checked without decoding: format, header, and that its end
/// exists.
pub(crate) fn header(path: &Path) -> Result<Header> {
    let bytes = read(path)?;
    let parse = || {
        let format = check_format(&bytes)?;
        let mut decoder = opened(&bytes)?;
        let (width, height) = decoder.dimensions();
        check_amount(width, height, decoder.total_bytes())?;
        check_colours(&decoder)?;
        let is_whole = match format {
            // The last chunk of a PNG.
            ImageFormat::Png => bytes.windows(4).rev().any(|name| name == b"IEND"),
            ImageFormat::WebP => has_all_of_webp(&bytes),
            _ => true,
        };
        if !is_whole {
            return Err(ends_early());
        }
        let colour = decoder.color_type();
        Ok(Header {
            width,
            height,
            deep: is_deep(colour),
            alpha: colour.has_alpha(),
            turned: is_turned_unseen(&mut decoder),
            sum: FileSum::from_bytes(&bytes),
        })
    };
    parse().map_err(|e| e.at_path(path))
}

/// Opens a decoder of these bytes in a supported format.
fn opened(bytes: &[u8]) -> Result<impl ImageDecoder + '_> {
    let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format();
    let mut reader = reader.map_err(|e| undecodable(&e.into()))?;
    let mut limits = image::Limits::default();
    limits.max_alloc = Some(MAX_DECODED_BYTES);
    reader.limits(limits);
    reader.into_decoder().map_err(|e| undecodable(&e))
}

/// Returns true if the file has the length in its RIFF header.
fn has_all_of_webp(bytes: &[u8]) -> bool {
    let length = bytes.get(4..8).and_then(|length| length.try_into().ok());
    length.is_none_or(|length| u64::from(u32::from_le_bytes(length)) + 8 <= bytes.len() as u64)
}

/// Returns true if EXIF turns or mirrors a photo in a way that does not change its size: the aspect ratio of the camera
/// does not show the orientation for which its pose was found.
fn is_turned_unseen(decoder: &mut impl ImageDecoder) -> bool {
    let (width, height) = decoder.dimensions();
    match decoder.orientation() {
        Err(_) | Ok(Orientation::NoTransforms) => false,
        Ok(Orientation::Rotate180 | Orientation::FlipHorizontal | Orientation::FlipVertical) => {
            true
        }
        Ok(_) => width == height,
    }
}

/// Returns true if a photo's EXIF data request a rotation or mirroring for display. Decoding ignores the EXIF data,
/// because cameras describe the stored pixels.
pub(crate) fn is_turned_by_exif(path: &Path) -> bool {
    let orientation = || {
        let bytes = read(path).ok()?;
        let reader = ImageReader::new(Cursor::new(&bytes)).with_guessed_format();
        let mut decoder = reader.ok()?.into_decoder().ok()?;
        decoder.orientation().ok()
    };
    orientation().is_some_and(|found| found != Orientation::NoTransforms)
}

/// Decodes a photo; `accept` receives its width and height first and may refuse.
pub(crate) fn decode(path: &Path, accept: impl FnOnce(u32, u32) -> Result<()>) -> Result<Decoded> {
    let bytes = read(path)?;
    let (image, turned) = decode_bytes(&bytes, accept).map_err(|e| match e.place() {
        Some(_) => e,
        None => e.at_path(path),
    })?;
    Ok(Decoded {
        turned,
        ..to_photo(image, FileSum::from_bytes(&bytes))
    })
}

/// Refuses a photo with missing pixel bytes that a decoder fills in. Decodes it twice.
pub(crate) fn verify(path: &Path) -> Result<()> {
    let bytes = read(path)?;
    verify_bytes(&bytes).map_err(|e| e.at_path(path))
}

fn verify_bytes(bytes: &[u8]) -> Result<()> {
    let image = decode_bytes(bytes, |_, _| Ok(()))?;
    if image::guess_format(bytes).ok() != Some(ImageFormat::Jpeg) {
        // A PNG has checksums; decoders of the remaining formats fill in nothing.
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
    /// Decodes the bytes of a JPEG, PNG, WebP, TIFF or BMP, as [`crate::load()`] reads them from files.
    ///
    /// # Errors
    /// Other formats, damaged files, CMYK, impossible sizes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (image, _) = decode_bytes(bytes, |_, _| Ok(()))?;
        Ok(to_photo(image, FileSum::from_bytes(bytes)).photo)
    }
}

/// Decodes an image whose values are data: a mask.
pub(crate) fn decode_values(path: &Path) -> Result<DynamicImage> {
    let bytes = read(path)?;
    let (image, _) = decode_bytes(&bytes, |_, _| Ok(())).map_err(|e| e.at_path(path))?;
    Ok(image)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    bounded::read("cannot read the photo", path, bounded::IMAGE_BYTES)
}

fn undecodable(error: &image::ImageError) -> Error {
    let hint = match error {
        image::ImageError::Unsupported(_) => CONVERT_HINT,
        _ => {
            "open it in an image viewer; if it is damaged, copy it again or remove it from the capture"
        }
    };
    Error::input(format!(
        "the photo cannot be decoded: {}",
        decoder_fault(error)
    ))
    .hint(hint)
}

/// Decodes the image, and returns [`Decoded::turned`].
fn decode_bytes(
    bytes: &[u8],
    accept: impl FnOnce(u32, u32) -> Result<()>,
) -> Result<(DynamicImage, bool)> {
    check_format(bytes)?;
    let mut decoder = opened(bytes)?;
    let (width, height) = decoder.dimensions();
    accept(width, height)?;
    check_amount(width, height, decoder.total_bytes())?;
    check_colours(&decoder)?;
    let turned = is_turned_unseen(&mut decoder);
    let image = DynamicImage::from_decoder(decoder).map_err(|e| undecodable(&e))?;
    Ok((image, turned))
}

/// Refuses colours that need a printer's profile or a tone curve.
fn check_colours(decoder: &impl ImageDecoder) -> Result<()> {
    let what = match (decoder.original_color_type(), decoder.color_type()) {
        (ExtendedColorType::Cmyk8 | ExtendedColorType::Cmyk16, _) => {
            "is CMYK: its colours are meant for print"
        }
        (_, ColorType::Rgb32F | ColorType::Rgba32F) => "has 32-bit floats: it needs a tone curve",
        _ => return Ok(()),
    };
    Err(Error::unsupported(format!("the photo {what}")).hint(CONVERT_HINT))
}

/// Refuses a photo without pixels, and one above the size limit.
fn check_amount(width: u32, height: u32, bytes: u64) -> Result<()> {
    if width == 0 || height == 0 {
        return Err(Error::input("the photo has no pixels"));
    }
    if bytes > MAX_DECODED_BYTES {
        return Err(Error::unsupported(format!(
            "the photo declares {width}x{height} pixels, more than 1 GiB when decoded"
        ))
        .hint("if the size is right, reduce the photo first"));
    }
    Ok(())
}

fn is_deep(colour: image::ColorType) -> bool {
    colour.bytes_per_pixel() / colour.channel_count() > 1
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
    Decoded {
        photo,
        deep,
        turned: false,
        sum,
    }
}

#[cfg(test)]
mod tests;
