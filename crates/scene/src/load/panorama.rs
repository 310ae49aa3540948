//! Cameras of panoramas: the names of their model, and the size that they need.

use crate::{Camera, Error, Pose, Result};

/// Parts of the names that programs give to the equirectangular model: COLMAP and Nerfstudio EQUIRECTANGULAR, OpenSfM
/// and Metashape "spherical" and "equirectangular".
const NAMES: [&str; 3] = ["EQUIRECT", "SPHERICAL", "PANORAM"];

/// Returns true if this camera model is the equirectangular one.
pub(crate) fn is_panorama(model: &str) -> bool {
    let model = model.to_ascii_uppercase();
    NAMES.iter().any(|name| model.contains(name))
}

/// Builds the camera of a panorama of this size.
///
/// # Errors
/// A size that is not twice as wide as high, up to a pixel of rounding.
pub(crate) fn panorama(width: u32, height: u32, camera_from_world: Pose) -> Result<Camera> {
    if u64::from(width).abs_diff(2 * u64::from(height)) > 2 {
        return Err(Error::input(format!(
            "a panorama of all directions has {width}x{height} pixels, but is twice as wide as high"
        ))
        .hint("pad the panorama to 360 by 180 degrees, and mask what was added"));
    }
    Ok(Camera::equirectangular(width, height, camera_from_world))
}
