//! Detection of a photo's format, and of foreign formats.

use crate::photo_faults::{CONVERT_HINT, conversion};
use crate::{Error, Result, jpeg};
use image::ImageFormat;

/// Returns the format of a photo's bytes, if it is supported.
pub(super) fn check_format(bytes: &[u8]) -> Result<ImageFormat> {
    let foreign = |name: &str, hint: String| {
        Err(Error::unsupported(format!(
            "the photo is a {name} file; JPEG, PNG, WebP, TIFF and BMP are read"
        ))
        .hint(hint))
    };
    if let Some((name, hint)) = foreign_content(bytes) {
        return foreign(name, hint);
    }
    match image::guess_format(bytes) {
        Ok(format @ ImageFormat::Jpeg) => jpeg::check(bytes).map(|()| format),
        Ok(ImageFormat::WebP) if is_animated_webp(bytes) => {
            Err(Error::unsupported("the photo is an animated WebP file")
                .hint("a photo is a single picture: save the frame that is meant by itself"))
        }
        Ok(
            format @ (ImageFormat::Png | ImageFormat::WebP | ImageFormat::Tiff | ImageFormat::Bmp),
        ) => Ok(format),
        Ok(other) => {
            let ending = other.extensions_str().first().unwrap_or(&"foreign");
            foreign(ending, CONVERT_HINT.to_owned())
        }
        Err(_) if bytes.is_empty() => Err(Error::input("the photo is an empty file")
            .hint("copy it again: nothing of it is there")),
        Err(_) if bytes.iter().all(|&b| b == 0) => {
            Err(Error::input("the photo's file holds nothing but zeros")
                .hint("copy it again: the disk has lost what it held"))
        }
        Err(_) => Err(Error::input(
            "the photo is neither a JPEG nor a PNG, WebP, TIFF or BMP file",
        )
        .hint(CONVERT_HINT)),
    }
}

/// Describes foreign content under a photo's name, from its first bytes.
fn foreign_content(bytes: &[u8]) -> Option<(&'static str, String)> {
    let begins = |with: &[u8]| bytes.starts_with(with);
    // An ISO container: length(4) "ftyp" brand(4).
    if bytes.get(4..8) == Some(b"ftyp") {
        let brand = bytes.get(8..12).unwrap_or_default();
        return Some(match brand {
            b"avif" | b"avis" => ("AVIF", conversion("avif")),
            b"heic" | b"heix" | b"heim" | b"heis" | b"hevc" | b"hevx" | b"mif1" | b"msf1" => {
                ("HEIC", conversion("heic"))
            }
            b"crx " => ("raw CR3", conversion("cr3")),
            _ => (
                "video",
                "take frames from it, e.g. `ffmpeg -i FILE -vf fps=2 -q:v 2 images/%04d.jpg`"
                    .to_owned(),
            ),
        });
    }
    if begins(b"\xff\x0a") || begins(b"\0\0\0\x0cJXL ") {
        return Some(("JPEG XL", conversion("jxl")));
    }
    if begins(b"\0\0\0\x0cjP  ") || begins(b"\xff\x4f\xff\x51") {
        return Some(("JPEG 2000", conversion("jp2")));
    }
    if begins(b"8BPS") {
        return Some(("Photoshop", conversion("psd")));
    }
    if begins(b"version https://git-lfs") {
        return Some((
            "Git LFS pointer",
            "fetch what it stands for: `git lfs pull`".to_owned(),
        ));
    }
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(256)]).to_ascii_lowercase();
    if ["<!doctype html", "<html"]
        .iter()
        .any(|tag| head.trim_start().starts_with(tag))
    {
        let hint = "it is a web page, such as the error of a download: get the photo again";
        return Some(("HTML", hint.to_owned()));
    }
    None
}

/// Returns true if the extended header of WebP has the bit for animations.
fn is_animated_webp(bytes: &[u8]) -> bool {
    bytes.get(12..16) == Some(b"VP8X") && bytes.get(20).is_some_and(|flags| flags & 2 != 0)
}
