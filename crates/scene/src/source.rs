//! Source of a view's pixels: memory, or the photo's file at each use.
//!
//! 1. A capture whose photos exceed [`LoadOptions::photo_memory_bytes`] is *described*: every file is read and its
//!    header checked, but nothing is decoded. The header's size and the lens give the view's camera.
//! 2. At each use, the file is decoded, masked, reduced and undistorted as at the first load, with equal
//!    pixels.
//! 3. The caller decides which pixels to cache and when to read ahead.

use crate::capture::PosedImage;
use crate::{Error, LoadOptions, Photo, RegionMask, Result, ViewFiles, load};
use std::sync::Arc;

/// Source of a view's pixels.
#[derive(Debug, Clone)]
pub enum PhotoSource {
    /// Pixels in memory.
    Memory(Arc<Photo>),
    /// Pixels that are read at each use.
    File(Arc<PhotoFile>),
    /// Pixels of another source, reduced at each use.
    Reduced {
        /// Source photo that is reduced.
        of: Arc<PhotoSource>,
        /// Width and height, pixels.
        size: [u32; 2],
    },
    /// Pixels of another source, whose mask is narrowed to a region of the scene at each use.
    Masked {
        /// Source photo.
        of: Arc<PhotoSource>,
        /// Pixels that remain in the mask.
        mask: Arc<RegionMask>,
    },
}

impl PhotoSource {
    /// Returns the photo: from memory, or decoded now.
    ///
    /// # Errors
    /// A file that is missing, or changed since it was described, or cannot be decoded.
    pub fn read(&self) -> Result<Arc<Photo>> {
        match self {
            Self::Memory(photo) => Ok(Arc::clone(photo)),
            Self::File(file) => file.read().map(Arc::new),
            Self::Reduced { of, size: [w, h] } => Ok(Arc::new(of.read()?.reduced(*w, *h))),
            Self::Masked { of, mask } => Ok(Arc::new(mask.apply(of.read()?.as_ref()))),
        }
    }

    /// Returns this photo with its mask narrowed.
    #[must_use]
    pub fn masked(self, mask: RegionMask) -> Self {
        Self::Masked {
            of: Arc::new(self),
            mask: Arc::new(mask),
        }
    }

    /// Returns this photo at half its size, rounded up.
    #[must_use]
    pub fn halved(&self) -> Self {
        Self::Reduced {
            of: Arc::new(self.clone()),
            size: self.size().map(|edge| edge.div_ceil(2)),
        }
    }

    /// Returns width and height, pixels.
    pub fn size(&self) -> [u32; 2] {
        match self {
            Self::Memory(photo) => [photo.width, photo.height],
            Self::File(file) => file.size,
            Self::Reduced { size, .. } => *size,
            Self::Masked { of, .. } => of.size(),
        }
    }

    /// Returns the bytes of the photo in memory; for a file the maximum.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Memory(photo) => photo.bytes(),
            Self::File(file) => file.bytes,
            Self::Reduced { of, size } => {
                let pixels = |[w, h]: [u32; 2]| u64::from(w) * u64::from(h);
                let whole = pixels(of.size()).max(1);
                // Whole planes of either size.
                of.bytes() / whole * pixels(*size)
            }
            Self::Masked { of, .. } => {
                let [width, height] = of.size();
                of.bytes() + u64::from(width) * u64::from(height)
            }
        }
    }

    /// Returns true if pixels are transparent; for a file, true if they may be.
    pub fn has_alpha(&self) -> bool {
        match self {
            Self::Memory(photo) => photo.alpha.is_some(),
            Self::File(file) => file.has_alpha,
            Self::Reduced { of, .. } | Self::Masked { of, .. } => of.has_alpha(),
        }
    }

    /// Returns true if the pixels have to be read first.
    pub fn is_file(&self) -> bool {
        match self {
            Self::Memory(_) => false,
            Self::File(_) => true,
            Self::Reduced { of, .. } | Self::Masked { of, .. } => of.is_file(),
        }
    }
}

impl From<Photo> for PhotoSource {
    fn from(photo: Photo) -> Self {
        Self::Memory(Arc::new(photo))
    }
}

impl From<Arc<Photo>> for PhotoSource {
    fn from(photo: Arc<Photo>) -> Self {
        Self::Memory(photo)
    }
}

/// A photo on disk, with the operations before training.
#[derive(Debug)]
pub struct PhotoFile {
    pub(crate) image: PosedImage,
    pub(crate) options: LoadOptions,
    pub(crate) size: [u32; 2],
    pub(crate) bytes: u64,
    pub(crate) has_alpha: bool,
    pub(crate) files: ViewFiles,
}

impl PhotoFile {
    fn read(&self) -> Result<Photo> {
        let (photo, camera, treatment) = load::decode_photo(&self.image, &self.options)?;
        if [camera.width, camera.height] != self.size {
            let [width, height] = self.size;
            return Err(Error::input(format!(
                "the photo \"{}\" has changed: it comes to {}x{} pixels now, and came to {width}x{height}",
                self.image.name, camera.width, camera.height
            ))
            .at_path(self.image.path()?)
            .hint("training reads the photos at each use: do not change them during the run"));
        }
        let ViewFiles {
            photo: now, mask, ..
        } = treatment.files;
        if (now, mask) != (self.files.photo, self.files.mask) {
            let what = match now == self.files.photo {
                true => "mask of",
                false => "photo",
            };
            return Err(Error::input(format!(
                "the {what} \"{}\" has changed since the run began to read it",
                self.image.name
            ))
            .at_path(self.image.path()?)
            .hint("training reads the photos at each use: do not change them during the run"));
        }
        Ok(photo)
    }
}
