//! Input of the splatting engines: captures, photos and camera files.
//!
//! - [`Photo`], [`View`], [`Dataset`]: photos with poses, and their sparse points.
//! - [`load()`]: captures of COLMAP, Nerfstudio and Blender.
//! - [`Camera`], [`Pose`], [`Splats`], [`splat_file`], [`edit`]: re-exported from `dapple-splats`.
//! - [`Error`], [`Progress`]: re-exported from `dapple-base`, which all crates use.
//!
//! This crate does not depend on training or on devices.
//!
//! # Conventions
//! - Cameras look along +z with y down (COLMAP). Pixel (0, 0) covers `[0, 1) x [0, 1)`, its centre is (0.5, 0.5).
//! - Quaternions are `[w, x, y, z]`; other orders are converted where a file is read.
//! - Transforms are named after what they map: `camera_from_world`.

pub mod algebra;
mod blender;
mod cameras_file;
mod capture;
mod code_pages;
pub mod colmap;
mod content;
mod dataset;
mod depth_map;
pub mod exr_file;
mod extent;
pub mod grey;
mod images;
mod jpeg;
pub mod load;
mod local_extent;
mod masks;
pub mod nerfstudio;
mod own_split;
mod photo;
mod photo_faults;
pub mod provenance;
mod region_mask;
mod resize;
pub mod shown;
mod source;
mod split;
mod tracks;
pub mod undistort;

pub use cameras_file::{parse_cameras, read_cameras, read_poses, write_cameras, write_transforms};
pub use capture::{Capture, PosedImage};
pub use content::{FileSum, ViewFiles};
#[doc(hidden)]
pub use dapple_base::test_requirements;
pub use dapple_base::{
    Error, ErrorKind, NoProgress, Progress, Result, atomic, bounded, printable, printable_lines,
    text,
};
pub use dapple_splats::{
    Camera, Lens, MAX_SH_DEGREE, Panorama, Point, Pose, Rays, SH_C0, Splats, edit, harmonics,
    order, origin, ply, sh_coefficient_count, sky, splat_file, unit_rotation, without_far_off,
};
pub use dataset::{Dataset, View};
pub use depth_map::DepthMap;
pub use extent::extent_of;
pub use load::{LoadOptions, load};
pub use masks::MaskMode;
pub use photo::Photo;
pub use region_mask::{BLOCK, RegionMask};
pub use source::{PhotoFile, PhotoSource};
pub use split::{OwnSplit, Split};
pub use tracks::Tracks;
