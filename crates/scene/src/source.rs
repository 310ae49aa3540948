//! Source of a view's pixels: memory, or the photo's file at each use.
//!
//! 1. A capture whose photos exceed [`LoadOptions::photo_memory_bytes`] is *described*: every file is read and its
//!    header checked, but nothing is decoded. The header's size and the lens give the view's camera.
//! 2. At each use, the file is decoded, masked, reduced and undistorted as at the first load, with equal
//!    pixels.
//! 3. The caller decides which pixels to cache and when to read ahead.

use crate::capture::PosedImage;
use crate::load::{self, Treatment};
use crate::masks::{MaskMode, Masked};
use crate::undistort::pinhole_camera;
use crate::{Error, FileSum, LoadOptions, Photo, Result, View, ViewFiles, images};
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
        }
    }

    /// Returns true if pixels are transparent; for a file, true if they may be.
    pub fn has_alpha(&self) -> bool {
        match self {
            Self::Memory(photo) => photo.alpha.is_some(),
            Self::File(file) => file.has_alpha,
            Self::Reduced { of, .. } => of.has_alpha(),
        }
    }

    /// Returns true if the pixels have to be read first.
    pub fn is_file(&self) -> bool {
        match self {
            Self::Memory(_) => false,
            Self::File(_) => true,
            Self::Reduced { of, .. } => of.is_file(),
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
    image: PosedImage,
    options: LoadOptions,
    size: [u32; 2],
    bytes: u64,
    has_alpha: bool,
    files: ViewFiles,
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

/// Builds a view of an image whose file was read, but not decoded.
pub(crate) fn describe(image: &PosedImage, options: &LoadOptions) -> Result<(View, Treatment)> {
    let path = image.path()?;
    let header = images::header(&path)?;
    let size = (header.width, header.height);
    load::check_size(image, &path, size.0, size.1)?;
    load::check_undistort(image, options)?;
    let mut camera = load::reduced_camera(image, size, options);
    let distorts = !camera.lens.is_identity();
    if !distorts || options.undistort {
        camera = pinhole_camera(&camera);
    }
    let mask = image.mask_path()?;
    let has_mask = mask.is_some();
    let files = ViewFiles {
        photo: Some(header.sum),
        mask: mask.as_deref().map(FileSum::of_file).transpose()?,
        depth: load::depth_sum(image, options)?,
    };
    let segments = options.mask_mode == MaskMode::Segment;
    let ignores_alpha = options.mask_mode == MaskMode::Ignore && header.alpha;
    let treatment = Treatment {
        rescaled: size != (image.camera.width, image.camera.height) && !image.downscaled,
        deep: header.deep,
        distorted: distorts && !options.undistort && !camera.lens.is_panorama(),
        panorama: camera.lens.is_panorama(),
        undistorted: distorts && options.undistort,
        // Unknown without the pixels.
        beyond: false,
        masked: Masked {
            ignored: has_mask && !segments || ignores_alpha,
            transparent: header.alpha && !ignores_alpha || has_mask && segments,
            ..Masked::default()
        },
        turned: header.turned,
        files,
    };
    let planes = 3
        + u64::from(treatment.masked.transparent)
        + u64::from(treatment.masked.ignored || distorts);
    let file = PhotoFile {
        image: image.clone(),
        options: options.clone(),
        size: [camera.width, camera.height],
        bytes: planes * u64::from(camera.width) * u64::from(camera.height),
        has_alpha: treatment.masked.transparent,
        files,
    };
    let view = View {
        name: image.name.clone(),
        camera,
        source_model: image.source_model.clone(),
        photo: PhotoSource::File(Arc::new(file)),
        depth: load::depth_of(image, &camera, options)?,
    };
    Ok((view, treatment))
}
