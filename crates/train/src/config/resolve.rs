//! Applies the layers of a configuration, scales its schedule, reads and writes TOML.

use super::old_keys::OldKeys;
use super::{
    AppearanceModel, BASE_STEPS, Background, ConfigPatch, DataConfig, DataPatch, DensifyConfig,
    DepthSource, Preset, SkyMode, TrainConfig,
};
use crate::PhotoCoverage;
use crate::strategy::Strategy;
use dapple_base::settings::{Patch, Row, Scales, Table, keys};
use dapple_scene::{Error, MaskMode, Result, bounded};
use std::fmt::Write as _;
use std::path::Path;

impl TrainConfig {
    /// Layers `preset < file < overrides`. The preset is the first named by `overrides`, `preset`
    /// or the file; [`Preset::Standard`] if none is.
    ///
    /// # Errors
    /// A file that cannot be read, TOML that is not a configuration (with its line), values that
    /// contradict each other.
    pub fn resolve(
        preset: Option<Preset>,
        file: Option<&Path>,
        overrides: ConfigPatch,
    ) -> Result<Self> {
        Self::resolve_for(None, preset, file, overrides)
    }

    /// Like [`Self::resolve`], for a capture with known statistics of its training photos. They set the values that no
    /// layer names: the steps of [`Preset::Standard`] and [`Preset::Quick`], the part of a longer run that its schedule
    /// covers, and whether photos are withheld to detect overfitting.
    ///
    /// # Errors
    /// See [`Self::resolve`].
    pub fn resolve_for(
        seen: Option<PhotoCoverage>,
        preset: Option<Preset>,
        file: Option<&Path>,
        overrides: ConfigPatch,
    ) -> Result<Self> {
        let in_file = file.map(ConfigPatch::read).transpose()?.unwrap_or_default();
        let mut in_file = in_file.for_steps(overrides.steps, seen);
        if overrides.dropout.is_some() {
            in_file.forget_dropout();
        }
        let preset = overrides.preset.or(preset).or(in_file.preset);
        let random_start = overrides
            .asks_for_random_start()
            .or(in_file.asks_for_random_start());
        let mut named = in_file.merged(overrides);
        named.preset = preset;
        named.random_start = random_start;
        named.data.settle_split();
        if let Some(seen) = seen {
            named.suit(&seen);
        }
        let config = named.resolve_named();
        config.validate()?;
        Ok(config)
    }

    /// Reads the output of [`Self::to_toml`]; `place` names its origin in errors.
    ///
    /// # Errors
    /// TOML that is not a configuration, values that contradict each other.
    pub fn parse(text: &str, place: &str) -> Result<Self> {
        let mut named = ConfigPatch::parse(text, place)?;
        named.random_start = named.asks_for_random_start();
        named.data.settle_split();
        let config = named.resolve_named();
        config.validate().map_err(|e| e.at(place))?;
        Ok(config)
    }

    /// Returns the changes that `patch` would make to this configuration: `(key, value here, value there)`, by key.
    /// Checkpoints are excluded, since the splats do not depend on them. A near plane that is not set and a sky that is
    /// `auto` are excluded too.
    ///
    /// # Errors
    /// The configuration cannot be written as TOML: a defect.
    pub fn differences(&self, mut patch: ConfigPatch) -> Result<Vec<(String, String, String)>> {
        patch.near = patch.near.filter(|&near| near != 0.0);
        patch.sky = patch.sky.filter(|&sky| sky != SkyMode::Auto);
        // The configuration that a run began with has no amendments.
        patch.amendments = patch.amendments.filter(|amendments| !amendments.is_empty());
        patch.clear(&|row| row.is_beside_results);
        let changed = patch.fill(self.clone()).normalised();
        let (here, there) = (flat(self)?, flat(&changed)?);
        let pairs = here.into_iter().zip(there);
        Ok(pairs
            .filter(|((_, a), (_, b))| a != b)
            .map(|((key, a), (_, b))| (key, a, b))
            .collect())
    }

    /// Returns this configuration without edited numbers: the defaults for the same preset, length and choices.
    pub(crate) fn unchanged(&self) -> Self {
        let named = ConfigPatch {
            preset: Some(self.preset),
            steps: Some(self.steps),
            schedule_steps: Some(self.schedule_steps),
            dropout: Some(self.dropout),
            ..self.picked(&|row| row.is_choice)
        };
        named.resolve_named()
    }

    fn normalised(mut self) -> Self {
        if self.max_gaussians > 0 {
            self.initial_gaussians = self.initial_gaussians.min(self.max_gaussians);
        }
        self.eval.steps.sort_unstable();
        self.eval.steps.dedup();
        self
    }
}

/// Returns the TOML values of a configuration, also of tables that files omit.
pub(super) fn all_values(config: &TrainConfig) -> Result<toml::Table> {
    let defect = |e: toml::ser::Error| {
        Error::internal(format!("a configuration cannot be written: {e}")).caused_by(e)
    };
    let mut values = toml::Table::try_from(config).map_err(defect)?;
    let focus = toml::Value::try_from(&config.focus).map_err(defect)?;
    values.insert("focus".to_owned(), focus);
    Ok(values)
}

/// Returns every key of a configuration, such as `densify.every`, with its TOML value, by key.
pub(super) fn flat(config: &TrainConfig) -> Result<Vec<(String, String)>> {
    let mut rows = Vec::new();
    for (key, value) in all_values(config)? {
        match value {
            toml::Value::Table(inner) => rows.extend(
                inner
                    .into_iter()
                    .map(|(name, value)| (format!("{key}.{name}"), value.to_string())),
            ),
            value => rows.push((key, value.to_string())),
        }
    }
    Ok(rows)
}

impl Preset {
    /// Returns the configuration of this preset for a run of another length, with its schedule scaled.
    pub fn config_for(self, steps: u32) -> TrainConfig {
        let named = ConfigPatch {
            preset: Some(self),
            steps: Some(steps),
            ..ConfigPatch::default()
        };
        named.resolve_named()
    }
}

impl DataPatch {
    /// A number of photos to hold out that the user chose has priority over the capture's own split. Runs of versions
    /// without such a split name the default.
    fn settle_split(&mut self) {
        let chosen = self.eval_every != Some(DataConfig::default().eval_every);
        if self.eval_every.is_some() && chosen {
            self.own_split.get_or_insert(false);
        }
    }
}

impl ConfigPatch {
    /// Reads a TOML file. Every key is optional; unknown keys are errors.
    pub fn read(path: &Path) -> Result<Self> {
        let most = bounded::SETTINGS_BYTES;
        let text = bounded::read_text("cannot read the configuration", path, most)?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Returns the older keys that a TOML file names, each with its present key.
    ///
    /// # Errors
    /// See [`Self::read`].
    pub fn old_keys(path: &Path) -> Result<Vec<(String, String)>> {
        let most = bounded::SETTINGS_BYTES;
        let text = bounded::read_text("cannot read the configuration", path, most)?;
        let (_, logs) = Self::parse_as_written(&text, &path.display().to_string())?;
        let logs = logs.names().into_iter();
        let logs = logs.map(|old| (old.to_owned(), "amendments".to_owned()));
        let named: toml::Table = text.parse().unwrap_or_default();
        let old = keys::<TrainConfig>().into_iter().filter_map(|key| {
            let old = key.row.old_name?;
            let table = match key.table {
                "" => Some(&named),
                table => named.get(table).and_then(toml::Value::as_table),
            };
            table?.get(old)?;
            Some((old.to_owned(), key.row.name.to_owned()))
        });
        Ok(logs.chain(old).collect())
    }

    /// Parses TOML; `place` names its origin in errors.
    pub fn parse(text: &str, place: &str) -> Result<Self> {
        let (mut layer, old) = Self::parse_as_written(text, place)?;
        old.add_to(&mut layer).map_err(|e| e.at(place))?;
        Ok(layer)
    }

    /// Parses TOML, separated into present keys and older keys of amendments.
    fn parse_as_written(text: &str, place: &str) -> Result<(Self, OldKeys)> {
        OldKeys::read(text).map_err(|error| {
            let place = match error.span() {
                Some(span) => {
                    let before = text.get(..span.start).unwrap_or(text);
                    let number = before.matches('\n').count();
                    let line = text.lines().nth(number).unwrap_or_default().trim();
                    format!("{place}, line {}: {line}", number + 1)
                }
                None => place.to_owned(),
            };
            let message = error.message().trim().replace('\n', ", ");
            Error::input(format!("the configuration is not valid: {message}"))
                .at(place)
                .hint(hint_for(&message))
                .caused_by(error)
        })
    }

    /// Returns the `random_start` of this layer, which it names or implies by naming a number of Gaussians.
    fn asks_for_random_start(&self) -> Option<bool> {
        self.random_start
            .or(self.initial_gaussians.map(|number| number > 0))
    }

    /// Sets values that depend on the photos and are not named yet.
    pub(super) fn suit(&mut self, seen: &PhotoCoverage) {
        let preset = self.preset.unwrap_or_default();
        let suited = seen.steps();
        if preset == Preset::Standard && self.is_open_ended() {
            self.max_extensions.get_or_insert(EXTENSIONS);
        }
        self.steps = self.steps.or(match preset {
            Preset::Standard => Some(suited),
            Preset::Quick => Some(seen.quick_steps()),
            _ => None,
        });
        let steps = self.steps.unwrap_or(preset.steps());
        if steps > suited && preset.written_for() == BASE_STEPS {
            self.schedule_steps.get_or_insert(suited);
        }
        let batch = self.views_per_step.unwrap_or(1).max(1);
        let every = self.densify.every.or(preset.patch().densify.every);
        let every = every.unwrap_or(DensifyConfig::default().every);
        if seen.photos as u64 > u64::from(batch) * u64::from(every) {
            self.densify.regularise_unseen.get_or_insert(false);
        }
        let schedule = self.schedule_steps.filter(|&named| named > 0);
        // Poses of withheld photos keep their errors, so that validation would measure these errors.
        let refines = self.poses.refine == Some(true);
        if schedule.unwrap_or(steps) > LONG_RUN * suited && !refines {
            self.data.validate_every.get_or_insert(WATCH_EVERY);
        }
    }

    /// Returns true if extension checks may lengthen the run: the user sets no length, and no parameters are learned
    /// for single photos, which withheld photos would lack.
    fn is_open_ended(&self) -> bool {
        let lengths = [self.steps, self.schedule_steps, self.stop_after];
        let learns_photos = self.poses.refine == Some(true)
            || self
                .depth
                .from
                .is_some_and(|from| from != DepthSource::None)
            || self
                .appearance
                .model
                .is_some_and(|model| model != AppearanceModel::None);
        lengths.iter().all(Option::is_none)
            && self.amendments.is_none()
            && self.data.validate_every.is_none_or(|every| every == 0)
            && self
                .densify
                .strategy
                .is_none_or(|strategy| strategy == Strategy::Mcmc)
            && !learns_photos
    }

    /// Returns the strategy that this layer names, or the one that follows from its other keys.
    fn strategy_of(&self, base: Strategy, steps: u32) -> Strategy {
        let densify = &self.densify;
        let asks_for_adc = densify.absgrad == Some(true)
            || densify.enabled == Some(false)
            || densify.reset_every.is_some_and(|every| every > 0);
        densify.strategy.unwrap_or(if asks_for_adc {
            base
        } else {
            Strategy::for_steps(steps)
        })
    }

    /// Applies the file and the flags (`self`) to their preset and strategy, with the schedule scaled.
    pub(super) fn resolve_named(self) -> TrainConfig {
        let preset = self.preset.unwrap_or_default();
        let base = preset.patch().fill(TrainConfig {
            preset,
            steps: preset.steps(),
            ..TrainConfig::default()
        });
        let steps = self.steps.unwrap_or(base.steps);
        let schedule = self.schedule_steps.filter(|&named| named > 0);
        let schedule = schedule.unwrap_or(steps);
        let strategy = if preset.written_for() == BASE_STEPS {
            self.strategy_of(base.densify.strategy, schedule)
        } else {
            self.densify.strategy.unwrap_or(base.densify.strategy)
        };
        let absgrad = self.densify.absgrad.unwrap_or(base.densify.absgrad);
        let mut base = strategy.patch(preset.written_for(), absgrad).fill(base);
        base.densify.strategy = strategy;
        if self.data.mask_mode == Some(MaskMode::Segment) {
            base.background = Background::Random;
        }
        if self.surface.enabled.unwrap_or(base.surface.enabled) {
            base.densify.flat_reg = FLATNESS;
        }
        let model = self.appearance.model.unwrap_or(base.appearance.model);
        let mut base = model.patch().fill(base);
        // Parameters of single photos are learned from their pixels at full size.
        let of_photos = model != AppearanceModel::None
            || self.poses.refine.unwrap_or(base.poses.refine)
            || self.depth.from.unwrap_or(base.depth.from) != DepthSource::None;
        if of_photos {
            base.data.coarse_until = 0.0;
        }
        self.fill(scaled(base, (steps, schedule), preset.written_for()))
            .normalised()
    }
}

/// Weight of the smallest standard deviation in training for surfaces.
const FLATNESS: f64 = 2.0;

/// A schedule of more than this multiple of the capture's default steps has validation photos.
const LONG_RUN: u32 = 2;

/// Most extensions of a run whose length is not set.
const EXTENSIONS: u32 = 2;

/// One of this many photos is withheld for the validation of a long schedule.
const WATCH_EVERY: usize = 16;

/// Returns `config` with the step-valued entries of its schedule scaled by `schedule / written_for`, and the steps
/// between scorings by `steps / written_for`. Both are rounded down and at least 1. "Never" (0) stays never.
///
/// Two entries are not scaled, because their effect does not take fewer steps in a shorter run:
/// - `densify.every`: a round compares the mean gradient of each Gaussian since the last round with a threshold. The
///   fewer photos are in the mean, the more Gaussians pass by chance.
/// - `densify.reset_every`: a scene needs a thousand steps to recover from a reset of opacities.
///
/// With both scaled, `bird` at step 2 000 of 7 000 had four times the Gaussians and 4 dB less.
pub(super) fn scaled(
    mut config: TrainConfig,
    (steps, schedule): (u32, u32),
    written_for: u32,
) -> TrainConfig {
    let to = |steps: u32, value: u32| match value {
        0 => 0,
        // Fits: the quotient is capped at u32::MAX before it is narrowed.
        _ => (u64::from(value) * u64::from(steps) / u64::from(written_for))
            .clamp(1, u64::from(u32::MAX)) as u32,
    };
    config.each_steps(&mut |row, value| match row.scales {
        Scales::No => {}
        Scales::Schedule => *value = to(schedule, *value),
        Scales::Steps => *value = to(steps, *value),
    });
    config
}

/// Returns the hint for a message of the TOML parser: the nearest key, if a key does not exist.
fn hint_for(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match quoted.as_slice() {
        [unknown, known @ ..] if message.starts_with("unknown field") => {
            let is_old = |name: &str| {
                keys::<TrainConfig>()
                    .iter()
                    .any(|key| key.row.old_name == Some(name))
            };
            let nearest = known
                .iter()
                .filter(|name| !is_old(name))
                .map(|key| (edit_distance(unknown, key), *key))
                .min();
            match nearest {
                Some((distance, key)) if distance <= 2.max(unknown.len() / 3) => {
                    format!("did you mean `{key}`?")
                }
                _ => "`dapple train --print-config` shows every key".to_owned(),
            }
        }
        _ => "`dapple train --print-config` shows every key with its type".to_owned(),
    }
}

/// Returns the Levenshtein distance, in bytes.
fn edit_distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

impl TrainConfig {
    /// Returns the configuration as a commented TOML file. [`TrainConfig::resolve`] reads it back to the same
    /// configuration.
    pub fn to_toml(&self) -> Result<String> {
        let mut text = String::from(
            "# A training run of dapple. Every key may be left out: steps of the schedule that are\n\
             # left out scale with `steps`, steps that are named are taken as they are. Of a file that names\n\
             # every key, as this one does, --steps scales what nobody has changed.\n",
        );
        let defect = |e: toml::ser::Error| {
            Error::internal(format!("a configuration cannot be written: {e}")).caused_by(e)
        };
        let values = toml::Table::try_from(self).map_err(defect)?;
        write_rows(&mut text, Self::ROWS, &values);
        for table in Self::TABLES {
            if let Some(toml::Value::Table(values)) = values.get(table.name) {
                let _ = write!(text, "\n[{}]\n", table.name);
                write_rows(&mut text, table.rows, values);
            }
        }
        Ok(text)
    }
}

/// Writes the keys of `rows`, each under its comment.
fn write_rows(text: &mut String, rows: &[Row], values: &toml::Table) {
    for row in rows {
        for line in row.comment {
            let _ = writeln!(text, "#{line}");
        }
        if let Some(value) = values.get(row.name) {
            let _ = writeln!(text, "{} = {value}", row.name);
        }
    }
}
