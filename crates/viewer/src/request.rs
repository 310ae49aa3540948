//! [`Request`]: what a page shows, for the owner of the engine.

use crate::protocol::ViewRequest;
use dapple_scene::{Camera, PhotoSource};

/// Number of a page.
pub(crate) type PageId = u64;

/// Request of a page to train a finished run on: [`crate::Viewer::train_on`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrainOn {
    /// Number of further steps, at least 1.
    pub steps: u32,
}

/// View request of a page for the owner of the engine to render.
#[derive(Debug, Clone)]
pub struct Request {
    pub(crate) page: PageId,
    /// The view request.
    pub look: ViewRequest,
    /// Camera to render, of the frame's size.
    pub camera: Camera,
    /// Photo to compare with, if the page looks through a camera that has one.
    pub photo: Option<PhotoSource>,
}
