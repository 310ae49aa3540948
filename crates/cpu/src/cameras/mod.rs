//! Camera models, one file each: see [`dapple_engine::camera_model`]. Kernels are compiled once for each model.

mod cylindrical;
mod equirectangular;
mod frames;
mod lens;
mod pinhole;
mod projector;

pub use cylindrical::Cylindrical;
pub use equirectangular::Equirectangular;
pub use lens::{DistortingLens, place_of};
pub use pinhole::Pinhole;
pub use projector::{CameraV, Projector, Shape};

/// Runs an expression with the type of a camera's model and the constant of anti-aliasing.
macro_rules! for_model {
    ($camera:expr, $antialias:expr, |$Model:ident, $ANTIALIAS:ident| $run:expr) => {{
        use dapple_engine::CameraModel;
        use dapple_scene::Panorama;
        macro_rules! with {
            ($model:ty, $antialiased:literal) => {{
                type $Model = $model;
                const $ANTIALIAS: bool = $antialiased;
                $run
            }};
        }
        match ($camera.model, $antialias) {
            (CameraModel::Pinhole, false) => with!($crate::cameras::Pinhole, false),
            (CameraModel::Pinhole, true) => with!($crate::cameras::Pinhole, true),
            (CameraModel::Lens, false) => with!($crate::cameras::DistortingLens, false),
            (CameraModel::Lens, true) => with!($crate::cameras::DistortingLens, true),
            (CameraModel::Panorama(Panorama::Equirectangular), false) => {
                with!($crate::cameras::Equirectangular, false)
            }
            (CameraModel::Panorama(Panorama::Equirectangular), true) => {
                with!($crate::cameras::Equirectangular, true)
            }
            (CameraModel::Panorama(Panorama::Cylindrical), false) => {
                with!($crate::cameras::Cylindrical, false)
            }
            (CameraModel::Panorama(Panorama::Cylindrical), true) => {
                with!($crate::cameras::Cylindrical, true)
            }
        }
    }};
}
pub(crate) use for_model;
