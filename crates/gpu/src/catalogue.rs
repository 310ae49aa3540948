//! Tensors, entries, shaders and bytes of all passes, and the kernels that are compiled first. All of this follows from
//! the lists of passes ([`crate::plans`]).

use crate::engine::rows;
use crate::passes::{Bits, Code, Declared, Entries, Load, Pass, Tensor};
use crate::plans::{all, is_of_rounds};
use crate::precision::Precision;
use crate::shared_struct::wgsl;
use crate::{Context, features, layout};
use dapple_engine::LossTerm;
use dapple_runtime::{Defines, Gpu, ShaderSet, primitives};
use dapple_scene::Result;
use rayon::prelude::*;
use std::sync::LazyLock;

static DECLARED: LazyLock<Declared> = LazyLock::new(|| {
    let entries = |of_rounds: bool| {
        let passes = all().filter(move |pass| is_of_rounds(pass) == of_rounds);
        passes.flat_map(|pass| pass.entries.iter().copied())
    };
    Declared {
        tensors: all().flat_map(|pass| pass.tensors).collect(),
        entries: Entries::new(entries(false), entries(true)),
    }
});

/// Returns the tensors and entries of all passes.
pub fn declared() -> &'static Declared {
    &DECLARED
}

/// Returns every tensor.
pub fn tensors() -> impl Iterator<Item = &'static Tensor> {
    DECLARED.tensors.iter().copied()
}

/// Returns the numbers of all entries for shaders: the shader include `shared/entries`.
pub fn entries_wgsl() -> &'static str {
    static WGSL: LazyLock<String> = LazyLock::new(|| DECLARED.entries.wgsl());
    &WGSL
}

/// The numbers of the terms of the loss for shaders: the shader include `shared/losses`. SSIM has none:
/// [`crate::layout::Step::ssim_weight`] is its weight.
fn losses_wgsl() -> &'static str {
    static WGSL: LazyLock<String> = LazyLock::new(|| {
        let constant = |term: &LossTerm| {
            let name = term.name().to_uppercase();
            format!("const LOSS_{name}: u32 = {}u;\n", *term as usize)
        };
        let terms = LossTerm::ALL.iter();
        let terms = terms.filter(|term| **term != LossTerm::Ssim);
        terms.map(constant).collect()
    });
    &WGSL
}

/// Constants that every shader may use, those of features included.
pub fn defines() -> Defines {
    features::define(layout::defines())
}

/// Structs that host and shaders share, as shader includes.
fn structs() -> Vec<(&'static str, &'static str)> {
    static WGSL: LazyLock<[(&str, String); 8]> = LazyLock::new(|| {
        [
            ("shared/struct_step", wgsl::<layout::Step>("Step")),
            (
                "shared/struct_parameters",
                wgsl::<layout::Parameters>("Parameters"),
            ),
            ("shared/struct_state", wgsl::<layout::State>("State")),
            ("shared/struct_view", wgsl::<layout::View>("View")),
            ("shared/struct_lens", wgsl::<layout::Lens>("Lens")),
            (
                "shared/struct_frame_counts",
                wgsl::<layout::FrameCounts>("FrameCounts"),
            ),
            ("shared/struct_report", wgsl::<layout::Report>("Report")),
            (
                "shared/struct_depth_sample",
                wgsl::<features::depth::Sample>("DepthSample"),
            ),
        ]
    });
    let structs = WGSL.iter();
    structs.map(|(name, wgsl)| (*name, wgsl.as_str())).collect()
}

impl Context {
    /// Creates the context of an open device.
    pub fn new(gpu: Gpu) -> Self {
        // SAFETY: all of them index by counts that the host bounds by the sizes of buffers, their loops end, and
        // the tests run each with wgpu's checks.
        let shaders = unsafe { shaders().without_checks() };
        Self::with(gpu, shaders, declared(), defines())
    }
}

/// Compiles the kernels that passes declare as first, on all cores. A driver without a kernel cache from before takes
/// seconds for all.
///
/// # Errors
/// The driver refuses a kernel: the error of the first in order.
pub fn compile_first(context: &Context) -> Result<()> {
    enum Job {
        Kernel(Code, Bits),
        Sort(u32, bool),
    }
    let of_pass = |pass: &'static Pass| {
        let kernels = pass.first.iter().flat_map(|&bits| {
            let kernels = pass.kernels.iter();
            kernels.map(move |&code| Job::Kernel(code, bits))
        });
        let sorts = pass.sorts.iter();
        kernels.chain(sorts.map(|&(bits, numbered)| Job::Sort(bits, numbered)))
    };
    let jobs: Vec<Job> = all().flat_map(of_pass).collect();
    let made = jobs.par_iter().map(|job| match job {
        // A kernel that binds too many buffers is compiled when the sizes of the joined buffers are known.
        Job::Kernel(code, bits) => match context.beyond(code, *bits)? {
            Some(_) => Ok(()),
            None => context.kernels(code, *bits).map(drop),
        },
        Job::Sort(bits, numbered) => context.radix_sort(*bits, *numbered).map(drop),
    });
    let made: Vec<Result<()>> = made.collect();
    made.into_iter().collect()
}

/// Returns the least bytes that the stage of this name reads and writes in a step, by formula.
///
/// Counts the arrays that its kernels read and write, each once per kernel, as if caches were perfect within a kernel
/// and empty between kernels. Not counted: reports, and tables of counts per block in prefix sums and sorts (a
/// hundredth of the data that they sort). Where counts do not determine the bytes, the result ignores early ends.
/// Pixels that are finished before the last instance of their tile write fewer checkpoints, so a stage can then move
/// fewer bytes than this.
pub fn bytes(stage: &str, load: &Load, precision: Precision) -> u64 {
    let passes = all().filter(|pass| pass.name == stage);
    passes.map(|pass| (pass.bytes)(load, precision)).sum()
}

macro_rules! includes {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../shaders/", $name, ".wgsl")))),*]
    };
}

/// Shader includes of this crate.
const INCLUDES: &[(&str, &str)] = &includes![
    "shared/absolute_sums",
    "shared/adam",
    "shared/angle",
    "shared/antialias",
    "shared/appearance",
    "shared/blocks",
    "shared/centre",
    "shared/clamped_colour",
    "shared/colour",
    "shared/cylindrical",
    "shared/density",
    "shared/equirectangular",
    "shared/extra_slots",
    "shared/extras",
    "shared/finite",
    "shared/focus",
    "shared/gaussian_backward",
    "shared/gaussian_gradient",
    "shared/geometry",
    "shared/groups",
    "shared/halt",
    "shared/high_product",
    "shared/is_number",
    "shared/lens",
    "shared/lens_form",
    "shared/lens_jet",
    "shared/mlp",
    "shared/mlp_affine",
    "shared/mlp_place",
    "shared/model_index",
    "shared/noise",
    "shared/normal",
    "shared/normal_plane",
    "shared/normal_point",
    "shared/parameters",
    "shared/perspective",
    "shared/photo",
    "shared/pinhole",
    "shared/planes",
    "shared/pose_sum",
    "shared/projection",
    "shared/projection_backward",
    "shared/ray",
    "shared/regroup",
    "shared/regroup_blocks",
    "shared/report",
    "shared/rests",
    "shared/ring",
    "shared/rounding",
    "shared/scratch",
    "shared/sh",
    "shared/sh_backward",
    "shared/sh_read",
    "shared/shipped_sums",
    "shared/slot_sum",
    "shared/slot_sums",
    "shared/splat2d",
    "shared/ssim",
    "shared/step",
    "shared/storage",
    "shared/sum_words",
    "shared/tile_pixel",
    "shared/tiles",
    "shared/tree_sum",
    "shared/windows",
];

/// All WGSL: what shaders of this crate share, the runtime's that it is built with, and what passes declare.
pub fn shaders() -> ShaderSet {
    let passes: Vec<_> = all()
        .flat_map(|pass| pass.shaders.iter().copied())
        .collect();
    let numbered = [
        ("shared/entries", entries_wgsl()),
        ("shared/losses", losses_wgsl()),
    ];
    ShaderSet::new(INCLUDES)
        .with(&primitives::PIECES)
        .with(&numbered)
        .with(&structs())
        .with(&[rows::SHADER])
        .with(&passes)
}
