//! Types of settings.

use super::range::Number;
use std::ffi::OsStr;
use std::path::PathBuf;

/// Name of a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Name in files and on the command line.
    pub name: &'static str,
    /// One line for a help page.
    pub about: &'static str,
    /// True if help pages do not list the choice.
    pub is_hidden: bool,
}

/// Kind of a setting.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// True or false. On the command line, an option without a value that sets true.
    Switch,
    /// Number.
    Number,
    /// Text with its own syntax.
    Text,
    /// Path.
    Path,
    /// List of numbers. Files only.
    List,
    /// One of several names.
    Choices(fn() -> Vec<Choice>),
}

/// Type of a setting.
pub trait Setting: Clone + Sized {
    /// Kind of the setting.
    const KIND: Kind;

    /// Parses a value of the command line.
    ///
    /// # Errors
    /// The fault, in one line.
    fn from_text(text: &str) -> Result<Self, String>;

    /// Parses a value like [`Self::from_text`]. Paths need not be UTF-8.
    ///
    /// # Errors
    /// The fault, in one line.
    fn from_os(text: &OsStr) -> Result<Self, String> {
        let text = text.to_str().ok_or("the value is not UTF-8")?;
        Self::from_text(text)
    }

    /// Visits the numbers that a range applies to. A label distinguishes several numbers.
    fn numbers(&self, _visit: &mut dyn FnMut(&'static str, Number)) {}

    /// Returns the setting as a number of steps; `None` for other types.
    fn as_steps(&mut self) -> Option<&mut u32> {
        None
    }
}

impl Setting for bool {
    const KIND: Kind = Kind::Switch;

    fn from_text(text: &str) -> Result<Self, String> {
        text.parse().map_err(|e| format!("{e}"))
    }
}

impl Setting for u8 {
    const KIND: Kind = Kind::Number;

    fn from_text(text: &str) -> Result<Self, String> {
        narrowed(text, Self::MAX.into())
    }

    fn numbers(&self, visit: &mut dyn FnMut(&'static str, Number)) {
        visit("", Number::Count((*self).into()));
    }
}

impl Setting for u32 {
    const KIND: Kind = Kind::Number;

    fn from_text(text: &str) -> Result<Self, String> {
        narrowed(text, Self::MAX.into())
    }

    fn numbers(&self, visit: &mut dyn FnMut(&'static str, Number)) {
        visit("", Number::Count((*self).into()));
    }

    fn as_steps(&mut self) -> Option<&mut u32> {
        Some(self)
    }
}

fn not_whole(error: &std::num::ParseIntError) -> String {
    use std::num::IntErrorKind as Kind;
    match error.kind() {
        Kind::PosOverflow | Kind::NegOverflow => "the number is too large".to_owned(),
        _ => "it is no whole number, such as 30".to_owned(),
    }
}

/// Parses a whole number from 0 to `most`.
fn narrowed<T: TryFrom<i64>>(text: &str, most: i64) -> Result<T, String> {
    let number: i64 = text.parse().map_err(|e| not_whole(&e))?;
    T::try_from(number).map_err(|_| format!("{number} is not in 0..={most}"))
}

impl Setting for u64 {
    const KIND: Kind = Kind::Number;

    fn from_text(text: &str) -> Result<Self, String> {
        text.parse().map_err(|e| not_whole(&e))
    }

    fn numbers(&self, visit: &mut dyn FnMut(&'static str, Number)) {
        visit("", Number::Count(*self));
    }
}

impl Setting for usize {
    const KIND: Kind = Kind::Number;

    fn from_text(text: &str) -> Result<Self, String> {
        text.parse().map_err(|e| not_whole(&e))
    }

    fn numbers(&self, visit: &mut dyn FnMut(&'static str, Number)) {
        visit("", Number::Count(*self as u64));
    }
}

impl Setting for f64 {
    const KIND: Kind = Kind::Number;

    fn from_text(text: &str) -> Result<Self, String> {
        let number = text.parse();
        number.map_err(|_| "it is no number, such as 0.5 or 1e-3".to_owned())
    }

    fn numbers(&self, visit: &mut dyn FnMut(&'static str, Number)) {
        visit("", Number::Real(*self));
    }
}

impl Setting for PathBuf {
    const KIND: Kind = Kind::Path;

    fn from_text(text: &str) -> Result<Self, String> {
        Ok(Self::from(text))
    }

    fn from_os(text: &OsStr) -> Result<Self, String> {
        Ok(Self::from(text))
    }
}

/// Steps of a list; the range applies to each.
impl Setting for Vec<u32> {
    const KIND: Kind = Kind::List;

    fn from_text(_: &str) -> Result<Self, String> {
        Err(FILES_ONLY.to_owned())
    }

    fn numbers(&self, visit: &mut dyn FnMut(&'static str, Number)) {
        for &step in self {
            visit("", Number::Count(step.into()));
        }
    }
}

impl<const N: usize> Setting for [u32; N] {
    const KIND: Kind = Kind::List;

    fn from_text(_: &str) -> Result<Self, String> {
        Err(FILES_ONLY.to_owned())
    }
}

impl<const N: usize> Setting for Vec<[u32; N]> {
    const KIND: Kind = Kind::List;

    fn from_text(_: &str) -> Result<Self, String> {
        Err(FILES_ONLY.to_owned())
    }
}

const FILES_ONLY: &str = "a list is set in a configuration file";

/// Implements [`Setting`](crate::settings::Setting) for an enum with `ALL`, `name()`, `about()` and `FromStr`.
/// `hidden: function` selects the choices that help pages do not list.
#[macro_export]
macro_rules! choice_setting {
    ($name:ident $(, hidden: $hidden:expr)?) => {
        impl $crate::settings::Setting for $name {
            const KIND: $crate::settings::Kind = $crate::settings::Kind::Choices(|| {
                let choice = |value: Self| $crate::settings::Choice {
                    name: value.name(),
                    about: value.about(),
                    is_hidden: [false $(, $hidden(value))?].contains(&true),
                };
                Self::ALL.into_iter().map(choice).collect()
            });

            fn from_text(text: &str) -> ::std::result::Result<Self, String> {
                text.parse()
                    .map_err(|error: $crate::Error| error.what().to_owned())
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_command_line_name_their_fault() {
        assert_eq!(u8::from_text("3"), Ok(3));
        assert_eq!(
            u8::from_text("300"),
            Err("300 is not in 0..=255".to_owned())
        );
        assert_eq!(
            u32::from_text("-1"),
            Err("-1 is not in 0..=4294967295".to_owned())
        );
        assert!(u64::from_text("x").is_err_and(|e| e.contains("no whole number")));
        assert!(f64::from_text("x").is_err_and(|e| e.contains("no number")));
        assert!(Vec::<u32>::from_text("1").is_err());
    }
}
