//! Everything that lives for one rendered view: the intermediate results that stages hand on.
//!
//! The buffers are kept from step to step and only grow, so that a steady training allocates
//! nothing of note.

use crate::simd::{ROW, Row};
use dapple_engine::constants::NEAR;
use dapple_engine::{PosedCamera, RefinedPose, StepCounts};
use dapple_scene::{Camera, Result};
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Gaussians handled by one task of `project`; a multiple of the block size. Fixed, so that results
/// do not depend on the number of threads.
pub const PROJECT_CHUNK: usize = 2048;

/// Planes of a tile: red, green, blue, and transmittance (in gradients: its derivative).
pub const PLANES: usize = 4;

/// Rows of one tile in a tiled image.
pub const TILE_ROWS: usize = PLANES * ROW;

/// A camera with the near plane of a render.
#[derive(Debug, Clone, Copy)]
pub struct CameraF32 {
    posed: PosedCamera,
    /// Gaussians nearer than this are culled.
    pub near: f32,
}

impl CameraF32 {
    /// Checks a camera and prepares it.
    pub fn new(camera: &Camera) -> Result<Self> {
        Ok(Self {
            posed: PosedCamera::new(camera)?,
            near: NEAR,
        })
    }

    /// The same camera where refinement has put it.
    #[must_use]
    pub fn refined(self, pose: &RefinedPose) -> Self {
        Self {
            posed: pose.camera(&self.posed),
            ..self
        }
    }

    /// The same camera with another near plane.
    #[must_use]
    pub fn with_near(self, near: f32) -> Self {
        Self { near, ..self }
    }
}

impl Deref for CameraF32 {
    type Target = PosedCamera;

    fn deref(&self) -> &PosedCamera {
        &self.posed
    }
}

/// A projected Gaussian as `blend` wants it: alpha at a pixel d away from the mean is
/// `2^(log2_opacity + a dx^2 + b dx dy + c dy^2)`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Splat2d {
    /// Centre, pixels.
    pub mean: [f32; 2],
    /// Quadratic form: the conic times -log2(e)/2, off-diagonal counted twice.
    pub a: f32,
    /// See `a`.
    pub b: f32,
    /// See `a`.
    pub c: f32,
    /// log2 of the opacity.
    pub log2_opacity: f32,
    /// Colour from SH, clamped at zero.
    pub rgb: [f32; 3],
    /// Half the width and height of the ellipse where alpha falls to 1/255, pixels.
    pub radius: [f32; 2],
    /// Depth along +z.
    pub depth: f32,
}

/// Where a Gaussian's tiles are listed.
#[derive(Debug, Clone, Copy, Default)]
pub struct TileSpans {
    /// First entry in its chunk's spans.
    pub start: u32,
    /// First tile row.
    pub row: u16,
    /// Tile rows; one span each.
    pub rows: u16,
    /// Tiles in all spans together; 0 = invisible.
    pub tiles: u32,
}

/// Tiles `first..=last` of one tile row.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// First tile column.
    pub first: u16,
    /// Last tile column.
    pub last: u16,
}

/// Sums over the pixels of one instance; see `blend_backward`.
pub type Slot = [f32; 9];

/// Sums over the pixels of one instance of |s d(exponent)/dx| and |s d(exponent)/dy|, see
/// `blend_backward`.
pub type AbsoluteSlot = [f32; 2];

/// What depths add to a view: images tiled like [`Frame::image`], one plane each, `[tiles, 16]` rows.
#[derive(Debug, Default)]
pub struct DepthFrame {
    /// Blended depth.
    pub blended: Vec<Row>,
    /// Median depth.
    pub median: Vec<Row>,
    /// Derivative of the loss with respect to the blended depth.
    pub gradient: Vec<Row>,
    /// Its derivative with respect to a Gaussian's depth, one per slot.
    pub slots: Vec<f32>,
}

/// Intermediate results of one view.
#[derive(Debug, Default)]
pub struct Frame {
    /// Projected Gaussians, `[N rounded up to blocks]`.
    pub splats2d: Vec<Splat2d>,
    /// Tiles of each Gaussian, `[N rounded up to blocks]`.
    pub spans_of: Vec<TileSpans>,
    /// Spans of each chunk of `project`.
    pub spans: Vec<Vec<Span>>,
    /// Visible Gaussians, `depth bits << 32 | index`, by depth.
    pub order: Vec<AtomicU64>,
    /// Scratch of the sort.
    pub order_scratch: Vec<AtomicU64>,
    /// Histograms of sorting passes, `[chunks, digits]`.
    pub histograms: Vec<u32>,
    /// Where each chunk of visible Gaussians begins among the instances.
    pub emit_starts: Vec<usize>,
    /// Tile of each instance, in emission order.
    pub instance_tile: Vec<u32>,
    /// Position of each instance after sorting: its slot.
    pub instance_slot: Vec<u32>,
    /// First instance of each Gaussian, `[N]`.
    pub first_instance: Vec<AtomicU32>,
    /// Gaussian of each slot.
    pub slot_gaussian: Vec<AtomicU32>,
    /// First slot of each tile, and one past the last: `[tiles + 1]`.
    pub tile_starts: Vec<u32>,
    /// Rendered image, tiled: `[tiles, PLANES, 16]` rows.
    pub image: Vec<Row>,
    /// The image through the photo's colour maps, tiled likewise, where a step learns them.
    pub corrected: Vec<Row>,
    /// Derivative of the loss with respect to the image, tiled likewise.
    pub image_gradient: Vec<Row>,
    /// Gradient sums, one per slot.
    pub slots: Vec<Slot>,
    /// One per slot, where a step asks for absolute gradients.
    pub absolute_slots: Vec<AbsoluteSlot>,
    /// Depths, where they are asked for.
    pub depth: DepthFrame,
    /// Gaussians that pixels blend, one plane, tiled as depths are, where they are asked for.
    pub blended: Vec<Row>,
    /// Derivatives of SSIM, see `loss`.
    pub ssim_maps: Vec<Row>,
    /// Counts of this view.
    pub counts: StepCounts,
    /// Rows of 16 pixels that `blend` visited, over all instances: what its arithmetic is counted
    /// from.
    pub row_visits: u64,
}

/// Number of visible Gaussians per task of `emit` and `sort`: at most 64 tasks, so that their
/// histograms stay small. Depends on the count alone, never on the threads.
pub fn rank_chunk(visible: usize) -> usize {
    visible.div_ceil(64).max(4096)
}

/// Makes sure that a buffer holds at least `len` values; its content will be overwritten.
pub fn grow<T: Clone>(buffer: &mut Vec<T>, len: usize, value: T) {
    if buffer.len() < len {
        buffer.resize(len, value);
    }
}

/// [`grow`] for cells, which cannot be cloned.
pub fn grow_cells<T: Default>(buffer: &mut Vec<T>, len: usize) {
    if buffer.len() < len {
        buffer.resize_with(len, T::default);
    }
}

/// Cuts a buffer into consecutive pieces, one for each task to write.
pub fn split_by_lengths<T>(
    buffer: &mut [T],
    lengths: impl IntoIterator<Item = usize>,
) -> Vec<&mut [T]> {
    let mut rest = buffer;
    let mut pieces = Vec::new();
    for length in lengths {
        let (piece, others) = rest.split_at_mut(length);
        pieces.push(piece);
        rest = others;
    }
    pieces
}
