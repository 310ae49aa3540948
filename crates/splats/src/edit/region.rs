//! Parts of space: what is in a sphere or in an oriented box.

use crate::similarity::turn_of_degrees;
use crate::{Error, Result};
use glam::DVec3;
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
