//! Older keys of amendments, which files of earlier versions have. They are read and never written.

use super::{ConfigPatch, TrainConfig};
use crate::plan::{Amendment, Change};
use dapple_scene::{Error, Result};
use serde::{Deserialize, Deserializer};
use toml::Spanned;
use toml::de::DeTable;

/// Names of the older keys.
const OLD_KEYS: [&str; 5] = [
    "step_rate_log",
    "pace",
    "extension_log",
    "extended",
    "dropout_after",
];

/// Values of the older keys in a file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OldKeys {
    /// Changes of the step rate, each [after, last].
    #[serde(alias = "pace")]
    step_rate_log: Option<Vec<[u32; 2]>>,
    /// Extensions, each [after, steps, max_gaussians].
    #[serde(alias = "extended")]
    extension_log: Option<Vec<[u32; 3]>>,
    /// Step after which dropout begins.
    dropout_after: Option<u32>,
}

impl OldKeys {
    /// Parses a TOML file, separated into present and older keys.
    pub(super) fn read(text: &str) -> Result<(ConfigPatch, Self), toml::de::Error> {
        let mut present = DeTable::parse(text)?;
        let mut old = DeTable::new();
        for name in OLD_KEYS {
            if let Some((key, value)) = present.get_mut().remove_entry(name) {
                old.insert(key, value);
            }
        }
        let old = Spanned::new(present.span(), old);
        let old = Self::deserialize(toml::Deserializer::from(old))?;
        let present = ConfigPatch::deserialize(toml::Deserializer::from(present))?;
        Ok((present, old))
    }

    /// Returns the keys that have values.
    pub(super) fn names(&self) -> Vec<&'static str> {
        let log = |name, log: usize| (log > 0).then_some(name);
        let named = [
            log("step_rate_log", self.step_rate_log.iter().flatten().count()),
            log("extension_log", self.extension_log.iter().flatten().count()),
            log("dropout_after", self.dropout_after.unwrap_or(0) as usize),
        ];
        named.into_iter().flatten().collect()
    }

    /// Adds amendments with these values to a layer, by step.
    ///
    /// # Errors
    /// A step for dropout without its rate.
    pub(super) fn add_to(self, layer: &mut ConfigPatch) -> Result<()> {
        let is_log = self.step_rate_log.is_some() || self.extension_log.is_some();
        let mut found = Vec::new();
        for [after, last] in self.step_rate_log.into_iter().flatten() {
            found.push(Amendment::step_rate(after, last));
        }
        for [after, steps, max_gaussians] in self.extension_log.into_iter().flatten() {
            found.push(Amendment::extension(after, steps, max_gaussians));
        }
        if let Some(after @ 1..) = self.dropout_after {
            let Some(rate) = layer.dropout.replace(0.0) else {
                return Err(Error::input(format!(
                    "dropout_after = {after} is an older key, and dropout does not name its rate"
                ))
                .hint("name dropout too, or an amendment of the dropout"));
            };
            found.push(Amendment::dropout(after, rate));
        }
        found.sort_by_key(|amendment| amendment.after);
        if is_log || !found.is_empty() {
            let named = layer.amendments.take().unwrap_or_default();
            found.extend(named.iter().copied());
            layer.amendments = Some(found.into());
        }
        Ok(())
    }
}

impl ConfigPatch {
    /// Removes amendments of the dropout rate.
    pub(super) fn forget_dropout(&mut self) {
        if let Some(amendments) = self.amendments.take() {
            let others = amendments.iter().copied();
            let others = others.filter(|a| !matches!(a.change, Change::Dropout { .. }));
            self.amendments = Some(others.collect::<Vec<_>>().into());
        }
    }
}

/// Reads a whole configuration of `metrics.json`, also one of an earlier version.
pub(crate) fn deserialize_whole<'de, D: Deserializer<'de>>(
    source: D,
) -> Result<TrainConfig, D::Error> {
    let text = toml::Table::deserialize(source)?.to_string();
    let layer = ConfigPatch::parse(&text, "the configuration");
    let layer = layer.map_err(serde::de::Error::custom)?;
    Ok(layer.fill(TrainConfig::default()))
}
