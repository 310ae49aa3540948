//! Settings, one row each.
//!
//! [`settings!`](crate::settings!) declares a table of settings. A row has a name, a type, a default, a range, a
//! comment, and the option of the command line. From the rows follow:
//!
//! - the table as a struct, and its patch, which holds the values of one layer (a file, the command line),
//! - the range check ([`check_ranges`]),
//! - the comments of the printed file and the page of all settings ([`keys`]),
//! - the options of the command line ([`Patch::set`]).
//!
//! ```
//! use dapple_base::settings::{Patch, Range, Table, check_ranges, keys};
//! use serde::{Deserialize, Serialize};
//!
//! dapple_base::settings! {
//!     /// Losses of a run.
//!     pub Loss, LossPatch in "Losses" {
//!         /// Weight of 1 - SSIM, 0 to 1.
//!         ssim: f64 = 0.2, range(Range::closed(0.0, 1.0)), flag("--ssim <X>", "Weight of 1 - SSIM [default: 0.2]");
//!     } {}
//! }
//!
//! let mut patch = LossPatch::default();
//! patch.set("ssim", "0.5".as_ref()).unwrap();
//! let loss = patch.fill(Loss::default());
//! assert_eq!(loss.ssim, 0.5);
//! check_ranges(&loss).unwrap();
//! assert_eq!(keys::<Loss>()[0].row.flag.unwrap().long(), "ssim");
//! ```

mod declare;
mod range;
mod value;

pub use range::{Number, Range, out_of_range};
pub use value::{Choice, Kind, Setting};

use crate::{Error, Result};
use std::ffi::OsStr;
use std::fmt;

/// Declaration of one setting.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Key in its table.
    pub name: &'static str,
    /// Older key, which files may still name.
    pub old_name: Option<&'static str>,
    /// Comment in the printed file, by line, each with its leading space.
    pub comment: &'static [&'static str],
    /// Kind of the value.
    pub kind: Kind,
    /// Range of its numbers.
    pub range: Range,
    /// Text that follows the range in the error of a number outside it.
    pub remark: &'static str,
    /// Option of the command line; `None` for settings of files only.
    pub flag: Option<Flag>,
    /// Heading of the option in help.
    pub heading: &'static str,
    /// Dependence on the number of steps.
    pub scales: Scales,
    /// True if the setting selects other defaults.
    pub is_choice: bool,
    /// True if the setting does not change results.
    pub is_beside_results: bool,
}

/// Option of the command line.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// Names and value: `-p, --preset <NAME>`, `--dropout <X>`, `--antialias`.
    pub usage: &'static str,
    /// Older option, which the command line still accepts: `--watch-every`.
    pub old: Option<&'static str>,
    /// First sentence for `-h`, then further sentences for `--help`.
    pub help: &'static str,
    /// True if `-h` lists the option.
    pub is_main: bool,
    /// True if the command line checks the range, and not only the configuration.
    pub is_checked_early: bool,
}

impl Flag {
    /// Returns the long name without dashes.
    pub fn long(&self) -> &'static str {
        let (names, _) = self.parts();
        let (_, long) = names.rsplit_once(' ').unwrap_or(("", names));
        long.trim_start_matches('-')
    }

    /// Returns the letter of `-p, --preset`.
    pub fn short(&self) -> Option<char> {
        let short = self.usage.strip_prefix('-')?.chars().next();
        short.filter(|&letter| letter != '-')
    }

    /// Returns the name of the value; `None` for a switch.
    pub fn value_name(&self) -> Option<&'static str> {
        let (_, value) = self.parts();
        value.strip_suffix('>')
    }

    /// Returns the first sentence of the help.
    pub fn summary(&self) -> &'static str {
        self.help
            .split_once(". ")
            .map_or(self.help, |(first, _)| first)
    }

    /// Returns the names and the value.
    fn parts(&self) -> (&'static str, &'static str) {
        self.usage.split_once(" <").unwrap_or((self.usage, ""))
    }
}

/// Dependence of a step-valued setting on the length of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scales {
    /// The value is the same in all runs.
    No,
    /// The value is scaled with the steps of the schedule.
    Schedule,
    /// The value is scaled with the steps of the run.
    Steps,
}

impl Row {
    /// Creates a row without range, option and further attributes.
    pub const fn new(name: &'static str, comment: &'static [&'static str], kind: Kind) -> Self {
        Self {
            name,
            old_name: None,
            comment,
            kind,
            range: Range::None,
            remark: "",
            flag: None,
            heading: "",
            scales: Scales::No,
            is_choice: false,
            is_beside_results: false,
        }
    }

    /// Sets the older key.
    #[must_use]
    pub const fn old_name(mut self, name: &'static str) -> Self {
        self.old_name = Some(name);
        self
    }

    /// Sets the range.
    #[must_use]
    pub const fn range(mut self, range: Range) -> Self {
        self.range = range;
        self
    }

    /// Sets a range of whole numbers.
    #[must_use]
    pub const fn counts(self, least: u64, most: u64) -> Self {
        self.range(Range::Counts(least, most))
    }

    /// Sets the text after the range in errors.
    #[must_use]
    pub const fn remark(mut self, text: &'static str) -> Self {
        self.remark = text;
        self
    }

    /// Sets the option of the command line: `--name <VALUE>`, and its help.
    #[must_use]
    pub const fn flag(mut self, usage: &'static str, help: &'static str) -> Self {
        self.flag = Some(Flag {
            usage,
            old: None,
            help,
            is_main: false,
            is_checked_early: false,
        });
        self
    }

    /// Sets an option that `-h` lists too.
    #[must_use]
    pub const fn main_flag(mut self, usage: &'static str, help: &'static str) -> Self {
        self = self.flag(usage, help);
        if let Some(flag) = &mut self.flag {
            flag.is_main = true;
        }
        self
    }

    /// Sets the older option.
    #[must_use]
    pub const fn old_flag(mut self, name: &'static str) -> Self {
        if let Some(flag) = &mut self.flag {
            flag.old = Some(name);
        }
        self
    }

    /// Lets the command line check the range.
    #[must_use]
    pub const fn checked_early(mut self) -> Self {
        if let Some(flag) = &mut self.flag {
            flag.is_checked_early = true;
        }
        self
    }

    /// Sets the heading of the option in help.
    #[must_use]
    pub const fn heading(mut self, heading: &'static str) -> Self {
        self.heading = heading;
        self
    }

    /// Scales the setting with the length of a run.
    #[must_use]
    pub const fn scales(mut self, scales: Scales) -> Self {
        self.scales = scales;
        self
    }

    /// Marks a setting that selects other defaults.
    #[must_use]
    pub const fn choice(mut self) -> Self {
        self.is_choice = true;
        self
    }

    /// Marks a setting that does not change results.
    #[must_use]
    pub const fn beside_results(mut self) -> Self {
        self.is_beside_results = true;
        self
    }
}

/// Row with its table: `densify.stop`.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Name of the table; empty for the outermost.
    pub table: &'static str,
    /// Row.
    pub row: &'static Row,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.table {
            "" => f.write_str(self.row.name),
            table => write!(f, "{table}.{}", self.row.name),
        }
    }
}

/// Inner table.
#[derive(Debug, Clone, Copy)]
pub struct Inner {
    /// Name of the table.
    pub name: &'static str,
    /// Description.
    pub about: &'static [&'static str],
    /// Rows.
    pub rows: &'static [Row],
}

/// Number of a table, with the row that bounds it.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Row.
    pub key: Key,
    /// Distinguishes several numbers of a setting; else empty.
    pub label: &'static str,
    /// Number.
    pub number: Number,
}

impl Entry {
    /// Returns the name of the number for messages: `background (red)`.
    pub fn name(&self) -> String {
        match self.label {
            "" => self.key.to_string(),
            label => format!("{} ({label})", self.key),
        }
    }
}

/// Table of settings; [`settings!`](crate::settings!) implements it.
pub trait Table: Default + Sized {
    /// Values of one layer.
    type Patch: Patch;

    /// Rows of this table, without inner tables, in the order of the file.
    const ROWS: &'static [Row];

    /// Inner tables, in the order of the file.
    const TABLES: &'static [Inner];

    /// Adds all numbers to a list. `table` is the name of this table.
    fn add_numbers(&self, table: &'static str, list: &mut Vec<Entry>);

    /// Visits all settings that are steps.
    fn each_steps(&mut self, visit: &mut dyn FnMut(&Row, &mut u32));

    /// Returns the values of the rows that `keep` selects.
    fn picked(&self, keep: &dyn Fn(&Row) -> bool) -> Self::Patch;
}

/// Values of one layer; `None` leaves a value to lower layers.
pub trait Patch: Default + Sized {
    /// Sets a value from the command line; `key` is such as `densify.stop`.
    ///
    /// # Errors
    /// The fault of the value, in one line.
    fn set(&mut self, key: &str, text: &OsStr) -> Result<(), String>;

    /// Removes the values of the rows that `drop` selects.
    fn clear(&mut self, drop: &dyn Fn(&Row) -> bool);
}

/// Returns the keys of a table and of its inner tables, in the order of the file.
pub fn keys<T: Table>() -> Vec<Key> {
    let outer = T::ROWS.iter().map(|row| Key { table: "", row });
    let inner = T::TABLES.iter().flat_map(|inner| {
        let key = |row| Key {
            table: inner.name,
            row,
        };
        inner.rows.iter().map(key)
    });
    outer.chain(inner).collect()
}

/// Returns all numbers of a table, in the order of the file.
pub fn numbers(table: &impl Table) -> Vec<Entry> {
    let mut list = Vec::new();
    table.add_numbers("", &mut list);
    list
}

/// Refuses the first number outside its range.
///
/// # Errors
/// The key, the number and the range.
pub fn check_ranges(table: &impl Table) -> Result<(), Error> {
    for entry in numbers(table) {
        let Row { range, remark, .. } = entry.key.row;
        if !range.holds(entry.number) {
            return Err(range.error(&entry.name(), entry.number, remark));
        }
    }
    Ok(())
}
