//! Bilateral grids of the photos ([`mod@dapple_engine::appearance`]).

use super::point::{At, Stored, TrainFeature};
use crate::TrainConfig;
use crate::config::AppearanceConfig;
use dapple_engine::constants::LUMINANCE;
use dapple_engine::features::StateTensor;
use dapple_engine::features::appearance::{self, AFFINE, GridSizes, Place};
use dapple_engine::{AppearanceGrids, AppearanceSettings, Rendered};
use dapple_scene::{Camera, Result};

/// The feature in training.
pub(super) struct Feature;

impl TrainFeature for Feature {
    type Step = appearance::Step;
    type State = appearance::State;

    fn step(at: &At<'_>) -> Self::Step {
        at.config.appearance.settings(at.place, at.config.steps)
    }

    /// Checks the configuration of all models of appearance.
    fn validate(config: &TrainConfig) -> Result<()> {
        config.appearance.validate(config.steps)
    }

    fn learns(config: &TrainConfig, has_steps: bool) -> bool {
        config.appearance.has_grids() && has_steps
    }

    fn sizes(of: &Stored<'_>) -> Result<GridSizes> {
        if !Self::learns(of.config, of.has_steps) {
            return Ok(GridSizes::default());
        }
        Ok(GridSizes {
            views: (of.rows)("appearance.seen")?,
            cells: of.config.appearance.grid,
        })
    }

    fn photos(sizes: &GridSizes) -> usize {
        sizes.views
    }

    fn result(state: &Self::State) -> Vec<StateTensor<'_>> {
        if state.is_empty() {
            return Vec::new();
        }
        let (views, [x, y, l]) = (state.views(), state.cells.map(|n| n as usize));
        let shape = [views, y, x, l, 3, 4];
        vec![
            StateTensor::floats("coefficients", &shape, &state.coefficients),
            StateTensor::counts("seen", &[views], &state.seen),
        ]
    }

    fn fit(appearance: &AppearanceConfig, rate: f64) -> Self::Step {
        appearance.has_grids().then_some(AppearanceSettings {
            cells: appearance.grid,
            rate: (appearance.rate * rate) as f32,
            smoothness: appearance.smoothness as f32,
            identity: appearance.identity as f32,
        })
    }

    fn correct(state: &Self::State, view: usize, _camera: &Camera, rendered: &mut Rendered) {
        if !state.is_empty() {
            map_colours(rendered, state, view);
        }
    }
}

/// Applies a view's grid to a render: `dapple_reference::appearance`, in `f32`.
fn map_colours(rendered: &mut Rendered, learnt: &AppearanceGrids, view: usize) {
    let grid = learnt.grid(view);
    let cells = learnt.cells.map(|n| n as usize);
    let (width, height) = (rendered.width as usize, rendered.height as usize);
    for (pixel, colour) in rendered.rgb.chunks_exact_mut(3).enumerate() {
        let luminance: f32 = (0..3).map(|c| LUMINANCE[c] * colour[c]).sum();
        let places = [
            ((pixel % width) as f32 + 0.5) / width as f32,
            ((pixel / width) as f32 + 0.5) / height as f32,
            luminance.clamp(0.0, 1.0),
        ];
        let around: [[(usize, f32); 2]; 3] = std::array::from_fn(|axis| {
            let place = Place::at(places[axis] * (cells[axis] - 1) as f32, cells[axis]);
            [(place.first, 1.0 - place.part), (place.next, place.part)]
        });
        let mut map = [0.0f32; AFFINE];
        for (x, wx) in around[0] {
            for (y, wy) in around[1] {
                for (l, wl) in around[2] {
                    let cell = ((y * cells[0] + x) * cells[2] + l) * AFFINE;
                    for (sum, value) in map.iter_mut().zip(&grid[cell..cell + AFFINE]) {
                        *sum += wx * wy * wl * value;
                    }
                }
            }
        }
        let input = [colour[0], colour[1], colour[2], 1.0];
        for (c, out) in colour.iter_mut().enumerate() {
            *out = (0..4).map(|k| map[4 * c + k] * input[k]).sum();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_that_changes_nothing_changes_nothing() {
        let mut rendered = Rendered {
            width: 3,
            height: 1,
            rgb: vec![0.1, 0.2, 0.3, 0.0, 1.5, 0.5, 1.0, 1.0, 1.0],
            ..Rendered::default()
        };
        let before = rendered.rgb.clone();
        map_colours(&mut rendered, &AppearanceGrids::identity([2, 3, 2], 1), 0);
        for (a, b) in rendered.rgb.iter().zip(&before) {
            assert!((a - b).abs() < 1e-6, "{a} {b}");
        }
        let mut bright = AppearanceGrids::identity([1; 3], 1);
        bright.coefficients[3] = 0.25;
        map_colours(&mut rendered, &bright, 0);
        assert!((rendered.rgb[0] - 0.35).abs() < 1e-6);
    }
}
