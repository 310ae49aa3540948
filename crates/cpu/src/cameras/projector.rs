//! Interface of a camera model: from points in camera coordinates to the image, and back.

use crate::frame::CameraF32;
use crate::simd::{M, Splat, V, V3, each};
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
    fn depth_row<S: Simd>(camera: &CameraV<S, Self>, _: V3<S>) -> V3<S> {
        camera.rotation[2]
    }

    /// Adds the derivative by the depth to `d_point`, that by the point in camera coordinates.
    #[inline(always)]
    fn add_depth<S: Simd>(_: V3<S>, by_depth: V<S>, d_point: &mut V3<S>) {
        d_point[2] += by_depth;
    }

    /// Projects points in camera coordinates. Results of lanes that are not `valid` are finite.
    fn forward<S: Simd>(s: S, camera: &CameraV<S, Self>, point: V3<S>, valid: M<S>) -> Shape<S>;

    /// The chain rule through [`Self::forward`], from dL/dcentre and dL/dT: to the point in camera coordinates, and to a
    /// small rotation of the camera through T alone.
    fn backward<S: Simd>(
        s: S,
        point: V3<S>,
        shape: &Shape<S>,
        camera: &CameraV<S, Self>,
        d_mean2d: [V<S>; 2],
        dt: &[V3<S>; 2],
    ) -> (V3<S>, V3<S>);
}

/// Centres on the image, and the linear map of a neighbourhood to the image.
#[derive(Clone, Copy)]
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

/// Camera constants in every lane, for a camera of model `C`.
#[derive(Clone, Copy)]
pub struct CameraV<S: Simd, C: Projector> {
    /// Rows of the world-to-camera rotation.
    pub rotation: [V3<S>; 3],
    /// Rounding error of `centre`; see [`dapple_engine::PosedCamera`].
    pub centre_rest: V3<S>,
    /// Centre in world coordinates.
    pub centre: V3<S>,
    /// Focal lengths, pixels.
    pub focal: [V<S>; 2],
    /// Principal point, pixels.
    pub principal: [V<S>; 2],
    /// Least x/z and y/z of the Jacobian; see [`dapple_engine::PosedCamera`].
    pub jacobian_min: [V<S>; 2],
    /// Largest x/z and y/z of the Jacobian; see [`dapple_engine::PosedCamera`].
    pub jacobian_max: [V<S>; 2],
    /// Near plane.
    pub near: V<S>,
    /// Dilation beyond the usual one, pixels squared.
    pub extra_dilation: V<S>,
    /// Constants of the model.
    pub model: C::Constants<S>,
}

impl<S: Simd, C: Projector> CameraV<S, C> {
    /// Broadcasts a camera.
    #[inline(always)]
    pub fn new(s: S, camera: &CameraF32) -> Self {
        Self {
            rotation: each!(3, |i| each!(3, |j| s.k(camera.rotation[i][j]))),
            centre_rest: each!(3, |i| s.k(camera.centre_rest[i])),
            centre: each!(3, |i| s.k(camera.centre[i])),
            focal: each!(2, |i| s.k(camera.focal[i])),
            principal: each!(2, |i| s.k(camera.principal[i])),
            jacobian_min: each!(2, |i| s.k(camera.jacobian_min[i])),
            jacobian_max: each!(2, |i| s.k(camera.jacobian_max[i])),
            near: s.k(camera.near),
            extra_dilation: s.k(camera.extra_dilation),
            model: C::constants(s, camera),
        }
    }
}
