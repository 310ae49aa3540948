//! The depth loss, part of the stage `loss`. See `shaders/depth_loss.wgsl`.

mod samples;

use super::point::{Feature, FeatureContext, Point};
use crate::layout::WORKGROUP;
use crate::passes::{Axis, Bits, Code, Pass, Tensor};
use crate::recorder::{Recorder, Size};
use crate::shared_struct::shared_struct;
use crate::stages::shaders;
use crate::views::Views;
use crate::{Buffers, Context};
use dapple_engine::{FeatureInput, LossTerm, StepSettings, ViewId, check_depths};
use dapple_scene::{Error, Result};
use samples::Depths;
pub use samples::Sample;

const LOSS: Code = Code::new("depth_loss", "depth_loss");

/// The depth loss: adds to `depth_pixels` and `image_gradient`. One invocation for each sample that `depth_samples` can
/// hold; a step gives the number of samples.
pub static PASS: Pass = Pass {
    shaders: shaders!["depth_loss"],
    kernels: &[LOSS],
    needs: Bits::DEPTH,
    tensors: &[Tensor::new(Axis::Photo, "depth_samples", 0)],
    ..Pass::new("loss", record)
};

fn record(r: &mut Recorder<'_>) -> Result<()> {
    let capacity = r.bytes_of("depth_samples")? / size_of::<Sample>() as u64;
    let workgroups = capacity.div_ceil(WORKGROUP.into()) as u32;
    r.run(&LOSS, Size::flat(workgroups))
}

/// Samples of known depth of all views.
#[derive(Debug, Default)]
pub struct Held {
    /// The samples.
    samples: Depths,
}

shared_struct! {
    /// Numbers of a step.
    pub struct Parameters {
        /// Samples of known depth that the view has.
        depth_samples: u32,
    }
}

impl Feature for Held {
    type State = ();
    type Immediates = ();
    type Parameters = Parameters;
    const PASSES: &'static [(Point, &'static Pass)] = &[(Point::RenderLoss, &PASS)];

    fn parameters(
        &self,
        _views: &Views,
        view: ViewId,
        _settings: &StepSettings,
    ) -> Result<Parameters> {
        Ok(Parameters {
            depth_samples: self.samples.count(view.0) as u32,
        })
    }

    fn bits(&self, view: ViewId, settings: &StepSettings) -> Bits {
        let is_weighted = settings.losses[LossTerm::Depth] > 0.0;
        Bits::when(is_weighted && self.samples.count(view.0) > 0, Bits::DEPTH)
    }

    /// Replaces the samples of a view.
    fn set_input(
        &mut self,
        at: &mut FeatureContext<'_>,
        input: FeatureInput,
    ) -> Result<Option<FeatureInput>> {
        let FeatureInput::Depth(view, samples) = input else {
            return Ok(Some(input));
        };
        let Some(camera) = at.views.get(view.0).map(|held| held.camera) else {
            return Err(Error::internal(format!("there is no view {}", view.0)));
        };
        check_depths(&camera, &samples)?;
        self.samples.set(view.0, &samples);
        at.buffers.clear_slots();
        Ok(None)
    }

    fn fill_slot(
        &mut self,
        context: &Context,
        buffers: &mut Buffers,
        view: ViewId,
        settings: &StepSettings,
        slot: (usize, bool),
    ) -> Result<()> {
        if self.bits(view, settings) == Bits::NONE {
            return Ok(());
        }
        if let Some(samples) = self.samples.bring(&context.gpu, view.0, slot)? {
            buffers.set_in_slot("depth_samples", slot.0, &samples);
        }
        Ok(())
    }

    fn release_slots(&mut self) {
        self.samples.release();
    }

    fn resident_bytes(&self) -> u64 {
        self.samples.resident_bytes()
    }
}
