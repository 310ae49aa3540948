//! Moving, turning and scaling: similarities, without mirrors.
//!
//! A point p becomes `scale * rotation p + translation`. Centres follow it; rotations of Gaussians are turned,
//! logarithms of their scales grow by ln(scale), and colours turn with them ([`crate::harmonics`]). Cameras that
//! saw the Gaussians before see the same pictures once they are moved too: [`Similarity::camera`].

use crate::harmonics::Turn;
use crate::{Camera, Error, Pose, Result, Splats};
use dapple_base::numbers::plain;
use glam::{DMat3, DQuat, DVec3};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Gaussians that a task takes.
const CHUNK: usize = 4096;

/// A rotation, a uniform scale and a translation, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Similarity {
    /// Unit quaternion `[w, x, y, z]`.
    pub rotation: [f64; 4],
    /// Above 0.
    pub scale: f64,
    /// World units, added last.
    pub translation: [f64; 3],
}

impl Default for Similarity {
    fn default() -> Self {
        Self::IDENTITY
    }
}

impl Similarity {
    /// Changes nothing.
    pub const IDENTITY: Self = Self {
        rotation: [1.0, 0.0, 0.0, 0.0],
        scale: 1.0,
        translation: [0.0; 3],
    };

    /// A move.
    pub fn translation(by: [f64; 3]) -> Self {
        Self {
            translation: by,
            ..Self::IDENTITY
        }
    }

    /// Larger or smaller, about the origin.
    pub fn scale(by: f64) -> Self {
        Self {
            scale: by,
            ..Self::IDENTITY
        }
    }

    /// A turn about the origin.
    pub fn rotation(by: DQuat) -> Self {
        Self {
            rotation: [by.w, by.x, by.y, by.z],
            ..Self::IDENTITY
        }
    }

    /// Degrees about x, then about y, then about z, all of them the world's own axes.
    pub fn from_degrees(degrees: [f64; 3]) -> Self {
        Self::rotation(turn_of_degrees(degrees))
    }

    /// The rotation, normalised.
    pub fn quat(&self) -> DQuat {
        let [w, x, y, z] = self.rotation;
        DQuat::from_xyzw(x, y, z, w).normalize()
    }

    /// Where a point goes.
    pub fn point(&self, p: DVec3) -> DVec3 {
        self.scale * (self.quat() * p) + DVec3::from(self.translation)
    }

    /// This one, and then `next`.
    #[must_use]
    pub fn then(&self, next: &Self) -> Self {
        Self {
            translation: next.point(self.translation.into()).to_array(),
            scale: self.scale * next.scale,
            ..Self::rotation((next.quat() * self.quat()).normalize())
        }
    }

    /// Returns the inverse.
    #[must_use]
    pub fn inverse(&self) -> Self {
        let turn = Self {
            scale: 1.0 / self.scale,
            ..Self::rotation(self.quat().inverse())
        };
        let translation = -turn.point(self.translation.into());
        Self {
            translation: translation.to_array(),
            ..turn
        }
    }

    /// The same motion, of coordinates that count from `origin`.
    #[must_use]
    pub fn about(&self, origin: DVec3) -> Self {
        if origin == DVec3::ZERO || *self == Self::IDENTITY {
            return *self;
        }
        let there = Self::translation(origin.to_array());
        let back = Self::translation((-origin).to_array());
        there.then(self).then(&back)
    }

    /// Its eight numbers as files record them: rotation (w, x, y, z), scale, translation.
    pub fn numbers(&self) -> [f64; 8] {
        let ([w, x, y, z], [a, b, c]) = (self.rotation, self.translation);
        [w, x, y, z, self.scale, a, b, c]
    }

    /// From eight [`numbers`](Self::numbers); `None` where they are no similarity.
    pub fn of_numbers([w, x, y, z, scale, a, b, c]: [f64; 8]) -> Option<Self> {
        let similarity = Self {
            rotation: [w, x, y, z],
            scale,
            translation: [a, b, c],
        };
        similarity.check().ok().map(|()| similarity)
    }

    /// The camera that sees of moved Gaussians what `camera` saw of them before.
    pub fn camera(&self, camera: &Camera) -> Camera {
        if *self == Self::IDENTITY {
            return *camera;
        }
        let pose = &camera.camera_from_world;
        let rotation = (pose.rotation * self.quat().inverse()).normalize();
        let centre = self.point(pose.centre());
        Camera {
            camera_from_world: Pose {
                rotation,
                translation: -(rotation * centre),
            },
            ..*camera
        }
    }

    /// Checks that it is one.
    ///
    /// # Errors
    /// Numbers that are not finite, a rotation of zeros, a scale of 0 or below.
    pub fn check(&self) -> Result<()> {
        let [w, x, y, z] = self.rotation;
        let length = (w * w + x * x + y * y + z * z).sqrt();
        if !(length.is_finite() && length > 1e-12) {
            return Err(Error::input(
                "the rotation is none: all of its numbers are 0, or one is not finite",
            )
            .hint("give degrees about x, y and z, or a quaternion w,x,y,z"));
        }
        // A logarithm of it is added to f32, so the range is that of sensible units.
        if !(1e-9..=1e9).contains(&self.scale) {
            return Err(
                Error::input(format!("a scene cannot be scaled by {}", plain(self.scale)))
                    .hint("0.01 makes centimetres of metres; mirrors and 0 are not possible"),
            );
        }
        // Positions are f32.
        let most = f64::from(f32::MAX);
        match self
            .translation
            .iter()
            .find(|v| !(-most..=most).contains(*v))
        {
            None => Ok(()),
            Some(v) => Err(
                Error::input(format!("a scene cannot be moved by {}", plain(*v)))
                    .hint("give three finite numbers, world units: 0,1.5,0"),
            ),
        }
    }

    /// Moves all Gaussians.
    pub fn apply(&self, splats: &mut Splats) {
        let (quat, grows) = (self.quat(), self.scale.ln());
        let matrix = self.scale * DMat3::from_quat(quat);
        let translation = DVec3::from(self.translation);
        let turns = DVec3::new(quat.x, quat.y, quat.z) != DVec3::ZERO;
        splats.means.par_chunks_mut(CHUNK).for_each(|means| {
            for mean in means {
                let p = DVec3::from(mean.map(f64::from));
                *mean = (matrix * p + translation).to_array().map(|v| v as f32);
            }
        });
        if self.scale != 1.0 {
            splats.scales.par_chunks_mut(CHUNK).for_each(|scales| {
                for scale in scales.iter_mut().flatten() {
                    *scale = (f64::from(*scale) + grows) as f32;
                }
            });
        }
        if !turns {
            return;
        }
        splats.quats.par_chunks_mut(CHUNK).for_each(|quats| {
            for q in quats {
                let [w, x, y, z] = q.map(f64::from);
                let turned = quat * DQuat::from_xyzw(x, y, z, w);
                *q = [turned.w, turned.x, turned.y, turned.z].map(|v| v as f32);
            }
        });
        let stride = splats.sh_rest_stride();
        if stride > 0 {
            let turn = Turn::new(DMat3::from_quat(quat));
            splats
                .sh_rest
                .par_chunks_mut(stride * CHUNK)
                .for_each(|rows| {
                    rows.chunks_mut(stride).for_each(|row| turn.apply(row));
                });
        }
    }
}

/// Degrees about x, then y, then z.
pub(crate) fn turn_of_degrees(degrees: [f64; 3]) -> DQuat {
    let [x, y, z] = degrees.map(f64::to_radians);
    DQuat::from_rotation_z(z) * DQuat::from_rotation_y(y) * DQuat::from_rotation_x(x)
}
