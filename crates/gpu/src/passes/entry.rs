//! [`Entry`]: workgroups of an indirect dispatch, which the GPU counts, and [`Entries`]: the numbers of all entries.

use crate::layout::MOST_ENTRIES;
use dapple_scene::{Error, Result};

/// An entry of the buffer `groups`: the workgroups of an indirect dispatch, which the GPU counts. Its name is the name
/// of its number in WGSL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry(pub &'static str);

/// Bytes of an entry: three counts, and an unused word.
pub const ENTRY_BYTES: u64 = 16;

/// The entries that passes declare, in the order of their numbers.
#[derive(Debug, Clone, Default)]
pub struct Entries {
    all: Vec<Entry>,
    of_steps: usize,
}

impl Entries {
    /// Numbers the entries: those of a step, which a halt clears, come first; then those of density control and the
    /// Morton order.
    pub fn new(steps: impl Iterator<Item = Entry>, rounds: impl Iterator<Item = Entry>) -> Self {
        let mut all: Vec<Entry> = steps.collect();
        let of_steps = all.len();
        all.extend(rounds);
        Self { all, of_steps }
    }

    /// Returns the number of an entry.
    ///
    /// # Errors
    /// No pass declares the entry, or the buffer has no place for it: a bug of this crate.
    pub fn number(&self, entry: Entry) -> Result<u64> {
        let found = self.all.iter().position(|other| *other == entry);
        let number = found.ok_or_else(|| {
            Error::internal(format!("no pass declares the dispatch entry {}", entry.0))
        })?;
        if number >= MOST_ENTRIES as usize {
            return Err(Error::internal(format!(
                "the dispatch entry {} has the number {number}, and the buffer holds {MOST_ENTRIES}",
                entry.0
            )));
        }
        Ok(number as u64)
    }

    /// Returns the offset of an entry in `groups`, bytes.
    ///
    /// # Errors
    /// See [`Self::number`].
    pub fn offset(&self, entry: Entry) -> Result<u64> {
        Ok(self.number(entry)? * ENTRY_BYTES)
    }

    /// Returns the number of entries.
    pub fn count(&self) -> u64 {
        self.all.len() as u64
    }

    /// Returns the numbers of all entries for shaders: the shader include `shared/entries`.
    pub fn wgsl(&self) -> String {
        let numbered = self.all.iter().enumerate();
        let mut wgsl: String = numbered
            .map(|(number, entry)| format!("const {}: u32 = {number}u;\n", entry.0))
            .collect();
        wgsl += &format!("const STEP_ENTRIES: u32 = {}u;\n", self.of_steps);
        wgsl += &format!("const ALL_ENTRIES: u32 = {}u;\n", self.all.len());
        wgsl
    }
}
