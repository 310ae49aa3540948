//! Inputs and settings of a capture.

use crate::frame::Distance;
use crate::video;
use dapple_base::{Error, Result};
use dapple_scene::Panorama;
use dapple_scene::colmap::MODELS;
use serde::Serialize;
use std::path::PathBuf;

/// Mapper of the tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mapper {
    /// Incremental up to 150 photos; of more, global first if the tool has it.
    #[default]
    Auto,
    /// One photo after the other.
    Incremental,
    /// All photos at once.
    Global,
}

/// Inputs and settings.
#[derive(Debug, Clone)]
pub struct Options {
    /// Folders, photos, videos.
    pub inputs: Vec<PathBuf>,
    /// Capture to create.
    pub out: PathBuf,
    /// Frames per second of videos.
    pub fps: Option<f64>,
    /// Program that reads videos.
    pub ffmpeg: PathBuf,
    /// Most features of a photo.
    pub features: u32,
    /// Photos are reduced to this edge for the search of features, pixels.
    pub photo_size: u32,
    /// COLMAP's camera model; by default from the number of photos.
    pub camera_model: Option<String>,
    /// Mapper.
    pub mapper: Mapper,
    /// Threads of the mapper; with one, the same photos give the same bytes.
    pub mapper_threads: usize,
    /// True if the tool may use a GPU.
    pub gpu: bool,
    /// Random seed of the tool.
    pub seed: u32,
    /// Program of the tool.
    pub tool: Option<PathBuf>,
    /// True to install pycolmap next to the capture.
    pub install: bool,
    /// True to write a capture of fewer than half of the photos.
    pub accept: bool,
    /// Known distance.
    pub distance: Option<Distance>,
    /// False to ignore GPS positions.
    pub gps: bool,
    /// True to replace a capture.
    pub overwrite: bool,
}

impl Options {
    /// Creates options with the defaults.
    pub fn new(inputs: Vec<PathBuf>, out: PathBuf) -> Self {
        Self {
            inputs,
            out,
            fps: None,
            ffmpeg: video::program(),
            features: 6000,
            photo_size: 1600,
            camera_model: None,
            mapper: Mapper::Auto,
            mapper_threads: 1,
            gpu: false,
            seed: 0,
            tool: None,
            install: false,
            accept: false,
            distance: None,
            gps: true,
            overwrite: false,
        }
    }

    /// Returns COLMAP's name of the camera model.
    pub(crate) fn model(&self) -> Result<Option<&'static str>> {
        let Some(name) = &self.camera_model else {
            return Ok(None);
        };
        let wanted = name.to_uppercase().replace('-', "_");
        let found = MODELS
            .iter()
            .find(|model| model.name == wanted && Panorama::named(model.name).is_none());
        found.map(|model| Some(model.name)).ok_or_else(|| {
            Error::input(format!("there is no camera model {name}"))
                .at("--camera-model")
                .hint("choose simple-pinhole, pinhole, simple-radial, radial, opencv or opencv-fisheye")
        })
    }
}
