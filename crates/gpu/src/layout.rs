//! Types and constants that host and shaders share: structs, planes, dispatch entries. The same structs in WGSL are in
//! `shaders/shared/`; a test compares their sizes with these.

use bytemuck::{Pod, Zeroable};
use dapple_engine::{LossTerm, constants, depth, filter_3d, score, surface};
use dapple_runtime::Defines;
use dapple_scene::sh_coefficient_count;
use std::mem::offset_of;

/// Same layout as WGSL's `Step`: what changes from step to step, sent as immediates.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
pub struct Step {
    /// Number of the view.
    pub view: u32,
    /// Step, counted from 1.
    pub number: u32,
    /// `FLAG_*`.
    pub flags: u32,
    /// Active SH degree.
    pub sh_degree: u32,
    /// Colour behind everything.
    pub background: [f32; 3],
    /// Near plane, world units.
    pub near: f32,
    /// Step sizes over Adam's first bias correction: means, scales, quats, opacities, SH 0, SH rest.
    pub rates: [f32; 6],
    /// Decay of the first moment.
    pub beta1: f32,
    /// Decay of the second moment.
    pub beta2: f32,
    /// Adam's epsilon.
    pub epsilon: f32,
    /// `1 / (1 - beta2^step)`.
    pub inverse_correction2: f32,
    /// Weight of `1 - SSIM`. All other weights of the loss are in [`Parameters::losses`].
    pub ssim_weight: f32,
    /// `max_gaussians_per_tile`; 0 = all.
    pub cap: u32,
    /// Entry of the ring of reports.
    pub report: u32,
    /// Step size of the view's appearance.
    pub appearance_rate: f32,
    /// Seed, low and high.
    pub seed: [u32; 2],
    /// Scale of the noise on centres: [`dapple_engine::features::noise::Step::scale`].
    pub noise: f32,
    /// Step size of the view's rotation, radians.
    pub rate_turn: f32,
    /// Step size of the view's translation, world units.
    pub rate_shift: f32,
    /// Dropout: the fraction of Gaussians that are omitted ([`dapple_engine::Dropout`]).
    pub dropout: f32,
}

/// Same layout as WGSL's `Parameters`: what else changes from step to step, sent through the runtime's ring buffer. A
/// new feature's numbers go here, in whole vectors of four: immediates are for what every step needs.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
pub struct Parameters {
    /// Weights of the loss by [`LossTerm`]'s number, for shaders by `loss_weight`; more than there are, so that a term
    /// needs no place of its own. Shaders read the weight of SSIM from [`Step`]: every step needs it, and a step that
    /// reads this block costs an upload.
    pub losses: [f32; 8],
    /// Samples of known depth that the view has.
    pub depth_samples: u32,
    /// Step size of the network of the appearance MLP.
    pub mlp_network_rate: f32,
    /// Step size of the view's embedding.
    pub mlp_code_rate: f32,
    /// Weight of the embedding in the loss.
    pub mlp_neutral: f32,
    /// Step size of Gaussians' features.
    pub mlp_feature_rate: f32,
    /// Pixels along an edge of the crop that is compared.
    pub crop_side: u32,
    /// Its first column and row.
    pub crop: [u32; 2],
    /// Step size of a photo's gains in the photometric model.
    pub photometric_rate: f32,
    /// Weight of the prior of the photometric model in the loss.
    pub photometric_prior: f32,
    /// Unused.
    pub pad: [u32; 2],
}

const _: () = assert!(LossTerm::ALL.len() <= 8);

const _: () = assert!(size_of::<Parameters>() <= dapple_runtime::PARAMETER_BYTES);

/// [`Step::flags`]: add screen-space gradients to the density statistics.
pub const FLAG_DENSITY: u32 = 1;
/// [`Step::flags`]: the photo has masked pixels.
pub const FLAG_MASK: u32 = 2;

/// Same layout as WGSL's `State`: counts that live on the GPU.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct State {
    /// Gaussians held.
    pub gaussians: u32,
    /// Capacity of the planes in Gaussians: the stride of a plane.
    pub capacity: u32,
    /// Visible Gaussians.
    pub visible: u32,
    /// Instances.
    pub instances: u32,
    /// Buckets of 32 instances.
    pub buckets: u32,
    /// Capacity for visible Gaussians: the stride of `splat_gradients`.
    pub visible_capacity: u32,
    /// Capacity for instances.
    pub instance_capacity: u32,
    /// Capacity for buckets.
    pub bucket_capacity: u32,
    /// `HALT_*`; not 0 = nothing may change parameters until the host has grown a buffer.
    pub halted: u32,
    /// Size that the buffer that was too small needs, in elements.
    pub wanted: u32,
    /// Most instances in a tile.
    pub max_per_tile: u32,
    /// Instances beyond the per-tile limit.
    pub cut_instances: u32,
    /// Bits of the largest transmittance that the cap cut off.
    pub lost_transmittance: u32,
    /// Gaussians cloned in the last round of density control.
    pub cloned: u32,
    /// Split.
    pub split: u32,
    /// Pruned.
    pub pruned: u32,
    /// Refused for want of budget.
    pub refused: u32,
    /// Relocated.
    pub relocated: u32,
    /// Added as copies.
    pub added: u32,
}

/// [`State::halted`]: more instances than `instance_capacity`.
pub const HALT_INSTANCES: u32 = 1;
/// [`State::halted`]: more buckets than `bucket_capacity`.
pub const HALT_BUCKETS: u32 = 2;
/// [`State::halted`]: more Gaussians than `capacity`.
pub const HALT_GAUSSIANS: u32 = 4;
/// [`State::halted`]: more visible Gaussians than `visible_capacity`.
pub const HALT_VISIBLE: u32 = 8;

/// Same layout as WGSL's `View`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
pub struct View {
    /// Rows of the world-to-camera rotation; last the rounding error in `f32` of the centre's coordinate.
    pub rows: [[f32; 4]; 3],
    /// Centre in world coordinates, and 0.
    pub centre: [f32; 4],
    /// Focal lengths, pixels.
    pub focal: [f32; 2],
    /// Principal point, pixels.
    pub principal: [f32; 2],
    /// Range of x/z and y/z in which the Jacobian is evaluated.
    pub jacobian_min: [f32; 2],
    /// See `jacobian_min`.
    pub jacobian_max: [f32; 2],
    /// Image size, pixels.
    pub size: [u32; 2],
    /// Tiles across and down.
    pub tiles: [u32; 2],
    /// Pixels that count in the loss.
    pub counted_pixels: u32,
    /// SSIM windows that count in the loss.
    pub counted_windows: u32,
    /// Not 0 = a panorama.
    pub is_panorama: u32,
    /// Alignment.
    pub pad: u32,
}

/// Same layout as WGSL's `Lens`: [`dapple_engine::LensForm`]; zeros for a pinhole, whose kernels do not read it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
pub struct Lens {
    /// See [`dapple_engine::LensForm`], as for what follows.
    pub bend: f32,
    /// The largest (x/z)^2 + (y/z)^2.
    pub reach: f32,
    /// Not 0 = tangential and prism terms are those of the distorted point.
    pub decentres_distorted: u32,
    /// Alignment.
    pub pad: u32,
    /// Coefficients of u^0 to u^6, and 0.
    pub numerator: [f32; 8],
    /// 1, and the coefficients of u^1 to u^3.
    pub denominator: [f32; 4],
    /// Two coefficients for x, two for y.
    pub prism: [f32; 4],
    /// p1, p2.
    pub tangential: [f32; 2],
    /// alpha and beta of EUCM; alpha 0 = another lens.
    pub root: [f32; 2],
}

/// Same layout as WGSL's `Report`: an entry of the ring buffer `reports`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
pub struct Report {
    /// `REPORT_*`.
    pub kind: u32,
    /// [`Step::number`].
    pub number: u32,
    /// [`Step::view`].
    pub view: u32,
    /// The step's loss; 0 if it was halted, and for density control.
    pub loss: f32,
    /// See [`State`], as for what follows.
    pub gaussians: u32,
    /// Visible Gaussians.
    pub visible: u32,
    /// Instances.
    pub instances: u32,
    /// Buckets.
    pub buckets: u32,
    /// Tiles of the view; 0 for density control.
    pub tiles: u32,
    /// Most instances in a tile.
    pub max_per_tile: u32,
    /// Instances beyond the per-tile limit.
    pub cut_instances: u32,
    /// The largest transmittance that the cap cut off.
    pub lost_transmittance: f32,
    /// `HALT_*`.
    pub halted: u32,
    /// Size that the buffer that was too small needs, in elements.
    pub wanted: u32,
    /// Gaussians cloned.
    pub cloned: u32,
    /// Split.
    pub split: u32,
    /// Pruned.
    pub pruned: u32,
    /// Refused for want of budget.
    pub refused: u32,
    /// Relocated.
    pub relocated: u32,
    /// Added as copies.
    pub added: u32,
    /// Gaussians that are not finite: `finite` adds them, where it runs.
    pub broken: u32,
    /// A bit for each tensor that has non-finite numbers: see [`dapple_engine::NonFiniteReport`].
    pub broken_tensors: u32,
    /// Reserved.
    pub pad: [u32; 2],
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
        .f32("LOG2_255", -constants::ALPHA_MIN.log2())
        .f32("SSIM_C1", constants::SSIM_C1 as f32)
        .f32("SSIM_C2", constants::SSIM_C2 as f32)
        .f32("FULL_ERROR", score::FULL_ERROR)
        .u32("HIDDEN", u32::from_le_bytes([r, g, b, 0]))
        .u32("BUCKET", BUCKET)
        .u32("DISPATCH_PARTS", DISPATCH_PARTS)
        .u32("SLOT_FLOATS", SLOT_FLOATS)
        .u32("BLOCKS_PER_TILE", BLOCKS_PER_TILE)
        .u32(
            "LOST_TRANSMITTANCE",
            (offset_of!(State, lost_transmittance) / 4) as u32,
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
