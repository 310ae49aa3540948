//! Input and output of the splatting engines: captures, photos, cameras and splats.
//!
//! - [`Camera`], [`Pose`]: the pose and the lens of a photo.
//! - [`Photo`], [`View`], [`Dataset`]: photos with poses, and their sparse points.
//! - [`Splats`]: the Gaussians, in the parametrisation that is optimised.
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
mod camera;
mod cameras_file;
mod capture;
mod code_pages;
pub mod colmap;
mod content;
mod dataset;
mod depth_map;
pub mod edit;
pub mod exr_file;
mod extent;
mod images;
mod jpeg;
mod lens;
pub mod load;
mod mapped;
mod masks;
pub mod nerfstudio;
pub mod origin;
mod own_split;
mod photo;
pub mod ply;
pub mod provenance;
mod rays;
mod resize;
pub mod shown;
mod source;
pub mod splat_file;
mod splats;
pub mod synth;
mod tracks;
pub mod undistort;

pub use camera::{Camera, Lens, Pose};
pub use cameras_file::{parse_cameras, read_cameras, read_poses, write_cameras};
pub use capture::{Capture, PosedImage};
pub use content::{FileSum, ViewFiles};
#[doc(hidden)]
pub use dapple_base::test_requirements;
pub use dapple_base::{
    Error, ErrorKind, NoProgress, Progress, Result, atomic, bounded, printable, printable_lines,
    text,
};
pub use dataset::{Dataset, Point, Split, View};
pub use depth_map::DepthMap;
pub use extent::{extent_of, without_far_off};
pub use load::{LoadOptions, load};
pub use masks::MaskMode;
pub use own_split::OwnSplit;
pub use photo::Photo;
pub use rays::Rays;
pub use source::{PhotoFile, PhotoSource};
pub use splats::{MAX_SH_DEGREE, SH_C0, Splats, sh_coefficient_count};
pub use tracks::Tracks;
