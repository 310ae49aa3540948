//! The page of all settings, `docs/SETTINGS.md`.

use super::resolve::all_values;
use super::{HEADINGS, TrainConfig};
use dapple_base::settings::{Key, Kind, Range, Row, keys};
use dapple_scene::Result;
use std::fmt::Write as _;

const INTRODUCTION: &str = "\
# Settings

All settings of a training run, with options, defaults and ranges. [TRAINING.md](TRAINING.md) shows which settings to change.

```sh
dapple train captures/bird --dropout 0.1 -o out/dropout    # an option
dapple train captures/bird --print-config > mine.toml      # all keys, commented
dapple train captures/bird --config mine.toml -o out/mine  # a file, also for settings without an option
```

Settings come from the preset, then the file, then the options; later ones win. In a file, `densify.stop` is the key `stop` of the
table `[densify]`. The column \"default\" has the base recipe for 30 000 steps; presets, strategies and appearance models set other defaults,
which the last column names. A default run differs from the column: `standard` and `quick` compute `steps`, use `mcmc`, and have a
computed Gaussian cap; `standard` also has `max_extensions` 2. `--print-config` prints the values of your run. *Coverage* and *detail*:
[TRAINING.md](TRAINING.md#how-the-numbers-are-computed).

`cargo xtask docs` writes this page from `crates/train/src/config/rows.rs`.
";

impl TrainConfig {
    /// Returns the page of all settings in Markdown, by heading.
    ///
    /// # Errors
    /// The configuration cannot be written as TOML: a defect.
    pub fn page() -> Result<String> {
        let values = all_values(&Self::default())?;
        let keys = keys::<Self>();
        let mut headings = HEADINGS.to_vec();
        for key in &keys {
            if !headings.contains(&key.row.heading) {
                headings.push(key.row.heading);
            }
        }
        let mut page = INTRODUCTION.to_owned();
        for heading in headings {
            let rows = keys.iter().filter(|key| key.row.heading == heading);
            add_section(
                &mut page,
                heading,
                &rows.copied().collect::<Vec<_>>(),
                &values,
            );
        }
        Ok(page)
    }
}

fn add_section(page: &mut String, heading: &str, keys: &[Key], values: &toml::Table) {
    if keys.is_empty() {
        return;
    }
    let _ = writeln!(page, "\n## {heading}\n");
    page.push_str("| key | option | default | values | meaning |\n|---|---|---|---|---|\n");
    for key in keys {
        let option = key
            .row
            .flag
            .map_or(String::new(), |flag| format!("`{}`", cell(flag.usage)));
        let value = match key.table {
            "" => values.get(key.row.name),
            table => values.get(table).and_then(|inner| inner.get(key.row.name)),
        };
        let value = value.map_or(String::new(), |value| format!("`{value}`"));
        let _ = writeln!(
            page,
            "| `{key}` | {option} | {value} | {} | {} |",
            allowed(key.row),
            cell(meaning(key.row).trim())
        );
    }
    for key in keys {
        let Kind::Choices(choices) = key.row.kind else {
            continue;
        };
        let _ = writeln!(page, "\nValues of `{key}`:\n");
        for choice in choices() {
            let _ = writeln!(page, "- `{}`: {}", choice.name, choice.about);
        }
    }
}

/// Returns the comment of a row as one line.
fn meaning(row: &Row) -> String {
    row.comment.concat()
}

/// Returns the allowed values of a row.
fn allowed(row: &Row) -> String {
    match (row.kind, row.range) {
        (Kind::Switch, _) => "true, false".to_owned(),
        (Kind::Choices(_), _) => "names, below".to_owned(),
        (Kind::Path, _) => "path".to_owned(),
        (Kind::List, Range::None) => "list".to_owned(),
        (_, Range::None) => "text".to_owned(),
        (_, Range::Any("")) => "0 or more".to_owned(),
        (_, Range::Any(bounded_by)) => bounded_by.to_owned(),
        (_, Range::Counts(least, most)) if most == u64::from(u32::MAX) => {
            format!("{least} or more")
        }
        (_, Range::Counts(least, most)) => format!("{least} to {most}"),
        (
            _,
            Range::Reals {
                least,
                open_below,
                most,
                open_above,
            },
        ) => {
            let above = if open_below { "above " } else { "" };
            let below = if open_above { "below " } else { "" };
            format!("{above}{least} to {below}{most}")
        }
    }
}

/// Returns text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
