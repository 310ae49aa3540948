//! Ranges of numbers.

use crate::Error;
use std::fmt;

/// Number of a setting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// Whole number.
    Count(u64),
    /// Floating-point number.
    Real(f64),
}

/// Range of a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Range {
    /// The setting has no number.
    None,
    /// All numbers of the type; the text names what bounds them.
    Any(&'static str),
    /// Whole numbers from the least to the most, both included.
    Counts(u64, u64),
    /// Floating-point numbers.
    Reals {
        /// Lower bound.
        least: f64,
        /// True if the lower bound is excluded.
        open_below: bool,
        /// Upper bound.
        most: f64,
        /// True if the upper bound is excluded.
        open_above: bool,
    },
}

impl Range {
    /// Range with both bounds.
    pub const fn closed(least: f64, most: f64) -> Self {
        Self::reals(least, false, most, false)
    }

    /// Range without its lower bound.
    pub const fn above(least: f64, most: f64) -> Self {
        Self::reals(least, true, most, false)
    }

    /// Range without its upper bound.
    pub const fn below(least: f64, most: f64) -> Self {
        Self::reals(least, false, most, true)
    }

    /// Range without its bounds.
    pub const fn between(least: f64, most: f64) -> Self {
        Self::reals(least, true, most, true)
    }

    const fn reals(least: f64, open_below: bool, most: f64, open_above: bool) -> Self {
        Self::Reals {
            least,
            open_below,
            most,
            open_above,
        }
    }

    /// Returns true if the number is in the range. NaN is in no range.
    pub fn holds(self, number: Number) -> bool {
        match (self, number) {
            (Self::None | Self::Any(_), _) => true,
            (Self::Counts(least, most), Number::Count(value)) => (least..=most).contains(&value),
            (Self::Counts(..), Number::Real(_)) => false,
            (Self::Reals { .. }, Number::Count(value)) => self.holds(Number::Real(value as f64)),
            (
                Self::Reals {
                    least,
                    open_below,
                    most,
                    open_above,
                },
                Number::Real(value),
            ) => {
                let is_above = match open_below {
                    true => value > least,
                    false => value >= least,
                };
                let is_below = match open_above {
                    true => value < most,
                    false => value <= most,
                };
                is_above && is_below
            }
        }
    }

    /// Returns the error of a number outside the range. `remark` follows the range in the hint.
    pub fn error(self, key: &str, number: Number, remark: &str) -> Error {
        match (self, number) {
            (Self::Counts(least, _), Number::Count(value)) => {
                let size = if value < least { "small" } else { "large" };
                Error::input(format!("{key} = {value} is too {size}"))
                    .hint(format!("{key} must be {self}{remark}"))
            }
            (_, Number::Count(value)) => {
                out_of_range(key, value as f64, &format!("{self}{remark}"))
            }
            (_, Number::Real(value)) => out_of_range(key, value, &format!("{self}{remark}")),
        }
    }
}

/// Returns the error of a floating-point number that is not in `range`.
pub fn out_of_range(key: &str, value: f64, range: &str) -> Error {
    Error::input(format!("{key} = {} cannot be used", shown(value)))
        .hint(format!("{key} must be {range}"))
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::None => Ok(()),
            Self::Any(bounded_by) => f.write_str(bounded_by),
            Self::Counts(least, most) => write!(f, "at least {least} and at most {most}"),
            Self::Reals {
                least,
                open_below,
                most,
                open_above,
            } => {
                let from = match open_below {
                    true => "larger than",
                    false => "at least",
                };
                let to = match open_above {
                    true => "below",
                    false => "at most",
                };
                write!(f, "{from} {} and {to} {}", shown(least), shown(most))
            }
        }
    }
}

/// Formats a number with an exponent if it is very small or large: `1e38`.
fn shown(value: f64) -> String {
    match value.abs() {
        1e-6..1e7 | 0.0 => format!("{value}"),
        _ => format!("{value:e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_holds_its_ends_as_it_says() {
        let range = Range::above(0.0, 1.0);
        assert_eq!(range.to_string(), "larger than 0 and at most 1");
        let holds = |range: Range, value| range.holds(Number::Real(value));
        assert!(!holds(range, 0.0) && holds(range, 1.0) && !holds(range, f64::NAN));
        let range = Range::below(0.0, 1.0);
        assert_eq!(range.to_string(), "at least 0 and below 1");
        assert!(holds(range, 0.0) && !holds(range, 1.0));
        let range = Range::Counts(1, 3);
        assert!(range.holds(Number::Count(3)) && !range.holds(Number::Count(0)));
        let error = range.error("steps", Number::Count(4), "").to_string();
        assert!(error.contains("steps = 4 is too large"), "{error}");
    }
}
