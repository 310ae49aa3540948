//! Amendments: changes of later steps, which a run adds to its plan.

use dapple_base::settings::{Kind, Setting};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A change of the steps after a step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Amendment {
    /// Last step before the change.
    pub after: u32,
    /// Change.
    pub change: Change,
}

/// A change of the remaining steps of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Change {
    /// The rest of the schedule is run in the steps up to `last`.
    StepRate {
        /// New last step.
        last: u32,
    },
    /// The run continues as one that had had this length and Gaussian cap from its start.
    Extension {
        /// Steps.
        steps: u32,
        /// Gaussian cap.
        max_gaussians: u32,
    },
    /// Each step drops this part of the Gaussians.
    Dropout {
        /// Dropout rate.
        rate: f64,
    },
    /// A further part of the run begins. The learning rate of the centres falls log-linearly from `means` to that of the
    /// last step of the schedule.
    Continuation {
        /// Learning rate of the centres in the first step of the part, in units of the scene's extent.
        means: f64,
        /// True if the moments of the optimizer and the density statistics start at zero. Learning rates are then
        /// corrected as in the first steps of a run, and density control waits for one interval.
        fresh_moments: bool,
    },
}

impl Amendment {
    /// Runs the rest of the schedule after step `after` in the steps up to `last`.
    pub fn step_rate(after: u32, last: u32) -> Self {
        let change = Change::StepRate { last };
        Self { after, change }
    }

    /// Continues the run after step `after` as one that had had this length and Gaussian cap from its start.
    pub fn extension(after: u32, steps: u32, max_gaussians: u32) -> Self {
        let change = Change::Extension {
            steps,
            max_gaussians,
        };
        Self { after, change }
    }

    /// Drops this part of the Gaussians in each step after `after`.
    pub fn dropout(after: u32, rate: f64) -> Self {
        let change = Change::Dropout { rate };
        Self { after, change }
    }

    /// Begins a further part after step `after`, with the optimizer state of the part before.
    pub fn continuation(after: u32, means: f64) -> Self {
        let change = Change::Continuation {
            means,
            fresh_moments: false,
        };
        Self { after, change }
    }
}

impl fmt::Display for Amendment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match toml::Value::try_from(self) {
            Ok(value) => value.fmt(f),
            Err(_) => write!(f, "{self:?}"),
        }
    }
}

/// Amendments of a run, in the order of their steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Amendments(Vec<Amendment>);

impl Amendments {
    /// Returns the amendments in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Amendment> {
        self.0.iter()
    }

    /// Returns true if there are no amendments.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the extensions: the step after which each applies, its steps and its Gaussian cap.
    pub fn extensions(&self) -> impl DoubleEndedIterator<Item = (u32, u32, u32)> {
        self.iter().filter_map(|amendment| match amendment.change {
            Change::Extension {
                steps,
                max_gaussians,
            } => Some((amendment.after, steps, max_gaussians)),
            _ => None,
        })
    }

    /// Returns the changes of the step rate: the step after which each applies, and the new last step.
    pub fn step_rates(&self) -> impl DoubleEndedIterator<Item = (u32, u32)> {
        self.iter().filter_map(|amendment| match amendment.change {
            Change::StepRate { last } => Some((amendment.after, last)),
            _ => None,
        })
    }

    /// Returns the changes of the dropout rate: the step after which each applies, and the rate.
    pub fn dropouts(&self) -> impl DoubleEndedIterator<Item = (u32, f64)> {
        self.iter().filter_map(|amendment| match amendment.change {
            Change::Dropout { rate } => Some((amendment.after, rate)),
            _ => None,
        })
    }

    /// Returns the last step before the last further part of the run; `None` in the first part.
    pub fn last_part(&self) -> Option<u32> {
        let parts = self.iter().rev();
        let mut parts = parts.filter(|each| matches!(each.change, Change::Continuation { .. }));
        parts.next().map(|part| part.after)
    }

    /// Sets the moments of the optimizer to zero at the begin of the part after step `after`.
    pub(crate) fn forget_moments(&mut self, after: u32) {
        for amendment in &mut self.0 {
            if let Change::Continuation { fresh_moments, .. } = &mut amendment.change {
                *fresh_moments |= amendment.after == after;
            }
        }
    }

    /// Inserts an amendment by its step, after those of the same step. Returns its index.
    pub(super) fn insert(&mut self, amendment: Amendment) -> usize {
        let at = self
            .0
            .partition_point(|known| known.after <= amendment.after);
        self.0.insert(at, amendment);
        at
    }

    pub(super) fn remove(&mut self, at: usize) {
        self.0.remove(at);
    }

    /// Returns the amendment that applies after `step`.
    pub(crate) fn after(&self, step: u32) -> Option<&Amendment> {
        self.iter().find(|amendment| amendment.after == step)
    }

    /// Returns the last step of a run that was planned to end at `planned`.
    pub(crate) fn last_step(&self, planned: u32) -> u32 {
        self.iter()
            .fold(planned, |last, amendment| match amendment.change {
                Change::StepRate { last } => last,
                Change::Extension { steps, .. } => steps,
                Change::Dropout { .. } | Change::Continuation { .. } => last,
            })
    }
}

impl From<Vec<Amendment>> for Amendments {
    fn from(amendments: Vec<Amendment>) -> Self {
        Self(amendments)
    }
}

impl Setting for Amendments {
    const KIND: Kind = Kind::List;

    fn from_text(_: &str) -> Result<Self, String> {
        Err("amendments are set in a configuration file".to_owned())
    }
}
