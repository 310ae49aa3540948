//! Camera models of panoramas, one file each.

mod cylindrical;
mod equirectangular;

use super::lens::LensModel;
use cylindrical::Cylindrical;
use dapple_scene::{Camera, Panorama};
use equirectangular::Equirectangular;

/// Creates the camera model of a panorama.
pub(super) fn model(panorama: Panorama, camera: &Camera) -> Box<dyn LensModel> {
    match panorama {
        Panorama::Equirectangular => Box::new(Equirectangular::new(camera)),
        Panorama::Cylindrical => Box::new(Cylindrical::new(camera)),
    }
}
