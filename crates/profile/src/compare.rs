//! Signatures first.
use crate::profile::Profile;
use serde::{Deserialize, Serialize};

/// Two profiles, side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// What the old one is of.
    pub old: String,
    /// What the new one is of.
    pub new: String,
    /// Why they may not compare: other devices, other settings.
    pub warnings: Vec<String>,
    /// The step, then phases, then stages.
    pub rows: Vec<Row>,
}

/// What a row of a [`Comparison`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowKind {
    /// A whole step.
    Step,
    /// A row of the budget.
    Phase,
    /// A stage.
    Stage,
}

/// Something that took time in either profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What it is.
    pub kind: RowKind,
    /// Its name.
    pub name: String,
    /// Median of the old one, ns; `None` if it has no such row.
    pub old_ns: Option<f64>,
    /// Median of the new one, ns; `None` if it has no such row.
    pub new_ns: Option<f64>,
    /// New over old.
    pub ratio: Option<Ratio>,
    /// Whether the change is more than noise and more than 2 %.
    pub significant: bool,
}

/// New over old: under 1 is faster.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Of the medians.
    pub value: f64,
    /// 95 % of what chance would give lies between these; `None` if there are too few steps.
    pub interval: Option<[f64; 2]>,
}

/// Compares two profiles.
pub fn compare(old: &Profile, new: &Profile) -> Comparison {
    Comparison {
        old: old.program.name.clone(),
        new: new.program.name.clone(),
        warnings: Vec::new(),
        rows: Vec::new(),
    }
}
