//! The selectable scenes, and the numbers that differ between them.
//!
//! All scenes share one renderer: a scene is a [`Setting`], its objects, and its paint.

use super::{SceneKind, SynthOptions, city};
use glam::{DVec3, Vec3A};

/// Height of the floor, y up.
pub(super) const FLOOR: f32 = -1.5;

/// A scene and its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Site {
    pub(super) kind: SceneKind,
    /// Blocks of a city along each side; other scenes have no size.
    pub(super) blocks: u32,
}

impl Site {
    pub(super) fn of(options: &SynthOptions) -> Self {
        Self {
            kind: options.scene,
            blocks: options.blocks,
        }
    }

    /// The scene at its default size.
    #[cfg(test)]
    pub(super) fn usual(kind: SceneKind) -> Self {
        let scene = kind;
        Self::of(&SynthOptions {
            scene,
            ..SynthOptions::default()
        })
    }

    pub(super) fn setting(self) -> Setting {
        match self.kind {
            SceneKind::Table | SceneKind::Plain | SceneKind::Gravel => TABLE,
            SceneKind::Field => FIELD,
            SceneKind::City => city(self.blocks),
        }
    }
}

/// Sizes of things, and positions of cameras. Lengths in units, heights with y up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting {
    /// True if the table is in the middle.
    pub(super) table: bool,
    /// Height of the surface below the objects, and its extent.
    pub(super) ground: f32,
    pub(super) ground_radius: f32,
    /// Half the side of the squares about the middle for which light on the table and on the floor is computed in
    /// advance; `None` if that square would be too large, so that each ray computes its own.
    pub(super) maps: Option<[f32; 2]>,
    /// A ball that holds all objects: most rays of the background miss it.
    pub(super) objects_centre: Vec3A,
    pub(super) objects_radius: f32,
    /// Distance at which the floor begins to fade into the landscape, and length of the fade.
    pub(super) haze: [f32; 2],
    /// Radius of the dome about the origin; the landscape is painted on its inside.
    pub(super) dome: f32,
    /// Position of the lamp, y up, and the distance at which it is as bright as the sun.
    pub(super) lamp: ([f32; 3], f32),
    /// Distance of the cameras from the middle.
    pub(super) orbit: f64,
    /// Lowest and highest camera, angle seen from the origin, radians.
    pub(super) low: f64,
    pub(super) high: f64,
    /// Largest offset of a camera's target from the point above the middle, along each axis.
    pub(super) aim: DVec3,
}

/// Radius of the table; its top is y = 0.
pub(super) const TABLE_RADIUS: f32 = 2.3;

const TABLE: Setting = Setting {
    table: true,
    ground: 0.0,
    ground_radius: TABLE_RADIUS,
    // No shadow on the floor reaches further.
    maps: Some([TABLE_RADIUS, 5.0]),
    objects_centre: Vec3A::new(0.0, 0.5, 0.0),
    objects_radius: 2.15,
    haze: [5.5, 3.2],
    dome: 9.0,
    lamp: ([-0.7, 2.3, 0.6], 1.9),
    orbit: 4.3,
    low: 0.22,
    high: 0.95,
    aim: DVec3::new(0.15, 0.1, 0.15),
};

const FIELD: Setting = Setting {
    table: false,
    ground: FLOOR,
    ground_radius: f32::INFINITY,
    maps: None,
    objects_centre: Vec3A::new(0.0, FLOOR, 0.0),
    objects_radius: 46.0,
    haze: [40.0, 19.0],
    dome: 60.0,
    lamp: ([-2.0, FLOOR + 5.5, 1.5], 5.0),
    orbit: 8.6,
    // 0.25 to 2.7 above the origin, which is 1.5 above the floor.
    low: 0.03,
    high: 0.32,
    aim: DVec3::new(1.0, 0.4, 1.0),
};

/// The setting of a city: the haze begins at its edge.
fn city(blocks: u32) -> Setting {
    let [low, high] = city::extent(blocks);
    let corner = Vec3A::new(low, FLOOR, low).length() + city::PITCH;
    let reach = corner.max(Vec3A::new(high, FLOOR, high).length() + city::PITCH);
    let dome = 2.0 * reach + 200.0;
    Setting {
        table: false,
        ground: FLOOR,
        ground_radius: f32::INFINITY,
        maps: None,
        objects_centre: Vec3A::new(0.0, FLOOR, 0.0),
        objects_radius: reach + city::HIGHEST,
        haze: [reach + 20.0, 0.9 * dome - reach],
        dome,
        lamp: ([16.0, FLOOR + 8.0, 0.0], 8.0),
        ..FIELD
    }
}

#[cfg(test)]
mod tests {
    use super::super::photos::Eye;
    use super::super::{LensKind, SynthOptions, cameras};
    use super::*;

    #[test]
    fn objects_stand_in_their_ball_on_the_ground() {
        for kind in SceneKind::ALL {
            let setting = Site::usual(kind).setting();
            let radius = setting.objects_radius;
            assert!(setting.objects_centre.length() + radius < setting.dome);
            for object in Site::usual(kind).objects() {
                let away = object.centre.distance(setting.objects_centre);
                assert!(away + object.bound <= radius, "{kind}: {object:?}");
                assert!(object.centre.y > setting.ground, "{kind}: {object:?}");
            }
        }
    }

    #[test]
    fn no_camera_is_inside_of_anything() {
        for (kind, seed) in SceneKind::ALL.into_iter().zip([1u64, 2, 3, 4, 5]) {
            let setting = Site::usual(kind).setting();
            let objects = Site::usual(kind).objects();
            let options = SynthOptions {
                photos: 400,
                scene: kind,
                seed,
                ..SynthOptions::default()
            };
            for camera in cameras::cameras(&options, LensKind::Pinhole) {
                let eye = Eye::new(&camera).origin;
                assert!(eye.y > setting.ground + 0.3, "{kind}: {eye}");
                assert!(eye.length() < 0.9 * setting.dome, "{kind}: {eye}");
                let room = objects.iter().map(|object| object.distance(eye));
                let room = room.fold(f32::INFINITY, f32::min);
                assert!(room > 0.8, "{kind}: {room} to the nearest of {eye}");
            }
        }
    }
}
