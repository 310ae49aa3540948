//! Views of photos that stay in their files.

use super::photo::{Treatment, check_size, check_undistort, depth_of, depth_sum, reduced_camera};
use crate::capture::PosedImage;
use crate::masks::{MaskMode, Masked};
use crate::source::{PhotoFile, PhotoSource};
use crate::undistort::pinhole_camera;
use crate::{FileSum, LoadOptions, Result, View, ViewFiles, images};
use std::sync::Arc;

/// Builds a view of an image whose file was read, but not decoded.
pub(super) fn describe(image: &PosedImage, options: &LoadOptions) -> Result<(View, Treatment)> {
    let path = image.path()?;
    let header = images::header(&path)?;
    let size = (header.width, header.height);
    check_size(image, &path, size.0, size.1)?;
    check_undistort(image, options)?;
    let mut camera = reduced_camera(image, size, options);
    let distorts = !camera.lens.is_identity();
    if !distorts || options.undistort {
        camera = pinhole_camera(&camera);
    }
    let mask = image.mask_path()?;
    let has_mask = mask.is_some();
    let files = ViewFiles {
        photo: Some(header.sum),
        mask: mask.as_deref().map(FileSum::of_file).transpose()?,
        depth: depth_sum(image, options)?,
    };
    let segments = options.mask_mode == MaskMode::Segment;
    let ignores_alpha = options.mask_mode == MaskMode::Ignore && header.alpha;
    let treatment = Treatment {
        rescaled: size != (image.camera.width, image.camera.height) && !image.downscaled,
        deep: header.deep,
        distorted: distorts && !options.undistort && camera.lens.is_perspective(),
        panorama: !camera.lens.is_perspective(),
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
        depth: depth_of(image, &camera, options)?,
    };
    Ok((view, treatment))
}
