//! Photos as files, and the summary of a written capture.

use dapple_scene::{Error, ErrorKind, Photo, Progress, Result};
use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Summary of the files that [`generate`](crate::generate) wrote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SynthSummary {
    /// Folder of the capture.
    pub folder: PathBuf,
    /// Number of photos written.
    pub photos: usize,
    /// Number of sparse points written; fewer than requested if hardly any place is seen twice.
    pub points: usize,
    /// Number of observations of points in photos.
    pub observations: usize,
}

/// Returns an error if the caller requests a stop.
pub(super) fn go_on(progress: &dyn Progress, out: &Path) -> Result<()> {
    if progress.should_stop() {
        let what = "stopped before the capture was complete; nothing of it is left";
        return Err(Error::new(ErrorKind::Interrupted, what).at_path(out));
    }
    Ok(())
}

/// Writes a PNG, without a synchronisation to the disk: the folder appears only at the end.
pub(super) fn write_png(path: &Path, photo: &Photo) -> Result<()> {
    let failed = |source| Error::io("cannot write the photo", path, source);
    let file = File::create(path).map_err(failed)?;
    let mut out = BufWriter::new(file);
    let (pixels, colour) = match &photo.alpha {
        None => (Cow::Borrowed(&photo.rgb), ExtendedColorType::Rgb8),
        Some(alpha) => {
            let rgb = photo.rgb.as_chunks::<3>().0.iter();
            let rgba = rgb.zip(alpha).flat_map(|(&[r, g, b], &a)| [r, g, b, a]);
            (Cow::Owned(rgba.collect()), ExtendedColorType::Rgba8)
        }
    };
    PngEncoder::new_with_quality(&mut out, CompressionType::Fast, FilterType::Adaptive)
        .write_image(&pixels, photo.width, photo.height, colour)
        .map_err(|error| match error {
            image::ImageError::IoError(error) => failed(error),
            other => failed(io::Error::other(other)),
        })?;
    out.flush().map_err(failed)
}
