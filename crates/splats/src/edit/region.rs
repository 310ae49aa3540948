//! Parts of space: what is in a sphere or in an oriented box.

use crate::similarity::turn_of_degrees;
use crate::{Error, Result};
use glam::{DMat3, DVec3};
use serde::{Deserialize, Serialize};

/// A part of space, its border included.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Region {
    /// A ball.
    Sphere {
        /// World units.
        centre: [f64; 3],
        /// World units, above 0.
        radius: f64,
    },
    /// A box, turned about its centre.
    Box {
        /// World units.
        centre: [f64; 3],
        /// Length of its edges, world units, above 0.
        size: [f64; 3],
        /// Degrees about the world's x, then y, then z axis.
        #[serde(default)]
        degrees: [f64; 3],
    },
}

impl Region {
    /// Returns true if a point is in the region.
    pub fn contains(&self, point: [f32; 3]) -> bool {
        let point = DVec3::from(point.map(f64::from));
        match *self {
            Self::Sphere { centre, radius } => point.distance(centre.into()) <= radius,
            Self::Box {
                centre,
                size,
                degrees,
            } => {
                let turned = turn_of_degrees(degrees).inverse() * (point - DVec3::from(centre));
                turned.abs().cmple(DVec3::from(size) / 2.0).all()
            }
        }
    }

    /// Returns the map of world coordinates relative to the centre to those in which the region is the unit ball, or
    /// the cube from -1 to 1; the centre; and true for the cube.
    pub fn to_unit(&self) -> (DMat3, DVec3, bool) {
        match *self {
            Self::Sphere { centre, radius } => {
                let map = DMat3::from_diagonal(DVec3::splat(1.0 / radius));
                (map, centre.into(), false)
            }
            Self::Box {
                centre,
                size,
                degrees,
            } => {
                let turn = DMat3::from_quat(turn_of_degrees(degrees).inverse());
                let map = DMat3::from_diagonal(2.0 / DVec3::from(size)) * turn;
                (map, centre.into(), true)
            }
        }
    }

    /// Returns the outline as polylines: the edges of a box, or three great circles of a sphere.
    pub fn outline(&self) -> Vec<Vec<[f64; 3]>> {
        let (map, centre, is_box) = self.to_unit();
        let lines = if is_box { cube() } else { circles() };
        let back = map.inverse();
        let placed = |point: DVec3| (centre + back * point).to_array();
        let lines = lines.into_iter();
        lines
            .map(|line| line.into_iter().map(placed).collect())
            .collect()
    }

    /// Returns true if a ray from `origin` meets the region. The length of `direction` has no effect.
    pub fn meets_ray(&self, origin: DVec3, direction: DVec3) -> bool {
        self.rays_from(origin)(direction)
    }

    /// Returns [`Self::meets_ray`] for many rays from one origin.
    pub fn rays_from(&self, origin: DVec3) -> impl Fn(DVec3) -> bool + use<> {
        let (map, centre, is_box) = self.to_unit();
        let origin = map * (origin - centre);
        move |direction| meets_unit(origin, map * direction, is_box)
    }

    /// Checks its numbers.
    ///
    /// # Errors
    /// Those that are not finite; a radius or an edge that is not above 0.
    pub fn check(&self) -> Result<()> {
        let (places, lengths): (Vec<f64>, Vec<f64>) = match *self {
            Self::Sphere { centre, radius } => (centre.to_vec(), vec![radius]),
            Self::Box {
                centre,
                size,
                degrees,
            } => ([centre, degrees].concat(), size.to_vec()),
        };
        let sound = places.iter().all(|v| v.is_finite())
            && lengths.iter().all(|v| v.is_finite() && *v > 0.0);
        if sound {
            return Ok(());
        }
        Err(
            Error::input("a region needs finite numbers, and a radius or edges above 0").hint(
                "sphere:X,Y,Z,RADIUS, or box:X,Y,Z,WIDTH,HEIGHT,DEPTH and degrees about x, y, z",
            ),
        )
    }
}

/// Returns the edges of the cube from -1 to 1: the faces at both ends of z, and the edges between them.
fn cube() -> Vec<Vec<DVec3>> {
    let corners = [(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)];
    let face = |z: f64| {
        let around = corners.into_iter().chain([corners[0]]);
        around.map(|(x, y)| DVec3::new(x, y, z)).collect()
    };
    let edge = |(x, y)| vec![DVec3::new(x, y, -1.0), DVec3::new(x, y, 1.0)];
    let edges = corners.into_iter().map(edge);
    [face(-1.0), face(1.0)].into_iter().chain(edges).collect()
}

/// Returns a circle of the unit ball in each plane of two axes.
fn circles() -> Vec<Vec<DVec3>> {
    const PARTS: u32 = 48;
    let planes = [
        (DVec3::X, DVec3::Y),
        (DVec3::Y, DVec3::Z),
        (DVec3::Z, DVec3::X),
    ];
    let circle = |(a, b): (DVec3, DVec3)| {
        let at = |i: u32| {
            let (sin, cos) = (std::f64::consts::TAU * f64::from(i) / f64::from(PARTS)).sin_cos();
            cos * a + sin * b
        };
        (0..=PARTS).map(at).collect()
    };
    planes.into_iter().map(circle).collect()
}

/// Returns true if a ray meets the unit ball, or the cube from -1 to 1.
fn meets_unit(origin: DVec3, direction: DVec3, is_box: bool) -> bool {
    if !is_box {
        let along = -origin.dot(direction) / direction.length_squared();
        return (origin + along.max(0.0) * direction).length_squared() <= 1.0;
    }
    let (mut first, mut last) = (0.0_f64, f64::INFINITY);
    for (origin, direction) in origin.to_array().into_iter().zip(direction.to_array()) {
        if direction == 0.0 {
            if origin.abs() > 1.0 {
                return false;
            }
            continue;
        }
        let (a, b) = ((-1.0 - origin) / direction, (1.0 - origin) / direction);
        (first, last) = (first.max(a.min(b)), last.min(a.max(b)));
    }
    first <= last
}

impl std::fmt::Display for Region {
    /// The text that [`str::parse`] reads.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kind, numbers): (&str, Vec<f64>) = match *self {
            Self::Sphere { centre, radius } => ("sphere", [&centre[..], &[radius]].concat()),
            Self::Box {
                centre,
                size,
                degrees,
            } if degrees == [0.0; 3] => ("box", [centre, size].concat()),
            Self::Box {
                centre,
                size,
                degrees,
            } => ("box", [centre, size, degrees].concat()),
        };
        let numbers: Vec<String> = numbers.iter().map(f64::to_string).collect();
        write!(f, "{kind}:{}", numbers.join(","))
    }
}

impl std::str::FromStr for Region {
    type Err = Error;

    /// `sphere:X,Y,Z,R`, `box:X,Y,Z,W,H,D` or `box:X,Y,Z,W,H,D,RX,RY,RZ`.
    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::input(format!("\"{text}\" is no region"))
                .at(text)
                .hint("sphere:X,Y,Z,RADIUS, or box:X,Y,Z,WIDTH,HEIGHT,DEPTH and degrees about x, y, z")
        };
        let (kind, numbers) = text.split_once(':').ok_or_else(wrong)?;
        let numbers = super::numbers(numbers)?;
        let region = match (kind, numbers.as_slice()) {
            ("sphere", &[x, y, z, radius]) => Self::Sphere {
                centre: [x, y, z],
                radius,
            },
            ("box", &[x, y, z, w, h, d, ref turn @ ..]) if matches!(turn.len(), 0 | 3) => {
                Self::Box {
                    centre: [x, y, z],
                    size: [w, h, d],
                    degrees: turn.try_into().unwrap_or([0.0; 3]),
                }
            }
            _ => return Err(wrong()),
        };
        region.check()?;
        Ok(region)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn spheres_and_turned_boxes_hold_what_they_should() {
        let ball: Region = "sphere:1,2,3,0.5".parse().unwrap();
        assert!(ball.contains([1.0, 2.5, 3.0]) && !ball.contains([1.0, 2.51, 3.0]));
        let flat: Region = "box:1,0,0,4,2,1".parse().unwrap();
        assert!(flat.contains([3.0, -1.0, 0.5]) && !flat.contains([-1.1, 0.0, 0.0]));
        // A quarter turn about z swaps width and height.
        let turned: Region = "box:0,0,0,4,2,1,0,0,90".parse().unwrap();
        assert!(turned.contains([0.9, 1.9, 0.0]) && !turned.contains([1.9, 0.9, 0.0]));
        // An eighth turn: the corner lies on the x axis.
        let tilted: Region = "box:0,0,0,2,2,2,0,0,45".parse().unwrap();
        assert!(tilted.contains([1.4, 0.0, 0.0]) && !tilted.contains([1.0, 1.0, 0.0]));
    }

    #[test]
    fn rays_meet_regions_in_front_of_them() {
        let towards = |region: &str, origin: [f64; 3], direction: [f64; 3]| {
            let region: Region = region.parse().unwrap();
            region.meets_ray(origin.into(), direction.into())
        };
        for region in [
            "sphere:0,0,5,1",
            "box:0,0,5,2,2,2",
            "box:0,0,5,2,2,2,30,20,45",
        ] {
            assert!(towards(region, [0.0; 3], [0.0, 0.0, 2.0]), "{region}");
            assert!(towards(region, [0.0; 3], [0.15, 0.0, 1.0]), "{region}");
            assert!(!towards(region, [0.0; 3], [0.4, 0.0, 1.0]), "{region}");
            assert!(!towards(region, [0.0; 3], [0.0, 0.0, -1.0]), "{region}");
            assert!(
                towards(region, [0.0, 0.0, 5.0], [0.0, 0.0, -1.0]),
                "{region}: from inside"
            );
        }
        // The corner of the box is outside the sphere.
        assert!(towards("box:0,0,5,2,2,2", [0.9, 0.9, 0.0], [0.0, 0.0, 1.0]));
        assert!(!towards("sphere:0,0,5,1", [0.9, 0.9, 0.0], [0.0, 0.0, 1.0]));
    }

    #[test]
    fn outlines_are_on_the_border() {
        for (text, lines) in [
            ("sphere:1,-2.5,3,0.5", 3),
            ("box:0,1,2,3,4,5", 6),
            ("box:0,1,2,3,4,5,0,90,-10", 6),
        ] {
            let region: Region = text.parse().unwrap();
            let outline = region.outline();
            assert_eq!(outline.len(), lines, "{text}");
            let (map, centre, is_box) = region.to_unit();
            for point in outline.concat() {
                let place = map * (DVec3::from(point) - centre);
                let far = if is_box {
                    place.abs().max_element()
                } else {
                    place.length()
                };
                assert!((far - 1.0).abs() < 1e-9, "{text}: {point:?}");
            }
        }
        // A corner of the plain box.
        let region: Region = "box:0,1,2,3,4,5".parse().unwrap();
        assert_eq!(region.outline()[0][0], [-1.5, -1.0, -0.5]);
    }

    #[test]
    fn a_region_is_its_text() {
        for text in [
            "sphere:1,-2.5,3,0.1",
            "box:0,1,2,3,4,5",
            "box:0,1,2,3,4,5,0,90,-1",
        ] {
            assert_eq!(text.parse::<Region>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_region_is_refused_with_an_example() {
        for bad in [
            "ball:1,2,3,4",
            "sphere:1,2,3",
            "sphere:1,2,3,0",
            "sphere:1,2,3,-1",
            "sphere:1,2,nan,1",
            "box:0,0,0,1,1",
            "box:0,0,0,1,1,0",
            "box:0,0,0,1,1,1,5",
            "sphere",
            "sphere:1,2,3,inf",
        ] {
            let error = bad.parse::<Region>().unwrap_err();
            assert!(error.hint_text().is_some(), "{bad}: {error}");
        }
    }
}
