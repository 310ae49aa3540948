//! `surface`: depth and normal of the surface that each pixel shows. See `shaders/surface_profiles.wgsl` and
//! `shaders/surface.wgsl`.

use super::project::{GAUSSIANS, OPTICS, PIXELS, PIXELS_PART};
use super::shaders;
use crate::passes::{Axis, Bits, Code, Pass, Tensor};
use crate::recorder::{Recorder, Size};
use dapple_scene::Result;

/// Four floats per pixel: depth, and x, y and z of the normal.
pub const SURFACE: &str = "surface_pixels";

const PROFILES: Code = Code::new("surface_profiles", "surface_profiles_of").by(OPTICS);
const FOUND: Code = Code::new("surface", "surface").by(Bits::RING).in_parts();

/// The pass after a render with a surface.
pub static PASS: Pass = Pass {
    shaders: shaders!["surface_profiles", "surface"],
    kernels: &[PROFILES, FOUND],
    needs: Bits::SURFACE,
    tensors: &[
        Tensor::new(Axis::Visible, "surface_profiles", 8)
            .when(Bits::SURFACE)
            .and_one(),
        Tensor::new(Axis::Pixel, SURFACE, 4).when(Bits::SURFACE),
    ],
    ..Pass::new("surface", record)
};

fn record(r: &mut Recorder<'_>) -> Result<()> {
    r.run(&PROFILES, GAUSSIANS)?;
    r.run(&FOUND, Size::CountedOrParts(PIXELS, PIXELS_PART))
}
