//! Camera models of panoramas, one file each.

mod equirectangular;

use super::lens::LensModel;
use dapple_scene::{Camera, Panorama};
use equirectangular::Equirectangular;

/// Creates the camera model of a panorama.
pub(super) fn model(panorama: Panorama, camera: &Camera) -> Box<dyn LensModel> {
    match panorama {
        Panorama::Equirectangular => Box::new(Equirectangular::new(camera)),
    }
}
