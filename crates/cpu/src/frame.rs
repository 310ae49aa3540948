//! Intermediate results of one rendered view, which stages write and read.
//!
//! The buffers are reused in all steps and only grow, so that steps of constant size allocate almost
//! nothing.

use crate::simd::{ROW, Row};
use dapple_engine::constants::NEAR;
use dapple_engine::{PosedCamera, RefinedPose, RenderSettings, StepCounts};
use dapple_scene::{Camera, Result};
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Gaussians per task of `project`, a multiple of the block size. The number is fixed, so that
/// results do not depend on the number of threads.
pub const PROJECT_CHUNK: usize = 2048;

/// Planes of a tile: red, green, blue, and transmittance (in gradients: its derivative).
pub const PLANES: usize = 4;

/// Rows of one tile in a tiled image.
pub const TILE_ROWS: usize = PLANES * ROW;

/// Camera with the near plane and the dilation of a render.
#[derive(Debug, Clone, Copy)]
pub struct CameraF32 {
    posed: PosedCamera,
    /// Near plane: Gaussians nearer than this are culled.
    pub near: f32,
    /// [`RenderSettings::extra_dilation`].
    pub extra_dilation: f32,
}

impl CameraF32 {
    /// Checks a camera and prepares it for kernels.
    pub fn new(camera: &Camera) -> Result<Self> {
        Ok(Self {
            posed: PosedCamera::new(camera)?,
            near: NEAR,
            extra_dilation: 0.0,
        })
    }

    /// Returns the camera after refinement.
    #[must_use]
    pub fn refined(self, pose: &RefinedPose) -> Self {
        Self {
            posed: pose.camera(&self.posed),
            ..self
        }
    }

    /// Returns the camera with the near plane and the dilation of these settings.
    #[must_use]
    pub fn with(self, settings: &RenderSettings) -> Self {
        Self {
            near: settings.near,
            extra_dilation: settings.extra_dilation,
            ..self
        }
    }
}

impl Deref for CameraF32 {
    type Target = PosedCamera;

    fn deref(&self) -> &PosedCamera {
        &self.posed
    }
}

/// Projected Gaussian for `blend`. Its alpha at a pixel d away from the mean is
/// `2^(log2_opacity + a dx^2 + b dx dy + c dy^2)`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Splat2d {
    /// Centre, pixels.
    pub mean: [f32; 2],
    /// Quadratic form a, b, c: the conic times -log2(e)/2, off-diagonal counted twice.
    pub a: f32,
    /// Factor of dx dy; see `a`.
    pub b: f32,
    /// Factor of dy^2; see `a`.
    pub c: f32,
    /// log2 of the opacity.
    pub log2_opacity: f32,
    /// Colour from SH, clamped at zero.
    pub rgb: [f32; 3],
    /// Half the width and height, pixels, of the ellipse with alpha 1/255 at its border.
    pub radius: [f32; 2],
    /// Depth: along +z, or the distance for a panorama.
    pub depth: f32,
}

/// Position of a Gaussian's tile list.
#[derive(Debug, Clone, Copy, Default)]
pub struct TileSpans {
    /// First entry in the spans of its chunk.
    pub start: u32,
    /// First tile row.
    pub row: u16,
    /// Number of spans: one for each tile row, and two on a ring.
    pub rows: u16,
    /// Number of tiles in all spans; 0 = invisible.
    pub tiles: u32,
}

/// Tiles `first..=last` of one tile row.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, bytemuck::Pod, bytemuck::Zeroable)]
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

/// Adds up the slots of a Gaussian, in the order of its instances.
#[inline(always)]
pub fn add_up<const N: usize>(instances: &[u32], slots: &[[f32; N]]) -> [f32; N] {
    let mut sum = [0.0f32; N];
    for &slot in instances {
        for (total, value) in sum.iter_mut().zip(&slots[slot as usize]) {
            *total += value;
        }
    }
    sum
}

/// Depths of a view: images tiled like [`Frame::image`], one plane each, `[tiles, 16]` rows.
#[derive(Debug, Default)]
pub struct DepthFrame {
    /// Blended depth.
    pub blended: Vec<Row>,
    /// Median depth.
    pub median: Vec<Row>,
    /// Derivative of the loss by the blended depth.
    pub gradient: Vec<Row>,
    /// Derivative of the loss by a Gaussian's depth, one per gradient slot.
    pub slots: Vec<f32>,
}

/// Second blend of a view, of the planes of Gaussians: see `features/normals`. Fields with the name of a field of
/// [`Frame`] are in its place during the blend.
#[derive(Debug, Default)]
pub struct NormalFrame {
    /// Projected Gaussians, with the normal as colour and the distance of the plane as depth.
    pub splats2d: Vec<Splat2d>,
    /// Blended normals.
    pub image: Vec<Row>,
    /// Derivative of the loss by the blended normals.
    pub image_gradient: Vec<Row>,
    /// Gradient sums, one per gradient slot.
    pub slots: Vec<Slot>,
    /// Blended distances and their derivatives.
    pub depth: DepthFrame,
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
    /// Histograms of the sorting passes, `[chunks, digits]`.
    pub histograms: Vec<u32>,
    /// Tiles of each visible Gaussian, by depth.
    pub ranked: Vec<TileSpans>,
    /// Index of each chunk's first instance.
    pub emit_starts: Vec<usize>,
    /// Tile of each instance, in emission order.
    pub instance_tile: Vec<u32>,
    /// Gaussian of each instance, in emission order.
    pub instance_gaussian: Vec<u32>,
    /// Position of each instance after sorting: its gradient slot.
    pub instance_slot: Vec<u32>,
    /// First instance of each Gaussian, `[N]`.
    pub first_instance: Vec<AtomicU32>,
    /// Gaussian of each gradient slot.
    pub slot_gaussian: Vec<AtomicU32>,
    /// First gradient slot of each tile, and one past the last: `[tiles + 1]`.
    pub tile_starts: Vec<u32>,
    /// Rendered image, tiled: `[tiles, PLANES, 16]` rows.
    pub image: Vec<Row>,
    /// Image after the photo's model of colours, tiled like `image`, if a step learns one.
    pub corrected: Vec<Row>,
    /// Derivative of the loss by the image, tiled like `image`.
    pub image_gradient: Vec<Row>,
    /// Gradient sums, one per gradient slot.
    pub slots: Vec<Slot>,
    /// Absolute gradient sums, one per gradient slot, if a step requests them.
    pub absolute_slots: Vec<AbsoluteSlot>,
    /// Depths, if requested.
    pub depth: DepthFrame,
    /// Normals of Gaussians, if requested.
    pub normals: NormalFrame,
    /// Surface, if requested.
    pub surface: SurfaceFrame,
    /// Number of Gaussians that each pixel blends, one plane, tiled like depths, if requested.
    pub blended: Vec<Row>,
    /// Gaussians of the largest weights, if requested, `[tiles, 16, 16, most]`.
    pub contributions: Vec<Contribution>,
    /// Derivatives of SSIM, see `loss`.
    pub ssim_maps: Vec<Row>,
    /// Counts of this view.
    pub counts: StepCounts,
    /// Rows of 16 pixels that `blend` visits, over all instances. The operations of `blend` follow
    /// from this count.
    pub row_visits: u64,
}

impl Frame {
    /// Exchanges what a blend reads and writes with that of the normals.
    pub fn exchange_normals(&mut self) {
        let normals = &mut self.normals;
        std::mem::swap(&mut self.splats2d, &mut normals.splats2d);
        std::mem::swap(&mut self.image, &mut normals.image);
        std::mem::swap(&mut self.image_gradient, &mut normals.image_gradient);
        std::mem::swap(&mut self.slots, &mut normals.slots);
        std::mem::swap(&mut self.depth, &mut normals.depth);
    }
}

/// Returns the number of visible Gaussians per task of `order`, `emit` and `sort`: at most 64 tasks of at least 16 384, so
/// that their histograms are small. Depends only on the count, never on the threads.
pub fn rank_chunk(visible: usize) -> usize {
    visible.div_ceil(64).max(16_384)
}

/// Returns the first-plane row and the lane of a pixel within a row of tiles.
#[inline(always)]
pub fn within(x: usize, y: usize) -> (usize, usize) {
    (x / ROW * TILE_ROWS + y % ROW, x % ROW)
}

/// Extends a buffer to at least `len` values; the caller overwrites its contents.
pub fn grow<T: Clone>(buffer: &mut Vec<T>, len: usize, value: T) {
    if buffer.len() < len {
        buffer.resize(len, value);
    }
}

/// Extends a buffer as [`grow`] does, for cells, which cannot be cloned.
pub fn grow_cells<T: Default>(buffer: &mut Vec<T>, len: usize) {
    if buffer.len() < len {
        buffer.resize_with(len, T::default);
    }
}

/// Splits a buffer into consecutive slices, one for each task to write.
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

/// Gaussian that a pixel blends.
#[derive(Debug, Clone, Copy)]
pub struct Contribution {
    /// Index.
    pub gaussian: u32,
    /// Alpha times the transmittance in front.
    pub weight: f32,
}

/// Extent of a Gaussian along the rays of its pixels.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Profile {
    /// Relative distance of the peak by the offset from the centre, per pixel.
    pub slant: [f32; 2],
    /// Depth of the centre.
    pub depth: f32,
    /// Standard deviation, world units.
    pub deviation: f32,
    /// Unit normal, camera coordinates.
    pub normal: [f32; 3],
}

/// Surface of a view.
#[derive(Debug, Default)]
pub struct SurfaceFrame {
    /// Profiles of Gaussians, of visible ones at least.
    pub profiles: Vec<Profile>,
    /// Surface, tiled, `[tiles, SURFACE_PLANES, 16]` rows (`stages/surface.rs`).
    pub rows: Vec<Row>,
}

/// Returns the first-plane row and the lane of a pixel in a tiled image.
pub fn tiled(camera: &CameraF32, x: usize, y: usize) -> (usize, usize) {
    let tile = y / ROW * camera.tiles[0] as usize + x / ROW;
    (tile * PLANES * ROW + y % ROW, x % ROW)
}
