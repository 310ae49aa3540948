//! The list of actions.

use super::{Amount, Condition, Region, SelectionAction, SelectionStep, Similarity, Up, selection};
use crate::splat_file::NonFinite;
use crate::{Error, Result};
use dapple_base::numbers::plain;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A step of an edit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// Moves, turns and scales.
    Transform(Similarity),
    /// Up on an axis, the ground on its zero, from the capture's cameras.
    Orient(Up),
    /// Keeps what is inside.
    Crop(Region),
    /// Removes the Gaussians inside.
    Cut(Region),
    /// Keeps what is so.
    Keep(Condition),
    /// Removes the Gaussians with this condition.
    Drop(Condition),
    /// Removes these Gaussians: `[first, count]` of indices, ascending and disjoint.
    Remove(Vec<[u32; 2]>),
    /// Does something with what was picked out, on a screen for instance.
    Selected {
        /// One pick after the other.
        by: Vec<SelectionStep>,
        /// Action on the selection.
        then: SelectionAction,
    },
    /// What [`SelectionAction::Hide`] has hidden can be selected again.
    ShowAll,
    /// Spherical harmonics up to this degree; more are zeros.
    ShDegree(u8),
    /// Adds the splats of a file behind.
    Merge(PathBuf),
    /// Along the Z curve.
    Order(Order),
    /// Removes the Gaussians that the photos contradict, if there are photos, and the clusters with the least weight.
    Floaters {
        /// A cube's side, world units; `None` = [`default_cell`](super::clusters::default_cell).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cell: Option<f64>,
        /// Percent of all weight that the clusters have together.
        share: f64,
    },
    /// Removes the sky: the Gaussians on a sphere around all others ([`crate::sky`]).
    DropSky,
    /// Keeps the clusters with most opacity.
    Clusters {
        /// A cube's side, world units; `None` = [`default_cell`](super::clusters::default_cell).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cell: Option<f64>,
        /// How many.
        keep: u32,
    },
    /// Removes the Gaussians that contribute least to the photos and together have this share of all blend weights.
    Prune {
        /// Percent.
        share: f64,
    },
    /// Merges neighbours until so many are left.
    Decimate {
        /// How many.
        to: Amount,
        /// Steps of fitting to what was shown before; 0 = none.
        #[serde(default)]
        refit: u32,
    },
}

/// An order of Gaussians.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// The Z curve through their centres.
    Morton,
}

impl Action {
    /// A turn by degrees about the world's x, then y, then z axis.
    pub fn rotate(degrees: [f64; 3]) -> Self {
        Self::Transform(Similarity::from_degrees(degrees))
    }

    /// Checks its numbers, as far as that goes without splats.
    ///
    /// # Errors
    /// Numbers out of range.
    pub fn check(&self) -> Result<()> {
        let percent = |share: f64| match (0.0..100.0).contains(&share) {
            true => Ok(()),
            false => Err(
                Error::input(format!("a share of {} % cannot be removed", plain(share)))
                    .hint("a number from 0 to below 100, without the percent sign or with it"),
            ),
        };
        match self {
            Self::Transform(similarity) => similarity.check(),
            Self::Crop(region) | Self::Cut(region) => region.check(),
            Self::Selected { by, then } => selection::check(by, then),
            Self::Floaters { share, .. } | Self::Prune { share } => percent(*share),
            Self::Clusters { keep: 0, .. } => Err(Error::input("no cluster is to be kept")
                .hint("--clusters 1 keeps the one with most opacity")),
            Self::ShDegree(degree) if *degree > crate::MAX_SH_DEGREE => Err(Error::input(format!(
                "there is no degree {degree} of spherical harmonics"
            ))
            .hint("choose 0 to 3")),
            Self::Remove(ranges) => {
                let ends = ranges
                    .iter()
                    .map(|[first, count]| first.checked_add(*count));
                let is_sound = ends.clone().all(|end| end.is_some())
                    && ends
                        .zip(ranges.iter().skip(1))
                        .all(|(end, [next, _])| end.is_some_and(|end| end <= *next));
                match is_sound {
                    true => Ok(()),
                    false => Err(Error::input(
                        "the Gaussians to remove overlap or are not in order",
                    )
                    .hint("a list of [first, count], ascending")),
                }
            }
            _ => Ok(()),
        }
    }

    /// Returns true if the action needs [`Surroundings::cameras`](super::Surroundings::cameras) or data derived from them.
    pub fn needs_cameras(&self) -> bool {
        match self {
            Self::Orient(_) | Self::Prune { .. } => true,
            Self::Keep(condition) | Self::Drop(condition) => condition.needs_contributions(),
            Self::Decimate { refit, .. } => *refit > 0,
            _ => false,
        }
    }
}

/// Returns true if a chain of actions removes non-finite Gaussians before another action uses their numbers: a
/// file that has some can be read for the chain ([`NonFinite::Keep`](crate::splat_file::NonFinite::Keep)).
pub fn removes_non_finite(actions: &[Action]) -> bool {
    for action in actions {
        match action {
            Action::Keep(Condition::Finite) => return true,
            // A comparison holds for no NaN, the Z curve has a place for it, and moving leaves it what it is.
            Action::Keep(condition) | Action::Drop(condition) => {
                if condition.needs_contributions() {
                    return false;
                }
            }
            Action::Transform(_)
            | Action::Crop(_)
            | Action::Cut(_)
            | Action::Remove(_)
            | Action::ShDegree(_)
            | Action::Merge(_)
            | Action::Order(_) => {}
            _ => return false,
        }
    }
    false
}

impl NonFinite {
    /// Returns the treatment that these actions allow: [`NonFinite::Keep`] if they remove such Gaussians before they
    /// use their numbers.
    pub fn of_chain(actions: &[Action]) -> Self {
        match removes_non_finite(actions) {
            true => Self::Keep,
            false => Self::Refuse,
        }
    }
}
