//! A loaded capture: photos with poses, and the sparse points observed in them.

use crate::{Camera, DepthMap, OwnSplit, Photo, PhotoSource, Point, Split, Tracks, ViewFiles};
use glam::DVec3;
use std::path::PathBuf;
use std::sync::Arc;

/// One photo with its camera.
#[derive(Debug, Clone)]
pub struct View {
    /// File name in the capture (the key by which views are sorted and split).
    pub name: String,
    /// Camera of the photo; its size equals the photo's.
    pub camera: Camera,
    /// Name of the lens model in the source ("OPENCV", ...), before any undistortion.
    pub source_model: String,
    /// Pixels, or their source.
    pub photo: PhotoSource,
    /// Depths of the view, if [`crate::LoadOptions::depths`] is set and depths are available.
    pub depth: Option<Arc<DepthMap>>,
}

impl View {
    /// Builds a view of a photo, in memory or on disk, with a pinhole camera of the same size.
    pub fn new(name: impl Into<String>, camera: Camera, photo: impl Into<PhotoSource>) -> Self {
        Self {
            name: name.into(),
            camera,
            source_model: "PINHOLE".to_owned(),
            photo: photo.into(),
            depth: None,
        }
    }
}

/// Photos with poses, sorted by name, and sparse points.
#[derive(Debug, Clone, Default)]
pub struct Dataset {
    /// Views sorted by name.
    pub views: Vec<View>,
    /// Local origin: the position of the world origin of cameras and points in the capture's own frame, world units.
    /// Zero unless the capture is so far from its origin that `f32` would lose precision; see
    /// [`crate::Capture::origin`].
    pub origin: DVec3,
    /// Sparse points; may be empty for captures that have none (Blender scenes).
    pub points: Vec<Point>,
    /// Views that observe each point, as indices into `views`; `None` if the capture does not record them.
    pub tracks: Option<Tracks>,
    /// The capture's own split, if it has a usable one. It is stored by names, so that it also holds for a part of the
    /// views.
    pub own_split: Option<OwnSplit>,
    /// File that should contain sparse points but has none: a COLMAP model without points is incomplete. `None` if
    /// there are points, and for formats that need none.
    pub missing_points: Option<PathBuf>,
    /// Memory limit of photos in bytes, if photos are read at each use ([`PhotoSource::File`]); `None` if all are in
    /// memory.
    pub photo_memory_bytes: Option<u64>,
    /// Number of photos that the capture names, that are missing, and that were skipped
    /// ([`crate::LoadOptions::skip_missing`]).
    pub skipped: usize,
    /// Checksums of the files of each view at the time of reading; empty for views that were not read from files.
    pub files: Vec<ViewFiles>,
    /// Notes for the user: the model chosen among several, and the skipped files with the reason.
    pub notes: Vec<String>,
}

impl View {
    /// Returns this view with its pixels in memory.
    #[must_use]
    pub fn with_photo(&self, photo: Arc<Photo>) -> Self {
        Self {
            photo: PhotoSource::Memory(photo),
            ..self.clone()
        }
    }
}

impl Dataset {
    /// Splits the views into training and held-out views, see [`Split::new`].
    pub fn split(&self, eval_every: usize) -> Split {
        let names: Vec<&str> = self.views.iter().map(|view| view.name.as_str()).collect();
        Split::new(&names, self.own_split.as_ref(), eval_every)
    }
}
