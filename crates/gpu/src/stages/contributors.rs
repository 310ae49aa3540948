//! `contributors`: the Gaussians that each pixel shows most. See `shaders/contributors.wgsl`.

use super::project::{GAUSSIANS, PIXELS, PIXELS_PART};
use super::shaders;
use crate::passes::{Axis, Bits, Code, Pass, Tensor};
use crate::recorder::{Recorder, Size};
use dapple_scene::Result;

/// Contributors of a pixel that a run finds.
pub const EACH: usize = 4;

/// Indices of the contributors of a pixel, then the bits of their weights.
pub const CONTRIBUTORS: &str = "contributor_pixels";

const PLACES: Code = Code::new("contributors", "places");
const FOUND: Code = Code::new("contributors", "contributors")
    .by(Bits::RING)
    .in_parts();

/// The pass after a render that requests contributors; it is repeated for each [`EACH`] of them, with
/// [`crate::layout::FLAG_MORE`] from the second time on.
pub static PASS: Pass = Pass {
    shaders: shaders!["contributors"],
    kernels: &[PLACES, FOUND],
    needs: Bits::CONTRIBUTORS,
    tensors: &[
        Tensor::new(Axis::Visible, "place_gaussian", 1)
            .when(Bits::CONTRIBUTORS)
            .and_one(),
        Tensor::new(Axis::Pixel, CONTRIBUTORS, 2 * EACH as u32).when(Bits::CONTRIBUTORS),
        Tensor::new(Axis::Pixel, "contributor_last", 2).when(Bits::CONTRIBUTORS),
    ],
    ..Pass::new("contributors", record)
};

fn record(r: &mut Recorder<'_>) -> Result<()> {
    r.run(&PLACES, GAUSSIANS)?;
    r.run(&FOUND, Size::CountedOrParts(PIXELS, PIXELS_PART))
}
