//! `appearance.safetensors`: the exposure, white balance and tone that a run has learned for each photo.
//!
//! | part | what |
//! |---|---|
//! | metadata `format`, `version` | "dapple-appearance" and [`APPEARANCE_VERSION`] |
//! | metadata `photos` | JSON list of the photos' names, in the order of the tensors |
//! | `coefficients` | `[photos, y, x, luminance, 3, 4]`: affine maps of colours, the last column is added |
//! | `seen` | `[photos]`: steps taken on each |
//!
//! `x`, `y` and `luminance` are 1 for an exposure. `dapple_reference::appearance` defines how the map of a pixel is
//! read from the grid. The map of a photo turns rendered colours into the colours of the photo.
//!
//! With the photometric model the file has these tensors instead:
//!
//! | tensor | what |
//! |---|---|
//! | `numbers` | `[photos, 20]`: log gains of red, green, blue, one unused number; vignetting `[3, 3]` (channel, power of r^2) and response `[3, 2]` (channel, coefficient) of the camera that begins with the photo, one unused number |
//! | `cameras` | `[photos]`: for each photo the first photo of its camera |
//! | `seen` | `[photos, 2]`: steps taken on each photo, and on its camera |
//!
//! [`mod@dapple_engine::features::photometric`] has the formulas.
//!
//! With the appearance MLP the file has these tensors instead:
//!
//! | tensor | what |
//! |---|---|
//! | `frame` | `[4]`: centre of the scene and one over its size; the MLP measures the centres of Gaussians in this frame |
//! | `network` | `[1344]`: `W1` `[32, 36]`, then `W2` `[6, 32]` |
//! | `codes` | `[photos, 64]` |
//! | `features` | `[gaussians, 8]`, in the order of `splats.ply` |
//! | `seen` | `[photos]`: steps taken on each |
//!
//! [`mod@dapple_engine::appearance_mlp`] defines their effect on the colour of a Gaussian.

use crate::checkpoint::{Kind, Reader, Tensor, view_tensors, write_tensors};
use crate::features;
use dapple_engine::appearance_mlp::{EMBEDDING, FEATURES, NETWORK};
use dapple_engine::{AppearanceMlp, OptimizerState, ViewState};
use dapple_scene::atomic::write_atomically;
use dapple_scene::{Error, Result, Splats, bounded};
use std::path::Path;

/// Version of the file: rises when a reader of the old one would misread the new one.
pub const APPEARANCE_VERSION: u32 = 1;

/// Writes the file atomically; without a learned appearance, writes nothing. `photos` are the names of the views.
///
/// # Errors
/// The file cannot be written.
pub fn write_appearance(path: &Path, learned: &ViewState, photos: &[String]) -> Result<()> {
    let tensors = features::result(learned);
    let tensors: Vec<Tensor<'_>> = view_tensors("", &tensors).collect();
    match tensors.is_empty() {
        true => Ok(()),
        false => write(path, photos, &tensors),
    }
}

fn write(path: &Path, photos: &[String], tensors: &[Tensor<'_>]) -> Result<()> {
    let names = serde_json::to_string(photos).map_err(|e| {
        Error::internal(format!("the appearance cannot be written: {e}")).caused_by(e)
    })?;
    let metadata = [
        ("format", "dapple-appearance".to_owned()),
        ("version", APPEARANCE_VERSION.to_string()),
        ("photos", names),
    ];
    let metadata = metadata.map(|(name, value)| (name.to_owned(), value));
    write_atomically(path, |out| {
        write_tensors(out, metadata.into(), tensors).map(drop)
    })
}

/// Reads the file of the appearance MLP for `of` Gaussians. Returns the MLP without moments, and the names of the
/// photos.
///
/// # Errors
/// The file cannot be opened, is damaged, has another format, holds no MLP, or belongs to another number of Gaussians.
pub fn read_appearance_mlp(path: &Path, of: usize) -> Result<(AppearanceMlp, Vec<String>)> {
    let read = || -> Result<(AppearanceMlp, Vec<String>)> {
        let file = bounded::open("cannot open the appearance MLP", path)?;
        let mut reader = Reader::open(file)?;
        let is_ours = reader.metadata("format") == Some("dapple-appearance")
            && reader.metadata("version") == Some(&APPEARANCE_VERSION.to_string());
        if !is_ours {
            return Err(
                Error::input("this is not an appearance.safetensors of this Dapple")
                    .hint("name the one that a run with --appearance mlp has left"),
            );
        }
        reader.verify()?;
        let photos = reader.metadata("photos").unwrap_or_default();
        let photos: Vec<String> = serde_json::from_str(photos).map_err(|e| {
            Error::input("its list of photos cannot be read")
                .hint("use the file as the run left it")
                .caused_by(e)
        })?;
        if reader.shape("network").is_err() {
            return Err(Error::input(
                "the file holds the colour maps of photos, and no appearance MLP",
            )
            .hint("train with --appearance mlp to learn one"));
        }
        let views = photos.len();
        let &[gaussians, _] = reader.shape("features")? else {
            return Err(Error::input("its features are no rows"));
        };
        if gaussians != of {
            return Err(Error::input(format!(
                "the appearance MLP has {gaussians} Gaussians, and the splats have {of}"
            ))
            .hint("use the unchanged splats.ply of the run that wrote the appearance MLP"));
        }
        let mlp = AppearanceMlp {
            frame: reader.read("frame", Kind::F32, &[4])?,
            network: reader.read("network", Kind::F32, &[NETWORK])?,
            network_moments: vec![0.0; 2 * NETWORK],
            embeddings: reader.read("codes", Kind::F32, &[views, EMBEDDING])?,
            embedding_moments: vec![0.0; 2 * EMBEDDING * views],
            seen: reader.read("seen", Kind::U32, &[views])?,
            features: reader.read("features", Kind::F32, &[gaussians, FEATURES])?,
            feature_moments: vec![0.0; 2 * FEATURES * gaussians],
        };
        mlp.check()?;
        Ok((mlp, photos))
    };
    read().map_err(|error| error.at_path(path))
}

/// Initial state of a run with the appearance MLP. The frame of the scene is taken from the first Gaussians: its centre
/// is their median on each axis, and half of them are within its size. With a size that holds nine tenths of them,
/// hills around a table reduced the table to a quarter of the finest wave.
pub(crate) fn first_appearance(splats: &Splats, photos: usize, seed: u64) -> OptimizerState {
    let views = ViewState {
        appearance_mlp: new_mlp(splats, photos, seed),
        ..ViewState::default()
    };
    OptimizerState::untrained(splats, views)
}

fn new_mlp(splats: &Splats, photos: usize, seed: u64) -> AppearanceMlp {
    let n = splats.len();
    let centre = [0, 1, 2].map(|axis| {
        let mut values: Vec<f32> = splats.means.iter().map(|mean| mean[axis]).collect();
        values.sort_unstable_by(f32::total_cmp);
        values.get(n / 2).copied().unwrap_or(0.0)
    });
    let mut distances: Vec<f32> = splats
        .means
        .iter()
        .map(|mean| (0..3).map(|a| (mean[a] - centre[a]).powi(2)).sum::<f32>())
        .collect();
    distances.sort_unstable_by(f32::total_cmp);
    let size = distances.get(n / 2).map_or(1.0, |d| d.sqrt());
    AppearanceMlp::new(centre, size, photos, n, seed)
}
