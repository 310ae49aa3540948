//! Rows of the settings: printed configurations, ranges, names.

use dapple_base::settings::{Kind, Range, keys};
use dapple_train::{ConfigPatch, Preset, TrainConfig};
use std::collections::{BTreeMap, BTreeSet};

/// Values of the printed presets, `key = value` under the name of the preset: all keys of `standard`, and of the other
/// presets those that differ. A new setting needs no line.
const RECORDED: &str = include_str!("presets.txt");

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
    let printed = |preset: Preset| values(&preset.config().to_toml().unwrap());
    let standard = printed(Preset::Standard);
    let mut recorded: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut name = "";
    for line in RECORDED.lines() {
        match line.strip_prefix('[') {
            Some(heading) => name = heading.trim_end_matches(']'),
            None => recorded.entry(name).or_default().push(line),
        }
    }
    // Order and values of the recorded keys.
    let recorded_keys = |line: &&String| {
        let key = line.split(" = ").next().unwrap_or_default();
        let named = recorded["standard"].iter();
        named
            .into_iter()
            .any(|other| other.starts_with(&format!("{key} = ")))
    };
    let found: Vec<&String> = standard.iter().filter(recorded_keys).collect();
    assert_eq!(found, recorded["standard"]);
    for preset in Preset::ALL
        .into_iter()
        .filter(|&preset| preset != Preset::Standard)
    {
        let all = printed(preset);
        let differs = |line: &&String| !standard.contains(line);
        let found: Vec<&String> = all.iter().filter(differs).collect();
        assert_eq!(found, recorded[preset.name()], "{preset}");
    }
}

#[test]
fn the_page_of_settings_is_up_to_date() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/SETTINGS.md")).unwrap();
    assert!(
        page == TrainConfig::page().unwrap(),
        "docs/SETTINGS.md is old: run `cargo xtask docs`"
    );
}

#[test]
fn older_keys_are_read_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.toml");
    let text = "max_extensions = 0\nperceptual_weight = 0.0\n[data]\nwatch_every = 7\n";
    std::fs::write(&path, text).unwrap();
    let patch = ConfigPatch::read(&path).unwrap();
    assert_eq!(patch.data.validate_every, Some(7));
    assert_eq!(patch.lpips_weight, Some(0.0));
    let names = |old: &str, new: &str| (old.to_owned(), new.to_owned());
    assert_eq!(
        ConfigPatch::old_keys(&path).unwrap(),
        [
            names("perceptual_weight", "lpips_weight"),
            names("watch_every", "validate_every")
        ]
    );
    for key in keys::<TrainConfig>() {
        let Some(old) = key.row.old_name else {
            continue;
        };
        let printed = TrainConfig::default().to_toml().unwrap();
        let older = printed.replacen(&format!("\n{} = ", key.row.name), &format!("\n{old} = "), 1);
        assert_ne!(printed, older, "{key}");
        assert_eq!(
            TrainConfig::parse(&older, "it").unwrap(),
            TrainConfig::parse(&printed, "it").unwrap(),
            "{key}"
        );
    }
    // A typing error leads to the present key.
    let error = ConfigPatch::parse("[data]\nwatch_evry = 7", "it").unwrap_err();
    assert!(
        !error.to_string().contains("mean `validate_every`"),
        "{error}"
    );
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
            assert!(flag.usage.contains("--"), "{key}");
            assert!(names.insert(flag.usage.to_owned()), "{key}");
            assert!(!key.row.heading.is_empty(), "{key} has no heading");
        }
    }
}
