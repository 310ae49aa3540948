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
//! A family of actions a file: [`Similarity`] (with [`harmonics`], since colours turn too), [`orient`], [`region`],
//! [`condition`], [`selection`] (what was picked out on a screen), [`order`] (the Z curve, merging of files),
//! [`clusters`], [`decimate`], [`recipe`]. `action` lists all of them; `apply` applies them to the splats of `editor`.
//!
//! Results depend only on the input, not on the number of threads. Actions that need cameras, or an engine, use a
//! [`Surroundings`]. Its cameras are those of the photos, and the editor moves them along with the splats.

mod action;
mod apply;
pub mod clusters;
pub mod condition;
pub mod decimate;
mod editor;
mod neighbours;
mod numbers;
pub mod orient;
pub mod recipe;
pub mod region;
pub mod selection;
mod surroundings;

pub use crate::similarity::Similarity;
pub use crate::{harmonics, order};
pub use action::{Action, Order, removes_non_finite};
pub use condition::{Comparison, Condition, Property};
pub use decimate::Amount;
pub use editor::Editor;
pub use numbers::numbers;
pub use orient::{Up, up_of_poses};
pub use recipe::Recipe;
pub use region::Region;
pub use selection::{SelectionAction, SelectionCamera, SelectionStep, SetOperation, Shape};
pub use surroundings::{NoCapture, Surroundings, no_cameras};

#[cfg(test)]
mod tests;
