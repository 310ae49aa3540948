//! Extensions of the engine contract: abilities that an engine may lack, each a trait that the engine returns.

use crate::{
    BlendCounts, Contributors, OptimizerState, Part, RenderSettings, RenderedBytes, ScoreAsks,
    ScoredView, TileMask, ViewId,
};
use dapple_scene::{Camera, Photo, Result, Splats};
use std::sync::Arc;

/// Photos that arrive one by one, for captures that do not fit into memory.
pub trait Streaming {
    /// Adds views without photos. [`Self::put_photo`] delivers each photo later;
    /// [`Engine::add_views`](crate::Engine::add_views) adds views with photos.
    ///
    /// # Errors
    /// An invalid camera.
    fn add_cameras(&mut self, cameras: &[Camera]) -> Result<Vec<ViewId>>;

    /// Delivers the photo of a view of [`Self::add_cameras`] for its next step; every call for a view passes the same
    /// photo. The engine drops the photo as soon as it can. Returns at once, unless more photos are in flight to the
    /// device than the engine may hold.
    ///
    /// # Errors
    /// An unknown view, or a photo whose size differs from its camera's.
    fn put_photo(&mut self, view: ViewId, photo: Arc<Photo>) -> Result<()>;

    /// Announces a step on `view`, with its photo if the view is one of [`Self::add_cameras`]. An engine may start
    /// the transfer of the photo to its device. No result depends on this call. The step need not follow, and its
    /// photo must still be delivered before the step.
    ///
    /// # Errors
    /// An unknown view, or a photo whose size differs from its camera's.
    fn announce(&mut self, view: ViewId, photo: Option<Arc<Photo>>) -> Result<()>;
}

/// Reads the splats of a part and their state, without that of views.
pub type ReadPart<'a> = dyn FnMut(Part) -> Result<(Splats, OptimizerState)> + 'a;

/// Models whose Gaussians several devices share, read and written part by part: no host needs memory for all moments.
pub trait Sharing {
    /// Returns the parts in the order of their numbers.
    fn parts(&self) -> Vec<Part>;

    /// Waits for enqueued work and copies the splats of a part and their state, without that of views.
    ///
    /// # Errors
    /// A lost device, a part that does not exist.
    fn download_part(&mut self, number: usize) -> Result<(Splats, OptimizerState)>;

    /// Replaces the splats and the optimizer state as [`Engine::upload`](crate::Engine::upload) does, by those of each
    /// part of a model of `total` Gaussians.
    ///
    /// # Errors
    /// Those of `read`; see [`Engine::upload`](crate::Engine::upload) for the others.
    fn upload_by_parts(&mut self, total: usize, read: &mut ReadPart<'_>) -> Result<()>;
}

/// Scores on the device.
pub trait Scoring {
    /// Renders the current splats and compares the render with a photo of the camera's size: see [`crate::score`].
    /// `None` if the engine cannot score this photo: its mask hides every pixel or every window of SSIM.
    ///
    /// # Errors
    /// See [`Engine::render`](crate::Engine::render).
    fn score(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        photo: &Photo,
        asks: ScoreAsks,
    ) -> Result<Option<ScoredView>>;
}

/// Renders for display, made on the device. See [`crate::shown`].
pub trait Showing {
    /// Renders the current splats to 8 bits per channel. Depths and surfaces are not rendered, whatever the settings.
    ///
    /// # Errors
    /// See [`Engine::render`](crate::Engine::render).
    fn render_bytes(&mut self, camera: &Camera, settings: &RenderSettings)
    -> Result<RenderedBytes>;

    /// Counts the Gaussians that each pixel of a render blends.
    ///
    /// # Errors
    /// See [`Engine::render`](crate::Engine::render).
    fn blend_counts(&mut self, camera: &Camera, settings: &RenderSettings) -> Result<BlendCounts>;

    /// Finds the `most` Gaussians that each pixel of a render shows most.
    ///
    /// # Errors
    /// See [`Engine::render`](crate::Engine::render) and [`Contributors::check`].
    fn contributors(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        most: usize,
    ) -> Result<Contributors>;
}

/// Renders of chosen tiles: see [`crate::tiles`].
pub trait Tiling {
    /// Sets the tiles of all renders and derivatives from now on; `None` = all tiles. Training steps have all tiles.
    /// Callers use [`EngineExt::with_tiles`](crate::EngineExt::with_tiles), which resets the choice.
    ///
    /// A render of an image with another number of tiles is an error: see [`TileMask::check`].
    fn choose_tiles(&mut self, tiles: Option<TileMask>);
}
