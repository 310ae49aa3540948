//! `appearance.safetensors`: what a run has learnt of each photo's exposure, white balance and tone.
//!
//! | part | what |
//! |---|---|
//! | metadata `format`, `version` | "dapple-appearance" and [`APPEARANCE_VERSION`] |
//! | metadata `photos` | JSON list of the photos' names, in the order of the tensors |
//! | `coefficients` | `[photos, y, x, luminance, 3, 4]`: affine maps of colours, the last column is added |
//! | `seen` | `[photos]`: steps taken on each |
//!
//! `x`, `y` and `luminance` are 1 for an exposure. How a pixel's map is read from the grid:
//! `dapple_reference::appearance`. A photo's map sends what the splats render to what the photo
//! shows.

use crate::checkpoint::{Kind, Tensor, write_tensors};
use dapple_engine::Appearance;
use dapple_scene::atomic::write_atomically;
use dapple_scene::{Error, Result};
use std::path::Path;

/// Version of the file: rises when a reader of the old one would misread the new one.
pub const APPEARANCE_VERSION: u32 = 1;

/// Writes the file, whole or not at all. `photos` are the names of the views.
///
/// # Errors
/// What cannot be written.
pub fn write_appearance(path: &Path, appearance: &Appearance, photos: &[String]) -> Result<()> {
    let names = serde_json::to_string(photos).map_err(|e| {
        Error::internal(format!("the appearance cannot be written: {e}")).caused_by(e)
    })?;
    let metadata = [
        ("format", "dapple-appearance".to_owned()),
        ("version", APPEARANCE_VERSION.to_string()),
        ("photos", names),
    ];
    let metadata = metadata.map(|(name, value)| (name.to_owned(), value));
    let views = appearance.views();
    let [x, y, l] = appearance.cells.map(|n| n as usize);
    let shape = [views, y, x, l, 3, 4];
    let tensors = [
        Tensor::new(
            "coefficients".to_owned(),
            Kind::F32,
            &shape,
            &appearance.coefficients,
        ),
        Tensor::new("seen".to_owned(), Kind::U32, &[views], &appearance.seen),
    ];
    write_atomically(path, |out| write_tensors(out, metadata.into(), &tensors))
}
