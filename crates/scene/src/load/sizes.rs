//! Sizes of photos, from their headers alone.

use crate::Capture;
use image::ImageReader;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Number of photos of each width and height in pixels. Photos that are missing or have no readable header
/// are not counted.
pub fn photo_sizes(capture: &Capture) -> BTreeMap<(u32, u32), usize> {
    let size = |image: &crate::capture::PosedImage| {
        let reader = ImageReader::open(image.existing()?).ok()?;
        reader.with_guessed_format().ok()?.into_dimensions().ok()
    };
    let each: Vec<Option<(u32, u32)>> = capture.images.par_iter().map(size).collect();
    let mut sizes = BTreeMap::new();
    for size in each.into_iter().flatten() {
        *sizes.entry(size).or_default() += 1;
    }
    sizes
}
