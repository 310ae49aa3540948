//! Sizes of photos, from their headers alone.

use crate::{Capture, PosedImage, bounded};
use image::{ImageFormat, ImageReader};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::io::{Cursor, Read};

/// Bytes of a JPEG that contain its size: before it are EXIF data with a thumbnail, and profiles.
const HEAD_BYTES: u64 = 1 << 19;

/// Counts the photos of each width and height in pixels. Photos that are missing or have no readable header are not
/// counted.
pub fn photo_sizes(capture: &Capture) -> BTreeMap<(u32, u32), usize> {
    let each: Vec<Option<(u32, u32)>> = capture.images.par_iter().map(size).collect();
    let mut sizes = BTreeMap::new();
    for size in each.into_iter().flatten() {
        *sizes.entry(size).or_default() += 1;
    }
    sizes
}

fn size(image: &PosedImage) -> Option<(u32, u32)> {
    let path = image.existing()?;
    let mut head = Vec::new();
    let open = || bounded::open("cannot read the photo", &path).ok();
    let file = open()?;
    file.take(16).read_to_end(&mut head).ok()?;
    // The JPEG decoder reads its whole input; other decoders read only what they need.
    if image::guess_format(&head).ok() != Some(ImageFormat::Jpeg) {
        let reader = ImageReader::open(&path).ok()?;
        return reader.with_guessed_format().ok()?.into_dimensions().ok();
    }
    head.clear();
    open()?.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    ImageReader::with_format(Cursor::new(head), ImageFormat::Jpeg)
        .into_dimensions()
        .ok()
}
