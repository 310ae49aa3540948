//! Synthetic captures with known ground truth.

use crate::{Camera, Dataset, Error, Progress, Result, Splats};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Which lens a synthetic capture is taken through; COLMAP's camera models.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LensKind {
    /// PINHOLE.
    #[default]
    Pinhole,
    /// SIMPLE_RADIAL.
    SimpleRadial,
    /// RADIAL.
    Radial,
    /// OPENCV.
    #[serde(rename = "opencv")]
    OpenCv,
    /// OPENCV_FISHEYE.
    #[serde(rename = "opencv-fisheye")]
    OpenCvFisheye,
}

/// What a synthetic capture looks like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SynthOptions {
    /// Number of photos.
    pub photos: usize,
    /// Width of a photo, pixels.
    pub width: u32,
    /// Height of a photo, pixels.
    pub height: u32,
    /// Number of sparse points.
    pub points: usize,
    /// Lens of the camera.
    pub lens: LensKind,
    /// Seed of everything random: the same seed gives the same files.
    pub seed: u64,
    /// Standard deviation of the noise on each coordinate of a sparse point, world units (the
    /// table is 3 units across).
    pub point_noise: f64,
}

impl Default for SynthOptions {
    fn default() -> Self {
        Self {
            photos: 40,
            width: 320,
            height: 240,
            points: 4000,
            lens: LensKind::Pinhole,
            seed: 0,
            point_noise: 0.005,
        }
    }
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SynthSummary {
    /// The capture's folder.
    pub folder: PathBuf,
    /// Photos written.
    pub photos: usize,
    /// Sparse points written.
    pub points: usize,
    /// Observations of points in photos.
    pub observations: usize,
}

/// Writes a capture in COLMAP layout into the folder `out`.
pub fn generate(
    options: &SynthOptions,
    out: &Path,
    progress: &dyn Progress,
) -> Result<SynthSummary> {
    let _ = (options, progress);
    Err(Error::unsupported("synthetic captures are not built yet").at_path(out))
}

/// The capture in memory, always through a pinhole lens.
pub fn dataset(options: &SynthOptions) -> Result<Dataset> {
    let _ = options;
    Err(Error::unsupported("synthetic captures are not built yet"))
}

/// Random Gaussians with the statistics of a trained scene, for benchmarks.
pub fn splats(count: usize, seed: u64) -> Splats {
    let _ = (count, seed);
    Splats::empty(3)
}

/// The camera that benchmarks look at [`splats`] through.
pub fn bench_camera(width: u32, height: u32) -> Camera {
    Camera::pinhole(width, height, f64::from(width), crate::Pose::IDENTITY)
}
