//! Prepares one photo: decodes, masks and reduces it, with the camera that fits it.

use super::LoadOptions;
use crate::capture::PosedImage;
use crate::images::{self, Decoded};
use crate::masks::{self, Masked};
use crate::resize::reduce;
use crate::shown::mask_beyond;
use crate::undistort::undistort;
use crate::{Camera, DepthMap, Error, FileSum, Photo, Result, ViewFiles, depth_map};
use std::path::Path;
use std::sync::Arc;

/// Operations on a photo, for the notes.
#[derive(Default)]
pub(crate) struct Treatment {
    pub(crate) rescaled: bool,
    pub(crate) deep: bool,
    /// True if EXIF turns or mirrors the photo in a way that its size does not show.
    pub(crate) turned: bool,
    /// True if the lens distorts, and the camera keeps it.
    pub(crate) distorted: bool,
    /// True if the photo is a panorama.
    pub(crate) panorama: bool,
    /// True if pixels outside the range of the lens were masked.
    pub(crate) beyond: bool,
    pub(crate) undistorted: bool,
    pub(crate) masked: Masked,
    /// Checksums of the photo's input files.
    pub(crate) files: ViewFiles,
}

/// Returns the camera of a photo of this size after reduction, with its lens.
pub(crate) fn reduced_camera(
    image: &PosedImage,
    (width, height): (u32, u32),
    options: &LoadOptions,
) -> Camera {
    let divisor = match options.downscale {
        Some(n) if !image.downscaled => n,
        _ => 1,
    };
    let (width, height) = target_size((width, height), divisor, options.max_resolution);
    image.camera.resized(width, height)
}

/// Decodes a photo: masked, reduced and, if the options request it, undistorted, with its camera.
pub(crate) fn decode_photo(
    image: &PosedImage,
    options: &LoadOptions,
) -> Result<(Photo, Camera, Treatment)> {
    let path = image.path()?;
    check_undistort(image, options)?;
    let Decoded {
        mut photo,
        deep,
        turned,
        sum,
    } = images::decode(&path, |width, height| {
        check_size(image, &path, width, height)
    })?;
    let mut treatment = Treatment {
        deep,
        turned,
        ..Treatment::default()
    };
    let as_described = (photo.width, photo.height) == (image.camera.width, image.camera.height);
    treatment.rescaled = !as_described && !image.downscaled;
    let mut camera = reduced_camera(image, (photo.width, photo.height), options);
    let mask = image.mask_path()?;
    treatment.files.photo = Some(sum);
    treatment.files.mask = mask.as_deref().map(FileSum::of_file).transpose()?;
    let invert = options.invert_masks;
    treatment.masked = masks::apply(&mut photo, mask.as_deref(), options.mask_mode, invert)?;
    if (camera.width, camera.height) != (photo.width, photo.height) {
        photo = reduce(&photo, camera.width, camera.height);
    }
    if camera.lens.is_identity() {
        camera.lens = crate::Lens::Pinhole;
    } else {
        let wanted = photo.mask.as_ref().is_none_or(|mask| mask.contains(&255));
        if options.undistort {
            (photo, camera) = undistort(&photo, &camera);
            treatment.undistorted = true;
        } else {
            treatment.distorted = camera.lens.is_perspective();
            treatment.panorama = !treatment.distorted;
            treatment.beyond = mask_beyond(&mut photo, &camera);
        }
        if wanted && photo.mask.as_ref().is_some_and(|mask| !mask.contains(&255)) {
            return Err(Error::input(format!(
                "nothing of the photo \"{}\" lies within what its lens shows",
                image.name
            ))
            .at_path(&path)
            .hint("the camera's distortion coefficients make no lens: calibrate again"));
        }
    }
    Ok((photo, camera, treatment))
}

/// Refuses to undistort a panorama.
pub(crate) fn check_undistort(image: &PosedImage, options: &LoadOptions) -> Result<()> {
    if !options.undistort || image.camera.lens.is_perspective() {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "the photo \"{}\" is a panorama, which no single photo without distortion can show",
        image.name
    ))
    .at(image.name.clone())
    .hint("omit --undistort: panoramas are trained on as they are"))
}

/// Refuses a photo with another aspect ratio than the camera's.
pub(crate) fn check_size(image: &PosedImage, path: &Path, width: u32, height: u32) -> Result<()> {
    let Camera {
        width: w,
        height: h,
        ..
    } = image.camera;
    // Each edge of a scaled photo may have been rounded up or down by less than a pixel.
    let crossed = |a: u32, b: u32| i128::from(a) * i128::from(b);
    let off = (crossed(width, h) - crossed(height, w)).unsigned_abs();
    if off <= u128::from(w) + u128::from(h) {
        return Ok(());
    }
    Err(Error::input(format!(
        "the photo \"{}\" has {width}x{height} pixels, but its camera {w}x{h}",
        image.name
    ))
    .at_path(path)
    .hint(if crossed(width, w) != crossed(height, h) {
        "use the photos that the poses were found with, or copies scaled in proportion"
    } else if images::is_turned_by_exif(path) {
        "its EXIF orientation turns the photo, and the poses were found with it turned; here pixels count as \
         they are stored: store them turned (`magick mogrify -auto-orient` on copies)"
    } else {
        "the photo was rotated after the poses were found, or has lost its EXIF orientation: restore the \
         original"
    }))
}

/// Returns the size after dividing by `divisor` and limiting the longest edge.
fn target_size(
    (width, height): (u32, u32),
    divisor: u32,
    max_resolution: Option<u32>,
) -> (u32, u32) {
    let divided = |edge: u32| (f64::from(edge) / f64::from(divisor)).round().max(1.0);
    let (w, h) = (divided(width), divided(height));
    let scale = max_resolution.map_or(1.0, |max| (f64::from(max) / w.max(h)).min(1.0));
    let scaled = |edge: f64| (edge * scale).round().max(1.0) as u32;
    (scaled(w), scaled(h))
}

/// Computes the checksum of a photo's depth image file, if depths are requested.
pub(crate) fn depth_sum(image: &PosedImage, options: &LoadOptions) -> Result<Option<FileSum>> {
    if !options.depths {
        return Ok(None);
    }
    let path = depth_map::find(image, options.depth_folder.as_deref())?;
    path.as_deref().map(FileSum::of_file).transpose()
}

/// Reads a photo's depth image, if depths are requested, for the camera of the processed photo. The depth image is
/// stored in memory even if its photo is not, because training needs all of them at once.
pub(crate) fn depth_of(
    image: &PosedImage,
    camera: &Camera,
    options: &LoadOptions,
) -> Result<Option<Arc<DepthMap>>> {
    if !options.depths {
        return Ok(None);
    }
    let folder = options.depth_folder.as_deref();
    Ok(depth_map::load(image, folder, camera)?.map(Arc::new))
}
