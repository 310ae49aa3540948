//! Splat files: 3D Gaussians in memory, their file formats, and edits.
//!
//! ```
//! use dapple_splats::edit::{Action, Editor, NoCapture};
//! use dapple_splats::splat_file::{Format, WriteOptions, read, write_with};
//! use dapple_splats::{NoProgress, Result};
//! use std::path::Path;
//!
//! /// Removes Gaussians that are nearly invisible, turns the others, and writes them to a small file.
//! fn clean(from: &Path, to: &Path) -> Result<usize> {
//!     let (splats, metadata) = read(from)?;
//!     let mut editor = Editor::new(splats).in_frame(metadata.frame());
//!     editor.apply(&Action::Keep("opacity>0.05".parse()?), &mut NoCapture, &NoProgress)?;
//!     editor.apply(&Action::rotate([180.0, 0.0, 0.0]), &mut NoCapture, &NoProgress)?;
//!     let moved = metadata.moved.then(editor.moved());
//!     let options = WriteOptions { moved, antialiased: metadata.antialiased, ..WriteOptions::default() };
//!     write_with(to, editor.splats(), Format::of_name(to)?, &options)?;
//!     Ok(editor.splats().len())
//! }
//! # let folder = tempfile::tempdir().unwrap();
//! # let (from, to) = (folder.path().join("a.ply"), folder.path().join("b.spz"));
//! # let two = dapple_splats::Splats { means: vec![[0.0; 3]; 2], scales: vec![[-3.0; 3]; 2],
//! #     quats: vec![[1.0, 0.0, 0.0, 0.0]; 2], opacities: vec![2.0, -9.0], sh0: vec![[0.0; 3]; 2], ..Default::default() };
//! # dapple_splats::ply::write(&from, &two)?;
//! assert_eq!(clean(&from, &to)?, 1);
//! # Ok::<(), dapple_splats::Error>(())
//! ```
//!
//! - [`Splats`]: Gaussians in the parametrisation that is optimised and stored.
//! - [`splat_file`]: all formats; [`ply`]: PLY, with point clouds ([`Point`]).
//! - [`edit`]: chains of actions that can be saved as recipes. [`Similarity`], [`harmonics`] and [`order`] are their
//!   parts for other programs.
//! - [`Camera`], [`Pose`], [`Lens`]: the camera of a photo. Edits use cameras for the up direction and for selections
//!   on a screen.
//! - [`sky`]: the Gaussians of a sky among splats.
//! - [`origin`]: splats whose coordinates are far from zero.
//! - [`Error`], [`Progress`]: re-exported from `dapple-base`, which all crates use.
//!
//! Photos, captures and their loaders are in `dapple-scene`. This crate has no code of photos, devices or training.
//!
//! # Conventions
//! - Cameras look along +z with y down (COLMAP). Pixel (0, 0) covers `[0, 1) x [0, 1)`, its centre is (0.5, 0.5).
//! - Quaternions are `[w, x, y, z]`; other orders are converted where a file is read.
//! - Transforms are named after what they map: `camera_from_world`.

mod camera;
pub mod edit;
pub mod harmonics;
mod lens;
mod mapped;
pub mod order;
pub mod origin;
pub mod outliers;
mod panorama;
pub mod ply;
mod point;
mod rays;
mod similarity;
pub mod sky;
pub mod splat_file;
mod splats;

pub use camera::{Camera, Lens, Pose};
pub use dapple_base::{Error, ErrorKind, NoProgress, Progress, Result};
pub use outliers::without_far_off;
pub use panorama::Panorama;
pub use point::Point;
pub use rays::Rays;
pub use similarity::Similarity;
pub use splats::{MAX_SH_DEGREE, SH_C0, Splats, sh_coefficient_count, unit_rotation};
