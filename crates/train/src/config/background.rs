//! Background of photos and renders: a fixed colour, or a random colour in each step.

use dapple_base::settings::{Kind, Number, Setting};
use dapple_scene::{Error, Result};
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

const WANTED: &str = "random, black, white, or three numbers from 0 to 1 as in 1,0.5,0";

/// Colour behind the transparent parts of a photo and the empty parts of a render.
///
/// With one fixed colour, splats of that colour may remain where photos are transparent, because they are invisible.
/// Over a random colour in each step they are always visible, and training removes them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Background {
    /// Red, green, blue, 0 to 1.
    Colour([f64; 3]),
    /// Uniform in all colours, drawn again for each step.
    Random,
}

impl Background {
    /// Black.
    pub const BLACK: Self = Self::Colour([0.0; 3]);

    /// Returns the colour for scoring and rendering: black for a random background.
    pub fn fixed(self) -> [f32; 3] {
        match self {
            Self::Colour(colour) => colour.map(|v| v as f32),
            Self::Random => [0.0; 3],
        }
    }
}

impl fmt::Display for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Colour([r, g, b]) => write!(f, "{r},{g},{b}"),
            Self::Random => f.write_str("random"),
        }
    }
}

impl FromStr for Background {
    type Err = Error;

    /// Parses a name or three numbers. [`super::TrainConfig::validate`] checks the range of the numbers.
    fn from_str(text: &str) -> Result<Self> {
        let refused =
            || Error::input(format!("{text:?} is no background")).hint(format!("choose {WANTED}"));
        match text {
            "random" => return Ok(Self::Random),
            "black" => return Ok(Self::BLACK),
            "white" => return Ok(Self::Colour([1.0; 3])),
            _ => {}
        }
        let numbers: Vec<f64> = text
            .split(',')
            .map(|part| part.trim().parse().map_err(|_| refused()))
            .collect::<Result<_>>()?;
        let colour = numbers.try_into().map_err(|_| refused())?;
        Ok(Self::Colour(colour))
    }
}

impl Setting for Background {
    const KIND: Kind = Kind::Text;

    fn from_text(text: &str) -> Result<Self, String> {
        match text {
            "random" => Ok(Self::Random),
            _ => parse_colour(text).map(Self::Colour),
        }
    }

    fn numbers(&self, visit: &mut dyn FnMut(&'static str, Number)) {
        if let Self::Colour(colour) = self {
            for (label, value) in ["red", "green", "blue"].into_iter().zip(colour) {
                visit(label, Number::Real(*value));
            }
        }
    }
}

/// Parses a colour of the command line: three numbers in 0..1 as `R,G,B`, or `black` or `white`.
///
/// # Errors
/// The fault, in one line.
pub fn parse_colour(text: &str) -> Result<[f64; 3], String> {
    match text {
        "black" => return Ok([0.0; 3]),
        "white" => return Ok([1.0; 3]),
        _ => {}
    }
    let number = |part: &str| {
        let number = part.trim().parse::<f64>().ok()?;
        (0.0..=1.0).contains(&number).then_some(number)
    };
    let parts: Option<Vec<f64>> = text.split(',').map(number).collect();
    parts
        .and_then(|parts| parts.try_into().ok())
        .ok_or_else(|| {
            "give a name of the list, or three numbers between 0 and 1, for example 1,0,0 for red"
                .to_owned()
        })
}

impl Serialize for Background {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Colour(colour) => colour.serialize(serializer),
            Self::Random => serializer.serialize_str("random"),
        }
    }
}

impl<'de> Deserialize<'de> for Background {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Background;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"random\", \"black\", \"white\" or [red, green, blue]")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Background, E> {
        text.parse()
            .map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> Result<Background, A::Error> {
        let mut colour = [0.0; 3];
        for (i, value) in colour.iter_mut().enumerate() {
            *value = numbers
                .next_element()?
                .ok_or_else(|| de::Error::invalid_length(i, &self))?;
        }
        match numbers.next_element::<de::IgnoredAny>()? {
            None => Ok(Background::Colour(colour)),
            Some(_) => Err(de::Error::invalid_length(4, &self)),
        }
    }
}
