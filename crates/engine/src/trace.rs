//! [`Trace`]: results of each stage of one training step, independent of an engine's data layout.
//!
//! Traces test single stages. The trace of one engine is the expected result. Another engine gets
//! the contents of the trace before a stage, executes that stage, and must reproduce the contents
//! after it.

use crate::OptimizerState;
use dapple_scene::Splats;

/// Intermediate results of one training step, stage by stage.
#[doc(hidden)]
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    /// `project`: the visible Gaussians, in order of index.
    pub projected: Vec<TracedSplat>,
    /// `order`: the visible Gaussians by depth.
    pub order: Vec<u32>,
    /// `emit`: `[Gaussian, tile]`, Gaussians in depth order, a Gaussian's tiles row by row.
    pub instances: Vec<[u32; 2]>,
    /// `sort`: indices into `instances`, by tile, stable.
    pub sorted: Vec<u32>,
    /// `ranges`: the Gaussians of each tile, nearest first, before the per-tile limit.
    /// `[tiles, ...]`
    pub tiles: Vec<Vec<u32>>,
    /// `blend`: colour over the background, and transmittance, row by row. `[height * width]`
    pub image: Vec<[f32; 4]>,
    /// `loss`: value of the loss.
    pub loss: f32,
    /// `loss`: derivative of the loss by `image`. `[height * width]`
    pub image_gradient: Vec<[f32; 4]>,
    /// `blend_backward`: for each of `instances`, sums over the tile's pixels of s, s dx, s dy, s
    /// dx^2, s dx dy, s dy^2 and of w dL/d(red, green, blue). Here s = alpha dL/dalpha, d = pixel -
    /// centre, and w = alpha times the transmittance in front.
    pub slots: Vec<[f32; 9]>,
    /// `update`: the splats after the step.
    pub splats: Splats,
    /// `update`: moments and statistics after the step.
    pub state: OptimizerState,
}

/// Visible Gaussian on the image. Its alpha at a pixel d away from the centre is
/// `2^(log2_opacity + a dx^2 + b dx dy + c dy^2)`.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TracedSplat {
    /// Index of the Gaussian.
    pub gaussian: u32,
    /// Centre, pixels.
    pub mean2d: [f32; 2],
    /// a, b, c: the conic times `-log2(e) / 2`, b counted twice.
    pub form: [f32; 3],
    /// log2 of the opacity.
    pub log2_opacity: f32,
    /// Colour, not negative.
    pub rgb: [f32; 3],
    /// Depth along +z, world units.
    pub depth: f32,
    /// Half width and height, pixels, of the ellipse with alpha 1/255 at its border.
    pub radius: [f32; 2],
    /// Tiles that the ellipse touches.
    pub tiles: u32,
}
