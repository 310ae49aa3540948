//! Types and constants that host and shaders share: structs, planes, dispatch entries.

mod step;

pub use step::{Parameters, Step};

use crate::shared_struct::shared_struct;
use dapple_engine::{constants, depth, filter_3d, score, sharded, surface};
use dapple_runtime::Defines;
use dapple_scene::sh_coefficient_count;
use std::mem::offset_of;

/// [`Step::flags`]: add screen-space gradients to the density statistics.
pub const FLAG_DENSITY: u32 = 1;
/// [`Step::flags`]: the photo has masked pixels.
pub const FLAG_MASK: u32 = 2;
/// [`Step::flags`]: `gradients` adds to the gradients of the step or call before.
pub const FLAG_ADD_GRADIENTS: u32 = 4;
/// [`Step::flags`]: `contributors` finds those after the ones of the call before.
pub const FLAG_MORE: u32 = 8;
/// [`Step::flags`]: regularisers act only on Gaussians that a photo has moved.
pub const FLAG_MOVED_ONLY: u32 = 16;

shared_struct! {
    /// Counts that live on the GPU.
    #[derive(Eq)]
    pub struct State {
        /// Gaussians held.
        gaussians: u32,
        /// Capacity of the planes in Gaussians: the stride of a plane.
        capacity: u32,
        /// Visible Gaussians.
        visible: u32,
        /// Instances.
        instances: u32,
        /// Buckets of 32 instances.
        buckets: u32,
        /// Capacity for visible Gaussians: the stride of `splat_gradients`.
        visible_capacity: u32,
        /// Capacity for instances.
        instance_capacity: u32,
        /// Capacity for buckets.
        bucket_capacity: u32,
        /// `HALT_*`; not 0 = nothing may change parameters until the host has grown a buffer.
        halted: u32,
        /// Size that the buffer that was too small needs, in elements.
        wanted: u32,
        /// Most instances in a tile.
        max_per_tile: u32,
        /// Instances beyond the per-tile limit.
        cut_instances: u32,
        /// Bits of the largest transmittance that the cap cut off.
        lost_transmittance: u32,
        /// Gaussians cloned in the last round of density control.
        cloned: u32,
        /// Split.
        split: u32,
        /// Pruned.
        pruned: u32,
        /// Refused for want of budget.
        refused: u32,
        /// Relocated.
        relocated: u32,
        /// Added as copies.
        added: u32,
        /// Index in the model of the first Gaussian ([`dapple_engine::Part`]); 0 for a whole model, as for what follows.
        first: u32,
        /// Gaussians of a block.
        block: u32,
        /// Gaussians of other engines between two blocks.
        skipped: u32,
        /// Gaussians of the model that other engines hold.
        others: u32,
        /// Gaussians that rounds leave as they are: those of the sky and then frozen ones
        /// ([`dapple_engine::OptimizerState`]).
        kept: u32,
        /// Index after the last of them: until the end of a round, new Gaussians follow.
        kept_end: u32,
        /// Gaussians of the sky among them.
        sky: u32,
    }
}

shared_struct! {
    /// Counts of a view in a render of several; [`State`] has those of all.
    #[derive(Eq)]
    pub struct FrameCounts {
        /// Visible Gaussians.
        visible: u32,
        /// Instances.
        instances: u32,
        /// Most instances in a tile.
        max_per_tile: u32,
        /// Instances beyond the per-tile limit.
        cut_instances: u32,
        /// Bits of the largest transmittance that the cap cut off.
        lost_transmittance: u32,
    }
}

/// [`State::halted`]: more instances than `instance_capacity`.
pub const HALT_INSTANCES: u32 = 1;
/// [`State::halted`]: more buckets than `bucket_capacity`.
pub const HALT_BUCKETS: u32 = 2;
/// [`State::halted`]: more Gaussians than `capacity`.
pub const HALT_GAUSSIANS: u32 = 4;
/// [`State::halted`]: more visible Gaussians than `visible_capacity`.
pub const HALT_VISIBLE: u32 = 8;

shared_struct! {
    /// Camera of a view without its lens.
    pub struct View {
        /// Rows of the world-to-camera rotation; last the rounding error in `f32` of the centre's coordinate.
        rows as [row0, row1, row2]: [[f32; 4]; 3],
        /// Centre in world coordinates, and 0.
        centre: [f32; 4],
        /// Focal lengths, pixels.
        focal: [f32; 2],
        /// Principal point, pixels.
        principal: [f32; 2],
        /// Range of x/z and y/z in which the Jacobian is evaluated.
        jacobian_min: [f32; 2],
        /// See `jacobian_min`.
        jacobian_max: [f32; 2],
        /// Image size, pixels.
        size: [u32; 2],
        /// Tiles across and down.
        tiles: [u32; 2],
        /// Pixels that count in the loss.
        counted_pixels: u32,
        /// SSIM windows that count in the loss.
        counted_windows: u32,
        /// Not 0 = an image that is a ring: its left and right edges meet.
        is_ring: u32,
        /// Weight of y in the depth of a ring: see [`dapple_engine::CameraModel::depth_height`].
        depth_height: f32,
    }
}

shared_struct! {
    /// [`dapple_engine::LensForm`]; zeros for a pinhole, whose kernels do not read it.
    pub struct Lens {
        /// See [`dapple_engine::LensForm`], as for what follows.
        bend: f32,
        /// The largest (x/z)^2 + (y/z)^2.
        reach: f32,
        /// Not 0 = tangential and prism terms are those of the distorted point.
        decentres_distorted: u32,
        /// Alignment.
        pad: u32,
        /// Coefficients of u^0 to u^6, and 0.
        numerator as [numerator_low, numerator_high]: [[f32; 4]; 2],
        /// 1, and the coefficients of u^1 to u^3.
        denominator: [f32; 4],
        /// Two coefficients for x, two for y.
        prism: [f32; 4],
        /// p1, p2.
        tangential: [f32; 2],
        /// alpha and beta of EUCM; alpha 0 = another lens.
        root: [f32; 2],
    }
}

shared_struct! {
    /// An entry of the ring buffer `reports`.
    pub struct Report {
        /// `REPORT_*`.
        kind: u32,
        /// [`Step::number`].
        number: u32,
        /// [`Step::view`].
        view: u32,
        /// The step's loss; 0 if it was halted, and for density control.
        loss: f32,
        /// See [`State`], as for what follows.
        gaussians: u32,
        /// Visible Gaussians.
        visible: u32,
        /// Instances.
        instances: u32,
        /// Buckets.
        buckets: u32,
        /// Tiles of the view; 0 for density control.
        tiles: u32,
        /// Most instances in a tile.
        max_per_tile: u32,
        /// Instances beyond the per-tile limit.
        cut_instances: u32,
        /// The largest transmittance that the cap cut off.
        lost_transmittance: f32,
        /// `HALT_*`.
        halted: u32,
        /// Size that the buffer that was too small needs, in elements.
        wanted: u32,
        /// Gaussians cloned.
        cloned: u32,
        /// Split.
        split: u32,
        /// Pruned.
        pruned: u32,
        /// Refused for want of budget.
        refused: u32,
        /// Relocated.
        relocated: u32,
        /// Added as copies.
        added: u32,
        /// Gaussians that are not finite: `finite` adds them, where it runs.
        broken: u32,
        /// A bit for each tensor that has non-finite numbers: see [`dapple_engine::NonFiniteReport`].
        broken_tensors: u32,
        /// Reserved.
        pad: [u32; 2],
    }
}

/// [`Report::kind`]: a training step.
pub const REPORT_STEP: u32 = 0;
/// [`Report::kind`]: a round of density control.
pub const REPORT_DENSIFY: u32 = 1;

/// Planes of a Gaussian's parameters; plane p of Gaussian i is at `p * capacity + i`.
pub mod plane {
    /// Means, 3.
    pub const MEAN: usize = 0;
    /// Logarithms of scales, 3.
    pub const SCALE: usize = 3;
    /// Quaternions, 4.
    pub const QUAT: usize = 6;
    /// Logit of the opacity.
    pub const OPACITY: usize = 10;
    /// SH coefficient 0, 3.
    pub const SH0: usize = 11;
    /// Planes of `geometry`.
    pub const GEOMETRY: usize = 14;
}

/// Returns the planes of SH rest for a degree.
pub fn sh_planes(degree: u8) -> u32 {
    (sh_coefficient_count(degree) as u32 - 1) * 3
}

/// Entries that the buffer `groups` holds: at least those that passes declare.
pub const MOST_ENTRIES: u32 = 32;

/// Entries of the ring buffer of reports.
pub const RING: u64 = 256;

/// Returns the dispatch that runs at least `count` workgroups. Same as WGSL's `flat_groups`.
pub fn flat_groups(count: u32) -> [u32; 3] {
    const WIDTH: u32 = 32768;
    let x = count.clamp(1, WIDTH);
    [x, count.div_ceil(x).max(1), 1]
}

/// Instances in a bucket, the work of one workgroup of `blend_backward`.
pub const BUCKET: u32 = 64;

/// Most views of a render of several.
pub const MOST_FRAMES: u32 = 16;

/// The lowest bit of the view's number in `tiles_touched`, in a render of several views.
pub const FRAME_SHIFT: u32 = 24;

/// On devices that kill long dispatches, `blend` and `blend_backward` run in this many dispatches. Each takes every
/// [`DISPATCH_PARTS`]-th tile or bucket.
pub const DISPATCH_PARTS: u32 = 16;

/// The per-tile limit on such devices, where the settings have none: no workgroup of `blend` walks further.
pub const WATCHDOG_CAP: u32 = 2048;

/// Pixel blocks of 8 x 4 in a tile.
pub const BLOCKS_PER_TILE: u32 = 8;

/// Floats in a slot: sums over pixels of s, s dx, s dy, s dx^2, s dx dy, s dy^2 and of w times
/// dL/d(red, green, blue), where s = alpha dL/dalpha and w = alpha times transmittance.
pub const SLOT_FLOATS: u32 = 9;

/// Words of a Gaussian in `shown`: see `shaders/parts.wgsl`.
pub const SHOWN_WORDS: u32 = 14;

/// Words before the Gaussians in `shown`: the Gaussians before each block of the part, and the number of all.
pub const SHOWN_HEAD: u32 = PART_BLOCKS + 4;

/// Limit of a word in `sum_places` of `shaders/parts.wgsl`; the bits above are flags.
pub const SUM_PLACES: u32 = 1 << 29;

/// Most blocks of a model.
pub const PART_BLOCKS: u32 = sharded::BLOCKS as u32;

/// Most engines of a model.
pub const PART_ENGINES: u32 = sharded::FIRST_BLOCKS as u32;

/// Gaussians whose slots a workgroup of `slot_sums` adds up; at most 32, the bits of a word.
pub const SLOT_SUMS_GAUSSIANS: u32 = 32;

/// Invocations of most kernels' workgroups.
pub const WORKGROUP: u32 = 256;

/// Invocations of a workgroup of `update`. It takes over a hundred registers, of which an NVIDIA multiprocessor has
/// 65536: workgroups of 256 leave up to a third of them unused, these next to none.
pub const UPDATE_THREADS: u32 = 128;

/// Instances that one workgroup of `emit` lists and of `ranges` gathers.
pub const EMIT_BLOCK: u32 = 1024;

/// Storage buffers that the kernel with the most of them binds. Where a device binds fewer, some are joined: see
/// [`dapple_runtime::join`].
pub const STORAGE_BUFFERS: u32 = 16;

/// Bytes that workgroups share on devices for which nothing has to be done by halves: what the kernel with the most
/// of them takes, `appearance_gather`.
pub const WORKGROUP_BYTES: u32 = 24 << 10;

/// Storage buffers that every device binds: WebGPU's default limit.
pub const LEAST_STORAGE_BUFFERS: u32 = 8;

/// Names of the weights of SSIM's window, by distance from its centre.
const SSIM_TAPS: [&str; constants::SSIM_WINDOW / 2 + 1] = [
    "SSIM_TAP_0",
    "SSIM_TAP_1",
    "SSIM_TAP_2",
    "SSIM_TAP_3",
    "SSIM_TAP_4",
    "SSIM_TAP_5",
];

/// Constants that every shader may use; [`crate::catalogue::defines`] adds those of features.
pub fn defines() -> Defines {
    let [r, g, b] = score::HIDDEN;
    let defines = Defines::new()
        .u32("TILE_SIZE", constants::TILE_SIZE)
        .f32("ALPHA_MIN", constants::ALPHA_MIN)
        .f32("ALPHA_MAX", constants::ALPHA_MAX)
        .f32("TRANSMITTANCE_MIN", constants::TRANSMITTANCE_MIN)
        .f32("MEDIAN_TRANSMITTANCE", depth::MEDIAN_TRANSMITTANCE)
        .f32("MOST_SLANT", surface::MOST_SLANT)
        .f32("LEAST_DEVIATION", surface::LEAST_DEVIATION)
        .f32("REACH", surface::REACH)
        .f32("DILATION", constants::DILATION)
        .f32("SMOOTHING_MARGIN", constants::SMOOTHING_MARGIN)
        .f32(
            "DEVIATION_PER_INTERVAL",
            filter_3d::deviation_per_interval(),
        )
        .f32("LN_2", std::f32::consts::LN_2)
        .f32("LOG2_255", -constants::ALPHA_MIN.log2())
        .f32("SSIM_C1", constants::SSIM_C1 as f32)
        .f32("SSIM_C2", constants::SSIM_C2 as f32)
        .f32("FULL_ERROR", score::FULL_ERROR)
        .u32("HIDDEN", u32::from_le_bytes([r, g, b, 0]))
        .u32("BUCKET", BUCKET)
        .u32("FRAME_SHIFT", FRAME_SHIFT)
        .u32("DISPATCH_PARTS", DISPATCH_PARTS)
        .u32("SLOT_FLOATS", SLOT_FLOATS)
        .u32("SHOWN_WORDS", SHOWN_WORDS)
        .u32("SHOWN_HEAD", SHOWN_HEAD)
        .u32("SUM_PLACES", SUM_PLACES)
        .u32("PART_BLOCKS", PART_BLOCKS)
        .u32("BLOCKS_PER_TILE", BLOCKS_PER_TILE)
        .u32(
            "LOST_TRANSMITTANCE",
            (offset_of!(State, lost_transmittance) / 4) as u32,
        )
        .u32("FRAME_COUNTS", (size_of::<FrameCounts>() / 4) as u32)
        .u32(
            "FRAME_LOST_TRANSMITTANCE",
            (offset_of!(FrameCounts, lost_transmittance) / 4) as u32,
        )
        .u32("REPORT_WORDS", (size_of::<Report>() / 4) as u32)
        .u32("REPORT_BROKEN", (offset_of!(Report, broken) / 4) as u32)
        .u32(
            "REPORT_BROKEN_TENSORS",
            (offset_of!(Report, broken_tensors) / 4) as u32,
        )
        .u32("EMIT_BLOCK", EMIT_BLOCK)
        .u32("SLOT_SUMS_GAUSSIANS", SLOT_SUMS_GAUSSIANS)
        .u32("UPDATE_THREADS", UPDATE_THREADS);
    // Tap d is the weight at distance d from the centre of the symmetric window.
    let window = constants::ssim_window();
    let taps = SSIM_TAPS.iter().zip(&window[constants::SSIM_WINDOW / 2..]);
    taps.fold(defines, |defines, (name, &weight)| {
        defines.f32(name, weight as f32)
    })
}

/// [`defines`] of the permutation that filters against aliasing, or of the one that does not.
pub fn antialias(defines: Defines, antialias: bool) -> Defines {
    if antialias {
        let defines = defines.flag("ANTIALIAS", true);
        defines.f32("DILATION", constants::MIP_DILATION)
    } else {
        defines
    }
}
