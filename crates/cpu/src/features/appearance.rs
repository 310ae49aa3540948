//! Grids of affine colour maps for each view: see [`kernels`].

pub mod kernels;

use super::point::{Feature, Learnt};
use crate::context::StepContext;
use crate::model::Model;
use crate::views::Views;
use dapple_engine::appearance::{check_cells, other_cells};
use dapple_engine::{AppearanceGrids, Stage};
use dapple_scene::Result;

/// Grids of a run.
#[derive(Debug, Default)]
pub struct Held {
    /// Grids of all views, with Adam's moments.
    held: AppearanceGrids,
}

impl Feature for Held {
    /// Makes sure that every view has a grid.
    fn prepare(&mut self, step: &mut StepContext<'_>) -> Result<()> {
        let Some(learnt) = &step.settings.features.appearance else {
            return Ok(());
        };
        if self.held.is_empty() {
            check_cells(learnt.cells)?;
            self.held.cells = learnt.cells;
        } else if self.held.cells != learnt.cells {
            return Err(other_cells(self.held.cells, learnt.cells));
        }
        self.held.extend_to(step.views.len());
        Ok(())
    }

    fn image(&mut self, step: &mut StepContext<'_>) {
        if let Some(learnt) = &step.settings.features.appearance {
            let grid = self.held.grid(step.view.0);
            kernels::run(&step.camera, learnt.cells, grid, step.frame);
            step.clock.lap(Stage::Appearance);
            // `loss` reads `image`.
            std::mem::swap(&mut step.frame.image, &mut step.frame.corrected);
        }
    }

    fn image_back(&mut self, step: &mut StepContext<'_>) {
        if let Some(learnt) = &step.settings.features.appearance {
            std::mem::swap(&mut step.frame.image, &mut step.frame.corrected);
            let view = step.view.0;
            let grid = self.held.grid(view);
            let gradient = kernels::backward(&step.camera, learnt.cells, grid, step.frame);
            kernels::step(&mut self.held, view, gradient, learnt, &step.settings.adam);
            step.clock.lap(Stage::Appearance);
        }
    }
}

impl Learnt for Held {
    type State = AppearanceGrids;

    fn set_state(&mut self, state: AppearanceGrids, _model: &mut Model, _views: &mut Views) {
        self.held = state;
    }

    fn state(&self, _model: &Model, _views: &Views) -> AppearanceGrids {
        self.held.clone()
    }
}
