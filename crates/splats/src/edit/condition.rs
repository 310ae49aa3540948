//! Conditions on a property of each Gaussian: `opacity<0.05`, `size>0.3`, `finite`.

use crate::{Error, Result, SH_C0, Splats};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A number that each Gaussian has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Property {
    /// `x`, `y`, `z`: its centre, world units.
    Position(usize),
    /// `opacity`: 0 to 1.
    Opacity,
    /// `size`, `thickness`: its largest and its smallest standard deviation, world units.
    Size,
    /// See [`Property::Size`].
    Thickness,
    /// `area`: of its largest cross-section, pi times its two largest standard deviations.
    Area,
    /// `elongation`: [`Property::Size`] by [`Property::Thickness`].
    Elongation,
    /// `scale_0` to `scale_2`: the standard deviation along an axis of its own, world units.
    Scale(usize),
    /// `red`, `green`, `blue`: without what changes with the view, 0 to 1 where it is displayable.
    Colour(usize),
    /// `luminance`: 0.299 red + 0.587 green + 0.114 blue.
    Luminance,
    /// `f_dc_0` to `f_dc_2`: as in a file.
    Dc(usize),
    /// `f_rest_0` ...: as in a file, all coefficients of red first.
    Rest(usize),
    /// `rot_0` to `rot_3`: as in a file.
    Rotation(usize),
    /// `opacity_raw`: the logit, as in a file.
    Logit,
    /// `scale_0_raw` ...: the logarithm, as in a file.
    LogScale(usize),
    /// `contribution`: the sum of its blend weights over all pixels of the capture's photos to train on.
    Contribution,
}

/// How a name begins, how many there are, and which property each number is.
type Numbered = (&'static str, usize, fn(usize) -> Property);

/// Names with a number at their end.
const NUMBERED: [Numbered; 4] = [
    ("scale_", 3, Property::Scale),
    ("f_dc_", 3, Property::Dc),
    ("f_rest_", 45, Property::Rest),
    ("rot_", 4, Property::Rotation),
];

/// Names without.
const NAMED: [(&str, Property); 14] = [
    ("x", Property::Position(0)),
    ("y", Property::Position(1)),
    ("z", Property::Position(2)),
    ("opacity", Property::Opacity),
    ("size", Property::Size),
    ("thickness", Property::Thickness),
    ("area", Property::Area),
    ("elongation", Property::Elongation),
    ("red", Property::Colour(0)),
    ("green", Property::Colour(1)),
    ("blue", Property::Colour(2)),
    ("luminance", Property::Luminance),
    ("opacity_raw", Property::Logit),
    ("contribution", Property::Contribution),
];

impl Property {
    /// The value of Gaussian `i`; what is computed is computed in `f64`. `contributions` are those of
    /// [`Property::Contribution`], `[N]`.
    pub fn of(self, splats: &Splats, contributions: &[f32], i: usize) -> f64 {
        let scale = |axis: usize| f64::from(splats.scales[i][axis]).exp();
        let sorted = || {
            let mut axes = splats.scales[i];
            axes.sort_by(f32::total_cmp);
            axes.map(|axis| f64::from(axis).exp())
        };
        let colour = |c: usize| 0.5 + f64::from(SH_C0) * f64::from(splats.sh0[i][c]);
        match self {
            Self::Position(axis) => splats.means[i][axis].into(),
            Self::Opacity => sigmoid(splats.opacities[i].into()),
            Self::Size => sorted()[2],
            Self::Thickness => sorted()[0],
            Self::Area => std::f64::consts::PI * sorted()[1] * sorted()[2],
            Self::Elongation => sorted()[2] / sorted()[0],
            Self::Scale(axis) => scale(axis),
            Self::Colour(channel) => colour(channel),
            Self::Luminance => 0.299 * colour(0) + 0.587 * colour(1) + 0.114 * colour(2),
            Self::Dc(channel) => splats.sh0[i][channel].into(),
            Self::Rest(at) => {
                let stride = splats.sh_rest_stride();
                let coefficients = stride / 3;
                // Beyond the degree there is nothing, which is a coefficient of 0.
                match at < stride {
                    true => splats.sh_rest[i * stride + at % coefficients * 3 + at / coefficients]
                        .into(),
                    false => 0.0,
                }
            }
            Self::Rotation(axis) => splats.quats[i][axis].into(),
            Self::Logit => splats.opacities[i].into(),
            Self::LogScale(axis) => splats.scales[i][axis].into(),
            Self::Contribution => contributions.get(i).copied().unwrap_or(0.0).into(),
        }
    }

    /// All names, for messages.
    pub fn names() -> String {
        "x y z opacity size thickness area elongation scale_0..2 red green blue luminance f_dc_0..2 f_rest_0..44 \
         rot_0..3 opacity_raw scale_0_raw..2 contribution"
            .to_owned()
    }

    /// The one of this name; `None` where there is none.
    pub fn of_name(name: &str) -> Option<Self> {
        if let Some((_, property)) = NAMED.iter().find(|(known, _)| *known == name) {
            return Some(*property);
        }
        if let Some(axis) = name
            .strip_prefix("scale_")
            .and_then(|rest| rest.strip_suffix("_raw"))
        {
            return axis
                .parse()
                .ok()
                .filter(|axis| *axis < 3)
                .map(Self::LogScale);
        }
        NUMBERED.iter().find_map(|(prefix, count, make)| {
            let number: usize = name.strip_prefix(prefix)?.parse().ok()?;
            (number < *count).then(|| make(number))
        })
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = NAMED.iter().find(|(_, property)| property == self) {
            return f.write_str(name);
        }
        match self {
            Self::Scale(at) => write!(f, "scale_{at}"),
            Self::Dc(at) => write!(f, "f_dc_{at}"),
            Self::Rest(at) => write!(f, "f_rest_{at}"),
            Self::Rotation(at) => write!(f, "rot_{at}"),
            Self::LogScale(at) => write!(f, "scale_{at}_raw"),
            _ => f.write_str("x"),
        }
    }
}

/// How a property is compared with a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are sufficient")]
pub enum Comparison {
    Less,
    AtMost,
    Greater,
    AtLeast,
    Equal,
    NotEqual,
}

/// Signs and words of comparisons; those of two characters first, as `<=` begins with `<`.
const COMPARISONS: [(&str, &str, Comparison); 6] = [
    ("<=", "lte", Comparison::AtMost),
    (">=", "gte", Comparison::AtLeast),
    ("==", "eq", Comparison::Equal),
    ("!=", "neq", Comparison::NotEqual),
    ("<", "lt", Comparison::Less),
    (">", "gt", Comparison::Greater),
];

impl Comparison {
    /// Returns true if the comparison holds; with NaN only [`Comparison::NotEqual`] does.
    pub fn holds(self, a: f64, b: f64) -> bool {
        match self {
            Self::Less => a < b,
            Self::AtMost => a <= b,
            Self::Greater => a > b,
            Self::AtLeast => a >= b,
            Self::Equal => a == b,
            Self::NotEqual => a != b,
        }
    }
}

/// Condition on a Gaussian.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Condition {
    /// All its numbers are finite, and its rotation is one.
    Finite,
    /// A property compared with a number.
    Compares {
        /// Which.
        property: Property,
        /// How.
        comparison: Comparison,
        /// With what.
        value: f64,
    },
}

impl Condition {
    /// Returns true if the condition holds for Gaussian `i`.
    pub fn holds(&self, splats: &Splats, contributions: &[f32], i: usize) -> bool {
        match self {
            Self::Finite => is_finite(splats, i),
            Self::Compares {
                property,
                comparison,
                value,
            } => comparison.holds(property.of(splats, contributions, i), *value),
        }
    }

    /// Returns true if the condition needs the Gaussians' contributions to photos.
    pub fn needs_contributions(&self) -> bool {
        matches!(
            self,
            Self::Compares {
                property: Property::Contribution,
                ..
            }
        )
    }
}

/// Returns true if a Gaussian can be drawn: all of its numbers are finite, and its rotation is not zero.
pub fn is_finite(splats: &Splats, i: usize) -> bool {
    splats.has_finite_numbers(i) && splats.quats[i] != [0.0; 4]
}

/// 1 / (1 + e^-x).
pub(super) fn sigmoid(logit: f64) -> f64 {
    1.0 / (1.0 + (-logit).exp())
}

impl FromStr for Condition {
    type Err = Error;

    /// `opacity<0.1`, `opacity,lt,0.1`, or `finite`.
    fn from_str(text: &str) -> Result<Self> {
        let wrong = |what: String, hint: String| Error::input(what).at(text).hint(hint);
        if text.trim() == "finite" {
            return Ok(Self::Finite);
        }
        let words = || {
            let mut parts = text.split(',').map(str::trim);
            let (name, word, value) = (parts.next()?, parts.next()?, parts.next()?);
            let known = COMPARISONS.iter().find(|(_, known, _)| *known == word)?;
            parts.next().is_none().then_some((name, known.2, value))
        };
        let signs = || {
            COMPARISONS.iter().find_map(|(sign, _, comparison)| {
                let (name, value) = text.split_once(sign)?;
                Some((name.trim(), *comparison, value.trim()))
            })
        };
        let (name, comparison, value) = words().or_else(signs).ok_or_else(|| {
            wrong(
                format!("\"{text}\" compares nothing"),
                "write 'opacity<0.05' in quotes, or opacity,lt,0.05; or finite".to_owned(),
            )
        })?;
        let property = Property::of_name(name).ok_or_else(|| {
            wrong(
                format!("Gaussians have no property \"{name}\""),
                format!("they have {}", Property::names()),
            )
        })?;
        let number = value.parse::<f64>().ok().filter(|v| v.is_finite());
        let value = number.ok_or_else(|| {
            wrong(
                format!("\"{value}\" is no number to compare with"),
                "a finite number is needed, as in 'opacity<0.05'; finite drops NaN".to_owned(),
            )
        })?;
        Ok(Self::Compares {
            property,
            comparison,
            value,
        })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finite => f.write_str("finite"),
            Self::Compares {
                property,
                comparison,
                value,
            } => {
                let sign = COMPARISONS.iter().find(|(_, _, known)| known == comparison);
                write!(
                    f,
                    "{property}{}{value}",
                    sign.map_or("", |(sign, _, _)| sign)
                )
            }
        }
    }
}

impl TryFrom<String> for Condition {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Condition> for String {
    fn from(condition: Condition) -> Self {
        condition.to_string()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// Two Gaussians of degree 1.
    fn two() -> Splats {
        Splats {
            means: vec![[1.0, 2.0, 3.0], [-1.0, 0.0, 0.5]],
            scales: vec![[0.0, 2f32.ln(), -1.0], [-3.0; 3]],
            quats: vec![[1.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.5, 0.5]],
            opacities: vec![0.0, 2.0],
            sh0: vec![[0.0; 3], [1.0 / SH_C0, 0.0, -0.5 / SH_C0]],
            sh_rest: (0..18).map(|i| i as f32).collect(),
            sh_degree: 1,
        }
    }

    #[test]
    fn properties_have_the_values_that_their_names_promise() {
        let splats = two();
        for (name, first, second) in [
            ("x", 1.0, -1.0),
            ("opacity", 0.5, 1.0 / (1.0 + (-2f64).exp())),
            ("opacity_raw", 0.0, 2.0),
            ("size", 2.0, (-3f64).exp()),
            ("thickness", (-1f64).exp(), (-3f64).exp()),
            (
                "area",
                std::f64::consts::PI * 2.0,
                std::f64::consts::PI * (-6f64).exp(),
            ),
            ("scale_1", 2.0, (-3f64).exp()),
            ("scale_2_raw", -1.0, -3.0),
            ("red", 0.5, 1.5),
            ("blue", 0.5, 0.0),
            ("rot_3", 0.0, 0.5),
            // Red's coefficients come first in a file: number 1 of red, number 0 of green.
            ("f_rest_1", 3.0, 12.0),
            ("f_rest_3", 1.0, 10.0),
            ("f_rest_44", 0.0, 0.0),
            ("contribution", 7.0, 8.0),
        ] {
            let property = Property::of_name(name).unwrap();
            assert_eq!(property.to_string(), name);
            for (i, wanted) in [first, second].into_iter().enumerate() {
                let value = property.of(&splats, &[7.0, 8.0], i);
                assert!((value - wanted).abs() < 1e-6, "{name} of {i}: {value}");
            }
        }
    }

    #[test]
    fn conditions_are_read_in_signs_and_in_words_and_printed_as_read() {
        let splats = two();
        for (text, first, second) in [
            ("opacity<0.6", true, false),
            ("x>=1", true, false),
            ("z!=3", false, true),
            ("f_dc_0==0", true, false),
            ("size<=2.001", true, true),
            ("y>0", true, false),
        ] {
            let condition: Condition = text.parse().unwrap();
            assert_eq!(condition.to_string(), text);
            let holds = [0, 1].map(|i| condition.holds(&splats, &[], i));
            assert_eq!(holds, [first, second], "{text}");
        }
        let words: Condition = "opacity,lt,0.6".parse().unwrap();
        assert_eq!(words, " opacity < 0.6".parse().unwrap());
        for bad in [
            "opacity",
            "opacity<",
            "opacity<nan",
            "weight>1",
            "scale_3>1",
            "opacity,le,1",
            "<1",
            "f_rest_45<0",
        ] {
            let error = bad.parse::<Condition>().unwrap_err();
            assert!(
                error.hint_text().is_some() && error.place().is_some(),
                "{bad}"
            );
        }
    }

    #[test]
    fn any_number_that_is_none_makes_a_gaussian_not_finite() {
        let spoil: [fn(&mut Splats); 7] = [
            |s| s.means[1][2] = f32::NAN,
            |s| s.scales[1][0] = f32::INFINITY,
            |s| s.quats[1][3] = f32::NAN,
            |s| s.quats[1] = [0.0; 4],
            |s| s.opacities[1] = f32::NEG_INFINITY,
            |s| s.sh0[1][0] = f32::NAN,
            |s| s.sh_rest[9] = f32::NAN,
        ];
        for spoil in spoil {
            let mut splats = two();
            spoil(&mut splats);
            assert!(is_finite(&splats, 0) && !is_finite(&splats, 1));
        }
    }
}
