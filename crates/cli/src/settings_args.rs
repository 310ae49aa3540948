//! Options of settings, made from the rows of the configuration.
//!
//! Each row with a flag is an option. The values that are given form a layer of the configuration.

use clap::builder::{PossibleValue, PossibleValuesParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, value_parser};
use dapple::train::config::{HEADINGS, Key, Kind, Patch, Range, keys};
use dapple::train::{ConfigPatch, TrainConfig};
use std::ffi::OsStr;
use std::marker::PhantomData;
use std::path::PathBuf;

/// Selection of settings for a command.
pub trait Selection: std::fmt::Debug + Clone {
    /// Returns true if the command has an option for the setting.
    fn has(key: &Key) -> bool;
}

/// All settings.
#[derive(Debug, Clone)]
pub struct All;

impl Selection for All {
    fn has(_: &Key) -> bool {
        true
    }
}

/// Settings of the photos of a capture.
#[derive(Debug, Clone)]
pub struct Photos;

impl Selection for Photos {
    fn has(key: &Key) -> bool {
        key.table == "data" && key.row.name != "validate_every"
    }
}

/// Settings of the photos of a capture, and the preset.
#[derive(Debug, Clone)]
pub struct PresetAndPhotos;

impl Selection for PresetAndPhotos {
    fn has(key: &Key) -> bool {
        (key.table.is_empty() && key.row.name == "preset") || Photos::has(key)
    }
}

/// Settings of a profile: the preset, the photos of a capture and of a step.
#[derive(Debug, Clone)]
pub struct Profiled;

impl Selection for Profiled {
    fn has(key: &Key) -> bool {
        (key.table.is_empty() && key.row.name == "views_per_step") || PresetAndPhotos::has(key)
    }
}

/// Settings that the command line names.
#[derive(Debug, Clone)]
pub struct SettingsArgs<S> {
    patch: ConfigPatch,
    adds_steps: bool,
    selection: PhantomData<S>,
}

impl<S: Selection> SettingsArgs<S> {
    /// Returns the settings as a layer of the configuration.
    pub fn patch(&self) -> ConfigPatch {
        self.patch.clone()
    }

    /// Returns true if `--steps +N` names steps to add.
    pub fn adds_steps(&self) -> bool {
        self.adds_steps
    }

    /// Returns the selected keys with an option, in the order of their headings.
    fn keys() -> Vec<Key> {
        let rank = |key: &Key| HEADINGS.iter().position(|name| *name == key.row.heading);
        let mut keys: Vec<Key> = keys::<TrainConfig>()
            .into_iter()
            .filter(|key| key.row.flag.is_some() && S::has(key))
            .collect();
        keys.sort_by_key(rank);
        keys
    }
}

/// Returns the option of a setting.
fn option(key: Key) -> Option<Arg> {
    let flag = key.row.flag?;
    let arg = Arg::new(flag.long())
        .long(flag.long())
        .short(flag.short().filter(|_| !flag.usage.starts_with("--")))
        .help(flag.summary())
        .long_help(flag.help)
        .help_heading(key.row.heading)
        .hide_short_help(!flag.is_main);
    let arg = match flag.old {
        Some(old) => arg.alias(old.trim_start_matches('-')),
        None => arg,
    };
    let Some(value_name) = flag.value_name() else {
        return Some(arg.action(ArgAction::SetTrue));
    };
    let parser: ValueParser = match key.row.kind {
        Kind::Choices(choices) => {
            let value = |choice: dapple::train::config::Choice| {
                PossibleValue::new(choice.name)
                    .help(choice.about)
                    .hide(choice.is_hidden)
            };
            PossibleValuesParser::new(choices().into_iter().map(value)).into()
        }
        Kind::Path => value_parser!(PathBuf),
        _ => ValueParser::new(move |text: &str| checked(key, text)),
    };
    Some(arg.value_name(value_name).value_parser(parser))
}

/// Checks the syntax of a value, and its range for rows that are checked early.
fn checked(key: Key, text: &str) -> Result<String, String> {
    ConfigPatch::default().set(&key.to_string(), OsStr::new(text))?;
    let is_early = key.row.flag.is_some_and(|flag| flag.is_checked_early);
    if is_early
        && let Range::Counts(least, most) = key.row.range
        && let Ok(number) = text.parse::<u64>()
        && !(least..=most).contains(&number)
    {
        return Err(format!("{number} is not in {least}..={most}"));
    }
    Ok(text.to_owned())
}

impl<S: Selection> clap::Args for SettingsArgs<S> {
    fn augment_args(command: Command) -> Command {
        command.args(Self::keys().into_iter().filter_map(option))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<S: Selection> FromArgMatches for SettingsArgs<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut patch = ConfigPatch::default();
        let mut adds_steps = false;
        for key in Self::keys() {
            let Some(flag) = key.row.flag else {
                continue;
            };
            let id = flag.long();
            let value = match key.row.kind {
                Kind::Switch => matches.get_flag(id).then(|| OsStr::new("true")),
                Kind::Path => matches.get_one::<PathBuf>(id).map(|path| path.as_os_str()),
                _ => matches.get_one::<String>(id).map(OsStr::new),
            };
            if let Some(value) = value {
                adds_steps |= id == "steps" && value.to_string_lossy().starts_with('+');
                patch.set(&key.to_string(), value).map_err(|fault| {
                    clap::Error::raw(clap::error::ErrorKind::ValueValidation, fault)
                })?;
            }
        }
        settle(&mut patch);
        Ok(Self {
            patch,
            adds_steps,
            selection: PhantomData,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Sets what an option implies beyond its own setting.
fn settle(patch: &mut ConfigPatch) {
    // A given number replaces the capture's own split.
    if patch.data.eval_every.is_some() {
        patch.data.own_split = Some(false);
    }
    // An interval in steps replaces the interval in minutes.
    if patch.checkpoint_every.is_some() {
        patch.checkpoint_minutes = Some(0.0);
    }
    // The run may resume, and be scored, from another folder.
    if let Some(path) = &mut patch.eval.lpips
        && let Ok(absolute) = std::path::absolute(&*path)
    {
        *path = absolute;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Args;

    fn parsed(line: &[&str]) -> Result<ConfigPatch, clap::Error> {
        let command = SettingsArgs::<All>::augment_args(Command::new("train"));
        let matches = command.try_get_matches_from([&["train"], line].concat())?;
        Ok(SettingsArgs::<All>::from_arg_matches(&matches)?.patch())
    }

    #[test]
    fn options_become_a_layer() {
        let patch = parsed(&[
            "--steps",
            "70",
            "--antialias",
            "--strategy=mcmc",
            "--images",
            "photos",
            "--background",
            "1,0.5,0",
            "--eval-every",
            "4",
            "--checkpoint-every",
            "9",
        ]);
        let patch = patch.unwrap_or_default();
        assert_eq!((patch.steps, patch.antialias), (Some(70), Some(true)));
        assert_eq!(patch.data.images, Some("photos".into()));
        assert_eq!(patch.data.own_split, Some(false));
        assert_eq!(patch.checkpoint_minutes, Some(0.0));
        assert!(patch.densify.strategy.is_some() && patch.background.is_some());
        assert_eq!(parsed(&[]).unwrap_or_default(), ConfigPatch::default());
    }

    #[test]
    fn faults_of_values_name_the_option_and_the_fault() {
        for (line, expected) in [
            (["--steps", "x"], "no whole number"),
            (["--steps", "5000000000"], "not in 0..=4294967295"),
            (["--sh-degree", "4"], "4 is not in 0..=3"),
            (["--dropout", "much"], "no number"),
            (["--strategy", "mcmd"], "possible values"),
            (["--background", "1,2"], "three numbers"),
        ] {
            let told = parsed(&line).map_or_else(|e| e.to_string(), |_| String::new());
            assert!(told.contains(line[0]) && told.contains(expected), "{told}");
        }
    }
}
