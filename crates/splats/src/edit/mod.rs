//! Edits of splats: a chain of actions, applied in order, that can be saved and replayed.
//!
//! ```
//! use dapple_splats::edit::{Action, Editor, NoCapture};
//! # use dapple_splats::{NoProgress, Splats};
//! # let splats = Splats { means: vec![[1.0, 0.0, 0.0]], scales: vec![[0.0; 3]], quats: vec![[1.0, 0.0, 0.0, 0.0]],
//! #     opacities: vec![0.0], sh0: vec![[0.0; 3]], sh_rest: vec![], sh_degree: 0 };
//! let mut editor = Editor::new(splats);
//! editor.apply(&Action::Keep("opacity>0.01".parse()?), &mut NoCapture, &NoProgress)?;
//! editor.apply(&Action::rotate([0.0, 0.0, 90.0]), &mut NoCapture, &NoProgress)?;
//! assert!((editor.splats().means[0][1] - 1.0).abs() < 1e-6);
//! # Ok::<(), dapple_splats::Error>(())
//! ```
//!
//! A family of actions a file: [`transform`] (with [`harmonics`], since colours turn too), [`orient`], [`region`],
//! [`condition`], [`selection`] (what was picked out on a screen), [`order`] (the Z curve, merging of files),
//! [`clusters`], [`decimate`], [`recipe`].
//!
//! Results depend only on the input, not on the number of threads. Actions that need cameras, or an engine, use a
//! [`Surroundings`]. Its cameras are those of the photos, and the editor moves them along with the splats.

mod apply;
pub mod clusters;
pub mod condition;
pub mod decimate;
mod neighbours;
pub mod orient;
pub mod recipe;
pub mod region;
pub mod selection;

use crate::origin::Frame;
pub use crate::similarity::Similarity;
use crate::splat_file::NonFinite;
use crate::{Camera, Error, Result, Splats};
pub use crate::{harmonics, order};
pub use condition::{Comparison, Condition, Property};
use dapple_base::numbers::plain;
pub use decimate::Amount;
pub use orient::{Up, up_of_poses};
pub use recipe::Recipe;
pub use region::Region;
pub use selection::{SelectionAction, SelectionCamera, SelectionStep, SetOperation, Shape};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

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
        /// A cube's side, world units; `None` = [`clusters::default_cell`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cell: Option<f64>,
        /// Percent of all weight that the clusters have together.
        share: f64,
    },
    /// Keeps the clusters with most opacity.
    Clusters {
        /// A cube's side, world units; `None` = [`clusters::default_cell`].
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

    /// Returns true if the action needs [`Surroundings::cameras`] or data derived from them.
    pub fn needs_cameras(&self) -> bool {
        match self {
            Self::Orient(_) | Self::Prune { .. } => true,
            Self::Keep(condition) | Self::Drop(condition) => condition.needs_contributions(),
            Self::Decimate { refit, .. } => *refit > 0,
            _ => false,
        }
    }
}

/// Inputs of actions besides the splats: cameras, and an engine.
pub trait Surroundings {
    /// The cameras of the photos that were trained on, in the world that the file was in.
    ///
    /// # Errors
    /// There are none, or they cannot be read.
    fn cameras(&mut self) -> Result<Vec<Camera>>;

    /// Returns the sum of each Gaussian's blend weights over those photos, `[N]`; `moved` is the splats' transform
    /// since they were in the cameras' world. `None` if nothing is known and `is_needed` is false.
    ///
    /// # Errors
    /// Errors of the engine; if it `is_needed`, missing cameras or photos.
    fn contributions(
        &mut self,
        splats: &Splats,
        moved: &Similarity,
        is_needed: bool,
    ) -> Result<Option<Vec<f32>>>;

    /// Returns true for each Gaussian that the photos trained on contradict, `[N]`; `None` where there are no photos,
    /// which is the default.
    ///
    /// # Errors
    /// Errors of the engine, and photos that cannot be read.
    fn floaters(&mut self, splats: &Splats, moved: &Similarity) -> Result<Option<Vec<bool>>> {
        let _ = (splats, moved);
        Ok(None)
    }

    /// Returns `few`, fitted in `steps` steps to renders of `many`.
    ///
    /// # Errors
    /// The errors of [`Self::contributions`].
    fn refit(
        &mut self,
        many: &Splats,
        few: Splats,
        moved: &Similarity,
        steps: u32,
    ) -> Result<Splats>;
}

/// No capture and no engine: what needs them is refused.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCapture;

/// The error of an action that needs cameras where there are none.
pub fn no_cameras(what: &str) -> Error {
    Error::input(format!(
        "{what} needs the cameras of the photos, and there are none"
    ))
    .at("--capture")
    .hint("name the capture that the splats were trained on with --capture")
}

impl Surroundings for NoCapture {
    fn cameras(&mut self) -> Result<Vec<Camera>> {
        Err(no_cameras("this action"))
    }

    fn contributions(
        &mut self,
        _: &Splats,
        _: &Similarity,
        is_needed: bool,
    ) -> Result<Option<Vec<f32>>> {
        match is_needed {
            true => Err(no_cameras("what Gaussians contribute to photos")),
            false => Ok(None),
        }
    }

    fn refit(&mut self, _: &Splats, _: Splats, _: &Similarity, _: u32) -> Result<Splats> {
        Err(no_cameras("fitting to what was shown before"))
    }
}

/// Splats during a chain of actions.
#[derive(Debug, Clone)]
pub struct Editor {
    splats: Splats,
    moved: Similarity,
    /// Which are hidden, `[N]`; empty: none.
    hidden: Vec<bool>,
    /// Which the last transformation of a selection has moved, `[N]`; empty: there was none.
    shifted: Vec<bool>,
    /// Treatment of non-finite numbers in files that are merged.
    non_finite: NonFinite,
    /// Place of the splats at the beginning; merged files may have another.
    frame: Frame,
    /// Notes on merged files.
    notes: Vec<String>,
}

impl Editor {
    /// Begins with these.
    pub fn new(splats: Splats) -> Self {
        Self {
            splats,
            moved: Similarity::IDENTITY,
            hidden: Vec::new(),
            shifted: Vec::new(),
            non_finite: NonFinite::Refuse,
            frame: Frame::default(),
            notes: Vec::new(),
        }
    }

    /// Sets the local origin and the motion of the splats ([`crate::splat_file::SplatMetadata::frame`]). Merged files
    /// are moved to that origin.
    #[must_use]
    pub fn in_frame(mut self, frame: Frame) -> Self {
        self.frame = frame;
        self
    }

    /// Returns the notes on files that were merged since the last call.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Sets the treatment of non-finite numbers in files that are merged from now on. Before each
    /// action, [`of_chain`](NonFinite::of_chain) of the later actions.
    pub fn set_non_finite(&mut self, non_finite: NonFinite) {
        self.non_finite = non_finite;
    }

    /// As they are now.
    pub fn splats(&self) -> &Splats {
        &self.splats
    }

    /// Returns the transform since the beginning.
    pub fn moved(&self) -> &Similarity {
        &self.moved
    }

    /// Returns the edited splats and ends the editor.
    pub fn into_splats(self) -> Splats {
        self.splats
    }

    fn transform(&mut self, similarity: &Similarity) {
        similarity.apply(&mut self.splats);
        self.moved = self.moved.then(similarity);
    }

    fn keep(&mut self, what: &str, is_kept: impl Fn(&Splats, usize) -> bool) -> Result<()> {
        let kept: Vec<usize> = (0..self.splats.len())
            .filter(|&i| is_kept(&self.splats, i))
            .collect();
        if kept.is_empty() {
            return Err(Error::input(format!("{what} leaves no Gaussian of {}", self.splats.len()))
                .hint("`dapple info FILE` says where the splats are and how large; positions are world units, opacities 0 to 1"));
        }
        if kept.len() < self.splats.len() {
            self.splats = order::gather(&self.splats, &kept);
            self.carry(&kept);
        }
        Ok(())
    }
}

/// Marks the Gaussians that stay when those with the least contribution go that together have `share` percent of all.
/// Gaussians without a contribution go first. Equal ones go by index, the later first.
fn most_of(contributions: &[f32], share: f64) -> Vec<bool> {
    let all: f64 = contributions.iter().map(|c| f64::from(*c)).sum();
    let mut ranked: Vec<usize> = (0..contributions.len()).collect();
    ranked.sort_by(|&a, &b| {
        contributions[a]
            .total_cmp(&contributions[b])
            .then(b.cmp(&a))
    });
    let mut is_kept = vec![true; contributions.len()];
    let mut gone = 0.0;
    for i in ranked {
        gone += f64::from(contributions[i]);
        if contributions[i] > 0.0 && gone > share / 100.0 * all {
            break;
        }
        is_kept[i] = false;
    }
    is_kept
}

/// Numbers between commas.
///
/// # Errors
/// One that is no finite number.
pub fn numbers(text: &str) -> Result<Vec<f64>> {
    let number = |part: &str| {
        let number = part.trim().parse::<f64>().ok().filter(|v| v.is_finite());
        number.ok_or_else(|| {
            Error::input(format!("\"{}\" is no finite number", part.trim()))
                .at(text)
                .hint("numbers are separated by commas, without spaces: 0,1.5,-2")
        })
    };
    text.split(',').map(number).collect()
}

/// Returns the path that a recipe names, relative to the recipe's folder unless it is absolute.
pub(crate) fn beside(recipe: &Path, path: &Path) -> PathBuf {
    recipe
        .parent()
        .map_or_else(|| path.to_owned(), |folder| folder.join(path))
}

#[cfg(test)]
mod tests;
