//! Cameras: pose, intrinsics and lens.

use crate::{Panorama, Rays};
use glam::{DMat3, DQuat, DVec2, DVec3};
use serde::{Deserialize, Serialize};

/// A rigid transform from world to camera: `p_camera = rotation * p_world + translation`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pose {
    /// Unit rotation.
    pub rotation: DQuat,
    /// Translation in camera coordinates, world units.
    pub translation: DVec3,
}

impl Pose {
    /// Identity: world and camera coincide.
    pub const IDENTITY: Self = Self {
        rotation: DQuat::IDENTITY,
        translation: DVec3::ZERO,
    };

    /// Builds a pose from a quaternion `[w, x, y, z]` (normalised here) and a translation.
    pub fn from_wxyz(quat: [f64; 4], translation: DVec3) -> Self {
        let [w, x, y, z] = quat;
        Self {
            rotation: DQuat::from_xyzw(x, y, z, w).normalize(),
            translation,
        }
    }

    /// Builds the pose of a camera at `eye` that looks at `target`; `up` points up in the world.
    pub fn look_at(eye: DVec3, target: DVec3, up: DVec3) -> Self {
        let forward = (target - eye).normalize();
        let right = forward.cross(up).normalize();
        let down = forward.cross(right);
        let world_from_camera = DMat3::from_cols(right, down, forward);
        let rotation = DQuat::from_mat3(&world_from_camera.transpose()).normalize();
        Self {
            rotation,
            translation: -(rotation * eye),
        }
    }

    /// Returns the rotation as a matrix.
    pub fn rotation_matrix(&self) -> DMat3 {
        DMat3::from_quat(self.rotation)
    }

    /// Maps a point from world to camera coordinates.
    pub fn transform(&self, point_world: DVec3) -> DVec3 {
        self.rotation * point_world + self.translation
    }

    /// Returns the direction of view, world coordinates.
    pub fn forward(&self) -> DVec3 {
        self.rotation.conjugate() * DVec3::Z
    }

    /// Returns the camera's centre in world coordinates.
    pub fn centre(&self) -> DVec3 {
        -(self.rotation.conjugate() * self.translation)
    }

    /// Returns this pose in a world whose origin is at `origin` of the present world, with the same axes. If `origin`
    /// is zero, the result is bit-identical.
    #[must_use]
    pub fn about(&self, origin: DVec3) -> Self {
        if origin == DVec3::ZERO {
            return *self;
        }
        Self {
            rotation: self.rotation,
            translation: self.translation + self.rotation * origin,
        }
    }

    /// Returns true if every number is finite.
    pub fn is_finite(&self) -> bool {
        self.rotation.is_finite() && self.translation.is_finite()
    }
}

/// Lens model: how a lens bends rays. Coefficients follow COLMAP's models of the same names.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Lens {
    /// No distortion (PINHOLE, SIMPLE_PINHOLE).
    Pinhole,
    /// `k1, k2` (SIMPLE_RADIAL has k2 = 0, RADIAL both).
    Radial([f64; 2]),
    /// `k1, k2, p1, p2`.
    OpenCv([f64; 4]),
    /// `k1, k2, p1, p2, k3, k4, k5, k6`.
    FullOpenCv([f64; 8]),
    /// `omega`.
    Fov(f64),
    /// Enhanced unified camera model: `alpha, beta` (EUCM). SIMPLE_DIVISION and DIVISION of `k` are `1/2, -4 k`.
    Eucm([f64; 2]),
    /// Kannala-Brandt `k1..k4` (OPENCV_FISHEYE; the radial fisheyes have trailing zeros).
    Fisheye([f64; 4]),
    /// `k1, k2, p1, p2, k3, k4, sx1, sy1`.
    ThinPrismFisheye([f64; 8]),
    /// `k0..k5, p0, p1, s0..s3` (RAD_TAN_THIN_PRISM_FISHEYE).
    RadTanThinPrismFisheye([f64; 12]),
    /// Panorama, without coefficients. Focal lengths are pixels per radian and per unit of height: see
    /// [`Panorama::camera`].
    #[serde(untagged)]
    Panorama(Panorama),
}

/// A posed camera: image size in pixels, focal lengths and principal point in pixels, lens, pose.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Camera {
    /// Image width, pixels.
    pub width: u32,
    /// Image height, pixels.
    pub height: u32,
    /// Horizontal focal length, pixels.
    pub fx: f64,
    /// Vertical focal length, pixels.
    pub fy: f64,
    /// Principal point x, pixels from the left edge.
    pub cx: f64,
    /// Principal point y, pixels from the top edge.
    pub cy: f64,
    /// Lens distortion.
    pub lens: Lens,
    /// Pose of the camera: camera from world.
    pub camera_from_world: Pose,
}

impl Camera {
    /// Builds a pinhole camera with its principal point in the centre.
    pub fn pinhole(width: u32, height: u32, focal: f64, camera_from_world: Pose) -> Self {
        Self {
            width,
            height,
            fx: focal,
            fy: focal,
            cx: f64::from(width) / 2.0,
            cy: f64::from(height) / 2.0,
            lens: Lens::Pinhole,
            camera_from_world,
        }
    }

    /// Builds the camera of a panorama of all directions: longitude `atan2(x, z)` across, latitude `atan2(y, hypot(x, z))`
    /// down. The middle of the image is the camera's +z.
    pub fn equirectangular(width: u32, height: u32, camera_from_world: Pose) -> Self {
        Panorama::Equirectangular.camera(width, height, camera_from_world)
    }

    /// Returns this camera for an image scaled to `width` x `height`; both axes keep their field of view.
    #[must_use]
    pub fn resized(&self, width: u32, height: u32) -> Self {
        let (sx, sy) = (
            f64::from(width) / f64::from(self.width),
            f64::from(height) / f64::from(self.height),
        );
        Self {
            width,
            height,
            fx: self.fx * sx,
            fy: self.fy * sy,
            cx: self.cx * sx,
            cy: self.cy * sy,
            ..*self
        }
    }

    /// Returns this camera in a world whose origin is at `origin` of the present world: see [`Pose::about`].
    #[must_use]
    pub fn about(&self, origin: DVec3) -> Self {
        Self {
            camera_from_world: self.camera_from_world.about(origin),
            ..*self
        }
    }

    /// Returns true if a pixel is inside of the image.
    pub fn frames(&self, pixel: DVec2) -> bool {
        let (width, height) = (f64::from(self.width), f64::from(self.height));
        (0.0..width).contains(&pixel.x) && (0.0..height).contains(&pixel.y)
    }

    /// Projects a camera-space point to pixels without the distortion of the lens. Returns `None` behind the camera. A
    /// panorama has no part without distortion: its points are projected as [`Rays`] does.
    pub fn project_pinhole(&self, p: DVec3) -> Option<DVec2> {
        if !self.lens.is_perspective() {
            return Rays::new(self).pixel(p);
        }
        (p.z > 0.0)
            .then(|| DVec2::new(self.fx * p.x / p.z + self.cx, self.fy * p.y / p.z + self.cy))
    }
}
