//! Camera models, one file each: see [`dapple_engine::camera_model`]. Kernels are compiled once for each model.

mod equirectangular;
mod lens;
mod pinhole;

pub use equirectangular::Equirectangular;
pub use lens::DistortingLens;
pub use pinhole::Pinhole;

use crate::frame::CameraF32;
use crate::projection::{CameraV, GeometryGradient, Projection, V3};
use crate::simd::{M, V};
use pulp::Simd;

/// Projection of a camera model.
pub trait Projector: Copy + Send + Sync + 'static {
    /// Constants of the model in every lane.
    type Constants<S: Simd>: Copy;

    /// Broadcasts the constants.
    fn constants<S: Simd>(s: S, camera: &CameraF32) -> Self::Constants<S>;

    /// Returns the depths of points in camera coordinates.
    #[inline(always)]
    fn depth<S: Simd>(point: V3<S>) -> V<S> {
        point[2]
    }

    /// Returns the derivative of the depth by the point in the world.
    #[inline(always)]
    fn depth_row<S: Simd>(camera: &CameraV<S, Self>, _: &Projection<S>) -> V3<S> {
        camera.rotation[2]
    }

    /// Adds the derivative by the depth to that by the point in camera coordinates.
    #[inline(always)]
    fn add_depth<S: Simd>(_: &Projection<S>, by_depth: V<S>, g: &mut GeometryGradient<S>) {
        g.point[2] += by_depth;
    }

    /// Projects points in camera coordinates. Results of lanes that are not `valid` are finite.
    fn forward<S: Simd>(s: S, camera: &CameraV<S, Self>, point: V3<S>, valid: M<S>) -> Shape<S>;

    /// The chain rule through [`Self::forward`], from dL/dcentre and dL/dT: to the point in camera coordinates, and to a
    /// small rotation of the camera through T alone.
    fn backward<S: Simd>(
        s: S,
        p: &Projection<S>,
        camera: &CameraV<S, Self>,
        d_mean2d: [V<S>; 2],
        dt: &[V3<S>; 2],
    ) -> (V3<S>, V3<S>);
}

/// Centres on the image, and the linear map of a neighbourhood to the image.
pub struct Shape<S: Simd> {
    /// Lanes that are valid and that the camera shows.
    pub valid: M<S>,
    /// Centres, pixels.
    pub mean2d: [V<S>; 2],
    /// Rows of T: from the world to pixels.
    pub t: [V3<S>; 2],
    /// Slopes, of perspective cameras.
    pub slopes: Slopes<S>,
}

/// Slopes of points before a perspective camera.
#[derive(Clone, Copy)]
pub struct Slopes<S: Simd> {
    /// 1 / z.
    pub inverse_z: V<S>,
    /// x / z and y / z.
    pub uv: [V<S>; 2],
    /// x / z and y / z, clamped for the Jacobian.
    pub clamped: [V<S>; 2],
}

/// Runs an expression with the type of a camera's model and the constant of anti-aliasing.
macro_rules! for_model {
    ($camera:expr, $antialias:expr, |$Model:ident, $ANTIALIAS:ident| $run:expr) => {{
        use dapple_engine::CameraModel;
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
            (CameraModel::Equirectangular, false) => with!($crate::cameras::Equirectangular, false),
            (CameraModel::Equirectangular, true) => with!($crate::cameras::Equirectangular, true),
        }
    }};
}
pub(crate) use for_model;
