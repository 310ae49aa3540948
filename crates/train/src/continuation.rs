//! Further parts of a run: [`Continuation`].

use serde::{Deserialize, Serialize};

/// Beginning of a later part of a run ([`crate::Trainer::continue_run`]). The scores before it are those of the row of
/// its step in [`crate::History::evals`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Continuation {
    /// Steps done before it.
    pub after: u32,
    /// Planned steps of all parts up to this one.
    pub steps: u32,
    /// Gaussians at its start.
    pub gaussians: u64,
    /// True if it started with the optimizer state of the part before, false if with the splats only.
    pub has_state: bool,
    /// Settings that differ from those of the part before.
    pub changes: Vec<SettingChange>,
    /// Photos that the part before did not have.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub new_photos: usize,
    /// Photos that have changed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub changed_photos: usize,
    /// Photos that are not in the capture any more.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub removed_photos: usize,
    /// Gaussians that no photo which joined sees: the part leaves them as they are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub frozen: u64,
    /// Gaussians at sparse points that the part before did not have.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub added: u64,
}

fn is_zero<T: Default + PartialEq>(count: &T) -> bool {
    *count == T::default()
}

/// A setting with another value in a later part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingChange {
    /// Key, such as `densify.stop`.
    pub key: String,
    /// Value before, as in `config.toml`.
    pub before: String,
    /// Value from here on.
    pub now: String,
}
