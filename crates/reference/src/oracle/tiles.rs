//! Renders of chosen tiles: the lists of other tiles are empty, so that `blend` and `blend_backward` find nothing there.

use super::{
    Gaussian, Image, TileLists, blend, blend_backward, check_derivative, gradients_of_slots,
    ranges, visible,
};
use dapple_engine::{Gradients, ImageDerivative, RenderSettings, TileMask};
use dapple_scene::{Camera, Result, Splats};

impl TileLists {
    /// Empties the lists of tiles that are not chosen.
    #[must_use]
    pub fn chosen(mut self, tiles: &TileMask) -> Self {
        for (tile, list) in (0..).zip(&mut self.lists) {
            if !tiles.is_chosen(tile) {
                list.clear();
            }
        }
        self
    }
}

/// Renders chosen tiles of splats: see [`dapple_engine::tiles`]. `tiles` is a mask for images of this size.
///
/// # Errors
/// See [`render`](super::render).
pub fn render_tiles(
    splats: &Splats,
    camera: &Camera,
    settings: &RenderSettings,
    tiles: &TileMask,
) -> Result<Image> {
    let visible = visible(&Gaussian::all(splats), camera, settings)?;
    let lists = ranges(&visible, camera, settings.max_gaussians_per_tile).chosen(tiles);
    Ok(blend(&visible, &lists, camera, settings))
}

/// Returns the gradients of a scalar whose derivative by a render of chosen tiles is `derivative`.
///
/// # Errors
/// See [`gradients`](super::gradients).
pub fn differentiate_tiles(
    splats: &Splats,
    camera: &Camera,
    settings: &RenderSettings,
    derivative: &ImageDerivative<'_, f64>,
    tiles: &TileMask,
) -> Result<Gradients<f64>> {
    check_derivative(camera, derivative)?;
    let all = Gaussian::all(splats);
    let visible = visible(&all, camera, settings)?;
    let lists = ranges(&visible, camera, settings.max_gaussians_per_tile).chosen(tiles);
    let slots = blend_backward(&visible, &lists, camera, settings, derivative);
    let stride = splats.sh_rest_stride();
    gradients_of_slots(&all, stride, camera, settings, (&visible, &slots))
}
