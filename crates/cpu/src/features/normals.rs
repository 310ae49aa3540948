//! Normal consistency: see [`kernels`]. The second blend is done by `blend` and `blend_backward`, on the
//! [`NormalFrame`](crate::frame::NormalFrame).

pub mod kernels;

use super::point::{Feature, Learnt};
use crate::context::StepContext;
use crate::stages::blend::{self, BlendExtra};
use crate::stages::blend_backward::{self, Mode};
use dapple_engine::{LossTerm, Stage};
use dapple_scene::Result;

/// Normal consistency of a step.
#[derive(Debug, Default)]
pub struct Held {
    buffers: kernels::Buffers,
}

impl Feature for Held {
    fn prepare(&mut self, step: &mut StepContext<'_>) -> Result<()> {
        step.mode.normals = step.settings.losses[LossTerm::Normals] > 0.0;
        Ok(())
    }

    fn gradients(&mut self, step: &mut StepContext<'_>) {
        if !step.mode.normals {
            return;
        }
        let cap = step.settings.render.max_gaussians_per_tile;
        let weight = step.settings.losses[LossTerm::Normals];
        let mode = Mode {
            depths: true,
            ..Mode::default()
        };
        let (camera, frame) = (&step.camera, &mut *step.frame);
        kernels::splats(step.slots.shown(step.model), camera, frame);
        frame.exchange_normals();
        blend::run(camera, [0.0; 3], cap, BlendExtra::Depths, frame);
        step.clock.lap(Stage::Blend);
        kernels::loss(camera, weight, &mut self.buffers, frame);
        step.clock.lap(Stage::Loss);
        blend_backward::run(camera, cap, mode, frame);
        step.clock.lap(Stage::BlendBackward);
        frame.exchange_normals();
    }
}

impl Learnt for Held {
    type State = ();
}
