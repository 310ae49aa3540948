//! Declarations of the stages of this engine, and the data that follows from them.
//!
//! 1. A [`Pass`] declares its name, its shaders, its kernels with the [`Bits`] that each understands, and its
//!    [`Tensor`]s. It also declares the [`Entry`]s of indirect dispatches that it counts, the bytes that it moves, and
//!    the function that records it. The WGSL of its kernels declares the data that they read and write: bindings have
//!    the names of tensors, or of tensors that the pass [borrows](Pass::borrows).
//! 2. A [`Plan`] is a list of passes that are submitted for one purpose, in the order of execution.
//! 3. These lists determine the shaders and the kernels that are compiled first, and the buffers and their growth
//!    ([`crate::Buffers::fit`]). They also determine the numbers of entries for host and shaders ([`entries_wgsl`]),
//!    the parts that permutations share, the dependencies of command lists ([`crate::Recorder`]), and the bytes that a
//!    profiler expects.
//!
//! To add a stage: a file under `stages/` with its `PASS`, its shader, and its line in one list below.

mod bits;
mod tensor;

pub use bits::Bits;
pub use tensor::{Axis, BufferSizes, Capacity, Kind, Tensor, Use, WORD, Words};

use crate::Context;
use crate::precision::Precision;
use crate::recorder::Recorder;
use crate::stages::{
    appearance, appearance_mlp, blend, blend_backward, bytes, crops, densify, depth, emit,
    filter_3d, finite, gradients, loss, morton, order, poses, project, ranges, relocate, report,
    score, sort, surface, update,
};
use dapple_scene::Result;
use rayon::prelude::*;
use std::sync::LazyLock;

/// A kernel: an entry point of a shader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code {
    /// Name of the shader.
    pub shader: &'static str,
    /// Name of the entry point.
    pub entry: &'static str,
    /// Permutation bits that it understands.
    pub bits: Bits,
    /// Name of the settings that are constants of the kernel: see [`crate::Context::set_constants`].
    pub constants: Option<&'static str>,
    /// True if it runs in parts on devices that kill long dispatches.
    pub in_parts: bool,
}

impl Code {
    /// Creates a kernel that is the same in all permutations.
    pub const fn new(shader: &'static str, entry: &'static str) -> Self {
        Self {
            shader,
            entry,
            bits: Bits::NONE,
            constants: None,
            in_parts: false,
        }
    }

    /// Makes a kernel for each combination of `bits`.
    #[must_use]
    pub const fn by(self, bits: Bits) -> Self {
        Self { bits, ..self }
    }

    /// Adds the constants of this name.
    #[must_use]
    pub const fn with_constants(self, name: &'static str) -> Self {
        Self {
            constants: Some(name),
            ..self
        }
    }

    /// Makes the kernel run in parts on devices that kill long dispatches.
    #[must_use]
    pub const fn in_parts(self) -> Self {
        Self {
            in_parts: true,
            ..self
        }
    }
}

/// An entry of the buffer `groups`: the workgroups of an indirect dispatch, which the GPU counts. Its name is the name
/// of its number in WGSL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry(pub &'static str);

/// Bytes of an entry: three counts, and an unused word.
pub const ENTRY_BYTES: u64 = 16;

/// The entries of a step, which a halt clears, come first; then those of density control and the Morton order.
static ENTRIES: LazyLock<(Vec<Entry>, usize)> = LazyLock::new(|| {
    let of = |is_round: bool| {
        let passes = all().filter(move |pass| pass.is_of_rounds() == is_round);
        passes.flat_map(|pass| pass.entries.iter().copied())
    };
    let steps: Vec<Entry> = of(false).collect();
    let count = steps.len();
    (steps.into_iter().chain(of(true)).collect(), count)
});

impl Entry {
    /// Returns the number of the entry.
    pub fn number(self) -> u64 {
        let found = ENTRIES.0.iter().position(|entry| *entry == self);
        debug_assert!(found.is_some(), "no pass counts {}", self.0);
        found.unwrap_or(0) as u64
    }

    /// Returns the offset of the entry in `groups`, bytes.
    pub fn offset(self) -> u64 {
        self.number() * ENTRY_BYTES
    }
}

/// Returns the number of entries.
pub fn entry_count() -> u64 {
    ENTRIES.0.len() as u64
}

/// Returns the numbers of all entries for shaders: the shader include `shared/entries`.
pub fn entries_wgsl() -> &'static str {
    static WGSL: LazyLock<String> = LazyLock::new(|| {
        let (entries, steps) = &*ENTRIES;
        let numbered = entries.iter().enumerate();
        let mut wgsl: String = numbered
            .map(|(number, entry)| format!("const {}: u32 = {number}u;\n", entry.0))
            .collect();
        wgsl += &format!("const STEP_ENTRIES: u32 = {steps}u;\n");
        wgsl += &format!("const ALL_ENTRIES: u32 = {}u;\n", entries.len());
        wgsl
    });
    &WGSL
}

/// Inputs of the formulas for the bytes of a stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Number of Gaussians.
    pub gaussians: u64,
    /// Number of visible Gaussians.
    pub visible: u64,
    /// Number of instances, pairs of a Gaussian and a tile.
    pub instances: u64,
    /// Number of pixels.
    pub pixels: u64,
    /// Number of tiles.
    pub tiles: u64,
    /// Degree of the harmonics in use.
    pub sh_degree: u8,
    /// True if the loss has an SSIM term.
    pub ssim: bool,
}

/// A stage, or a part of a stage at one position of a plan.
pub struct Pass {
    /// The stage: the name of its span, under which it is timed.
    pub name: &'static str,
    /// Its shaders, by name.
    pub shaders: &'static [(&'static str, &'static str)],
    /// Its kernels.
    pub kernels: &'static [Code],
    /// The pass runs if a command has one of these bits; none = always.
    pub needs: Bits,
    /// The pass does not run if a command has one of these bits.
    pub unless: Bits,
    /// Its tensors: the pass is the first that fills them, or owns them as state.
    pub tensors: &'static [Tensor],
    /// Bindings whose name differs from that of their tensor: the binding's name, and the tensor.
    pub borrows: &'static [(&'static str, &'static str)],
    /// The entries that it counts.
    pub entries: &'static [Entry],
    /// The sorts that it needs: bits of the keys, and true if values are places.
    pub sorts: &'static [(u32, bool)],
    /// Permutations in which its kernels and sorts are compiled when an engine opens. All other permutations are
    /// compiled when they are first recorded.
    pub first: &'static [Bits],
    /// The least bytes that it moves: see [`bytes()`].
    pub bytes: fn(&Load, Precision) -> u64,
    /// Appends its dispatches.
    pub record: fn(&mut Recorder<'_>) -> Result<()>,
}

impl Pass {
    /// Creates a pass that declares only its name and its dispatches.
    pub const fn new(name: &'static str, record: fn(&mut Recorder<'_>) -> Result<()>) -> Self {
        Self {
            name,
            shaders: &[],
            kernels: &[],
            needs: Bits::NONE,
            unless: Bits::NONE,
            tensors: &[],
            borrows: &[],
            entries: &[],
            sorts: &[],
            first: &[],
            bytes: |_, _| 0,
            record,
        }
    }

    /// Returns true if the pass runs for a command with these bits.
    pub fn is_part_of(&self, bits: Bits) -> bool {
        (self.needs == Bits::NONE || bits.meets(self.needs)) && !bits.meets(self.unless)
    }

    /// Returns the bits that make a difference to the pass.
    pub fn understands(&self) -> Bits {
        let kernels = self.kernels.iter().map(|code| code.bits);
        kernels.fold(self.needs | self.unless, |all, bits| all | bits)
    }

    fn is_of_rounds(&self) -> bool {
        Plan::Round
            .passes()
            .iter()
            .any(|other| std::ptr::eq(*other, self))
    }
}

/// The passes of each plan, in order. A new stage is listed here.
static FRONT: &[&Pass] = &[
    &project::PASS,
    &order::PASS,
    &emit::PASS,
    &sort::PASS,
    &ranges::PASS,
    &blend::PASS,
];
static LOSS: &[&Pass] = &[
    &appearance::FORTH,
    &loss::PASS,
    &crops::PASS,
    &appearance::BACK,
    &depth::PASS,
];
static BACK: &[&Pass] = &[
    &blend_backward::PASS,
    &update::SUMS,
    &update::EXTRA_SUMS,
    &poses::SUMS,
    &appearance_mlp::PASS,
    &update::PASS,
    &poses::PASS,
    &report::PASS,
];
static GRADIENTS: &[&Pass] = &[
    &blend_backward::PASS,
    &update::SUMS,
    &update::EXTRA_SUMS,
    &gradients::PASS,
];
static SCORE: &[&Pass] = &[&score::PASS];
static SHOWN: &[&Pass] = &[&bytes::PASS, &surface::PASS];
static FILTER_3D: &[&Pass] = &[&filter_3d::PASS];
static FINITE: &[&Pass] = &[&finite::PASS];
static ROUND: &[&Pass] = &[
    &densify::PASS,
    &relocate::PASS,
    &morton::PASS,
    &report::ROUND,
];

/// A list of passes that is submitted at once, or recorded at once as a part of another plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Plan {
    /// A render.
    Front,
    /// From the image to its gradient.
    Loss,
    /// From the image's gradient to new parameters, and the report.
    Back,
    /// A step: the three plans above.
    Step,
    /// From the image's gradient to gradients that are written out.
    Gradients,
    /// From a render to its scores.
    Score,
    /// From a render to an 8-bit, count or surface image.
    Shown,
    /// 3D filters, before a step.
    Filter3d,
    /// Search for non-finite parameters, after a report.
    Finite,
    /// A densification round, with the Morton order, and its report.
    Round,
}

impl Plan {
    /// Every plan.
    pub const ALL: [Self; 10] = [
        Self::Front,
        Self::Loss,
        Self::Back,
        Self::Step,
        Self::Gradients,
        Self::Score,
        Self::Shown,
        Self::Filter3d,
        Self::Finite,
        Self::Round,
    ];

    /// Returns the parts of a plan that is composed of others.
    pub fn parts(self) -> &'static [Self] {
        match self {
            Self::Step => &[Self::Front, Self::Loss, Self::Back],
            _ => &[],
        }
    }

    /// Returns its passes, in order, without those of its parts.
    pub fn passes(self) -> &'static [&'static Pass] {
        match self {
            Self::Front => FRONT,
            Self::Loss => LOSS,
            Self::Back => BACK,
            // Its parts have the passes.
            Self::Step => &[],
            Self::Gradients => GRADIENTS,
            Self::Score => SCORE,
            Self::Shown => SHOWN,
            Self::Filter3d => FILTER_3D,
            Self::Finite => FINITE,
            Self::Round => ROUND,
        }
    }

    /// Returns the bits that make a difference to the plan.
    pub fn understands(self) -> Bits {
        let own = self.passes().iter().map(|pass| pass.understands());
        let parts = self.parts().iter().map(|part| part.understands());
        own.chain(parts).fold(Bits::NONE, |all, bits| all | bits)
    }

    /// Returns true if the plan is recorded for each photo slot.
    pub fn has_photo(self) -> bool {
        matches!(self, Self::Loss | Self::Step)
    }
}

/// Returns every pass, once.
pub fn all() -> impl Iterator<Item = &'static Pass> {
    let listed = || {
        Plan::ALL
            .iter()
            .flat_map(|plan| plan.passes().iter().copied())
    };
    listed().enumerate().filter_map(move |(index, pass)| {
        let is_new = !listed()
            .take(index)
            .any(|before| std::ptr::eq(before, pass));
        is_new.then_some(pass)
    })
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

/// Returns every tensor.
pub fn tensors() -> impl Iterator<Item = &'static Tensor> {
    all().flat_map(|pass| pass.tensors.iter())
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
