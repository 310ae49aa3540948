//! Normal consistency: see [`kernels`]; and matching photos: see [`matching`]. The second blend is done by `blend` and
//! `blend_backward`, on the [`NormalFrame`](crate::frame::NormalFrame).

pub mod kernels;
pub mod matching;

use super::point::{Feature, Learnt};
use crate::context::StepContext;
use crate::stages::blend::{self, BlendExtra};
use crate::stages::blend_backward::{self, Mode};
use crate::views::Views;
use dapple_engine::features::normals::matching::{MatchedView, Pair, check, compared};
use dapple_engine::{FeatureInput, LossTerm, PosedCamera, Stage, StepSettings, ViewId};
use dapple_scene::Result;
use matching::Compared;

/// Losses of the planes of Gaussians in a step.
#[derive(Debug, Default)]
pub struct Held {
    buffers: kernels::Buffers,
    /// Views whose photos are compared.
    matched: Vec<MatchedView>,
}

fn camera_of(views: &Views, view: ViewId) -> Option<&PosedCamera> {
    views.get(view).ok().map(|held| &*held.camera)
}

impl Held {
    /// Returns the comparison of the step.
    fn compared(
        &self,
        views: &Views,
        view: ViewId,
        settings: &StepSettings,
    ) -> Option<Compared<'_>> {
        let camera = |view| camera_of(views, view);
        let pair = Pair::of(&self.matched, camera, view, settings)?;
        let [own, other] = pair.views.map(|i| &self.matched[i]);
        Some(Compared {
            pair,
            own: &own.photo,
            other: &other.photo,
            lens: camera_of(views, other.view)?.lens,
        })
    }
}

impl Feature for Held {
    /// Replaces the views whose photos are compared.
    fn set_input(&mut self, views: &Views, input: FeatureInput) -> Result<Option<FeatureInput>> {
        let FeatureInput::Matching(matched) = input else {
            return Ok(Some(input));
        };
        check(&matched, |view| camera_of(views, view))?;
        self.matched = matched;
        Ok(None)
    }

    fn prepare(&mut self, step: &mut StepContext<'_>) -> Result<()> {
        step.mode.normals = step.settings.losses[LossTerm::Normals] > 0.0
            || compared(&self.matched, step.view, step.settings).is_some();
        Ok(())
    }

    fn gradients(&mut self, step: &mut StepContext<'_>) {
        if !step.mode.normals {
            return;
        }
        let cap = step.settings.render.max_gaussians_per_tile;
        let losses = &step.settings.losses;
        let mode = Mode {
            depths: true,
            ..Mode::default()
        };
        let (camera, frame) = (&step.camera, &mut *step.frame);
        kernels::splats(step.slots.shown(step.model), camera, frame);
        frame.exchange_normals();
        blend::run(camera, [0.0; 3], cap, BlendExtra::Depths, frame);
        step.clock.lap(Stage::Blend);
        kernels::loss(camera, losses[LossTerm::Normals], &mut self.buffers, frame);
        if let Some(compared) = self.compared(step.views, step.view, step.settings) {
            matching::loss(camera, losses[LossTerm::Matching], &compared, frame);
        }
        step.clock.lap(Stage::Loss);
        blend_backward::run(camera, cap, mode, frame);
        step.clock.lap(Stage::BlendBackward);
        frame.exchange_normals();
    }
}

impl Learnt for Held {
    type State = ();
}
