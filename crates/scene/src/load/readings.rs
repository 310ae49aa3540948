//! Other readings of a capture's poses, intrinsics and points: common mistakes of writers.

use crate::{Camera, Pose, Rays};
use glam::{DMat3, DQuat, DVec2, DVec3};
use std::f64::consts::PI;

/// A mistake of a writer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// No mistake.
    Given,
    /// Camera axes y and z point the other way.
    Axes,
    /// Poses are inverted.
    Inverse,
    /// Points are in a world with other axes: x, y, z are these axes of that world, 1 to 3, negative if reversed.
    Turned([i8; 3]),
    /// Focal lengths are of photos this many times as large.
    Focal(f64),
    /// Points are in another unit: the factor on the points.
    Unit(f64),
}

/// A capture under the assumption of a mistake.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    pub(super) kind: Kind,
    /// Axes of either side, applied to inverted poses.
    sides: [bool; 2],
    /// World of the cameras from that of the points.
    turn: DMat3,
    /// True if poses are COLMAP's, else those of a transforms file.
    is_colmap: bool,
}

/// Returns all readings except the given one, the most likely first.
pub(super) fn readings(is_colmap: bool) -> Vec<Reading> {
    let given = Reading {
        is_colmap,
        ..Reading::given()
    };
    let kind = |kind| Reading { kind, ..given };
    let mut all = vec![kind(Kind::Axes)];
    for sides in [[false, false], [true, true], [true, false], [false, true]] {
        all.push(Reading {
            sides,
            ..kind(Kind::Inverse)
        });
    }
    for axes in turns() {
        all.push(Reading {
            turn: matrix(axes),
            ..kind(Kind::Turned(axes))
        });
    }
    all.extend([2.0, 4.0, 8.0, 0.5, 0.25, 0.125].map(|k| kind(Kind::Focal(k))));
    let units = [0.001, 0.01, 0.1, 10.0, 100.0, 1000.0];
    all.extend(units.map(|unit| Reading {
        turn: DMat3::from_diagonal(DVec3::splat(unit)),
        ..kind(Kind::Unit(unit))
    }));
    all
}

/// Returns the 23 rotations of the axes without the identity.
fn turns() -> Vec<[i8; 3]> {
    let mut all = Vec::new();
    for x in [1, -1, 2, -2, 3, -3i8] {
        for y in [1, -1, 2, -2, 3, -3i8] {
            for z in [1, -1, 2, -2, 3, -3i8] {
                let axes = [x, y, z];
                if (matrix(axes).determinant() - 1.0).abs() < 0.5 && axes != [1, 2, 3] {
                    all.push(axes);
                }
            }
        }
    }
    all
}

/// Builds the matrix whose row i picks the axis that becomes axis i.
fn matrix(axes: [i8; 3]) -> DMat3 {
    let mut rows = [[0.0; 3]; 3];
    for (row, axis) in rows.iter_mut().zip(axes) {
        row[usize::from(axis.unsigned_abs()) - 1] = f64::from(axis.signum());
    }
    DMat3::from_cols_array_2d(&rows).transpose()
}

/// Returns the rotation by 180 degrees about x: y and z reversed.
fn half_turn() -> DQuat {
    DQuat::from_rotation_x(PI)
}

fn flipped(pose: Pose) -> Pose {
    Pose {
        rotation: half_turn() * pose.rotation,
        translation: half_turn() * pose.translation,
    }
}

impl Reading {
    /// Returns the unchanged reading.
    pub(super) fn given() -> Self {
        Self {
            kind: Kind::Given,
            sides: [false; 2],
            turn: DMat3::IDENTITY,
            is_colmap: true,
        }
    }

    fn camera(&self, camera: &Camera) -> Camera {
        let mut read = *camera;
        let pose = &mut read.camera_from_world;
        match self.kind {
            Kind::Given | Kind::Turned(_) | Kind::Unit(_) => {}
            Kind::Axes => *pose = flipped(*pose),
            Kind::Inverse => {
                let [camera_side, world_side] = self.sides;
                *pose = Pose {
                    rotation: pose.rotation.conjugate(),
                    translation: pose.centre(),
                };
                if world_side {
                    pose.rotation *= half_turn();
                }
                if camera_side {
                    *pose = flipped(*pose);
                }
            }
            Kind::Focal(k) => (read.fx, read.fy) = (camera.fx / k, camera.fy / k),
        }
        read
    }

    /// Describes the reading.
    pub(super) fn what(&self) -> String {
        match self.kind {
            Kind::Given => "the file as it is".to_owned(),
            Kind::Axes => "the cameras' axes y and z the other way".to_owned(),
            Kind::Inverse => "inverted poses".to_owned(),
            Kind::Turned(axes) => {
                let name = |axis: i8| {
                    let name = ["x", "y", "z"][usize::from(axis.unsigned_abs()) - 1];
                    format!("{}{name}", if axis < 0 { "-" } else { "" })
                };
                format!("the points turned to ({})", axes.map(name).join(", "))
            }
            Kind::Focal(k) => format!("focal lengths divided by {k}"),
            Kind::Unit(unit) => format!("the points multiplied by {unit}"),
        }
    }

    /// Describes the likely cause, and the remedy.
    pub(super) fn cause(&self) -> &'static str {
        match (self.kind, self.is_colmap) {
            (Kind::Given, _) => "",
            (Kind::Axes, true) => {
                "the poses seem to have OpenGL's axes (right, up, back), where COLMAP has OpenCV's (right, down, \
                 forward)"
            }
            (Kind::Axes, false) => {
                "the poses seem to have OpenCV's axes (right, down, forward), where a transforms file has OpenGL's \
                 (right, up, back): negate columns 2 and 3 of each transform_matrix"
            }
            (Kind::Inverse, true) => {
                "the poses seem to be camera-to-world, where COLMAP has world-to-camera: invert them"
            }
            (Kind::Inverse, false) => {
                "the poses seem to be world-to-camera, where a transforms file has camera-to-world: invert each \
                 transform_matrix"
            }
            (Kind::Turned(_), _) => {
                "the points seem to be in a world with other axes than the poses (an applied_transform?)"
            }
            (Kind::Focal(_), _) => {
                "the focal length seems to be that of photos of another size: give the size that it belongs to, \
                 or scale it"
            }
            (Kind::Unit(_), _) => "the points seem to be in another unit than the poses",
        }
    }
}

/// Projection of a point.
pub(super) struct Projected {
    pub(super) is_in_front: bool,
    /// Depth along the camera's axis, world units.
    pub(super) depth: f64,
    /// Pixel, inside the frame or not; `None` if the lens does not show the point.
    pub(super) pixel: Option<DVec2>,
    /// Pixel inside the frame.
    pub(super) inside: Option<DVec2>,
}

/// A camera that projects points, lens included.
pub(super) struct Probe {
    camera: Camera,
    turn: DMat3,
    rays: Rays,
}

impl Probe {
    pub(super) fn new(camera: &Camera, reading: &Reading) -> Self {
        let camera = reading.camera(camera);
        Self {
            rays: Rays::new(&camera),
            camera,
            turn: reading.turn,
        }
    }

    pub(super) fn project(&self, point: DVec3) -> Projected {
        let camera = &self.camera;
        let p = camera.camera_from_world.transform(self.turn * point);
        let depth = self.rays.depth(p);
        let pixel = self.rays.pixel(p);
        Projected {
            is_in_front: depth > 0.0,
            depth,
            pixel,
            inside: pixel.filter(|&pixel| camera.frames(pixel)),
        }
    }
}
