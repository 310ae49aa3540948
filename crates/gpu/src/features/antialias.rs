//! Anti-aliasing: `filter_3d` sets the Gaussians' 3D filters from the training views. See `shaders/filter_3d.wgsl`. The
//! filters are state of Gaussians; the module `params` transfers them.

use super::point::{Feature, Point};
use crate::layout::WORKGROUP;
use crate::passes::{Axis, Bits, Code, Kind, Pass, Tensor, WORD};
use crate::recorder::{Recorder, Size};
use crate::stages::shaders;
use dapple_engine::{OptimizerState, StepSettings};
use dapple_scene::Result;

/// The tensor of 3D filters, a word per Gaussian; it exists after a command with anti-aliasing. The filters have no
/// effect until they are set.
pub const FILTER_3D: &str = "filter_3d";

const OF_VIEWS: Code = Code::new("filter_3d", "filter_3d_of_views");

/// The pass before a step that requests new filters.
pub static PASS: Pass = Pass {
    shaders: shaders!["filter_3d"],
    kernels: &[OF_VIEWS],
    tensors: &[Tensor::new(Axis::Gaussian, FILTER_3D, 1)
        .kind(Kind::State)
        .when(Bits::ANTIALIAS)],
    ..Pass::new("filter_3d", record)
};

fn record(r: &mut Recorder<'_>) -> Result<()> {
    // The number of Gaussians is known only in the step after this pass.
    let capacity = (r.bytes_of(FILTER_3D)? / WORD) as u32;
    r.run(&OF_VIEWS, Size::flat(capacity.div_ceil(WORKGROUP)))
}

/// Anti-aliasing holds nothing.
#[derive(Debug, Default)]
pub struct Held;

/// A render with anti-aliasing has the permutation, so that steps need none of their own.
impl Feature for Held {
    type State = ();
    type Immediates = ();
    type Parameters = ();
    const PASSES: &'static [(Point, &'static Pass)] = &[(Point::BeforeStep, &PASS)];

    fn bits_of_state(state: &OptimizerState) -> Bits {
        Bits::when(!state.filter_3d.is_empty(), Bits::ANTIALIAS)
    }

    fn runs_before(settings: &StepSettings) -> bool {
        settings.render.antialias && settings.features.antialias.refresh
    }
}
