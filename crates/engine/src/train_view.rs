//! [`TrainView`]: a photo to train on.

use dapple_scene::{Camera, Photo};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Photo to train on, with its camera.
#[derive(Debug, Clone)]
pub struct TrainView {
    /// Camera with the size of the photo; its lens may distort.
    pub camera: Camera,
    /// Pixels of the photo. With alpha, the target is the photo over the step's background. Pixels that a mask hides
    /// are excluded from the loss and from its gradient.
    pub photo: Arc<Photo>,
}

/// Index of a view of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ViewId(pub usize);
