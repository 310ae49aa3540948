//! Printed configuration files (`--print-config`, `config.toml` of a run). They name every key, so that no entry scales
//! with `steps`. If the flags of a run set other steps, the user wants the same recipe for another length, not the
//! schedule of the old length.
//!
//! 1. A file is printed if it names every key.
//! 2. Its choices that set other defaults (strategy, appearance and the like) are retained if they differ from the
//!    result of its preset for the file's own steps.
//! 3. Every other key whose value equals the result of preset and choices for the file's own steps is treated as not
//!    named: it follows the new steps.
//! 4. The remaining keys were edited. They stay, and [`ConfigPatch::unscaled`] names the steps of the schedule among
//!    them for a note to the user.

use super::{ConfigPatch, TrainConfig};
use crate::PhotoCoverage;
use dapple_base::settings::{self, Row, Scales};
use toml::{Table, Value};

/// Returns the keys of the rows that `keep` selects.
fn keys_of(keep: impl Fn(&Row) -> bool) -> impl Iterator<Item = String> {
    let keys = settings::keys::<TrainConfig>().into_iter();
    keys.filter(move |key| keep(key.row))
        .map(|key| key.to_string())
}

impl ConfigPatch {
    /// Returns this layer, a file's, for a run whose `steps` another layer sets. Unchanged unless the file was printed
    /// for another number of steps.
    pub(super) fn for_steps(self, steps: Option<u32>, seen: Option<PhotoCoverage>) -> Self {
        let is_other = steps.is_some() && self.steps.is_some() && steps != self.steps;
        match is_other {
            true => self.without_what_follows(seen).unwrap_or(self),
            false => self,
        }
    }

    /// Returns the steps of the schedule that this layer, a file's, fixes although the run has `steps`: `densify.stop =
    /// 5000`.
    pub fn unscaled(&self, steps: u32, seen: Option<PhotoCoverage>) -> Vec<String> {
        if self.steps.is_none_or(|own| own == steps) {
            return Vec::new();
        }
        let left = self.clone().for_steps(Some(steps), seen);
        let Ok(table) = Table::try_from(&left) else {
            return Vec::new();
        };
        let named = keys_of(|row| row.scales != Scales::No).filter_map(|key| {
            let value = get(&table, &key)?.as_integer().filter(|&n| n > 0)?;
            Some(format!("{key} = {value}"))
        });
        named.collect()
    }

    /// Applies steps 1 to 3. `None` for a file that was not printed.
    pub(super) fn without_what_follows(&self, seen: Option<PhotoCoverage>) -> Option<Self> {
        let named = Table::try_from(self).ok()?;
        let all = Table::try_from(TrainConfig::default()).ok()?;
        if !names_all_of(&named, &all) {
            return None;
        }
        let mut base = Self {
            preset: self.preset,
            steps: self.steps,
            ..Self::default()
        };
        let plain = Table::try_from(base.clone().resolved(seen)).ok()?;
        let mut chosen = Table::try_from(&base).ok()?;
        for key in keys_of(|row| row.is_choice) {
            if let Some(value) = get(&named, &key)
                && get(&plain, &key) != Some(value)
            {
                set(&mut chosen, &key, value.clone());
            }
        }
        base = chosen.try_into().ok()?;
        let kept = Table::try_from(&base).ok()?;
        let made = Table::try_from(base.resolved(seen)).ok()?;
        let mut left = without_equal(named, &made);
        for key in keys_of(|row| row.is_choice) {
            if let Some(value) = get(&kept, &key) {
                set(&mut left, &key, value.clone());
            }
        }
        let mut left: Self = left.try_into().ok()?;
        // Amendments of the printed run do not apply to a run with its own number of steps.
        (left.max_extensions, left.amendments) = (None, None);
        (left.preset, left.steps) = (self.preset, self.steps);
        // With a number of Gaussians, a missing key would have another meaning than "false".
        left.random_start = self.random_start;
        Some(left)
    }

    fn resolved(mut self, seen: Option<PhotoCoverage>) -> TrainConfig {
        if let Some(seen) = seen {
            self.suit(&seen);
        }
        self.resolve_named()
    }
}

/// Returns true if `table` has every key of `all`.
fn names_all_of(table: &Table, all: &Table) -> bool {
    all.iter()
        .all(|(key, value)| match (value, table.get(key)) {
            (Value::Table(inner), Some(Value::Table(named))) => names_all_of(named, inner),
            (_, named) => named.is_some(),
        })
}

/// Returns `table` without the keys that have the same value in `other`.
fn without_equal(table: Table, other: &Table) -> Table {
    let differs = |(key, value): (String, Value)| match (value, other.get(&key)) {
        (Value::Table(inner), Some(Value::Table(there))) => {
            Some((key, Value::Table(without_equal(inner, there))))
        }
        (value, Some(there)) if value == *there => None,
        (value, _) => Some((key, value)),
    };
    table.into_iter().filter_map(differs).collect()
}

/// Returns the value of a key such as `densify.stop`.
fn get<'a>(table: &'a Table, key: &str) -> Option<&'a Value> {
    match key.split_once('.') {
        Some((outer, inner)) => table.get(outer)?.as_table()?.get(inner),
        None => table.get(key),
    }
}

fn set(table: &mut Table, key: &str, value: Value) {
    let Some((outer, inner)) = key.split_once('.') else {
        table.insert(key.to_owned(), value);
        return;
    };
    let outer = table
        .entry(outer.to_owned())
        .or_insert_with(|| Value::Table(Table::new()));
    if let Some(outer) = outer.as_table_mut() {
        outer.insert(inner.to_owned(), value);
    }
}
