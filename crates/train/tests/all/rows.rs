//! Rows of the settings: printed configurations, ranges, names.

use dapple_base::settings::{Kind, Range, keys};
use dapple_train::{Preset, TrainConfig};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Printed configuration of the preset `standard`.
const STANDARD: &str = include_str!("presets/standard.toml");

/// Values of the other presets that differ from `standard`.
const OTHERS: &str = include_str!("presets/others.txt");

/// Returns `key = value` of each setting of a printed configuration.
fn values(text: &str) -> Vec<String> {
    let mut table = String::new();
    let mut values = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[') {
            table = format!("{}.", name.trim_end_matches(']'));
        } else if line.contains(" = ") {
            values.push(format!("{table}{line}"));
        }
    }
    values
}

#[test]
fn presets_print_the_recorded_configurations() {
    let standard = Preset::Standard.config().to_toml().unwrap();
    assert_eq!(standard.trim_end(), STANDARD.trim_end());
    let usual: BTreeSet<String> = values(&standard).into_iter().collect();
    let mut others = String::new();
    let presets = Preset::ALL.into_iter();
    for preset in presets.filter(|preset| *preset != Preset::Standard) {
        let _ = writeln!(others, "[{preset}]");
        for value in values(&preset.config().to_toml().unwrap()) {
            if !usual.contains(&value) {
                let _ = writeln!(others, "{value}");
            }
        }
    }
    assert_eq!(others, OTHERS);
}

#[test]
fn no_number_is_without_a_range() {
    for key in keys::<TrainConfig>() {
        let has_numbers = matches!(key.row.kind, Kind::Number);
        assert!(
            !has_numbers || key.row.range != Range::None,
            "{key} has no range"
        );
    }
}

#[test]
fn options_and_names_are_unique() {
    let mut names = BTreeSet::new();
    for key in keys::<TrainConfig>() {
        assert!(names.insert(key.to_string()), "{key}");
        if let Some(flag) = key.row.flag {
            assert!(flag.usage.starts_with("--"), "{key}");
            assert!(names.insert(flag.usage.to_owned()), "{key}");
            assert!(!key.row.heading.is_empty(), "{key} has no heading");
        }
    }
}
