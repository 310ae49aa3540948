//! Hints and errors of photos that cannot be decoded.

use crate::Error;

/// Hint of a photo in a form that is not read.
pub(crate) const CONVERT_HINT: &str =
    "convert it to an 8-bit RGB JPEG or PNG, e.g. `magick photo.tif -colorspace sRGB photo.png`";

/// Returns the command that converts photos of this extension.
pub(crate) fn conversion(ending: &str) -> String {
    match ending {
        "heic" | "heif" | "hif" | "avif" => format!(
            "convert them to JPEG, e.g. `magick mogrify -format jpg *.{ending}` (ImageMagick) or \
             `heif-convert IN.{ending} OUT.jpg` for each (libheif)"
        ),
        "dng" | "cr2" | "cr3" | "nef" | "arw" | "raf" | "orf" | "rw2" | "pef" | "srw" | "raw" => {
            "develop the raw photos to JPEG or 8-bit TIFF, e.g. with darktable or RawTherapee, at the size that \
             the poses were found with"
                .to_owned()
        }
        "icloud" => "the photos are in iCloud alone: download them in Finder first".to_owned(),
        "exr" | "hdr" => "write the photos as 8-bit PNG with a tone curve, e.g. `magick IN.exr OUT.png`".to_owned(),
        _ => format!("convert them to PNG, e.g. `magick mogrify -format png *.{ending}`"),
    }
}

/// Returns the error of a photo whose last part is missing.
pub(crate) fn ends_early() -> Error {
    Error::input("the photo ends early: its last part is missing")
        .hint("copy it again from where it came")
}
