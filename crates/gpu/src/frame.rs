//! The engine's buffers: which there are, how large, when they grow.
//!
//! Five groups grow apart from each other: what is per Gaussian, per visible Gaussian, per instance,
//! per pixel and tile, and the cameras. Growing keeps the state of the first group and nothing else:
//! everything else is written anew in each step. Density control borrows its scratch from the third,
//! so there is always room for more instances than for Gaussians.

use crate::layout::{self, BLOCKS_PER_TILE, BUCKET, SLOT_FLOATS, plane};
use crate::optics::Optics;
use crate::precision::Precision;
use crate::stages::update::Mode;
use crate::{Buffers, Context};
use dapple_engine::PosedCamera;
use dapple_engine::constants::TILE_SIZE;
use dapple_runtime::wgpu;
use dapple_scene::{Result, sh_coefficient_count};

/// Words of a `f32`.
pub(crate) const WORD: u64 = 4;

/// Bytes that `blend` leaves for a bucket: colour and transmittance of a tile's pixels.
const CHECKPOINT: u64 = 4 * WORD * (TILE_SIZE * TILE_SIZE) as u64;

/// What the buffers have room for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Room {
    /// Gaussians: the stride of a plane.
    pub gaussians: u32,
    /// Visible Gaussians.
    pub visible: u32,
    /// Instances.
    pub instances: u32,
    /// Buckets.
    pub buckets: u32,
    /// Pixels.
    pub pixels: u32,
    /// Tiles.
    pub tiles: u32,
}

/// Room for an image of a camera's size.
pub fn tiles_and_pixels(camera: &PosedCamera) -> (u32, u32) {
    (camera.tile_count() as u32, camera.pixel_count() as u32)
}

/// Most buckets that `instances` can fill: each tile may leave one partly empty.
pub fn buckets_for(instances: u32, tiles: u32) -> u32 {
    instances.div_ceil(BUCKET).saturating_add(tiles)
}

/// Planes of SH rest for a degree.
pub fn sh_planes(degree: u8) -> u32 {
    (sh_coefficient_count(degree) as u32 - 1) * 3
}

/// Buffers that hold a Gaussian's state, with the words of a Gaussian in each: what growing copies.
pub fn state_planes(precision: Precision, sh_degree: u8) -> Vec<(&'static str, u32)> {
    let sh = sh_planes(sh_degree);
    let moments = |planes: u32| precision.moments.words(planes);
    vec![
        ("geometry", plane::GEOMETRY as u32),
        ("sh_rest", precision.sh.words(sh)),
        ("geometry_moments", 2 * moments(plane::GEOMETRY as u32)),
        ("sh_first", moments(sh)),
        ("sh_second", moments(sh)),
        ("stats", 2),
    ]
}

/// The buffer per Gaussian that a step writes anew, with its words.
const VISIBLE_RANK: (&str, u32) = ("visible_rank", 1);

/// Buffers per visible Gaussian, with their words.
const VISIBLE_WORDS: [(&str, u32); 8] = [
    ("splats2d", 12),
    ("tiles_touched", 1),
    ("depth_keys", 1),
    ("depth_values", 1),
    ("depth_keys_alt", 1),
    ("depth_values_alt", 1),
    ("emit_starts", 1),
    ("splat_gradients", SLOT_FLOATS),
];

/// Buffers per instance, with their words. Density control and the Morton order use them as scratch.
const INSTANCE_WORDS: [(&str, u32); 7] = [
    ("instance_tile", 1),
    ("instance_tile_alt", 1),
    ("instance_slot_alt", 1),
    ("instance_gaussian", 1),
    ("sorted_gaussian", 1),
    ("sorted_slot", 1),
    ("slots", SLOT_FLOATS),
];

/// Bytes a Gaussian takes that no view sees. The numbers of visible ones, 4 bytes for every 256
/// Gaussians, come on top.
pub fn bytes_per_gaussian(precision: Precision, sh_degree: u8) -> u64 {
    let state: u32 = state_planes(precision, sh_degree)
        .iter()
        .map(|(_, words)| words)
        .sum();
    u64::from(state + VISIBLE_RANK.1) * WORD
}

/// Bytes a Gaussian that a view sees takes beyond [`bytes_per_gaussian`], instances apart.
pub fn bytes_per_visible() -> u64 {
    let words: u32 = VISIBLE_WORDS.iter().map(|(_, words)| words).sum();
    u64::from(words) * WORD
}

/// Bytes an instance takes, with its share of a full bucket, rounded up.
pub fn bytes_per_instance() -> u64 {
    let words: u32 = INSTANCE_WORDS.iter().map(|(_, words)| words).sum();
    u64::from(words) * WORD + (CHECKPOINT + WORD).div_ceil(u64::from(BUCKET))
}

/// Most Gaussians whose buffers take at most `bytes` each.
pub fn most_gaussians(precision: Precision, sh_degree: u8, bytes: u64) -> u32 {
    let planes = state_planes(precision, sh_degree);
    let widths = planes.iter().map(|(_, words)| *words);
    let widest = u64::from(widths.max().unwrap_or(1)) * WORD;
    (bytes / widest).try_into().unwrap_or(u32::MAX)
}

/// Most instances whose buffers take at most `bytes` each, on images of so many tiles.
pub fn most_instances(tiles: u32, bytes: u64) -> u32 {
    let slots = (bytes / (u64::from(SLOT_FLOATS) * WORD)).saturating_sub(1);
    let buckets = (bytes / CHECKPOINT).saturating_sub(u64::from(tiles));
    let most = slots.min(buckets * u64::from(BUCKET));
    most.try_into().unwrap_or(u32::MAX)
}

/// Makes the buffers that do not depend on sizes.
///
/// # Errors
/// No memory.
pub fn allocate_fixed(context: &Context, buffers: &mut Buffers) -> Result<()> {
    let gpu = &context.gpu;
    let storage =
        wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
    buffers.set(
        "state",
        gpu.buffer("state", size_of::<layout::State>() as u64)?,
    );
    let groups = layout::groups::COUNT * layout::groups::BYTES;
    buffers.set(
        "groups",
        gpu.buffer_with("groups", groups, storage | wgpu::BufferUsages::INDIRECT)?,
    );
    // The counter of `project`.
    buffers.set("visible_placed", gpu.buffer("visible_placed", WORD)?);
    let ring = crate::ring::RING * size_of::<layout::Report>() as u64;
    buffers.set("reports", gpu.buffer("reports", ring)?);
    Ok(())
}

/// Makes the per-Gaussian buffers, among them `planes` of their state; with `keep`, copies the first `keep` Gaussians of the old ones.
///
/// # Errors
/// No memory, or more than a binding takes.
pub fn allocate_gaussians(
    context: &Context,
    buffers: &mut Buffers,
    planes: &[(&'static str, u32)],
    capacity: u32,
    keep: Option<(u32, u32)>,
) -> Result<()> {
    let gpu = &context.gpu;
    let (name, words) = VISIBLE_RANK;
    let bytes = u64::from(capacity) * u64::from(words) * WORD;
    buffers.set(name, gpu.buffer(name, bytes)?);
    let groups = u64::from(capacity).div_ceil(u64::from(layout::WORKGROUP)) + 1;
    buffers.set("group_visible", gpu.buffer("group_visible", groups * WORD)?);
    for &(name, planes) in planes {
        let bytes = u64::from(capacity) * u64::from(planes) * WORD;
        let grown = gpu.buffer(name, bytes)?;
        if let (Some((count, old_capacity)), Ok(old)) = (keep, buffers.get(name)) {
            let mut encoder = gpu
                .device()
                .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            for p in 0..u64::from(planes).min(if count == 0 { 0 } else { u64::MAX }) {
                encoder.copy_buffer_to_buffer(
                    old,
                    p * u64::from(old_capacity) * WORD,
                    &grown,
                    p * u64::from(capacity) * WORD,
                    Some(u64::from(count) * WORD),
                );
            }
            gpu.queue().submit([encoder.finish()]);
        }
        buffers.set(name, grown);
    }
    Ok(())
}

/// Makes the buffers per visible Gaussian.
///
/// # Errors
/// No memory, or more than a binding takes.
pub fn allocate_visible(context: &Context, buffers: &mut Buffers, visible: u32) -> Result<()> {
    for (name, words) in VISIBLE_WORDS {
        // One more: prefix sums put their total behind the last.
        let bytes = (u64::from(visible) + 1) * u64::from(words) * WORD;
        buffers.set(name, context.gpu.buffer(name, bytes)?);
    }
    Ok(())
}

/// Makes the per-instance buffers.
///
/// # Errors
/// No memory, or more than a binding takes.
pub fn allocate_instances(
    context: &Context,
    buffers: &mut Buffers,
    instances: u32,
    buckets: u32,
) -> Result<()> {
    let gpu = &context.gpu;
    for (name, words) in INSTANCE_WORDS {
        let bytes = (u64::from(instances) + 1) * u64::from(words) * WORD;
        buffers.set(name, gpu.buffer(name, bytes)?);
    }
    buffers.set(
        "bucket_tile",
        gpu.buffer("bucket_tile", u64::from(buckets) * WORD)?,
    );
    buffers.set(
        "checkpoints",
        gpu.buffer("checkpoints", u64::from(buckets) * CHECKPOINT)?,
    );
    Ok(())
}

/// Makes the buffers of what few runs ask for: extra numbers of instances, and depths.
///
/// # Errors
/// No memory.
pub fn allocate_extra(
    context: &Context,
    buffers: &mut Buffers,
    room: Room,
    asked: Asked,
) -> Result<()> {
    let mut set = |name: &'static str, words: u64| -> Result<()> {
        buffers.set(name, context.gpu.buffer(name, words * WORD)?);
        Ok(())
    };
    let floats = u64::from(asked.steps.extra_floats());
    if floats > 0 {
        set("extra_slots", (u64::from(room.instances) + 1) * floats)?;
        set("extra_gradients", (u64::from(room.visible) + 1) * floats)?;
    }
    if asked.steps.depth {
        let pixels = u64::from(TILE_SIZE * TILE_SIZE);
        set("depth_checkpoints", u64::from(room.buckets) * pixels)?;
    }
    if asked.steps.depth || asked.depth_images {
        set("depth_pixels", 2 * u64::from(room.pixels))?;
    }
    Ok(())
}

/// Makes the buffer of what the photo's appearance makes of the image, for steps that ask for it.
///
/// # Errors
/// No memory, or more than a binding takes.
pub fn allocate_corrected(context: &Context, buffers: &mut Buffers, pixels: u32) -> Result<()> {
    let bytes = 4 * u64::from(pixels) * WORD;
    buffers.set("corrected", context.gpu.buffer("corrected", bytes)?);
    Ok(())
}

/// What was ever asked for beside the default: its buffers stay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Asked {
    /// All modes of steps and gradients together.
    pub steps: Mode,
    /// Depths of renders.
    pub depth_images: bool,
}

impl Asked {
    /// This and `more`.
    #[must_use]
    pub fn and(self, more: Self) -> Self {
        Self {
            steps: Mode {
                extras: self.steps.extras || more.steps.extras,
                absolute: self.steps.absolute || more.steps.absolute,
                depth: self.steps.depth || more.steps.depth,
                // Ask for buffers by themselves.
                appearance: false,
                poses: false,
                // Asks for no buffers of these.
                optics: Optics::default(),
            },
            depth_images: self.depth_images || more.depth_images,
        }
    }
}

/// Makes the per-pixel and per-tile buffers.
///
/// # Errors
/// No memory, or more than a binding takes.
pub fn allocate_image(
    context: &Context,
    buffers: &mut Buffers,
    tiles: u32,
    pixels: u32,
) -> Result<()> {
    let gpu = &context.gpu;
    let pixels = u64::from(pixels);
    let tiles = u64::from(tiles);
    for (name, words) in [("image", 4 * pixels), ("image_gradient", 4 * pixels)] {
        buffers.set(name, gpu.buffer(name, words * WORD)?);
    }
    buffers.set("ssim_maps", gpu.buffer("ssim_maps", 9 * pixels * WORD)?);
    // Whole tiles, so that every invocation of a tile has its own.
    let padded = tiles * u64::from(TILE_SIZE * TILE_SIZE);
    buffers.set("pixel_end", gpu.buffer("pixel_end", padded * WORD)?);
    for (name, words) in [
        ("tile_start", tiles + 1),
        ("bucket_start", tiles + 1),
        ("tile_order", tiles),
        ("block_end", tiles * u64::from(BLOCKS_PER_TILE)),
        ("loss_partials", tiles + 1),
    ] {
        buffers.set(name, gpu.buffer(name, words * WORD)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Storage;

    #[test]
    fn a_gaussian_takes_what_its_numbers_do_and_a_word() {
        let bytes = |sh, moments| bytes_per_gaussian(Precision { sh, moments }, 3);
        assert_eq!(bytes(Storage::F32, Storage::F32), 720);
        assert_eq!(bytes(Storage::F16, Storage::F16), 400);
        assert_eq!(bytes(Storage::Bf16, Storage::Bf16), 400);
        assert_eq!(bytes_per_visible(), 108);
        assert_eq!(bytes_per_instance(), 60 + 65);
    }
}
