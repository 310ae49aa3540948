//! State of the engine's views before the first step of a run, or of a part with another appearance.

use crate::views::Chosen;
use crate::{TrainConfig, appearance};
use dapple_engine::features::photometric::Photometric;
use dapple_engine::{AppearanceGrids, PosedCamera, ViewState};
use dapple_scene::{Dataset, Result, Splats};

/// Returns the appearance of photos before its first step.
pub(super) fn first_views(
    splats: &Splats,
    config: &TrainConfig,
    dataset: &Dataset,
    chosen: &Chosen,
) -> Result<ViewState> {
    let (model, photos) = (&config.appearance, chosen.train.len());
    let mut views = ViewState::default();
    if model.has_grids() {
        views.appearance = AppearanceGrids::identity(model.grid, photos);
    }
    if model.has_photometric() {
        let cameras = chosen.train.iter();
        let cameras = cameras.map(|&i| PosedCamera::new(&dataset.views[i].camera));
        let cameras = cameras.collect::<Result<Vec<_>>>()?;
        views.photometric = Photometric::default();
        views.photometric.extend_to(&cameras);
    }
    if model.has_mlp() {
        let first = appearance::first_appearance(splats, photos, config.seed);
        views.appearance_mlp = first.views.appearance_mlp;
    }
    Ok(views)
}
