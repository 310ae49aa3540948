//! [`EngineExt`]: what follows from the methods of every engine.

use crate::extensions::Streaming;
use crate::{
    BlendCounts, BlendGradients, Contributors, CropLoss, DepthSample, DownloadParts, Engine,
    FeatureInput, GradientParts, Gradients, ImageDerivative, OptimizerState, RenderSettings,
    RenderedBytes, ScoreAsks, ScoredView, TileMask, ViewId, ViewState,
};
use dapple_scene::{Camera, Error, Photo, Result, Splats};
use std::sync::Arc;

/// Compositions of the methods of [`Engine`] and of its extensions. Every engine has them, and none can override them.
pub trait EngineExt: Engine {
    /// Waits for enqueued work and copies the splats and the optimizer state to the host.
    ///
    /// # Errors
    /// See [`Engine::download_parts`].
    fn download(&mut self) -> Result<(Splats, OptimizerState)> {
        self.download_parts(DownloadParts::All)
    }

    /// Waits for enqueued work and copies only the splats to the host.
    ///
    /// # Errors
    /// See [`Engine::download_parts`].
    fn splats(&mut self) -> Result<Splats> {
        Ok(self.download_parts(DownloadParts::Splats)?.0)
    }

    /// Waits for enqueued work and copies only the state of the views to the host: refined poses and appearance.
    ///
    /// # Errors
    /// See [`Engine::download_parts`].
    fn view_state(&mut self) -> Result<ViewState> {
        Ok(self.download_parts(DownloadParts::Views)?.1.views)
    }

    /// Does the same as [`Self::splats`] and bakes the 3D filters into scales and opacities, as splat files store
    /// them. See [`crate::filter_3d`].
    ///
    /// # Errors
    /// See [`Engine::download_parts`].
    fn fused_splats(&mut self) -> Result<Splats> {
        let (mut splats, state) = self.download_parts(DownloadParts::SplatsAndFilters)?;
        crate::filter_3d::bake(&mut splats, &state.filter_3d);
        Ok(splats)
    }

    /// Passes [`FeatureInput::Depth`] to the engine.
    ///
    /// # Errors
    /// See [`Engine::set_input`].
    fn supervise_depth(&mut self, view: ViewId, samples: Vec<DepthSample>) -> Result<()> {
        self.set_input(FeatureInput::Depth(view, samples))
    }

    /// Passes [`FeatureInput::Perceptual`] to the engine.
    ///
    /// # Errors
    /// See [`Engine::set_input`].
    fn set_crop_loss(&mut self, loss: Option<Box<dyn CropLoss>>) -> Result<()> {
        self.set_input(FeatureInput::Perceptual(loss))
    }

    /// Calls [`Streaming::add_cameras`].
    ///
    /// # Errors
    /// An invalid camera, or an engine that receives photos only all at once.
    fn add_cameras(&mut self, cameras: &[Camera]) -> Result<Vec<ViewId>> {
        streaming(self)?.add_cameras(cameras)
    }

    /// Calls [`Streaming::put_photo`].
    ///
    /// # Errors
    /// See [`Streaming::put_photo`]; also an engine that receives photos only all at once.
    fn put_photo(&mut self, view: ViewId, photo: Arc<Photo>) -> Result<()> {
        streaming(self)?.put_photo(view, photo)
    }

    /// Calls [`Streaming::announce`], if the engine has it.
    ///
    /// # Errors
    /// See [`Streaming::announce`].
    fn announce(&mut self, view: ViewId, photo: Option<Arc<Photo>>) -> Result<()> {
        match self.streaming() {
            Some(streaming) => streaming.announce(view, photo),
            None => Ok(()),
        }
    }

    /// Calls [`Scoring::score`](crate::extensions::Scoring::score). `None` also if the engine cannot score: the host
    /// then scores the result of [`Engine::render`].
    ///
    /// # Errors
    /// See [`Engine::render`].
    fn score(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        photo: &Photo,
        asks: ScoreAsks,
    ) -> Result<Option<ScoredView>> {
        match self.scoring() {
            Some(scoring) => scoring.score(camera, settings, photo, asks),
            None => Ok(None),
        }
    }

    /// Renders to 8 bits per channel: by [`Showing::render_bytes`](crate::extensions::Showing::render_bytes), or on the
    /// host if the engine does not have it.
    ///
    /// # Errors
    /// See [`Engine::render`].
    fn render_bytes(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
    ) -> Result<RenderedBytes> {
        if let Some(showing) = self.showing() {
            return showing.render_bytes(camera, settings);
        }
        let settings = RenderSettings {
            depth: false,
            surface: false,
            ..*settings
        };
        Ok((&self.render(camera, &settings)?).into())
    }

    /// Calls [`Showing::blend_counts`](crate::extensions::Showing::blend_counts).
    ///
    /// # Errors
    /// See [`Engine::render`]; also an engine that does not count.
    fn blend_counts(&mut self, camera: &Camera, settings: &RenderSettings) -> Result<BlendCounts> {
        let what = "this engine does not count what pixels blend";
        let showing = self.showing().ok_or_else(|| Error::unsupported(what))?;
        showing.blend_counts(camera, settings)
    }

    /// Calls [`Showing::contributors`](crate::extensions::Showing::contributors).
    ///
    /// # Errors
    /// See there; also an engine that does not name what pixels blend.
    fn contributors(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        most: usize,
    ) -> Result<Contributors> {
        let what = "this engine does not name the Gaussians that pixels blend";
        let showing = self.showing().ok_or_else(|| Error::unsupported(what))?;
        showing.contributors(camera, settings, most)
    }

    /// Executes `work`, whose renders and derivatives have only these tiles: see [`crate::tiles`]. `None` = all tiles.
    /// Afterwards the engine has all tiles again, also after an error or a panic.
    ///
    /// # Errors
    /// Those of `work`; also a mask for an engine that renders only whole images, or for an image of another size.
    fn with_tiles<R>(
        &mut self,
        tiles: Option<&TileMask>,
        work: impl FnOnce(&mut Self) -> Result<R>,
    ) -> Result<R> {
        let Some(tiles) = tiles else {
            return work(self);
        };
        let what = "this engine renders only whole images";
        let tiling = self.tiling().ok_or_else(|| {
            Error::unsupported(what)
                .hint("omit the mask of tiles, or use an engine on one CPU or GPU")
        })?;
        tiling.choose_tiles(Some(tiles.clone()));
        work(&mut *AllTilesAfter(self).0)
    }

    /// Returns the gradients of a scalar that does not depend on depths: see [`Engine::differentiate`]. `dl_drgb` is
    /// its derivative by the rendered image (`[height, width, 3]`), `dl_dalpha` by the image's alpha
    /// (`[height, width]`, optional).
    ///
    /// # Errors
    /// See [`Engine::differentiate`].
    fn gradients(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        dl_drgb: &[f32],
        dl_dalpha: Option<&[f32]>,
    ) -> Result<Gradients<f32>> {
        let derivative = ImageDerivative {
            rgb: dl_drgb,
            alpha: dl_dalpha,
            depth: None,
        };
        self.differentiate(camera, settings, &derivative, GradientParts::All)
    }

    /// Returns the gradients by opacities and `sh0` alone, equal to those of [`Self::gradients`] without a derivative
    /// by alpha. An engine on a GPU reads 4 numbers of each Gaussian back, not 59.
    ///
    /// # Errors
    /// See [`Engine::differentiate`].
    fn blend_gradients(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        dl_drgb: &[f32],
    ) -> Result<BlendGradients> {
        let derivative = ImageDerivative {
            rgb: dl_drgb,
            alpha: None,
            depth: None,
        };
        let parts = GradientParts::Blend;
        Ok(self
            .differentiate(camera, settings, &derivative, parts)?
            .into())
    }
}

impl<E: Engine + ?Sized> EngineExt for E {}

/// Engine whose choice of tiles ends with this value.
struct AllTilesAfter<'a, E: Engine + ?Sized>(&'a mut E);

impl<E: Engine + ?Sized> Drop for AllTilesAfter<'_, E> {
    fn drop(&mut self) {
        if let Some(tiling) = self.0.tiling() {
            tiling.choose_tiles(None);
        }
    }
}

/// # Errors
/// The engine receives photos only all at once.
fn streaming<E: Engine + ?Sized>(engine: &mut E) -> Result<&mut dyn Streaming> {
    engine.streaming().ok_or_else(|| {
        Error::unsupported("this engine takes photos only all at once")
            .hint("load the capture without a limit of memory for photos")
    })
}
