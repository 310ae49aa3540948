//! Photometric models of photos and cameras ([`mod@dapple_engine::features::photometric`]).

use super::point::{At, Stored, TrainFeature};
use crate::TrainConfig;
use crate::config::AppearanceConfig;
use dapple_engine::Rendered;
use dapple_engine::features::StateTensor;
use dapple_engine::features::photometric::{self, PhotometricSettings, ROW, Radii};
use dapple_scene::{Camera, Result};

/// Photometric model as a feature of training.
pub(super) struct Feature;

impl TrainFeature for Feature {
    type Step = photometric::Step;
    type State = photometric::State;

    fn step(at: &At<'_>) -> Self::Step {
        let appearance = &at.config.appearance;
        appearance.photometric_settings(at.place, at.config.steps)
    }

    fn learns(config: &TrainConfig, has_steps: bool) -> bool {
        config.appearance.has_photometric() && has_steps
    }

    fn sizes(of: &Stored<'_>) -> Result<usize> {
        match Self::learns(of.config, of.has_steps) {
            true => (of.rows)("photometric.cameras"),
            false => Ok(0),
        }
    }

    fn photos(sizes: &usize) -> usize {
        *sizes
    }

    fn result(state: &Self::State) -> Vec<StateTensor<'_>> {
        let views = state.views();
        if views == 0 {
            return Vec::new();
        }
        vec![
            StateTensor::floats("numbers", &[views, ROW], &state.numbers),
            StateTensor::counts("cameras", &[views], &state.cameras),
            StateTensor::counts("seen", &[views, 2], &state.seen),
        ]
    }

    fn fit(appearance: &AppearanceConfig, rate: f64) -> Self::Step {
        appearance.has_photometric().then_some(PhotometricSettings {
            rate: (appearance.rate * rate) as f32,
            prior: appearance.identity as f32,
        })
    }

    fn correct(state: &Self::State, view: usize, camera: &Camera, rendered: &mut Rendered) {
        let Some(model) = state.model(view) else {
            return;
        };
        let size = [rendered.width, rendered.height];
        let radii = Radii::new(size, [camera.cx as f32, camera.cy as f32]);
        let curves = model.curves();
        let width = rendered.width as usize;
        for (pixel, colour) in rendered.rgb.chunks_exact_mut(3).enumerate() {
            let radius2 = radii.squared(pixel % width, pixel / width);
            for (c, value) in colour.iter_mut().enumerate() {
                *value = model.apply(c, *value, radius2, curves[c]).value;
            }
        }
    }
}
