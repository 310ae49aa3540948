//! Choices of a synthetic capture that have names: scene, lens, light, background.

use dapple_scene::{Error, Panorama, Result};
use serde::{Deserialize, Serialize};

/// Implements display and parsing of a kind by its name; the error names `what`.
macro_rules! shown_by_name {
    ($kind:ty, $what:literal) => {
        impl std::fmt::Display for $kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $kind {
            type Err = Error;

            fn from_str(name: &str) -> Result<Self> {
                named($what, &Self::ALL, Self::name, name)
            }
        }
    };
}

/// Returns the item of this name; the error names `what`.
fn named<T: Copy>(what: &str, all: &[T], name_of: fn(T) -> &'static str, name: &str) -> Result<T> {
    let found = all.iter().find(|&&one| name_of(one) == name);
    found.copied().ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|&one| name_of(one)).collect();
        Error::input(format!("there is no {what} {name:?}"))
            .hint(format!("choose one of {}", names.join(", ")))
    })
}

/// Scene of a synthetic capture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SceneKind {
    /// Toys on a laid table in a tiled yard, with hills around: textures of all kinds.
    #[default]
    #[serde(rename = "table")]
    Table,
    /// Toys of the table, but every surface in one even colour, as in a bare room: little texture.
    #[serde(rename = "plain")]
    Plain,
    /// Toys of the table, speckled, on pebbles and sand: fine texture everywhere.
    #[serde(rename = "gravel")]
    Gravel,
    /// Houses, silos and trees on a meadow, up to 40 units away; hills at 60, and the sky.
    #[serde(rename = "field")]
    Field,
    /// Streets of a city, from their pavements and from above: blocks of houses, parks, trees and cars. A unit is a metre.
    #[serde(rename = "city")]
    City,
}

impl SceneKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [
        Self::Table,
        Self::Plain,
        Self::Gravel,
        Self::Field,
        Self::City,
    ];

    /// Returns the name that [`FromStr`](std::str::FromStr) accepts: "table", "plain", ...
    pub const fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Plain => "plain",
            Self::Gravel => "gravel",
            Self::Field => "field",
            Self::City => "city",
        }
    }

    /// Returns true for the default, which notes omit, because older versions had no such key.
    pub(super) fn is_table(&self) -> bool {
        *self == Self::Table
    }
}

shown_by_name!(SceneKind, "scene");

/// Lens of a synthetic capture; COLMAP's camera models.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum LensKind {
    /// `PINHOLE`: no distortion.
    #[default]
    #[serde(rename = "pinhole")]
    Pinhole,
    /// `SIMPLE_RADIAL`: one radial coefficient.
    #[serde(rename = "simple-radial")]
    SimpleRadial,
    /// `RADIAL`: two radial coefficients.
    #[serde(rename = "radial")]
    Radial,
    /// `OPENCV`: two radial and two tangential ones.
    #[serde(rename = "opencv")]
    OpenCv,
    /// `OPENCV_FISHEYE`: equidistant with four coefficients, 96 degrees wide.
    #[serde(rename = "opencv-fisheye")]
    OpenCvFisheye,
    /// `EQUIRECTANGULAR`: panoramas of all directions, twice as wide as high.
    #[serde(rename = "equirect")]
    Equirectangular,
    /// Cylindrical panoramas of 360 degrees, without a model in COLMAP.
    #[serde(rename = "cylinder")]
    Cylindrical,
}

impl LensKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Pinhole,
        Self::SimpleRadial,
        Self::Radial,
        Self::OpenCv,
        Self::OpenCvFisheye,
        Self::Equirectangular,
        Self::Cylindrical,
    ];

    /// Returns the name that [`FromStr`](std::str::FromStr) accepts: "pinhole", "simple-radial", ...
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pinhole => "pinhole",
            Self::SimpleRadial => "simple-radial",
            Self::Radial => "radial",
            Self::OpenCv => "opencv",
            Self::OpenCvFisheye => "opencv-fisheye",
            Self::Equirectangular => "equirect",
            Self::Cylindrical => "cylinder",
        }
    }

    /// Returns the model of a panorama.
    pub const fn panorama(self) -> Option<Panorama> {
        match self {
            Self::Equirectangular => Some(Panorama::Equirectangular),
            Self::Cylindrical => Some(Panorama::Cylindrical),
            _ => None,
        }
    }

    /// Returns COLMAP's number of the camera model; `None` if COLMAP has no such model.
    pub const fn colmap(self) -> Option<i32> {
        match self {
            Self::Pinhole => Some(1),
            Self::SimpleRadial => Some(2),
            Self::Radial => Some(3),
            Self::OpenCv => Some(4),
            Self::OpenCvFisheye => Some(5),
            Self::Equirectangular => Some(17),
            Self::Cylindrical => None,
        }
    }
}

shown_by_name!(LensKind, "lens");

/// Change of light from photo to photo of a synthetic capture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LightKind {
    /// Constant light.
    #[default]
    #[serde(rename = "still")]
    Still,
    /// A lamp is lit in some photos.
    #[serde(rename = "lamp")]
    Lamp,
    /// The sun moves.
    #[serde(rename = "sun")]
    Sun,
    /// Lamp and sun.
    #[serde(rename = "both")]
    Both,
}

impl LightKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Still, Self::Lamp, Self::Sun, Self::Both];

    /// Returns the name that [`FromStr`](std::str::FromStr) accepts: "still", "lamp", "sun", "both".
    pub const fn name(self) -> &'static str {
        match self {
            Self::Still => "still",
            Self::Lamp => "lamp",
            Self::Sun => "sun",
            Self::Both => "both",
        }
    }

    /// Returns true for the default, which notes omit, because older versions had no such key.
    pub(super) fn is_still(&self) -> bool {
        *self == Self::Still
    }
}

shown_by_name!(LightKind, "light");

/// Pixels behind the object of a synthetic capture ([`SynthOptions::object`](crate::SynthOptions::object)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectBackground {
    /// Photos have alpha.
    Transparent,
    /// Photos are opaque, and white around the object.
    White,
    /// Photos are opaque, and grey around the object: 128.
    Grey,
    /// Photos are opaque, and black around the object.
    Black,
}

impl ObjectBackground {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Transparent, Self::White, Self::Grey, Self::Black];

    /// Returns the name that [`FromStr`](std::str::FromStr) accepts: "transparent", "white", ...
    pub const fn name(self) -> &'static str {
        match self {
            Self::Transparent => "transparent",
            Self::White => "white",
            Self::Grey => "grey",
            Self::Black => "black",
        }
    }

    /// Returns the sRGB value around the object; `None` for alpha.
    pub(super) const fn value(self) -> Option<u8> {
        match self {
            Self::Transparent => None,
            Self::White => Some(255),
            Self::Grey => Some(128),
            Self::Black => Some(0),
        }
    }
}

shown_by_name!(ObjectBackground, "background of an object");
