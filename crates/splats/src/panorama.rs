//! Models of panoramas: cameras without distortion whose image is a ring. One row a model.
//!
//! A panorama shows 360 degrees: the left and the right edge of its image meet, nothing is behind the camera, and its
//! depth is a distance. A place is a pair of longitude, radians, and height; focal length and principal point then give
//! pixels.

use crate::{Camera, Error, Lens, Pose, Result};
use glam::{DVec2, DVec3};
use serde::{Deserialize, Serialize};
use std::f64::consts::{PI, TAU};

/// Largest relative error of the numbers of a capture, whose files are rounded.
const ROUNDED: f64 = 1e-3;

/// Largest relative error of a focal length and a principal point that engines accept.
const EXACT: f64 = 1e-6;

/// Model of a panorama. The middle column of its image is the camera's +z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Panorama {
    /// All directions: longitude `atan2(x, z)` across, latitude `atan2(y, hypot(x, z))` down.
    Equirectangular,
    /// All sides: longitude `atan2(x, z)` across, the slope `y / hypot(x, z)` down.
    Cylindrical,
}

impl Panorama {
    /// All models.
    pub const ALL: [Self; 2] = [Self::Equirectangular, Self::Cylindrical];

    /// Returns the model's name: that of COLMAP if COLMAP has the model.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Equirectangular => "EQUIRECTANGULAR",
            Self::Cylindrical => "CYLINDRICAL",
        }
    }

    /// Returns parts of the names that programs give to the model, in capitals. OpenSfM and Metashape have "spherical" and
    /// "equirectangular".
    const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Equirectangular => &["EQUIRECT", "SPHERICAL", "PANORAM"],
            Self::Cylindrical => &["CYLIND"],
        }
    }

    /// Returns the model with this name in COLMAP or a `transforms.json`.
    pub fn named(model: &str) -> Option<Self> {
        let model = model.to_ascii_uppercase();
        let is_named = |one: &Self| one.names().iter().any(|name| model.contains(name));
        // The names of the first row also mean panoramas in general.
        Self::ALL.into_iter().rev().find(is_named)
    }

    /// Returns the place of a point in camera coordinates: longitude and height.
    pub fn place(self, point: DVec3) -> DVec2 {
        let level = point.x.hypot(point.z);
        let height = match self {
            Self::Equirectangular => point.y.atan2(level),
            Self::Cylindrical => point.y / level,
        };
        DVec2::new(point.x.atan2(point.z), height)
    }

    /// Returns the point of depth 1 with this place.
    pub fn direction(self, place: DVec2) -> DVec3 {
        let (sin, cos) = place.x.sin_cos();
        let (y, level) = match self {
            Self::Equirectangular => place.y.sin_cos(),
            Self::Cylindrical => (place.y, 1.0),
        };
        DVec3::new(sin * level, y, cos * level)
    }

    /// Returns the weight of y in the depth: 1 if depths are distances from the centre, 0 if from the vertical axis.
    pub const fn depth_height(self) -> f32 {
        match self {
            Self::Equirectangular => 1.0,
            Self::Cylindrical => 0.0,
        }
    }

    /// Returns the depth of a point in camera coordinates.
    pub fn depth(self, point: DVec3) -> f64 {
        (point * DVec3::new(1.0, self.depth_height().into(), 1.0)).length()
    }

    /// Builds the camera of an image of this size.
    pub fn camera(self, width: u32, height: u32, camera_from_world: Pose) -> Camera {
        let (w, h) = (f64::from(width), f64::from(height));
        let fy = match self {
            Self::Equirectangular => h / PI,
            Self::Cylindrical => w / TAU,
        };
        Camera {
            width,
            height,
            fx: w / TAU,
            fy,
            cx: w / 2.0,
            cy: h / 2.0,
            lens: Lens::Panorama(self),
            camera_from_world,
        }
    }

    /// Builds the camera of a capture's image of this size, at the identity pose. `given` are the focal lengths and the
    /// principal point of the capture, pixels; a model reads those that have a meaning for it.
    ///
    /// # Errors
    /// A size of another shape than the model's, up to a pixel of rounding. A cylinder of less than 360 degrees.
    pub fn of_capture(
        self,
        (width, height): (u32, u32),
        given: [Option<f64>; 4],
    ) -> Result<Camera> {
        match self {
            // Focal lengths have no meaning: the size is enough.
            Self::Equirectangular => {
                if u64::from(width).abs_diff(2 * u64::from(height)) > 2 {
                    return Err(Error::input(format!(
                        "a panorama of all directions has {width}x{height} pixels, but is twice as wide as high"
                    ))
                    .hint("pad the panorama to 360 by 180 degrees, and mask what was added"));
                }
                Ok(self.camera(width, height, Pose::IDENTITY))
            }
            Self::Cylindrical => cylinder(self.camera(width, height, Pose::IDENTITY), given),
        }
    }

    /// Returns the quotient of width and height that an image needs; `None` if any will do.
    pub const fn aspect(self) -> Option<u32> {
        match self {
            Self::Equirectangular => Some(2),
            Self::Cylindrical => None,
        }
    }

    /// Returns the fault of a camera that is only a part of a panorama, and what to do.
    pub fn fault(self, camera: &Camera) -> Option<(&'static str, String)> {
        let whole = self.camera(camera.width, camera.height, camera.camera_from_world);
        let near = |a: f64, b: f64| (a - b).abs() <= EXACT * b;
        let goes_round = near(camera.fx, whole.fx) && near(camera.cx, whole.cx);
        match self {
            Self::Equirectangular => {
                let is_whole = goes_round && near(camera.fy, whole.fy) && near(camera.cy, whole.cy);
                let hint = || {
                    format!(
                        "an equirectangular camera of {} x {} pixels has focal lengths of {:.3} and {:.3} and its centre in the middle",
                        camera.width, camera.height, whole.fx, whole.fy
                    )
                };
                (!is_whole).then(|| ("a panorama does not show all directions", hint()))
            }
            Self::Cylindrical => (!goes_round).then(|| {
                let hint = format!(
                    "a cylindrical camera of {} pixels across has the horizontal focal length {:.3} and its centre in the middle column",
                    camera.width, whole.fx
                );
                ("a cylindrical panorama does not show 360 degrees", hint)
            }),
        }
    }
}

/// Returns `whole` with the height of the horizon and the vertical focal length of a capture, if given.
fn cylinder(whole: Camera, [fx, fy, cx, cy]: [Option<f64>; 4]) -> Result<Camera> {
    let is_near = |value: Option<f64>, known: f64| {
        value.is_none_or(|value| (value - known).abs() <= ROUNDED * known)
    };
    if !(is_near(fx, whole.fx) && is_near(cx, whole.cx)) {
        return Err(Error::unsupported(format!(
            "a cylindrical panorama of {} pixels across has the focal length {} and the centre {}, but {:.3} and {} show 360 degrees",
            whole.width,
            fx.unwrap_or(whole.fx),
            cx.unwrap_or(whole.cx),
            whole.fx,
            whole.cx
        ))
        .hint("pad the panorama to 360 degrees and mask what was added, or omit fl_x and cx"));
    }
    let (fy, cy) = (fy.unwrap_or(whole.fy), cy.unwrap_or(whole.cy));
    if !(fy.is_finite() && cy.is_finite() && fy > 0.0) {
        return Err(Error::input(format!(
            "a cylindrical panorama has the vertical focal length {fy} and the horizon in row {cy}"
        ))
        .hint("omit fl_y and cy if pixels are square and the horizon is in the middle row"));
    }
    Ok(Camera { fy, cy, ..whole })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::Rays;
    use std::f64::consts::FRAC_PI_4;

    #[test]
    fn names_are_read_and_written() {
        for panorama in Panorama::ALL {
            let lens = Lens::Panorama(panorama);
            assert_eq!(Panorama::named(lens.model().0), Some(panorama));
            let text = serde_json::to_string(&lens).unwrap();
            assert_eq!(text, format!("\"{panorama:?}\""));
            assert_eq!(serde_json::from_str::<Lens>(&text).unwrap(), lens);
        }
        for name in ["cylindrical", "CYLINDRICAL_PANORAMA"] {
            assert_eq!(Panorama::named(name), Some(Panorama::Cylindrical));
        }
        assert_eq!(Panorama::named("PINHOLE"), None);
    }

    /// The expected pixels follow from the definition: 800 / 2 pi pixels per radian and per unit of the slope.
    #[test]
    fn a_cylinder_shows_all_sides_at_known_pixels() {
        let camera = Panorama::Cylindrical.camera(800, 400, Pose::IDENTITY);
        let rays = Rays::new(&camera);
        for (point, pixel) in [
            (DVec3::Z, [400.0, 200.0]),
            (DVec3::X, [600.0, 200.0]),
            (DVec3::NEG_X, [200.0, 200.0]),
            (DVec3::new(0.0, 1.0, 1.0), [400.0, 200.0 + 400.0 / PI]),
            (DVec3::new(1.0, -2.0, 0.0), [600.0, 200.0 - 800.0 / PI]),
            (
                DVec3::new(1.0, 0.0, 1.0),
                [400.0 + FRAC_PI_4 * 400.0 / PI, 200.0],
            ),
        ] {
            let found = rays.pixel(3.0 * point).unwrap();
            assert!(found.distance(pixel.into()) < 1e-9, "{point}: {found}");
            let level = DVec2::new(point.x, point.z).length();
            assert!((rays.depth(3.0 * point) - 3.0 * level).abs() < 1e-12);
            let back = rays.ray(found).unwrap();
            assert!(back.distance(point / level) < 1e-9, "{point}: {back}");
        }
        assert_eq!(rays.pixel(DVec3::Y), None);
    }

    #[test]
    fn a_cylinder_keeps_the_horizon_of_its_capture_and_needs_360_degrees() {
        let load = |given| Panorama::Cylindrical.of_capture((800, 300), given);
        let whole = load([None; 4]).unwrap();
        assert_eq!(
            (whole.fx, whole.fy, whole.cy),
            (400.0 / PI, 400.0 / PI, 150.0)
        );
        let shifted = load([Some(127.3), Some(130.0), Some(400.0), Some(90.0)]).unwrap();
        assert_eq!(
            (shifted.fx, shifted.fy, shifted.cy),
            (400.0 / PI, 130.0, 90.0)
        );
        assert_eq!(
            Panorama::Cylindrical.fault(&shifted.resized(400, 150)),
            None
        );
        for part in [
            [Some(300.0), None, None, None],
            [None, None, Some(100.0), None],
        ] {
            let error = load(part).unwrap_err();
            assert!(error.hint_text().unwrap().contains("360"), "{error}");
        }
        assert!(load([None, Some(0.0), None, None]).is_err());
    }
}
